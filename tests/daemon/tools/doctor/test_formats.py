"""A recording of each format: the doctor proposes what reads it to the same outcomes as native
traffic."""

import base64
import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.check_config import check_config_command
from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.events import Feedback, Impression
from relevanced.daemon.recompute.files import RecordedRecord, record_of
from relevanced.daemon.tools.doctor import diagnosed, doctor_command
from relevanced.daemon.tools.traffic import Traffic, generate_events
from tests.daemon.recompute.recorded.test_formats import line
from tests.daemon.tools.doctor.test_diagnosis import EVENTS, START_MS, native_events, said
from tests.daemon.tools.doctor.test_guessing import own
from tests.topic_formats import FORMATS, Format

PRESETS = {
    "cloudevents": 'envelope = "cloudevents"',
    "own": 'each = "parse_json(payload)"',
    "algolia": 'preset = "algolia-search-log"',
    "rudderstack": 'preset = "segment"',
}
"""Format → what its proposal says, where that is not a preset of its name."""
ELASTIC_HAS: frozenset[str | None] = frozenset({None, "click"})
"""Kinds of Elastic's own: the others are events of this shop."""


def recorded(written: Format) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(native events, lines of kcat)."""
    traffic = generate_events(Traffic(seed=7, rate=2), START_MS)
    events = [event for _, event in islice(traffic, EVENTS)]
    return events, [line(written, event) | {"partition": n % 2} for n, event in enumerate(events)]


def summary(event: Any) -> tuple[Any, ...]:
    if isinstance(event, Impression):
        return event.impression_id, event.time_ms, event.items
    assert isinstance(event, Feedback), event
    return event.impression_id, event.time_ms, event.kind, event.item, event.rank


def expected(event: dict[str, Any]) -> tuple[Any, ...]:
    common = event["impression_id"], event["timestamp"]
    if event["type"] == "impression":
        return *common, tuple(event["items"])
    return *common, event["kind"], event["item"], event.get("rank")


@pytest.mark.parametrize("name", FORMATS)
def test_a_recording_of_a_format_is_read_as_the_events_that_it_is(
    name: str, tmp_path: Path
) -> None:
    written, path, out = FORMATS[name], tmp_path / "records.jsonl", tmp_path / "relevanced.toml"
    events, lines = recorded(written)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    result = CliRunner().invoke(doctor_command, [str(path), "--out", str(out)])
    text = out.read_text()
    assert PRESETS.get(name, f'preset = "{name}"') in text, result.output
    checked = CliRunner().invoke(check_config_command, [str(out)])
    assert checked.exit_code == 0, checked.output
    decode = decoder_of(load(f'{text}\n[events]\nmax_future = "366d"', {}, "proposed"))
    records = [record_of(json.dumps(one).encode()) for one in lines]
    decoded = (event for record in records for event in decode.of_record(record))
    read = [summary(one) for one in decoded if isinstance(one, Impression | Feedback)]
    kinds = ELASTIC_HAS if name == "elastic" else {e.get("kind") for e in events}
    wanted = [expected(written.native(e)) for e in events if e.get("kind") in kinds]
    assert Counter(read) == Counter(wanted)
    # Partitions of these lines follow nothing.
    assert result.exit_code == 0 and "WRONG" not in result.output
    assert 'lanes = "one"' in text and "look   same partition" in result.output


@pytest.mark.parametrize("mode", ["binary", "structured", "base64"])
def test_cloud_events_are_found_in_each_mode(mode: str) -> None:
    found = []
    for offset, (at, event) in enumerate(native_events()):
        data = msgspec.json.encode(own(at, event))
        named = {"ce_specversion": "1.0", "ce_type": "com.acme.search"}
        headers = [(key, value.encode()) for key, value in named.items()]
        if mode != "binary":
            body = {"specversion": "1.0", "type": "com.acme.search"}
            if mode == "structured":
                body["data"] = msgspec.Raw(data)
            else:
                body["data_base64"] = base64.b64encode(data).decode()
            data = msgspec.json.encode(body)
            headers = [("Content-Type", b"application/cloudevents+json; charset=UTF-8")]
        found.append(RecordedRecord("shop", 0, offset, at, None, data, tuple(headers)))
    lines, text = diagnosed({"shop": found}, [])
    assert text is not None and 'envelope = "cloudevents"' in text
    assert said(lines)["join rate"].words.startswith("100.0 %")
    decode = decoder_of(load(text, {}, "proposed"))
    assert all(isinstance(e, Impression | Feedback) for r in found for e in decode.of_record(r))


def test_a_kind_that_stands_deeper_than_the_type_of_a_record_is_found() -> None:
    """The type of a record stands at one path, and that of a reaction at another of its own."""
    found = []
    for offset, (at, event) in enumerate(native_events()):
        value = own(at, event)
        if event["type"] == "feedback":
            value |= {"event": "interaction", "action": {"name": value["event"]}}
        found.append(RecordedRecord("shop", 0, offset, at, None, msgspec.json.encode(value), ()))
    lines, text = diagnosed({"shop": found}, [])
    assert text is not None and "where = \"event == 'interaction'\"" in text
    assert 'kind = "action.name"' in text
    assert said(lines)["join rate"].words.startswith("100.0 %")


def test_a_number_that_is_no_rank_is_not_proposed_as_one() -> None:
    found = []
    for offset, (at, event) in enumerate(native_events()):
        value = own(at, event)
        value.pop("index", None)
        found.append(RecordedRecord("shop", 0, offset, at, None, msgspec.json.encode(value), ()))
    _, text = diagnosed({"shop": found}, [])
    assert text is not None and "rank" not in text
