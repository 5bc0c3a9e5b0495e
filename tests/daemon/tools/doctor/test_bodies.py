"""The doctor looks at records of Avro and Protobuf as at JSON, and proposes codec and registry."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pb2

from relevanced.daemon.codecs import AvroSchema
from relevanced.daemon.config import book_of, decoder_of, load
from relevanced.daemon.events import Rejected
from relevanced.daemon.recompute.files import RecordedRecord
from relevanced.daemon.schemas import AVRO, SchemaId, SchemaText, parsed_schema_file
from relevanced.daemon.tools.diagnosis import GivenBodies, bodies
from relevanced.daemon.tools.doctor import diagnosed, doctor_command
from tests.daemon.codecs.avro_bodies import written
from tests.daemon.codecs.protobuf_messages import track, track_file

from .test_diagnosis import native_events, said

PRODUCT = {"type": "record", "name": "P", "fields": [{"name": "sku", "type": "string"}]}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "what", "type": {"type": "enum", "name": "What", "symbols": ["SHOWN", "CLICK"]}},
        {"name": "search", "type": "string"},
        {"name": "visitor", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "results", "type": ["null", {"type": "array", "items": PRODUCT}]},
        {"name": "sku", "type": ["null", "string"]},
        {"name": "place", "type": ["null", "int"]},
    ],
}
TEXT = json.dumps(SCHEMA)
HEAD = b"\0\0\0\0\x07"


def own_event(event: dict[str, Any]) -> dict[str, Any]:
    """A simulated event in a format of one's own."""
    value = {"search": event["impression_id"], "at": event["timestamp"], "visitor": None}
    value |= {"results": None, "sku": None, "place": None}
    if event["type"] == "impression":
        results = [{"sku": str(item)} for item in event["items"]]
        return {**value, "what": "SHOWN", "results": results, "visitor": event.get("user_id")}
    return {**value, "what": "CLICK", "sku": str(event["item"]), "place": event.get("rank")}


def sample(head: bytes = b"", pack: Any = lambda body: body) -> list[RecordedRecord]:
    found = []
    for offset, (arrives_ms, event) in enumerate(native_events()):
        body = written(SCHEMA, own_event(event))
        place = len(event["impression_id"]) % 2
        found.append(RecordedRecord("shop", place, offset, arrives_ms, None, head + pack(body), ()))
    return found


def given(**known: Any) -> GivenBodies:
    ways = bodies.written_of({"shop": sample(HEAD)})
    book = bodies.book_of(ways)
    book.add(SchemaId("id", 7), SchemaText(AVRO, TEXT))
    return GivenBodies(book, **known)


def test_framed_avro_is_looked_at_as_json_and_its_registry_is_proposed() -> None:
    records = sample(HEAD)
    known = given(registry="http://sr:8081")
    found, text = diagnosed({"shop": records}, ["kafka:9092"], known)
    lines = said(found)
    assert lines["encoding of shop"].words == (
        "100.0 % of the records are Avro in frames of Confluent's form, schema 7"
    )
    assert "100.0 %" in lines["join rate"].words and "100.0 %" in lines["records of shop"].words
    assert text is not None and 'codec = "avro"' in text and "framing" not in text
    assert '[registry]\nurl = "http://sr:8081"' in text
    config = load(text, {}, "proposed")
    book = book_of(config)
    assert book.unknown(records, 0) == {SchemaId("id", 7)}
    book.add(SchemaId("id", 7), SchemaText(AVRO, TEXT))
    decode = decoder_of(config, book)
    events = [event for record in records for event in decode.of_record(record)]
    assert not [one for one in events if isinstance(one, Rejected) and not one.skipped]


def test_framed_native_json_is_proposed_as_native() -> None:
    records = [
        RecordedRecord("shop", 0, at, time_ms, None, HEAD + json.dumps(event).encode(), ())
        for at, (time_ms, event) in enumerate(native_events())
    ]
    found, text = diagnosed({"shop": records}, [])
    assert "JSON in frames of Confluent's form" in said(found)["encoding of shop"].words
    assert text is not None and 'preset = "native"' in text
    decode = decoder_of(load(text, {}, "proposed"))
    events = [event for record in records for event in decode.of_record(record)]
    assert events and not any(isinstance(event, Rejected) for event in events)


