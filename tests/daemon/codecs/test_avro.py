"""Bodies of Avro are read as fastavro reads them, whole or in part, and cost what they weigh."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from relevanced.daemon.codecs import AvroSchema
from relevanced.daemon.events import InvalidField
from relevanced.daemon.schemas import AVRO, Members, SchemaText, UnreadableSchema

from .avro_bodies import TRACK, as_json, avro, read_by_library, schemas, track, values, written


def reason_of(schema: Any, body: bytes, members: Members = None) -> str:
    with pytest.raises(InvalidField) as caught:
        avro(schema).reader(None, members)(body)
    return caught.value.reason


def record(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{index}", "type": one} for index, one in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_body_is_read_as_the_library_reads_it(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    body = written(schema, data.draw(values(schema)))
    assert avro(schema).reader(None, None)(body) == read_by_library(schema, body)


def parts(value: Any, members: Members) -> Any:
    """What of a value is asked for; an object of which nothing is stays one with members."""
    if isinstance(value, list):
        return [parts(one, members) for one in value]
    if members is None or not isinstance(value, dict):
        return value
    found = {name: parts(one, members[name]) for name, one in value.items() if name in members}
    return found or dict.fromkeys([""] * bool(value))


def some_members() -> st.SearchStrategy[Members]:
    names = st.sampled_from([f"f{index}" for index in range(5)] + ["A", ""])
    return st.recursive(st.none(), lambda inner: st.dictionaries(names, inner), max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_members_that_are_not_asked_for_are_stepped_over(data: st.DataObject) -> None:
    schema, members = data.draw(schemas()), data.draw(some_members())
    body = written(schema, data.draw(values(schema)))
    expected = parts(read_by_library(schema, body), members)
    assert avro(schema).reader(None, members)(body) == expected


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_body_is_read_as_the_library_does_or_refused(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    body = bytearray(written(schema, data.draw(values(schema))))
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            place = data.draw(st.integers(0, len(body) - 1))
            body[place] = data.draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    read = avro(schema).reader(None, None)
    for changed in (bytes(body), cut):
        try:
            value = read(changed)
        except InvalidField as error:
            assert error.reason in ("bad_payload", "too_many")
        else:
            assert value == read_by_library(schema, changed)


@pytest.mark.parametrize("default", ["null", [], 1.5, {"a": 1}])
def test_a_default_that_no_reader_needs_refuses_no_schema(default: Any) -> None:
    fields = [{"name": "n", "type": "int", "default": default}]
    schema = {"type": "record", "name": "R", "fields": fields}
    assert avro(schema).reader(None, None)(b"\x06") == {"n": 3}


def test_symbols_may_be_any_text() -> None:
    symbols = ["in-stock", "in-stock?", ""]
    of_enum = {"type": "enum", "name": "E", "symbols": symbols, "default": "gone"}
    inside = {"type": "array", "items": ["null", "E"]}
    read = avro(record(of_enum, inside, "E")).reader(None, None)
    found = read(bytes([0, 2, 2, 4, 0, 2]))
    assert found == {
        "f0": "in-stock",
        "f1": [
            "",
        ],
        "f2": "in-stock?",
    }


@pytest.mark.parametrize("symbols", [[1], "A", None, [["A"]]])
def test_symbols_that_are_no_texts_are_refused(symbols: Any) -> None:
    with pytest.raises(UnreadableSchema):
        avro({"type": "enum", "name": "E", "symbols": symbols})


def test_every_cut_of_a_record_is_refused() -> None:
    body = written(TRACK, track())
    for members in (None, {"event": None}, {}):
        read = avro(TRACK).reader(None, members)
        for end in range(len(body)):
            with pytest.raises(InvalidField, match="bad_payload"):
                read(body[:end])
        with pytest.raises(InvalidField, match="must end after"):
            read(body + b"\0")
        read(body)


def test_a_record_is_read_whole_with_names_and_enums() -> None:
    schema = avro(TRACK)
    body = written(TRACK, track())
    assert schema.names(None)(body) == "com.acme.Track"
    assert schema.reader(None, None)(body) == track()


def test_a_body_of_a_union_has_the_name_of_its_branch() -> None:
    fields = [{"name": "id", "type": "string"}]
    records = [{"type": "record", "name": f"shop.{n}", "fields": fields} for n in ("Shown", "Hit")]
    name_of = avro(["null", *records]).names(None)
    assert [name_of(body) for body in (b"\0", b"\2\2a", b"\4\2a")] == [
        None,
        "shop.Shown",
        "shop.Hit",
    ]


@pytest.mark.parametrize(
    ("type_", "body", "expected"),
    [
        ({"type": "long", "logicalType": "timestamp-micros"}, "80808096c8ca8d06", 1763640000000000),
        ({"type": "int", "logicalType": "date"}, "02", 1),
        ({"type": "string", "logicalType": "uuid"}, "0461620a"[:6], "ab"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "0404d2", 12.34),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, "02ff", -1),
        (
            {"type": "fixed", "size": 2, "name": "F", "logicalType": "decimal", "precision": 4},
            "0102",
            258,
        ),
        (
            {"type": "fixed", "size": 16, "name": "U", "logicalType": "uuid"},
            "00112233445566778899aabbccddeeff",
            "00112233-4455-6677-8899-aabbccddeeff",
        ),
        ("bytes", "04ffff", "//8="),
        ("bytes", "046f6b", "ok"),
        ("double", "000000000000f87f", None),
        ("float", "0000807f", None),
    ],
)
def test_logical_types_and_bytes_as_json_would_give_them(
    type_: Any, body: str, expected: Any
) -> None:
    if expected == 1763640000000000:
        body = written("long", expected).hex()
    assert avro(type_).reader(None, None)(bytes.fromhex(body)) == expected


def listed(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("type_", "body", "reason"),
    [
        ("string", "03", "bad_payload"),  # a length of −2
        ("string", "feffffffffffffffff01", "bad_payload"),
        ("string", "04ff", "bad_payload"),
        ("string", "04ffff", "bad_payload"),  # no UTF-8
        ("boolean", "02", "bad_payload"),
        ("long", "ffffffffffffffffff7f", "bad_payload"),  # more than 64 bits
        ("long", "ffffffffffffffffffffff01", "bad_payload"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "bad_payload"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "01", "bad_payload"),
        (["null", "string"], "04", "bad_payload"),
        (["null", "string"], "01", "bad_payload"),
        ([], "00", "bad_payload"),
        ({"type": "array", "items": "int"}, "feffffffffffffffff01", "bad_payload"),
        ({"type": "array", "items": "null"}, "feffffffffffffffff01", "too_many"),
        ({"type": "array", "items": "null"}, "ffffffffffffffffff0100", "too_many"),
        (listed({"type": "array", "items": "long"}), "c0843d" + "00" * 500_001, "too_many"),
        (listed({"type": "map", "values": "long"}), "c0843d" + "00" * 500_001, "too_many"),
        ({"type": "map", "values": "null"}, "feffffffffffffffff01", "bad_payload"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 99},
            "42" + "11" * 33,
            "bad_payload",
        ),
    ],
)
def test_what_no_writer_writes_is_refused(type_: Any, body: str, reason: str) -> None:
    assert reason_of(type_, bytes.fromhex(body)) == reason


def test_blocks_with_their_size_are_read() -> None:
    read = avro({"type": "array", "items": "string"}).reader(None, None)
    assert read(bytes.fromhex("0308 0261 0262 0202 6300".replace(" ", ""))) == ["a", "b", "c"]


LIST: Any = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
BOMBS: Any = {
    "nulls": {"type": "array", "items": "null"},
    "records of nulls": {"type": "array", "items": record(*["null"] * 50)},
    "arrays of arrays": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "array", "items": record()}},
    },
    "itself": {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "left", "type": "Tree"}, {"name": "right", "type": "Tree"}],
    },
    "arrays of itself": {
        "type": "record",
        "name": "Bush",
        "fields": [{"name": "all", "type": {"type": "array", "items": "Bush"}}],
    },
    "no bytes": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("members", [None, {}])
def test_a_schema_that_bounds_no_body_is_bounded(name: str, members: Members) -> None:
    read, start_s = avro(BOMBS[name]).reader(None, members), time.process_time()
    for unit in ("feffffff0f", "80897a", "02", "8001", "04"):
        for count in (1, 100, 20_000):
            with pytest.raises(InvalidField, match=r"bad_payload|too_many"):
                read(bytes.fromhex(unit) * count)
    assert time.process_time() - start_s < 5


def test_records_inside_themselves_have_a_depth() -> None:
    read = avro(LIST).reader(None, None)
    value: Any = None
    for number in range(60):
        value = {"value": number, "next": value}
    assert read(written(LIST, value)) == value
    with pytest.raises(InvalidField, match="nested deeper than 64"):
        read(b"\2\2" * 1_000_000)


def test_a_schema_whose_values_need_no_bytes_is_refused() -> None:
    schema: Any = "null"
    for level in range(20):
        both = [
            {"name": "a", "type": schema},
            {"name": "b", "type": schema if not level else f"R{level - 1}"},
        ]
        schema = {"type": "record", "name": f"R{level}", "fields": both}
    with pytest.raises(UnreadableSchema, match="has more than 250000 values"):
        avro(schema)


def test_a_large_list_of_large_records_is_read() -> None:
    schema = {"type": "array", "items": record(*[["null", "string"]] * 300)}
    value = [{f"f{index}": None for index in range(300)}] * 3000
    assert avro(schema).reader(None, None)(written(schema, value)) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "{}", '"other"', "12", "[" * 5000, '{"type": "array"}'),
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "fixed", "name": "F", "size": true}',
        '{"type": "record", "name": "R", "fields": 3}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}',
        json.dumps(record(*["int"] * 10_001)),
    ],
)
def test_a_text_that_is_no_schema_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableSchema):
        AvroSchema(SchemaText(AVRO, text))


def test_a_bare_name_is_a_schema() -> None:
    assert AvroSchema(SchemaText(AVRO, " string\n")).reader(None, None)(b"\2a") == "a"


def test_references_declare_names() -> None:
    money = SchemaText(
        AVRO,
        json.dumps(
            {"type": "record", "name": "acme.Money", "fields": [{"name": "n", "type": "int"}]}
        ),
    )
    offer = SchemaText(
        AVRO,
        json.dumps(
            {
                "type": "record",
                "name": "acme.Offer",
                "fields": [{"name": "price", "type": "acme.Money"}],
            }
        ),
        (("acme.Money", money),),
    )
    top = SchemaText(
        AVRO,
        json.dumps(
            {
                "type": "record",
                "name": "acme.Two",
                "fields": [
                    {"name": "a", "type": "acme.Offer"},
                    {"name": "b", "type": "acme.Money"},
                ],
            }
        ),
        (("acme.Offer", offer), ("acme.Money", money)),
    )
    read = AvroSchema(top).reader(None, None)
    assert read(b"\2\4") == {"a": {"price": {"n": 1}}, "b": {"n": 2}}


def test_names_of_a_schema_are_only_texts_in_the_generated_source() -> None:
    name = "'}; raise SystemExit #\n\\"
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"}]}
    assert avro(schema).reader(None, None)(b"\2") == {name: 1}
    assert avro(schema).reader(None, {name: None})(b"\2") == {name: 1}
    mapped = {"type": "map", "values": "int"}
    body = written(mapped, {name: 5, "other": 6})
    assert avro(mapped).reader(None, {name: None})(body) == {name: 5}


def test_deep_nesting_of_unions_and_arrays_is_read() -> None:
    schema: Any = "int"
    value: Any = 1
    for level in range(30):
        schema = (
            ["null", record(schema) | {"name": f"R{level}"}]
            if level % 2
            else {"type": "array", "items": schema}
        )
        value = {"f0": value} if level % 2 else [value]
    assert as_json(avro(schema).reader(None, None)(written(schema, value))) == value
