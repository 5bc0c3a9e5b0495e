"""The keys of codecs: their faults, their files, and what of them shapes rows."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from relevanced.daemon.config import (
    Config,
    ConfigError,
    applied_sources,
    book_of,
    decoder_of,
    describe,
    load,
    read,
    source_checks,
)
from relevanced.daemon.events import Impression
from relevanced.daemon.extras import lacking
from relevanced.daemon.storage import namespace_hash
from tests.daemon.codecs.avro_bodies import TRACK, track, written
from tests.daemon.codecs.protobuf_messages import track as message, track_file
from tests.daemon.mapping.codec_records import PROTOBUF_TABLES, TABLES

REGISTRY = '[registry]\nurl = "http://localhost:8081"\n'
SET = descriptor_pb2.FileDescriptorSet(file=[track_file()]).SerializeToString()
FILES = {"track.avsc": json.dumps(TRACK).encode(), "track.binpb": SET}
AVRO = f'[[sources]]\ntopic = "a"\ncodec = "avro"\nschema_file = "track.avsc"\n{TABLES}'
PROTOBUF = (
    '[[sources]]\ntopic = "p"\ncodec = "protobuf"\ndescriptor_set = "track.binpb"\n'
    f'message = "acme.Track"\n{PROTOBUF_TABLES}'
)


def loaded(text: str, files: Mapping[str, bytes] = FILES) -> Config:
    def read_bytes(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    return load(text, {}, "test.toml", lambda path: "", {}, read_bytes)


def faults(text: str, files: Mapping[str, bytes] = FILES) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text, files)
    return caught.value.faults


def first(config: Config, value: bytes) -> Any:
    decode: Any = decoder_of(config)
    return decode.by_topic[config.sources[0].keys.topic].events(value)[0]


def test_the_schema_of_a_file_reads_bodies_without_a_frame() -> None:
    event = first(loaded(AVRO), written(TRACK, track()))
    assert isinstance(event, Impression) and event.items == ("P1", "P2", "P3")
    event = first(loaded(PROTOBUF), message(2).SerializeToString())
    assert isinstance(event, Impression) and event.items == ("P1", "P2")


def test_a_stated_framing_is_taken_off_before_the_schema_of_a_file() -> None:
    text = AVRO.replace('"avro"', '"avro"\nframing = "confluent"')
    event = first(loaded(text), b"\0\0\0\0\x63" + written(TRACK, track()))
    assert isinstance(event, Impression)
    text = PROTOBUF.replace('"protobuf"', '"protobuf"\nframing = "confluent"')
    event = first(loaded(text), b"\0\0\0\0\x63\2\2" + message(2).SerializeToString())
    assert isinstance(event, Impression)


def test_only_topics_whose_frames_name_schemas_are_in_the_book() -> None:
    more = '[[sources]]\ntopic = "f"\ncodec = "avro"\n' + TABLES
    json_topic = '[[sources]]\ntopic = "j"\n' + TABLES
    native = '[[sources]]\ntopic = "n"\npreset = "native"\n'
    assert book_of(loaded(REGISTRY + AVRO + PROTOBUF + more + json_topic + native)).topics == ("f",)


def test_every_fault_of_a_codec_is_listed_with_its_rule() -> None:
    text = """
