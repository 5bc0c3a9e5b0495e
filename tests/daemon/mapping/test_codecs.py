"""Records of Avro, Protobuf and JSON Schema come to the events that the same values in JSON do."""

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace as replace_struct

from relevanced.daemon.events import Feedback, Impression, Rejected, Skipped
from relevanced.daemon.mapping import Mapper, members_of
from relevanced.daemon.schemas import AVRO, Bodies, SchemaId, SchemaText
from tests.daemon.codecs.avro_bodies import TRACK, schemas, track, values, written
from tests.daemon.codecs.protobuf_messages import track as message

from .codec_records import (
    AVRO_ID,
    LIMITS,
    PROTOBUF_TABLES,
    TABLES,
    avro,
    book,
    click,
    mapper_of,
    protobuf,
)
from .preset_records import EXAMPLES
from .sources import mapper_of as json_mapper

NOON_MS = 1795176000000


@pytest.mark.parametrize("value", [track(), track(0), click(), track(event="Other")])
def test_avro_comes_to_the_events_of_json(value: Any) -> None:
    expected = json_mapper(TABLES).events(json.dumps(value).encode())
    assert mapper_of(f'codec = "avro"\n{TABLES}').events(avro(value)) == expected
    assert isinstance(expected[0], (Impression, Feedback, Skipped))


def test_protobuf_comes_to_events() -> None:
    mapper = mapper_of(f'codec = "protobuf"\n{PROTOBUF_TABLES}')
    shown = message(2)
    shown.facets["colour"] = "red"
    assert mapper.events(protobuf(shown)) == [
        Impression(
            impression_id="s-1",
            time_ms=NOON_MS,
            items=("P1", "P2"),
            attributes={"country": "DE", "colour": "red"},
            user_id="v1",
        )
    ]
    # A rank that is not set is 0, which no item has.
    clicked = message(1, kind=2)
    assert mapper.events(protobuf(clicked)) == [Feedback("s-1", NOON_MS, "click", "P1", 0)]
    assert mapper.events(protobuf(message(1, kind=2, page=3))) == [
        Feedback("s-1", NOON_MS, "click", "P1", 3)
    ]
    assert mapper.events(protobuf(message(0, kind=0))) == [Skipped("not_mapped")]
    (skipped,) = mapper.events(protobuf(message(1, id="")))
    assert isinstance(skipped, Skipped) and skipped.reason == "no_query_id"


def test_what_was_made_by_a_schema_is_made_anew_where_another_takes_its_id() -> None:
    shelf, made = book(), mapper_of(f'codec = "avro"\n{TABLES}')
    bodies = Bodies(made.bodies.framing, shelf, members=members_of(made.source))
    made, value = replace(made, bodies=bodies), avro(click())
    assert made.compiled is not None and made.compiled.bodies is not None
    instances = made.compiled.bodies
    (before,), instance = made.events(value), instances.instance(value)
    assert isinstance(before, Feedback) and instances.instance(value) == instance
    other = json.dumps(TRACK).replace('"event"', '"another"')
    shelf.add(AVRO_ID, SchemaText(AVRO, other))
    assert made.events(value) != [before]
    assert instances.instance(value) != instance


def test_frames_of_json_are_stripped() -> None:
    mapper, value = json_mapper(TABLES), json.dumps(track()).encode()
    assert mapper.events(b"\0\0\0\0\7" + value) == mapper.events(value)
    glue = b"\3\5" + bytes(16) + zlib.compress(value)
    assert mapper.events(glue) == mapper.events(value)


def test_keys_headers_and_the_records_time_are_asked_for_as_ever() -> None:
    tables = """
[sources.impression]
id = "key()"
time = "kafka_time()"
items = "properties.products"
item = "product_id"
visitor = "header('user')"
attributes = { message = "message()", topic = "topic()" }
"""
    found = mapper_of(f'codec = "avro"\n{tables}').events(
        avro(track(1)), NOON_MS, b"k1", (("User", b"u1"),)
    )
    attributes = {"message": "com.acme.Track", "topic": "t"}
    assert found == [Impression("k1", NOON_MS, ("P1",), attributes=attributes, user_id="u1")]


def test_a_cloudevent_in_binary_mode_has_any_body() -> None:
    tables = TABLES.replace("\"event == 'Product List Viewed'\"", "\"ce('type') == 'search'\"")
    mapper = mapper_of(f'codec = "avro"\nenvelope = "cloudevents"\n{tables}')
    headers = [("ce_specversion", b"1.0"), ("ce_type", b"search")]
    (event,) = mapper.events(avro(track(1)), None, None, headers)
    assert isinstance(event, Impression) and event.items == ("P1",)
    structured = {"specversion": "1.0", "type": "search", "data": track(1)}
    assert mapper.events(json.dumps(structured).encode()) == [event]


