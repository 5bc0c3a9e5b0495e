"""What stands before a body, byte by byte as the protocols of the registries define it."""

import zlib

import pytest
from hypothesis import example, given, strategies as st

from relevanced.daemon.events import InvalidField
from relevanced.daemon.schemas import (
    CODECS,
    FRAME_BYTES,
    FRAMINGS,
    HEADER,
    MOST_UNPACKED_BYTES,
    Frame,
    Framing,
    SchemaId,
    frame_of,
    named_schema,
)
from tests.fuzz.settings import examples

UUID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
UUID_HEX = UUID.replace("-", "")
GUID = "89791762-2336-4186-9674-299b90a802e2"
GUID_HEX = GUID.replace("-", "")


def framed(codec: str, name: str, value: str, header: str | None = None) -> Frame:
    headers = () if header is None else ((HEADER, bytes.fromhex(header)),)
    return frame_of(Framing(codec, name), bytes.fromhex(value.replace(" ", "")), headers)


@pytest.mark.parametrize(
    ("codec", "name", "value", "expected"),
    [
        ("avro", "confluent", "00 0000000c 0261", Frame(SchemaId("id", 12), b"\2a")),
        ("avro", "auto", "00 ffffffff", Frame(SchemaId("id", 2**32 - 1), b"")),
        ("avro", "confluent", f"01 {GUID_HEX} 02", Frame(SchemaId("guid", GUID), b"\2")),
        ("avro", "none", "00 0000000c", Frame(None, b"\0\0\0\0\x0c")),
        (
            "avro",
            "apicurio8",
            "00 0000000100000007 02",
            Frame(SchemaId("global", 2**32 + 7), b"\2"),
        ),
        ("avro", "glue", f"0300 {UUID_HEX} 0261", Frame(SchemaId("glue", UUID), b"\2a")),
        ("avro", "auto", f"0300 {UUID_HEX}", Frame(SchemaId("glue", UUID), b"")),
        ("json", "auto", "7b7d", Frame(None, b"{}")),
        ("json", "auto", "", Frame(None, b"")),
        ("json", "auto", "00 00000001 7b7d", Frame(SchemaId("id", 1), b"{}")),
        ("json", "auto", f"0300 {UUID_HEX} 7b7d", Frame(SchemaId("glue", UUID), b"{}")),
        ("json", "confluent", "00 00000001 7b7d", Frame(SchemaId("id", 1), b"{}")),
        # Of Protobuf: a count and indexes, zig-zag; a single 0 is the first message.
        ("protobuf", "auto", "00 00000001 00 0a01", Frame(SchemaId("id", 1), b"\n\1", (0,))),
        ("protobuf", "auto", "00 00000001 0200 0a01", Frame(SchemaId("id", 1), b"\n\1", (0,))),
        ("protobuf", "auto", "00 00000001 040200 0a", Frame(SchemaId("id", 1), b"\n", (1, 0))),
        ("protobuf", "auto", "00 00000001 02d804", Frame(SchemaId("id", 1), b"", (300,))),
        # AWS Glue counts all messages in the order of their full names, as a plain varint.
        ("protobuf", "glue", f"0300 {UUID_HEX} 03 0a", Frame(SchemaId("glue", UUID), b"\n", 3)),
        # Apicurio 2: a message Ref { string name = 1; } with its length.
        (
            "protobuf",
            "apicurio8",
            "00 0000000000000007 05 0a03 466f6f 0a",
            Frame(SchemaId("global", 7), b"\n", "Foo"),
        ),
        ("protobuf", "apicurio8", "00 0000000000000007 00 0a", Frame(SchemaId("global", 7), b"\n")),
        # Apicurio 3: the same after 4 bytes of id. Of two letters, it may be indexes.
        *(
            (
                "protobuf",
                name,
                f"00 00000007 {len(m) + 2:02x} 0a {len(m):02x} {m.encode().hex()} 0a",
                Frame(SchemaId("id", 7), b"\n", m),
            )
            for name in ("auto", "confluent")
            for m in ("A", "Foo", "View", "Search", "Hit_2", "T" * 125)
        ),
        ("protobuf", "auto", "00 00000007 04 0a02 4142", Frame(SchemaId("id", 7), b"AB", (5, 1))),
        ("protobuf", "auto", "00 00000007 02 0a 4142", Frame(SchemaId("id", 7), b"AB", (5,))),
        ("protobuf", "none", "0a01", Frame(None, b"\n\1")),
    ],
)
def test_the_frame_names_the_schema(codec: str, name: str, value: str, expected: Frame) -> None:
    assert framed(codec, name, value) == expected
    named = named_schema(Framing(codec, name), bytes.fromhex(value.replace(" ", ""))[:FRAME_BYTES])
    assert named == (None if codec == "json" else expected.schema)


@pytest.mark.parametrize("name", ["auto", "confluent"])
def test_the_header_names_the_schema_and_leaves_the_body_alone(name: str) -> None:
    body = b"\0\0\0\0\1"
    expected = Frame(SchemaId("guid", GUID), body)
    assert framed("avro", name, body.hex(), f"01{GUID_HEX}") == expected
    assert framed("avro", name, body.hex(), "000000000c") == Frame(SchemaId("id", 12), body)
    protobuf = framed("protobuf", name, body.hex(), f"01{GUID_HEX}0402 00".replace(" ", ""))
    assert protobuf == Frame(SchemaId("guid", GUID), body, (1, 0))
    # A body of JSON may be framed nevertheless: its first byte says so.
    assert framed("json", name, "7b7d", f"01{GUID_HEX}") == Frame(None, b"{}")
    assert framed("json", name, "", f"01{GUID_HEX}") == Frame(None, b"")
    assert framed("json", name, "00 00000001 7b7d", "junk".encode().hex()).body == b"{}"
    headers = ((HEADER, bytes.fromhex("01" + GUID_HEX)),)
    assert named_schema(Framing("avro", name), body, headers) == SchemaId("guid", GUID)


