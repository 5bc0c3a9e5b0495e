"""Lines as `kcat -J` prints them are records with topic, key, headers and time."""

import base64
import json
from typing import Any

import pytest

from relevanced.daemon.config import load
from relevanced.daemon.events import Feedback, Impression, InvalidField, Rejected, Skipped
from relevanced.daemon.recompute.files import RecordedRecord, UnknownTopic, line_decoder, record_of

LINE: dict[str, Any] = {
    "topic": "events",
    "partition": 3,
    "offset": 7,
    "tstype": "create",
    "ts": 1795176000000,
    "broker": 1,
    "headers": ["X-Search", "s1", "empty", None],
    "key": "k",
    "payload": '{"items": ["a"]}',
}
SOURCES = """
[[sources]]
topic = "events"
[sources.impression]
id = "header('x-search')"
time = "kafka_time()"
items = "items"
[[sources]]
topic = "clicks"
preset = "native"
"""
CLICK = (
    '{"type":"feedback","impression_id":"s1","timestamp":1795176001000,"kind":"click","item":"a"}'
)


def test_a_line_is_a_record() -> None:
    assert record_of(json.dumps(LINE).encode()) == RecordedRecord(
        "events",
        3,
        7,
        1795176000000,
        b"k",
        b'{"items": ["a"]}',
        (("X-Search", b"s1"), ("empty", b"")),
    )


def test_binary_keys_and_payloads_are_base64() -> None:
    encoded = base64.b64encode(b"\x00\xff").decode()
    record = record_of(
        json.dumps({"topic": "t", "payload_b64": encoded, "key_b64": encoded}).encode()
    )
    assert (record.value, record.key, record.timestamp) == (b"\x00\xff", b"\x00\xff", -1)


@pytest.mark.parametrize("line", [b"{}", b"[]", b"x", b'{"topic":"t","payload_b64":"%"}'])
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidField):
        record_of(line)
    with line_decoder(load("", {}, "t"), kcat=True, topic=None) as decode:
        (rejected,) = decode(line)
    assert isinstance(rejected, Rejected)


def test_each_topic_is_read_by_its_source() -> None:
    clicked = {"topic": "clicks", "payload": CLICK}
    with line_decoder(load(SOURCES, {}, "t"), kcat=True, topic=None) as decode:
        (shown,) = decode(json.dumps(LINE).encode())
        (reaction,) = decode(json.dumps(clicked).encode())
        (other,) = decode(json.dumps({**LINE, "topic": "pages"}).encode())
    assert isinstance(shown, Impression) and shown.impression_id == "s1"
    assert isinstance(reaction, Feedback)
    assert isinstance(other, Skipped)
    assert other.detail == "topic pages: must be one of sources.topic (events, clicks)"


def test_values_of_several_topics_need_the_name_of_theirs() -> None:
    config = load(SOURCES, {}, "t")
    with pytest.raises(UnknownTopic, match=r"Name it with --topic \(events, clicks\)"):
        line_decoder(config, kcat=False, topic=None).__enter__()
    with pytest.raises(UnknownTopic, match="--topic pages: must be one of sources.topic"):
        line_decoder(config, kcat=False, topic="pages").__enter__()
    with line_decoder(config, kcat=False, topic="clicks") as decode:
        (clicked,) = decode(CLICK.encode())
    assert isinstance(clicked, Feedback)
