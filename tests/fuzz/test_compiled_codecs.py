"""The compiled form of a mapping reads any record of Avro and Protobuf as the interpreter does, or
leaves it to it."""

import json
import random
from dataclasses import replace
from typing import Any, Final
from zlib import compress

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, strategies as st

from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.events import Limits, Rejected
from relevanced.daemon.mapping import Mapper, mapper, members_of, reason_to_interpret
from relevanced.daemon.schemas import (
    AVRO,
    Bodies,
    Framing,
    SchemaBook,
    SchemaId,
    SchemaText,
    parsed_schema_file,
)
from tests.daemon.codecs.avro_bodies import product, schemas, track, values, written
from tests.daemon.codecs.protobuf_messages import track as message, track_file
from tests.daemon.codecs.test_protobuf import tracks
from tests.daemon.mapping.codec_records import (
    PROTOBUF_TABLES,
    TABLES,
    avro,
    book,
    click,
    mapper_of,
    protobuf,
)
from tests.fuzz.settings import FACTOR, examples
from tests.fuzz.test_any_body import changed
from tests.fuzz.test_compiled import logged, read_fast, read_slowly, record_of
from tests.streams import SMALL_CONFIG, random_records
from tests.ubi_streams import random_ubi_records

LIMITS: Final = Limits(depth=5, max_grade=3.0, attributes=("country", "device", "a"))
COMPILED_PROTOBUF: Final = PROTOBUF_TABLES.replace("message() == 'acme.Track' && ", "")
LONG: Final = "x" * 70


def _shown(random: random.Random) -> dict[str, Any]:
    """A record of Avro with odd values here and there."""
    value = track(random.randrange(8), event=random.choice(("Product List Viewed", "Other", "")))
    if random.random() < 0.3:
        value = click()
    for name in ("messageId", "event", "anonymousId"):
        if random.random() < 0.1:
            value[name] = random.choice(("", LONG, LONG * 5))
    value["timestamp"] = random.choice((1795176000000, 1795176000000, 0, -5, 2**60))
    properties = value["properties"]
    if random.random() < 0.1:
        properties["search_id"] = random.choice((None, "", LONG))
    for one in properties["products"]:
        one["position"] = random.choice((one["position"], one["position"], 0, -1, 5))
        one["product_id"] = random.choice(
            (one["product_id"], one["product_id"], "", LONG, LONG * 5)
        )
    properties["best"] = random.choice((None, product(1)))
    value["context"]["location"]["country"] = random.choice((None, "DE", "", LONG))
    return value


def _message(random: random.Random) -> Any:
    made = message(random.randrange(6), kind=random.choice((0, 1, 1, 2, 2, 7)))
    made.page = random.choice((0, 0, 1, -3, 2**31 - 1))
    for one in made.products:
        one.position = random.choice((one.position, one.position, 0, 3))
        if random.random() < 0.1:
            one.product_id = random.choice(("", LONG, LONG * 5))
    for name in ("id", "country", "visitor"):
        if random.random() < 0.1:
            setattr(made, name, random.choice(("", LONG)))
    for name in ("visitor", "at"):
        if random.random() < 0.05:
            made.ClearField(name)
    if random.random() < 0.2:
        made.facets["device"] = random.choice(("ios", "", LONG * 4))
    return made


CODECS: Final = {
    "avro": (mapper_of(f'codec = "avro"\n{TABLES}', LIMITS), lambda rng: avro(_shown(rng))),
    "protobuf": (
        mapper_of(f'codec = "protobuf"\n{COMPILED_PROTOBUF}', LIMITS),
        lambda rng: protobuf(_message(rng)),
    ),
}


def assert_equal(mapper: Mapper, record: Any, where: str) -> int:
    """The two forms read the record alike; returns whether it was left to the interpreter."""
    events, reasons, left = read_fast(mapper, [record])
    assert (events, reasons) == read_slowly(mapper, [record]), (where, record)
    return left


@pytest.mark.parametrize("codec", CODECS)
def test_records_with_odd_values_are_read_alike(codec: str) -> None:
    mapper, made = CODECS[codec]
    seed = 1 if FACTOR == 1 else random.SystemRandom().randrange(1 << 30)
    rng, left, count = random.Random(seed), 0, int(1500 * FACTOR)
    for number in range(count):
        value = made(rng)
        if rng.random() < 0.2:
            value = changed(rng, value)
        left += assert_equal(mapper, logged(rng, value), f"{codec}, seed {seed}, record {number}")
    assert 0 < left < count * 0.8


def _named(name: bytes) -> bytes:
    """As Apicurio 3 names a message."""
    return bytes([len(name) + 2, 10, len(name)]) + name


