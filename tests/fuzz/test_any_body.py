"""Whatever bytes a framed record has, and whatever its schema is, it becomes events within the
limits or a reason of the table, in a time and a memory that its length bounds."""

import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.codecs import AvroSchema
from relevanced.daemon.events import Decoded, Limits, Skipped
from relevanced.daemon.mapping import Mapper
from relevanced.daemon.schemas import AVRO, HEADER, SchemaId, SchemaText, UnreadableSchema
from tests.daemon.codecs.avro_bodies import TRACK, schemas, track
from tests.daemon.codecs.protobuf_messages import track as message
from tests.daemon.mapping.codec_records import (
    PROTOBUF_TABLES,
    TABLES,
    avro,
    click,
    mapper_of,
    protobuf,
)
from tests.fuzz.flow import check_verdicts
from tests.fuzz.hostile import flipped
from tests.fuzz.settings import FACTOR, examples

LIMITS: Final = Limits(depth=5, max_grade=3.0)
UNITS: Final = (b"\0", b"\1", b"\2", b"\3\0", b"\x80", b"\xfe\xff\xff\xff\x0f", b"\xff" * 9 + b"\1")
"""What bodies are made of: short lengths, long ones, negative ones, and those without an end."""


def _mapper(codec: str, framing: str) -> Mapper:
    tables = PROTOBUF_TABLES if codec == "protobuf" else TABLES
    return mapper_of(f'codec = "{codec}"\nframing = "{framing}"\n{tables}', LIMITS)


FRAMES: Final[dict[str, Sequence[bytes]]] = {
    "auto": (b"\0\0\0\0\x0c", b"\0\0\0\0\x0d\0", b"\0\0\0\0\x0d\2\2", b"\3\0" + bytes(16), b""),
    "confluent": (b"\0\0\0\0\x0c", b"\0\0\0\0\x0d\4\4\0", b"\1" + bytes(16)),
    "apicurio8": (b"\0" * 8 + b"\x0c", b"\0" * 8 + b"\x0d\7\x0a\5Track"),
    "glue": (b"\3\0" + bytes(16), b"\3\5" + bytes(16) + b"\x78\x9c"),
}
MAPPERS: Final = {
    (codec, framing): _mapper(codec, framing)
    for codec in ("avro", "protobuf", "json")
    for framing in FRAMES
}
GOOD: Final[dict[str, list[bytes]]] = {
    "avro": [avro(track()), avro(click()), avro(track(40))],
    "protobuf": [protobuf(message()), protobuf(message(40, kind=2, tags=["a", "b"]))],
    "json": [b"\0\0\0\0\7" + json.dumps(track()).encode()],
}


def kept(verdicts: Sequence[Decoded]) -> list[Decoded]:
    return [one for one in verdicts if not isinstance(one, Skipped)]


def changed(random: Random, value: bytes) -> bytes:
    """The record cut, with bytes replaced, repeated, inserted or left out."""
    data = bytearray(value)
    for _ in range(random.randint(1, 6)):
        at = random.randint(0, len(data))
        how = random.randrange(5)
        if how == 0 and at < len(data):
            data[at] = random.randrange(256)
        elif how == 1:
            data[at:at] = random.choice(UNITS) * random.choice((1, 2, 50))
        elif how == 2:
            del data[at : at + random.randint(1, 20)]
        elif how == 3:
            del data[at:]
        else:
            data[at:at] = data[at : at + random.randint(1, 200)]
    return bytes(data)


def check_bounds(work: Callable[[], object], most_s: float, most_bytes: int) -> None:
    """Do it twice: to follow each allocation takes many times as long as the work itself."""
    start_s = time.process_time()
    work()
    took_s = time.process_time() - start_s
    tracemalloc.start()
    try:
        work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took_s < most_s and peak < most_bytes, (took_s, peak)


@pytest.mark.parametrize("codec", GOOD)
def test_changed_bodies_end_in_a_verdict(codec: str) -> None:
    seed = 19 if FACTOR == 1 else Random().randrange(2**32)
    print(f"Random({seed})")
    random, reasons = Random(seed), set[str]()
    mapper = MAPPERS[codec, "auto"]
    for _ in range(int(3000 * FACTOR)):
        verdicts = mapper.events(changed(random, random.choice(GOOD[codec])), 1795176000000)
        check_verdicts(kept(verdicts), LIMITS)
        reasons |= {getattr(one, "reason", "none") for one in verdicts}
    assert codec == "json" or reasons >= {"bad_framing", "bad_payload", "unknown_schema", "none"}


@pytest.mark.parametrize(("codec", "framing"), MAPPERS)
@examples(60)
@given(st.data())
def test_any_bytes_behind_any_frame_end_in_a_verdict(
    codec: str, framing: str, data: st.DataObject
) -> None:
    bodies = st.binary(max_size=60) | st.lists(st.sampled_from(UNITS), max_size=40).map(b"".join)
    good = st.sampled_from(GOOD[codec]).flatmap(flipped)
    framed = st.builds(bytes.__add__, st.sampled_from(FRAMES[framing]), bodies)
    headers = data.draw(st.none() | st.binary(max_size=20) | st.sampled_from(FRAMES["confluent"]))
    named = () if headers is None else ((HEADER, headers),)
    verdicts = MAPPERS[codec, framing].events(data.draw(framed | good), 1795176000000, None, named)
    check_verdicts(kept(verdicts), LIMITS)


@examples(150)
@given(schemas(), st.lists(st.sampled_from(UNITS), max_size=30).map(b"".join))
def test_any_schema_reads_any_body_or_refuses_it(schema: Any, body: bytes) -> None:
    mapper = MAPPERS["avro", "auto"]
    book: Any = mapper.bodies._book
    book.add(SchemaId("id", 99), SchemaText(AVRO, json.dumps(schema)))

    def read() -> None:
        mapper.bodies._readers.clear()
        check_verdicts(kept(mapper.events(b"\0\0\0\0\x63" + body, None)), LIMITS)

    check_bounds(read, 2, 200 << 20)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("codec", ["avro", "protobuf"])
def test_a_large_body_of_one_unit_is_bounded(codec: str, unit: bytes) -> None:
    heads = {"avro": b"\0\0\0\0\x0c", "protobuf": b"\0\0\0\0\x0d\2\2"}
    value = (heads[codec] + unit * (1 << 20))[: 1 << 20]
    mapper = MAPPERS[codec, "auto"]
    check_bounds(lambda: check_verdicts(kept(mapper.events(value, None)), LIMITS), 5, 300 << 20)


@examples(200)
@given(st.data())
def test_any_text_is_a_schema_or_is_none(data: st.DataObject) -> None:
    text = json.dumps(TRACK)
    at = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.sampled_from(['"', "{", "]", "null", "1e999", '"record"', "\ud800", "-1"]))
    cut = text[:at] + piece + text[at + data.draw(st.integers(0, 30)) :]
    try:
        AvroSchema(SchemaText(AVRO, cut))
    except UnreadableSchema:
        pass
