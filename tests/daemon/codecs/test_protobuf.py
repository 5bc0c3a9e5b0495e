"""Bodies of Protobuf as values of JSON: presence, enums, maps, messages of Google's own."""

import json
import time
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, wrappers_pb2
from hypothesis import given, settings, strategies as st

from relevanced.daemon.codecs import bytes_text, protobuf_file
from relevanced.daemon.events import InvalidField
from relevanced.daemon.schemas import PROTOBUF, Members, SchemaText, UnreadableSchema, parsed_schema

from .protobuf_messages import (
    BOOL,
    BYTES,
    DOUBLE,
    INT32,
    SCHEMA,
    STRING,
    TEXT,
    add_fields,
    add_map,
    file_of,
    message_class,
    text_of,
    track,
    track_file,
)
from .test_avro import parts

TRACK = (1,)


def read(message: Any, members: Members = None, index: Any = TRACK, schema: Any = SCHEMA) -> Any:
    return schema.reader(index, members)(message.SerializeToString())


def test_enums_are_names_and_absent_scalars_their_zero() -> None:
    value = read(message_class("acme.Track")())
    assert value == {
        **{"id": None, "visitor": None, "kind": "KIND_UNSPECIFIED", "at": None, "at_ms": 0},
        **{"country": None, "products": [], "parent": None, "tags": [], "raw": None, "page": 0},
        **{"score": None, "kinds": [], "facets": {}, "best": {}},
    }
    full = track(1, visitor="", score=0, kinds=[2, 9], raw=b"\xff\xff", tags=["", "x"])
    value = read(full)
    assert (value["visitor"], value["score"]) == ("", 0.0)
    assert value["kind"] == "SHOWN" and value["kinds"] == ["CLICKED", 9]
    assert value["at"] == "2026-11-20T12:00:00Z" and value["at_ms"] == 1795176000000
    assert value["raw"] == "//8=" and value["tags"] == ["", "x"]
    assert value["products"][0]["position"] == 1


def test_maps_are_objects_and_messages_nest() -> None:
    message = track(0)
    message.facets["colour"], message.best[7].sku = "red", "S7"
    message.parent.id = "above"
    value = read(message)
    assert value["facets"] == {"colour": "red"} and value["best"]["7"]["sku"] == "S7"
    assert value["parent"]["id"] == "above" and value["parent"]["parent"] is None
    members: Members = {"best": {"7": {"sku": None}, "8": None}, "facets": {"size": None}}
    assert read(message, members) == {"facets": {"": None}, "best": {"7": {"sku": "S7"}}}


def by_definition(message: Any) -> Any:
    """The value of a message, field by field, as slowly as it is defined."""
    value = {}
    for field in message.DESCRIPTOR.fields:
        found = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            value[field.name] = {str(key): one_value(inner, found[key]) for key in found}
        elif field.is_repeated:
            value[field.name] = [one_value(field, one) for one in found]
        elif field.has_presence and not message.HasField(field.name):
            value[field.name] = None
        else:
            one = one_value(field, found)
            value[field.name] = None if one == "" and not field.has_presence else one
    return value