@pytest.mark.parametrize(
    ("text", "value", "reason", "detail"),
    [
        ('codec = "avro"', b"{}", "bad_framing", "record: begins with byte 123: must be 0"),
        ('codec = "avro"', b"\0\0\0\0\x63", "unknown_schema", "schema 99 is not known"),
        (
            'codec = "avro"',
            b"\0\0\0\0\x0d",
            "unknown_schema",
            "schema 13 is of protobuf, where codec = avro",
        ),
        (
            'codec = "avro"\nframing = "glue"',
            b"\3\0" + bytes(16),
            "unknown_schema",
            "schema glue 00000000-0000-0000-0000-000000000000 is not known",
        ),
        ('codec = "avro"', avro(track())[:-1], "bad_payload", "record: ends inside a value"),
        ('codec = "avro"', avro(track()) + b"\0", "bad_payload", "record: must end after"),
        ('codec = "protobuf"', b"\0\0\0\0\x0d\2\2\x0a", "bad_payload", "record: is no message"),
        ('codec = "protobuf"', b"\0\0\0\0\x0d\2\x0c", "bad_framing", "record: message [6] is not"),
        ('codec = "protobuf"\nframing = "none"', b"", "unknown_schema", "record: no frame and no"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(
    text: str, value: bytes, reason: str, detail: str
) -> None:
    # Without the rules of the configuration, of which one wants a file beside framing = "none".
    stated = 'framing = "none"'
    mapper = mapper_of(f"{text.replace(stated, '')}\n{TABLES}")
    if stated in text:
        bodies = mapper.bodies
        bodies.framing = replace_name(bodies.framing, "none")
    (refused,) = mapper.events(value)
    assert isinstance(refused, Rejected) and not refused.skipped
    assert (refused.reason, refused.detail[: len(detail)]) == (reason, detail)


def replace_name(framing: Any, name: str) -> Any:
    return framing._replace(name=name)


def test_a_schema_that_comes_later_is_used_from_then_on() -> None:
    from_empty = mapper_of(f'codec = "avro"\n{TABLES}')
    known = book()
    late = replace(from_empty, bodies=Bodies(from_empty.bodies.framing, type(known)()))
    (refused,) = late.events(avro(track()))
    assert isinstance(refused, Rejected) and refused.reason == "unknown_schema"
    late = replace(late, bodies=Bodies(from_empty.bodies.framing, known))
    assert late.events(avro(track())) == from_empty.events(avro(track()))


def whole(mapper: Mapper) -> Mapper:
    """The mapper, reading all of each body."""
    bodies = mapper.bodies
    return replace(mapper, bodies=Bodies(bodies.framing, bodies._book, bodies._own))


EXPRESSIONS = [
    *("f0", "f1.f0", "f0[0]", "f0[].f1", "f1[?f0 == `1`].f2 | [0]", "f0 || f1", "@", "[f0, f1]"),
    *("length(f0)", "f1.*", "to_string(f2)", "{a: f0, b: f1.f0}", "root().f0.f1", "!f0", "f0 < f1"),
    *("sort_by(f0, &f1)[0].f0", "f0[1:3]", "f1[*].f0[]", "f0 && f1.f2", "not_null(f3, f1.f0)"),
]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_reading_what_expressions_need_gives_the_events_of_reading_all(data: st.DataObject) -> None:
    expression = st.sampled_from(EXPRESSIONS).map(json.dumps)
    drawn = [data.draw(expression) for _ in range(12)]
    text = """codec = "avro"
each = {0}
[sources.impression]
where = {1}
id = {2}
time = "kafka_time()"
items = {3}
item = {4}
rank = {5}
attributes = {{ a = {6}, "*" = {7} }}
experiments = {{ list = {8}, name = {9}, variant = "f1" }}
[sources.feedback]
id = {2}
time = "kafka_time()"
kind = {10}
items = {11}
item = {4}
""".format(*drawn)
    schema = data.draw(schemas())
    value = written(schema, data.draw(values(schema)))
    known = book()
    config_mapper = mapper_of(text.replace('each = "@"\n', ""))
    known.add(SchemaId("id", 5), SchemaText(AVRO, json.dumps(schema)))
    framing = config_mapper.bodies.framing
    part = replace(
        config_mapper, bodies=Bodies(framing, known, None, members_of(config_mapper.source))
    )
    full = replace(config_mapper, bodies=Bodies(framing, known))
    record = b"\0\0\0\0\5" + value
    assert part.events(record, NOON_MS) == full.events(record, NOON_MS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_presets_need_but_a_part_of_their_records(name: str) -> None:
    assert members_of(json_mapper(f'preset = "{name}"\n{EXAMPLES[name].config}').source)


def test_what_expressions_look_at_by_name_is_read_and_no_more() -> None:
    source = json_mapper(TABLES).source
    assert members_of(source) == {
        **dict.fromkeys(("event", "messageId", "timestamp", "anonymousId", "userId", "type")),
        "context": {"location": {"country": None}, "facets": None},
        "properties": {
            "search_id": None,
            "products": {"product_id": None, "sku": None, "position": None},
            "product_id": None,
        },
    }


def test_the_query_of_a_body_is_read_where_queries_are_kept() -> None:
    value, limits = track(), replace_struct(LIMITS, queries=True)
    tables = TABLES.replace("[sources.feedback]", 'query = "messageId"\n[sources.feedback]')
    (shown,) = mapper_of(f'codec = "avro"\n{tables}', limits).events(avro(value))
    assert isinstance(shown, Impression) and shown.query == value["messageId"]


@pytest.mark.parametrize("queries", [False, True])
def test_a_query_of_avro_that_is_no_utf_8_costs_no_record(queries: bool) -> None:
    tables = TABLES.replace("[sources.feedback]", 'query = "context.ip"\n[sources.feedback]')
    mapper = mapper_of(f'codec = "avro"\n{tables}', replace_struct(LIMITS, queries=queries))
    broken = avro(track()).replace(b"203.0.113.9", b"203.0.113.\xc3")
    (whole,) = mapper_of(f'codec = "avro"\n{TABLES}').events(avro(track()))
    assert mapper.events(broken) == [whole, *([Rejected("bad_query")] if queries else [])]
