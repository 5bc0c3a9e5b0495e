"""The book of schemas: what is to be asked for, and what is known."""

from typing import Any

import pytest

from relevanced.daemon.events import InvalidField
from relevanced.daemon.kafka import Record
from relevanced.daemon.schemas import (
    AVRO,
    HEADER,
    MOST_MISSING,
    Framing,
    SchemaBook,
    SchemaId,
    SchemaText,
    UnreadableSchema,
)

BOOK = {
    "a": Framing("avro", "auto"),
    "p": Framing("protobuf", "confluent"),
    "g": Framing("avro", "glue"),
    "plain": Framing("avro", "none"),
    "j": Framing("json", "auto"),
}
NOW_MS = 1_795_176_000_000


def record(topic: str, value: bytes | None, *headers: tuple[str, bytes]) -> Any:
    return Record(topic, 0, 0, NOW_MS, None, value, headers)


def ids(*numbers: int) -> set[SchemaId]:
    return {SchemaId("id", number) for number in numbers}


def framed(number: int, body: bytes = b"body") -> bytes:
    return b"\0" + number.to_bytes(4) + body


def test_the_schemas_that_records_name_are_unknown_until_they_are_added() -> None:
    book = SchemaBook(BOOK)
    records = [record("a", framed(number % 3, bytes([number]))) for number in range(100)]
    records += [record("p", framed(7)), record("j", framed(8)), record("plain", framed(9))]
    records += [record("other", framed(10)), record("a", None), record("a", b"")]
    records += [record("a", b"\0\0"), record("g", framed(11)), record("p", b"{}")]
    assert book.unknown(records, NOW_MS) == ids(0, 1, 2, 7)
    book.add(SchemaId("id", 1), SchemaText(AVRO, '"int"'))
    assert book.unknown(records, NOW_MS) == ids(0, 2, 7)
    assert len(book) == 1
    assert book.find(SchemaId("id", 1)).reader(None, None)(b"\2") == 1
    assert book.topics == ("a", "p", "g")


def test_ids_of_headers_and_of_glue_are_found() -> None:
    guid, glue = b"\1" + bytes(range(16)), b"\3\5" + bytes(range(16)) + b"body"
    records = [record("a", b"x", ("other", b"1"), (HEADER, guid)), record("g", glue)]
    records.append(record("p", b"x", (HEADER, b"broken")))
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    found = SchemaBook(BOOK).unknown(records, NOW_MS)
    assert found == {SchemaId("guid", text), SchemaId("glue", text)}


def test_a_missing_schema_is_asked_for_again_at_its_time() -> None:
    book, schema = SchemaBook(BOOK), SchemaId("id", 12)
    records = [record("a", framed(12))]
    book.add_missing(schema, NOW_MS + 60_000, "is not in the registry")
    assert book.unknown(records, NOW_MS + 59_999) == set()
    with pytest.raises(InvalidField) as caught:
        book.find(schema)
    assert (caught.value.reason, caught.value.detail) == (
        "unknown_schema",
        "schema 12 is not in the registry",
    )
    assert book.unknown(records, NOW_MS + 60_000) == {schema}
    book.add(schema, SchemaText(AVRO, '"int"'))
    assert book.unknown(records, NOW_MS + 60_000) == set()


def test_a_schema_that_cannot_be_read_stays_unknown() -> None:
    book, schema = SchemaBook(BOOK), SchemaId("guid", "x")
    with pytest.raises(UnreadableSchema, match="is no Avro schema"):
        book.add(schema, SchemaText(AVRO, "{"))
    with pytest.raises(UnreadableSchema, match="is of xml: must be one of avro, protobuf"):
        book.add(schema, SchemaText("xml", "{"))
    with pytest.raises(InvalidField, match="schema guid x is not known"):
        book.find(schema)


def test_what_is_missing_takes_a_bounded_memory() -> None:
    book = SchemaBook(BOOK)
    for number in range(MOST_MISSING + 10):
        book.add_missing(SchemaId("id", number), NOW_MS + 60_000)
    first, last = record("a", framed(9)), record("a", framed(10))
    assert book.unknown([first, last], NOW_MS) == ids(9)