def one_value(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.full_name.endswith(".Timestamp"):
        return value.ToJsonString() if -(10**9) < value.seconds < 10**10 else None
    if field.message_type is not None:
        return by_definition(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, float):
        return value if value - value == 0 else None
    return bytes_text(value) if isinstance(value, bytes) else value


@st.composite
def tracks(draw: st.DrawFn, depth: int = 2) -> Any:
    texts, numbers = st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(
        -9, 9
    )
    message = track(0, page=draw(numbers), raw=draw(st.binary(max_size=5)))
    message.tags.extend(draw(st.lists(texts, max_size=3)))
    message.kinds.extend(draw(st.lists(st.integers(0, 5), max_size=3)))
    message.at.seconds = draw(st.integers(0, 10**9))
    for name in draw(st.sets(st.sampled_from(["id", "visitor", "at", "kind", "at_ms"]))):
        message.ClearField(name)
    if draw(st.booleans()):
        message.score = draw(st.floats(width=32))
    for key, text in draw(st.dictionaries(texts, texts, max_size=3)).items():
        message.facets[key] = text
    for _ in range(draw(st.integers(0, 3))):
        message.products.add(sku=draw(texts), position=draw(numbers), price=draw(st.floats()))
    for key in draw(st.sets(numbers, max_size=2)):
        message.best[key].sku = draw(texts)
    if depth and draw(st.booleans()):
        message.parent.CopyFrom(draw(tracks(depth - 1)))
    return message


def some_members() -> st.SearchStrategy[Members]:
    names = st.sampled_from("id visitor at products best 1 parent sku position facets page".split())
    return st.recursive(st.none(), lambda inner: st.dictionaries(names, inner), max_leaves=12)


@settings(max_examples=200, deadline=None)
@given(tracks(), some_members())
def test_any_message_is_read_as_defined_whole_or_in_part(message: Any, members: Members) -> None:
    whole = by_definition(message)
    assert read(message) == whole
    assert read(message, members) == parts(whole, members)


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ((0,), "acme.Product"),
        ((1,), "acme.Track"),
        ((2, 0), "acme.Other.Inner"),
        (None, "acme.Product"),
        # All messages in the order of their full names, entries of maps too.
        (0, "acme.Other"),
        (1, "acme.Other.Inner"),
        (2, "acme.Product"),
        (3, "acme.Track"),
        ("Track", "acme.Track"),
    ],
)
def test_frames_name_the_message(frame: Any, name: str) -> None:
    assert SCHEMA.message_name(frame) == name


@pytest.mark.parametrize("frame", [(3,), (2, 1), (2, 0, 0), 6, "Inner", "acme.Track"])
def test_a_message_that_its_schema_lacks_is_a_bad_frame(frame: Any) -> None:
    with pytest.raises(InvalidField, match="is not in its schema") as caught:
        SCHEMA.reader(frame, None)
    assert caught.value.reason == "bad_framing"


@pytest.mark.parametrize("body", [b"\x0a", b"\x0a\x05ab", b"\xff" * 20, b"\x0a\x01\xff", b"\x00"])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidField) as caught:
        SCHEMA.reader(TRACK, None)(body)
    assert caught.value.reason == "bad_payload"


def test_messages_of_googles_own_have_their_value() -> None:
    file = file_of()
    names = ("duration", "struct", "wrappers")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in names)
    message = file.message_type.add(name="M")
    kinds = ("Duration", "Struct", "Value", "ListValue", "StringValue", "Int64Value", "BoolValue")
    add_fields(message, *((kind.lower(), f".google.protobuf.{kind}") for kind in kinds))
    schema = parsed_schema(text_of(file))
    made = message_class("acme.M", schema)()
    made.duration.ParseFromString(
        duration_pb2.Duration(seconds=1, nanos=5 * 10**8).SerializeToString()
    )
    struct = struct_pb2.Struct()
    struct.update({"a": 1, "b": [True, None, "x"], "c": {"d": float("inf")}})
    made.struct.ParseFromString(struct.SerializeToString())
    made.stringvalue.ParseFromString(wrappers_pb2.StringValue(value="w").SerializeToString())
    made.int64value.SetInParent()
    assert read(made, None, (0,), schema) == {
        **{"duration": 1.5, "struct": {"a": 1.0, "b": [True, None, "x"], "c": {"d": None}}},
        **{"value": None, "listvalue": None, "stringvalue": "w", "int64value": 0},
        "boolvalue": None,
    }


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((12345, "12345"), (0, "0"), (-7, "-7"), (1.5, "1.5"), (2**53 - 1, "9007199254740991")),
        *((1e300, "1e+300"), (float("nan"), "null")),
    ],
)
def test_whole_numbers_of_a_struct_are_integers(number: float, text: str) -> None:
    file = file_of()
    file.dependency.append("google/protobuf/struct.proto")
    fields = [("id", ".google.protobuf.Value"), ("more", ".google.protobuf.Struct")]
    add_fields(file.message_type.add(name="M"), *fields)
    schema = parsed_schema(text_of(file))
    made = message_class("acme.M", schema)()
    made.id.number_value = number
    made.more.fields["id"].number_value = number
    value = read(made, None, (0,), schema)
    assert [json.dumps(one) for one in (value["id"], value["more"]["id"])] == [text] * 2


