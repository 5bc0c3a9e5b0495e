"""CloudEvents, binary and structured, give the same events."""

import base64
from typing import Any

import pytest

from relevanced.daemon.events import Impression, Rejected, Skipped

from .sources import AT, AT_MS, events_of, json, mapper_of

TEXT = """
envelope = "cloudevents"
[sources.impression]
where = "ce('type') == 'com.acme.search'"
id = "id"
time = "ce('time')"
items = "items"
"""
DATA = {"id": "q1", "items": ["a"]}
BINARY = (("ce_specversion", b"1.0"), ("CE_Type", b"com.acme.search"), ("ce_time", AT.encode()))
ENVELOPE = {"specversion": "1.0", "type": "com.acme.search", "time": AT}
STRUCTURED = (("Content-Type", b"Application/CloudEvents+JSON; charset=UTF-8"),)
EVENT = Impression("q1", AT_MS, ("a",))


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (DATA, (*BINARY, ("content-type", b"application/json"))),
        ({**ENVELOPE, "data": DATA}, STRUCTURED),
        ({**ENVELOPE, "data_base64": base64.b64encode(json(DATA)).decode()}, STRUCTURED),
        ({**ENVELOPE, "data": DATA}, ()),
    ],
)
def test_both_modes_give_the_same_event(value: Any, headers: Any) -> None:
    assert events_of(TEXT, value, headers=headers) == [EVENT]


def test_another_type_is_not_mapped() -> None:
    other = {**ENVELOPE, "type": "com.acme.page", "data": {}}
    assert events_of(TEXT, other) == [Skipped("not_mapped")]


def test_a_binary_event_without_data_is_a_tombstone() -> None:
    assert mapper_of(TEXT).events(None, headers=BINARY) == [Skipped("tombstone")]
    assert mapper_of(TEXT).events(b"", headers=BINARY) == [Skipped("not_mapped")]


@pytest.mark.parametrize("value", [DATA, 3, [], {**ENVELOPE, "data_base64": "%%"}])
def test_what_is_no_cloudevent_is_refused(value: Any) -> None:
    (event,) = events_of(TEXT, value)
    assert isinstance(event, Rejected) and event.reason == "wrong_type"