def test_a_glue_body_is_unpacked() -> None:
    packed = zlib.compress(b"\2a")
    expected = Frame(SchemaId("glue", UUID), b"\2a")
    assert framed("avro", "auto", f"0305{UUID_HEX}{packed.hex()}") == expected
    packed = zlib.compress(b"\3\x0a")
    assert framed("protobuf", "auto", f"0305{UUID_HEX}{packed.hex()}").message == 3


@pytest.mark.parametrize(
    ("codec", "name", "value", "rule"),
    [
        (
            "avro",
            "auto",
            "",
            "begins with no byte: must be 0 (Confluent, Apicurio), 1 (a GUID) or 3",
        ),
        ("avro", "auto", "7b7d", "begins with byte 123: must be 0 (Confluent"),
        ("avro", "confluent", "03", "begins with byte 3: must be 0 or 1"),
        ("avro", "glue", "00", "begins with byte 0: must be 3"),
        ("avro", "apicurio8", "03", "begins with byte 3: must be 0"),
        ("json", "confluent", "7b7d", "begins with byte 123: must be 0 or 1"),
        ("avro", "auto", "00 0000", "3 bytes end inside the frame"),
        ("avro", "apicurio8", "00 00000001", "5 bytes end inside the frame"),
        ("avro", "auto", f"0300 {UUID_HEX[:-2]}", "17 bytes end inside the frame"),
        ("avro", "auto", f"0301 {UUID_HEX}", "compression 1: must be 0 (none) or 5 (zlib)"),
        ("avro", "auto", f"0305 {UUID_HEX} 0261", "the body is not zlib"),
        (
            "avro",
            "auto",
            f"0305 {UUID_HEX} {zlib.compress(b'a').hex()[:-2]}",
            "not one whole zlib stream",
        ),
        (
            "avro",
            "auto",
            f"0305 {UUID_HEX} {zlib.compress(b'a').hex()}00",
            "not one whole zlib stream",
        ),
        ("protobuf", "auto", "00 00000001", "5 bytes end inside the frame"),
        ("protobuf", "auto", "00 00000001 01", "-1 message indexes: must be 0 to 64"),
        ("protobuf", "auto", "00 00000001 feff07", "65535 message indexes: must be 0 to 64"),
        ("protobuf", "auto", "00 00000001 0201", "message index -1: must be >= 0"),
        ("protobuf", "auto", "00 00000001 04 02", "7 bytes end inside the frame"),
        (
            "protobuf",
            "auto",
            "00 00000001 80808080808080808080808001",
            "bytes end inside the frame",
        ),
        ("protobuf", "apicurio8", "00 0000000000000007 7f", "10 bytes end inside the frame"),
        ("protobuf", "apicurio8", "00 0000000000000007 03 080102", "names no message"),
        (
            "protobuf",
            "apicurio8",
            "00 0000000000000007 03 0a01ff",
            "the name of the message is no UTF-8",
        ),
    ],
)
def test_a_broken_frame_is_refused_with_its_rule(
    codec: str, name: str, value: str, rule: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        framed(codec, name, value)
    assert caught.value.reason == "bad_framing"
    assert rule in caught.value.detail


def test_a_body_that_unpacks_to_more_than_its_limit_is_refused() -> None:
    bomb = zlib.compress(b"\0" * (MOST_UNPACKED_BYTES + 1))
    assert len(bomb) < 20_000
    with pytest.raises(InvalidField) as caught:
        framed("avro", "glue", f"0305{UUID_HEX}{bomb.hex()}")
    assert caught.value.reason == "too_large"


@examples(500)
@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=2)
    | st.lists(st.integers(0, 23), min_size=1, max_size=64),
    st.binary(max_size=130) | st.text("ABab_9", max_size=130).map(str.encode),
)
@example([5, 2, 23], b"Views" * 9)
@example([5, 1], b"AB")
def test_indexes_of_confluent_are_never_taken_for_a_name(indexes: list[int], body: bytes) -> None:
    written = b"".join(_varint(2 * number) for number in (len(indexes), *indexes))
    frame = frame_of(Framing("protobuf"), bytes(5) + written + body)
    assert frame == Frame(SchemaId("id", 0), body, tuple(indexes))


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])


@examples(500)
@given(
    st.sampled_from(CODECS),
    st.sampled_from(FRAMINGS),
    st.binary(max_size=60)
    | st.sampled_from([b"\0", b"\1", b"\3\0", b"\3\5"]).flatmap(
        lambda head: st.binary(max_size=60).map(lambda rest: head + rest)
    ),
    st.none() | st.binary(max_size=24),
)
def test_any_bytes_are_a_frame_or_refused(
    codec: str, name: str, value: bytes, header: bytes | None
) -> None:
    framing = Framing(codec, name)
    headers = () if header is None else ((HEADER, header),)
    named = named_schema(framing, value[: framing.head_bytes(value[0]) if value else 0], headers)
    try:
        frame = frame_of(framing, value, headers)
    except InvalidField as error:
        assert error.reason in ("bad_framing", "too_large")
    else:
        assert named == (frame.schema if framing.names_schemas else None)