@pytest.mark.parametrize("seconds", [2**62, -(2**62), 1_795_176_000_000])
def test_a_timestamp_outside_the_calendar_shows_what_it_has(seconds: int) -> None:
    """Such as milliseconds where seconds belong: it is there, and no time."""
    message = track(0)
    message.at.seconds = seconds
    assert read(message)["at"] == f"{seconds} s since 1970"


@pytest.mark.parametrize("length", [90, 2000])
def test_a_row_of_messages_longer_than_the_stack_is_read_as_far_as_a_body_goes(length: int) -> None:
    file = file_of()
    for n in range(length):
        add_fields(
            file.message_type.add(name=f"M{n}"),
            ("name", STRING),
            *([("next", f".acme.M{n + 1}")] if n + 1 < length else []),
        )
    schema = parsed_schema(text_of(file))
    schema.reader((0,), None)
    made = at = message_class("acme.M0", schema)()
    for _ in range(80):
        at = at.next
    at.name = "deep"
    value = read(made, None, (0,), schema)
    for _ in range(80):
        value = value["next"]
    assert value["name"] == "deep" and value["next"] is None


def test_proto2_has_presence_and_defaults() -> None:
    file = file_of(syntax="proto2")
    add_fields(file.message_type.add(name="M"), ("a", INT32), ("b", INT32), ("c", STRING))
    file.message_type[0].field[1].default_value = "7"
    schema = parsed_schema(text_of(file))
    assert read(message_class("acme.M", schema)(), None, (0,), schema) == {
        "a": None,
        "b": 7,
        "c": None,
    }


def test_imported_files_come_by_the_name_of_their_reference() -> None:
    money, main = file_of("whatever", "money"), file_of("main.proto")
    add_fields(money.message_type.add(name="Money"), ("cents", INT32))
    main.dependency.append("shop/money.proto")
    add_fields(main.message_type.add(name="M"), ("price", ".money.Money"))
    schema = parsed_schema(text_of(main, ("shop/money.proto", text_of(money))))
    made = message_class("acme.M", schema)()
    made.price.cents = 99
    assert read(made, None, (0,), schema) == {"price": {"cents": 99}}
    with pytest.raises(UnreadableSchema, match="imports shop/money.proto, which is not given"):
        parsed_schema(text_of(main))


def test_what_confluents_registry_has_built_in_needs_no_reference() -> None:
    file = file_of()
    file.dependency.extend(("confluent/meta.proto", "confluent/type/decimal.proto"))
    message = file.message_type.add(name="M")
    add_fields(message, ("price", ".confluent.type.Decimal"), ("id", STRING))
    # [(confluent.field_meta).doc = "its id"], an extension of number 1088.
    message.field[1].options.ParseFromString(b"\x82\x44\x08\x0a\x06its id")
    schema = parsed_schema(text_of(file))
    made = message_class("acme.M", schema)(id="q1")
    made.price.value, made.price.scale = b"\x63", 2
    price = {"value": "c", "precision": 0, "scale": 2}
    assert read(made, None, (0,), schema) == {"price": price, "id": "q1"}
    file.dependency.append("google/type/money.proto")
    with pytest.raises(UnreadableSchema, match="imports google/type/money.proto, .*descriptor_set"):
        parsed_schema(text_of(file))


def test_a_schema_that_defines_options_is_read() -> None:
    """It imports a file of Google's own that is not of proto3."""
    file = file_of()
    file.dependency.append("google/protobuf/descriptor.proto")
    add_fields(file.message_type.add(name="M"), ("id", STRING))
    owner, kind = ".google.protobuf.FieldOptions", STRING
    file.extension.add(name="unit", number=50_001, type=kind, label=1, extendee=owner)
    schema = parsed_schema(text_of(file))
    made = message_class("acme.M", schema)(id="q1")
    assert read(made, None, (0,), schema) == {"id": "q1"}


def test_map_keys_are_texts() -> None:
    file = file_of()
    add_map(file.message_type.add(name="M"), "acme", "flags", BOOL, DOUBLE)
    add_map(file.message_type[0], "acme", "raws", STRING, BYTES)
    schema = parsed_schema(text_of(file))
    made = message_class("acme.M", schema)(flags={True: 1.5}, raws={"a": b"ok"})
    assert read(made, None, (0,), schema) == {"flags": {"true": 1.5}, "raws": {"a": "ok"}}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("no base64!", "is no base64 of a FileDescriptorProto"),
        ("////", "is no FileDescriptorProto"),
        ("", "declares no message"),
    ],
)
def test_a_text_that_is_no_schema_is_unreadable(text: str, rule: str) -> None:
    with pytest.raises(UnreadableSchema, match=rule):
        parsed_schema(SchemaText(PROTOBUF, text))