def test_a_schema_that_nobody_knows_is_asked_for() -> None:
    found, text = diagnosed({"shop": sample(HEAD)}, [])
    line = said(found)["encoding of shop"]
    assert text is None and line.level == "wrong"
    assert line.words == (
        "100.0 % of the records are in frames of Confluent's form, schema 7: name their schema with"
        " --registry, or with --schema-file (Avro) or --descriptor-set and --message (Protobuf)"
    )


def test_bodies_without_a_frame_are_read_by_the_schema_of_a_file(tmp_path: Path) -> None:
    schema, recording, out = (tmp_path / name for name in ("a.avsc", "shop.jsonl", "out.toml"))
    schema.write_text(TEXT)
    lines = []
    for record in sample():
        payload = base64.b64encode(record.value or b"").decode()
        line = {"topic": "shop", "partition": record.partition, "ts": record.timestamp}
        lines.append(json.dumps({**line, "offset": record.offset, "payload_b64": payload}))
    recording.write_text("\n".join(lines) + "\n")
    options = [str(recording), "--schema-file", str(schema), "--out", str(out)]
    result = CliRunner().invoke(doctor_command, options)
    assert "100.0 % of the records are Avro without frames" in result.output, result.output
    text = out.read_text()
    assert (
        f'codec = "avro"  # 100.0 % of the records were read so\nschema_file = "{schema}"' in text
    )
    assert "[registry]" not in text


def test_stated_framings_are_written_where_auto_does_not_tell_them() -> None:
    head = bytes(8) + b"\x07"
    own = AvroSchema(SchemaText(AVRO, TEXT))
    _, text = diagnosed(
        {"shop": sample(head)}, [], GivenBodies(own=own, lines=('schema_file = "x"',))
    )
    assert text is not None and 'framing = "apicurio8"' in text and 'schema_file = "x"' in text


def test_records_of_another_message_than_the_files_are_no_trouble() -> None:
    files = descriptor_pb2.FileDescriptorSet(file=[track_file()]).SerializeToString()
    known = GivenBodies(own=parsed_schema_file(files, "acme.Track"))
    body = track(1).SerializeToString()
    values = [HEAD + indexes + body for indexes in (b"\2\2", b"\0", b"\2\4")] * 10
    records = [RecordedRecord("t", 0, at, -1, None, value, ()) for at, value in enumerate(values)]
    found, ways = bodies.as_json({"t": records}, bodies.written_of({"t": records}), known)
    assert (ways["t"].framing, ways["t"].share, ways["t"].read) == ("confluent", 1, 1)
    read = [json.loads(record.value or b"").get("id") for record in found["t"]]
    assert read == ["s-1", None, None] * 10


def test_gzip_in_records_is_named() -> None:
    found, text = diagnosed({"shop": sample(pack=gzip.compress)}, [])
    line = said(found)["encoding of shop"]
    assert (line.level, text) == ("wrong", None) and "compression.type" in line.words


@pytest.mark.parametrize(
    ("value", "framing"),
    [
        (b"{}", "none"),
        ('{"a": "ü\\n"}\n'.encode(), "none"),
        (b"\0\0\0\0\1{}", "confluent"),
        (b"\0" * 8 + b"\1\2", "apicurio8"),
        (b"\3\0" + bytes(16), "glue"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x12\x01\xff\xff", "binary"),
        (b"\x04ab\x02\x01", "binary"),
    ],
)
def test_the_first_bytes_say_how_a_record_is_written(value: bytes, framing: str) -> None:
    record = RecordedRecord("t", 0, 0, -1, None, value, ())
    way = bodies.written_of({"t": [record]})["t"]
    assert way.framing == framing
    assert way.codec == ("json" if b"{" in value else None)


def test_a_record_that_cannot_be_read_is_counted() -> None:
    records = sample(HEAD)
    broken = [RecordedRecord("shop", 0, 9, -1, None, HEAD + b"\xff", ())] * 200
    found, _ = diagnosed({"shop": [*records, *broken]}, [], given())
    line = said(found)["encoding of shop"]
    assert line.level == "wrong" and "83.3 % could be read, the first of the others: record: " in (
        line.words
    )


def test_no_login_of_a_registry_shows(tmp_path: Path) -> None:
    recording = tmp_path / "shop.jsonl"
    recording.write_text('{"topic": "shop", "payload": "{}"}\n')
    url = "http://me:geheim@localhost:8081"
    result = CliRunner().invoke(doctor_command, [str(recording), "--registry", url])
    assert result.exit_code == 1 and "geheim" not in result.output, result.output