HEADS: Final = {
    "confluent": [b"\0\0\0\0\7" + one for one in (b"\2\2", b"\0", b"\2\4", b"\4\4\0")],
    "auto": [b"\0\0\0\0\7" + _named(one) for one in (b"Track", b"Product", b"Other", b"Other")],
    "glue": [b"\3\0" + bytes(16) + one for one in (b"\3", b"\0", b"\1", b"\2")],
}
"""Framing → what stands before acme.Track, and before three other messages."""


@pytest.mark.parametrize("framing", HEADS)
def test_of_a_file_both_read_its_message_and_leave_out_others(framing: str) -> None:
    files = descriptor_pb2.FileDescriptorSet(file=[track_file()]).SerializeToString()
    own = parsed_schema_file(files, "acme.Track")
    plain = mapper_of(f'codec = "protobuf"\n{COMPILED_PROTOBUF}', LIMITS)
    form = Bodies(Framing("protobuf", framing), SchemaBook(), own, members_of(plain.source))
    mapper, click = replace(plain, bodies=form), message(1, kind=2).SerializeToString()
    rng = random.Random(1)
    records = [logged(rng, head + click) for head in HEADS[framing] * 5]
    for record in records:
        record.timestamp = -1
    events, reasons, left = read_fast(mapper, records)
    assert (events, reasons) == read_slowly(mapper, records)
    assert len(events) == 5 and reasons == {"Skipped not_mapped": 15} and left == 15


ID: Final = (("__value_schema_id", b"\1" + bytes(16)),)
OWN: Final = """[sources.impression]
where = "type == 'shown'"
id = "id"
time = "at"
items = "items"
attributes = { country = "country" }
"""
FRAMED: Final[dict[str, tuple[str, Any, Any, int]]] = {
    "auto": ("", lambda text: b"\0\0\0\0\7" + text, (), 0),
    "confluent": ('framing = "confluent"', lambda text: b"\1" + bytes(16) + text, (), 0),
    "bare": ("", lambda text: text, ID, 0),
    "in the header": ('framing = "confluent"', lambda text: text, ID, 0),
    "glue": ('framing = "glue"', lambda text: b"\3\0" + bytes(16) + text, (), 0),
    "packed": ("", lambda text: b"\3\5" + bytes(16) + compress(text), (), 400),
    "no frame": ('framing = "confluent"', lambda text: text, (), 400),
    "frame of none": ('framing = "none"', lambda text: b"\0\0\0\0\7" + text, (), 400),
    "event": (
        'envelope = "cloudevents"',
        lambda text: b"\0\0\0\0\7" + text,
        (("ce_specversion", b"1.0"),),
        0,
    ),
    "structured": (
        'envelope = "cloudevents"\nframing = "confluent"',
        lambda text: b'{"specversion": "1.0", "data": ' + text + b"}",
        (),
        0,
    ),
}
"""Name → (keys of the source, what makes a record of a text, its headers, most that are left)."""


@pytest.mark.parametrize("name", FRAMED)
def test_framed_json_is_compiled_and_read_alike(name: str) -> None:
    keys, framed, headers, most_left = FRAMED[name]
    mapper, rng, records = mapper_of(f"{keys}\n{OWN}", LIMITS), random.Random(1), []
    for n in range(400):
        items = [f"item {i}" for i in range(n % 5 + 1)] * 5
        text = json.dumps({"type": rng.choice(("shown", "other")), "id": f"q{n}", "items": items})
        text = f'{text[:-1]}, "at": 1795176000000, "unread": [true, {n}]}}'
        records.append(record_of(framed(text.encode()), headers))
    events, reasons, left = read_fast(mapper, records)
    assert (events, reasons) == read_slowly(mapper, records) and left <= most_left
    assert bool(events) == (name not in ("no frame", "frame of none"))
    for record in (
        record_of(framed(b'{"type": "shown", "id": "q", "at": 1795176000000, ' + rest), headers)
        for rest in (b'"items": ["a"], "unread": "\xff"}', b'"items": ["\xff"]}', b'"items": [')
    ):
        assert_equal(mapper, record, name)
    for unread in (b'"z":"\xff"', b'"z":"\xff","y":"\\ud83d"'):
        broken = framed(b'{"type":"shown","id":"q","at":1795176000000,"items":["a"],%b}' % unread)
        assert bool(read_slowly(mapper, [record_of(broken, headers)])[0]) == bool(events)