def test_a_schema_that_contradicts_itself_is_unreadable() -> None:
    file = file_of()
    add_fields(file.message_type.add(name="M"), ("a", ".acme.Missing"))
    with pytest.raises(UnreadableSchema, match="is no Protobuf schema: .*Missing"):
        parsed_schema(text_of(file))
    file = file_of()
    file.dependency.append("track.proto")
    with pytest.raises(UnreadableSchema, match="imports track.proto"):
        parsed_schema(text_of(file))


def test_a_descriptor_set_gives_one_message_in_any_order_of_files() -> None:
    other = file_of("other.proto", "shop")
    other.dependency.append("track.proto")
    add_fields(other.message_type.add(name="Shop"), ("track", ".acme.Track"))
    data = descriptor_pb2.FileDescriptorSet(file=[other, track_file()]).SerializeToString()
    schema = protobuf_file(data, "shop.Shop")
    made = message_class("shop.Shop", schema)()
    made.track.id = "q"
    assert schema.message_name(None) == "shop.Shop"
    assert read(made, {"track": {"id": None}}, (0,), schema) == {"track": {"id": "q"}}
    with pytest.raises(UnreadableSchema) as caught:
        protobuf_file(data, "acme.Shop")
    assert str(caught.value).startswith(
        "has no message acme.Shop: must be one of acme.Product, acme.Track, "
    )
    for bad in (b"", b"\xff", b"\x0a\x01\x0a"):
        with pytest.raises(UnreadableSchema):
            protobuf_file(bad, "acme.Track")


@pytest.mark.parametrize(
    ("declared", "its", "others", "absent"),
    [
        ("acme.Track", [(1,), 3, "Track", None], [(0,), (2, 0), 2, "Product"], [(3,), 6, "Inner"]),
        ("acme.Other.Inner", [(2, 0), 1, "Inner", None], [(2,), 0, "Other"], [(2, 1), "Missing"]),
    ],
)
def test_of_a_file_one_message_is_read_and_frames_of_others_are_not_mapped(
    declared: str, its: list[Any], others: list[Any], absent: list[Any]
) -> None:
    other = file_of("before.proto", "shop")
    add_fields(other.message_type.add(name="Shop"), ("id", STRING))
    data = descriptor_pb2.FileDescriptorSet(file=[other, track_file()]).SerializeToString()
    schema = protobuf_file(data, declared)
    assert [schema.message_name(frame) for frame in its] == [declared] * len(its)
    for reason, frames in (("not_mapped", others), ("bad_framing", absent)):
        for frame in frames:
            with pytest.raises(InvalidField) as caught:
                schema.reader(frame, None)
            assert caught.value.reason == reason, frame


def test_a_message_inside_one_with_maps_is_counted_as_by_protoc_or_by_confluent() -> None:
    file = file_of()
    outer = file.message_type.add(name="Outer")
    add_map(outer, "acme", "facets", STRING, STRING)
    add_fields(outer.nested_type.add(name="Inner"), ("name", STRING))
    data = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    schema = protobuf_file(data, "acme.Outer.Inner")
    assert schema.message_name((0, 1)) == schema.message_name((0, 0)) == "acme.Outer.Inner"


@pytest.mark.parametrize("members", [{"products": {"sku": None}}, None])
def test_more_messages_than_a_body_has_bytes_for_are_refused_before_they_are_made(
    members: Members,
) -> None:
    read_products = SCHEMA.reader(TRACK, members)
    assert len(read_products(b"\x3a\x00" * 10_000)["products"]) == 10_000
    began_s = time.thread_time()
    with pytest.raises(InvalidField, match="has a list of 500,000: .* must be <= 156,") as caught:
        read_products(b"\x3a\x00" * 500_000)
    assert caught.value.reason == "too_many" and time.thread_time() - began_s < 0.15
    assert TEXT.codec == PROTOBUF