[[sources]]
topic = "a"
preset = "segment"
codec = "arvo"
framing = "conflunt"
[[sources]]
topic = "b"
preset = "segment"
codec = "xml"
schema_file = "x"
descriptor_set = "y"
[[sources]]
topic = "c"
preset = "segment"
codec = "avro"
framing = "none"
[[sources]]
topic = "d"
preset = "segment"
codec = "protobuf"
framing = "none"
message = "acme.Track"
[[sources]]
topic = "e"
preset = "native"
codec = "avro"
"""
    native = 'must not be given beside preset = "native", which has its own reader'
    assert sorted(one for one in faults(text) if "feedback.id" not in one) == sorted(
        [
            "sources[0].codec=arvo: did you mean avro?",
            "sources[0].framing=conflunt: did you mean confluent?",
            "sources[1].codec=xml: must be one of json, avro, protobuf",
            'sources[1].schema_file=x: has no effect: needs codec = "avro"',
            'sources[1].descriptor_set=y: has no effect: needs codec = "protobuf"',
            "sources[1].message: message and descriptor_set go together",
            'sources[2].schema_file: must be given: framing = "none" names no schema',
            'sources[3].descriptor_set: must be given: framing = "none" names no schema',
            "sources[3].message=acme.Track: message and descriptor_set go together",
            f"sources[4].codec: {native}",
        ]
    )


def test_an_extra_that_is_not_installed_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_checks, "missing_extra", lambda codec: codec)
    text = AVRO + PROTOBUF
    assert faults(text) == [
        f"sources[0].codec=avro: {lacking('avro')}",
        f"sources[1].codec=protobuf: {lacking('protobuf')}",
    ]


@pytest.mark.parametrize(
    ("text", "files", "fault"),
    [
        (AVRO, {}, "sources[0].schema_file=track.avsc: cannot be read: No such file or directory"),
        (AVRO, {"track.avsc": b"{"}, "sources[0].schema_file=track.avsc: is no Avro schema: "),
        (AVRO, {"track.avsc": b"\xff"}, "sources[0].schema_file=track.avsc: is no Avro schema: is"),
        (
            PROTOBUF,
            {"track.binpb": b"syntax"},
            "sources[0].descriptor_set=track.binpb: is no FileDescriptorSet",
        ),
        (
            PROTOBUF.replace("acme.Track", "acme.Trck"),
            FILES,
            "sources[0].descriptor_set=track.binpb: has no message acme.Trck: must be one of"
            " acme.Product, acme.Track",
        ),
    ],
)
def test_a_file_that_is_of_no_use_is_a_fault(
    text: str, files: Mapping[str, bytes], fault: str
) -> None:
    (found,) = faults(text, files)
    assert found.startswith(fault)


def test_what_a_file_says_shapes_rows_and_its_name_and_spaces_do_not() -> None:
    before = namespace_hash(loaded(AVRO))
    spaced = json.dumps(TRACK, indent=4, sort_keys=True).encode()
    moved = {"moved.avsc": b"\xef\xbb\xbf" + spaced}
    assert namespace_hash(loaded(AVRO.replace("track.avsc", "moved.avsc"), moved)) == before
    other = {"track.avsc": json.dumps(TRACK | {"name": "Other"}).encode()}
    assert namespace_hash(loaded(AVRO, other)) != before
    assert namespace_hash(loaded(REGISTRY + AVRO)) == before
    assert (
        namespace_hash(loaded(REGISTRY + AVRO.replace('schema_file = "track.avsc"\n', "")))
        != before
    )
    assert namespace_hash(loaded(PROTOBUF)) != namespace_hash(
        loaded(PROTOBUF.replace("acme.Track", "acme.Product"))
    )


def test_a_source_without_a_codec_keeps_its_namespace() -> None:
    plain = f'[[sources]]\ntopic = "a"\n{TABLES}'
    stated = plain.replace('"a"', '"a"\ncodec = "json"\nframing = "auto"')
    assert namespace_hash(loaded(plain)) == namespace_hash(loaded(stated))
    assert namespace_hash(loaded(plain)) != namespace_hash(
        loaded(plain.replace('"a"', '"a"\nframing = "confluent"'))
    )


@pytest.mark.parametrize("text", [AVRO, PROTOBUF])
def test_the_effective_configuration_reads_back_as_the_same(text: str) -> None:
    config = loaded(text)
    again = loaded(describe(config))
    assert applied_sources(again.sources) == applied_sources(config.sources)
    assert namespace_hash(again) == namespace_hash(config)


def test_files_are_read_beside_the_configuration_of_a_path(tmp_path: Any) -> None:
    schema, config = tmp_path / "track.avsc", tmp_path / "relevanced.toml"
    schema.write_bytes(FILES["track.avsc"])
    config.write_text(AVRO.replace("track.avsc", str(schema)))
    assert read(str(config), {}).sources[0].has_files
    assert not load(config.read_text(), {}, "test.toml").sources[0].has_files