@pytest.mark.parametrize("name", ["auto", "confluent", "in the header", "glue", "packed"])
@pytest.mark.parametrize("preset", ["native", "ubi"])
def test_framed_records_of_event_formats_come_to_the_events_of_their_texts(
    preset: str, name: str
) -> None:
    keys, framed, headers, _ = FRAMED[name]
    sources = [f'[[sources]]\ntopic = "t"\npreset = "{preset}"\n{one}' for one in ("", keys)]
    bare, read = (decoder_of(load(one, {}, "test.toml")) for one in sources)
    rng = random.Random(1)
    made = (
        random_records(rng) if preset == "native" else random_ubi_records(rng, config=SMALL_CONFIG)
    )
    texts = [record.value or b"7" for record in made] + [b"{", b"[{}]"]
    bodies = [record_of(one, ()) for one in texts]
    records = [record_of(framed(one), headers) for one in texts]
    found, reasons, _ = read_fast(read, records)
    expected, expected_reasons, _ = read_fast(bare, bodies)
    assert found and (found, reasons) == (expected, expected_reasons)
    assert read_slowly(read, records) == (found, reasons)
    (refused,) = read.of_record(record_of(b"\3\x09", ()))
    assert isinstance(refused, Rejected) and refused.reason == "bad_framing"
    too_long = read.of_record(record_of(framed(b" " * 2_000_000), headers))
    assert [one.reason for one in too_long if isinstance(one, Rejected)] == ["too_large"]


def _long_item(codec: str, item: str) -> bytes:
    """A list with one item of this id."""
    if codec == "protobuf":
        made = message(3)
        made.products[1].product_id = item
        return protobuf(made)
    value = track(3)
    value["properties"]["products"][1]["product_id"] = item
    return avro(value)


@pytest.mark.parametrize("odd_share", [0, 0.03, 0.5])
@pytest.mark.parametrize("codec", CODECS)
def test_many_records_at_once_are_read_as_each_alone(codec: str, odd_share: float) -> None:
    """Frames that differ, ids that are too long for a column or for any id, and cut records stand
    between the usual ones."""
    mapper, made = CODECS[codec]
    seed = 1 if FACTOR == 1 else random.SystemRandom().randrange(1 << 30)
    rng, usual = random.Random(seed), _long_item(codec, "P2")
    odd = [_long_item(codec, item) for item in ("", LONG, LONG * 5)]
    odd += [usual[:6], usual[:7], usual[:40], usual.replace(b"\x0c", b"\x63", 1), b""]
    headers = ((), (("trace", b"1"),), (("__value_schema_id", usual[:5]),))
    for _ in range(max(3, int(20 * FACTOR))):
        records, odd_count = [], 0
        for n in range(100):
            is_odd = rng.random() < odd_share
            records.append(logged(rng, rng.choice((*odd, made(rng))) if is_odd else usual))
            odd_count += is_odd
            records[-1].timestamp = -1
            records[-1].headers = headers[rng.randrange(3)] if is_odd else headers[n % 2]
        events, reasons, left = read_fast(mapper, records)
        assert (events, reasons) == read_slowly(mapper, records), f"{codec}, seed {seed}"
        assert left <= odd_count


@pytest.mark.parametrize("codec", CODECS)
def test_good_records_are_not_left_to_the_interpreter(codec: str) -> None:
    mapper, _ = CODECS[codec]
    assert reason_to_interpret(mapper.source, LIMITS) is None
    good = {"avro": [avro(track()), avro(click())], "protobuf": [protobuf(message(3))]}
    good["protobuf"].append(protobuf(message(2, kind=2)))
    for value in good[codec]:
        record = logged(random.Random(1), value)
        record.timestamp = -1
        assert assert_equal(mapper, record, codec) == 0


@examples(200)
@given(tracks())
def test_any_message_is_read_alike(made: Any) -> None:
    record = logged(random.Random(1), protobuf(made))
    assert_equal(CODECS["protobuf"][0], record, "any message")


EXPRESSIONS: Final = [
    *("f0", "f1.f0", "f0[0]", "f1.f2", "f2", "f0 || f1", "f1.f0 || f3", "f4[0].f0", "f3.f1.f0"),
    *("f0 == 'a'", "f1.f0 > `1`", "f0 && f1", "!f2", "starts_with(f0, 'a')", "kafka_time()"),
]


@examples(300)
@given(st.data())
def test_any_schema_is_read_alike(data: st.DataObject) -> None:
    drawn = [data.draw(st.sampled_from(EXPRESSIONS).map(json.dumps)) for _ in range(10)]
    each = data.draw(st.sampled_from(["", 'each = "f0 || @"\n', 'each = "f1"\n']))
    text = """codec = "avro"
{0}[sources.impression]
id = {1}
time = "kafka_time()"
items = {2}
{3}attributes = {{ a = {4}, "*" = {5} }}
[sources.feedback]
where = {6}
id = {7}
time = {8}
kind = {9}
item = {10}
""".format(
        each, *drawn[:2], data.draw(st.sampled_from(["", 'item = "f0"\nrank = "f1"\n'])), *drawn[2:]
    )
    schema = data.draw(schemas())
    known = book()
    known.add(SchemaId("id", 5), SchemaText(AVRO, json.dumps(schema)))
    source = replace(mapper_of(text, LIMITS).source)
    found = mapper(source, LIMITS, known)
    for _ in range(3):
        body = b"\0\0\0\0\5" + written(schema, data.draw(values(schema)))
        assert_equal(found, logged(random.Random(1), body), text)
