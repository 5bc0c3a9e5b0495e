"""What the doctor says of records, and the configuration that it proposes."""

import json
import random
from collections.abc import Callable
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.events import Rejected
from relevanced.daemon.recompute.files import RecordedRecord
from relevanced.daemon.tools.diagnosis import DoctorFinding, as_text
from relevanced.daemon.tools.doctor import diagnosed, doctor_command
from relevanced.daemon.tools.traffic import SHAPES, Traffic, generate_events
from relevanced.daemon.worker import meeting_advice

START_MS = 1_795_176_000_000
EVENTS = 1_000
IDS = {
    "segment": "properties.search_id",
    "snowplow": "contexts_com_acme_search_1[0].search_id",
    "ga4": "event_params[?key=='search_id'].value.string_value | [0]",
}
"""Preset without ids → the path of the id in the records of `simulate`."""
Shape = Callable[[Any], Any]
WHOLE = [name for name, shape in SHAPES.items() if not shape.is_part and name != "elastic"]
"""Presets that read every event of the traffic."""


def native_events() -> list[tuple[int, dict[str, Any]]]:
    """(when it arrives, event)."""
    return list(islice(generate_events(Traffic(seed=7, rate=2), START_MS), EVENTS))


def records(
    shape: Shape = lambda event: event, partition: Callable[[dict[str, Any]], int] | None = None
) -> list[RecordedRecord]:
    """Records in the order of their events, by default of two partitions by impression id."""
    place = partition or (lambda event: len(event["impression_id"]) % 2)
    found = []
    for offset, (arrives_ms, event) in enumerate(native_events()):
        value = msgspec.json.encode(shape(event))
        found.append(RecordedRecord("shop", place(event), offset, arrives_ms, None, value, ()))
    return found


def said(found: list[DoctorFinding]) -> dict[str, DoctorFinding]:
    return {finding.name: finding for finding in found}


@pytest.mark.parametrize("preset", [*WHOLE, "native"])
def test_the_preset_of_the_records_is_proposed_and_reads_them_all(preset: str) -> None:
    shape = SHAPES[preset].record if preset in SHAPES else (lambda event: event)
    sample = records(shape)
    found, text = diagnosed({"shop": sample}, ["kafka:9092"])
    assert text is not None and not [one for one in found if one.level == "wrong"], found
    config = load(text, {}, "proposed")
    assert (*config.kafka.topics, *config.kafka.bootstrap_servers) == ("shop", "kafka:9092")
    like = "segment" if preset == "rudderstack" else preset
    assert f'preset = "{like}"' in text
    if preset in IDS:
        assert text.count(f'id = "{IDS[preset]}"') == 2
    decode = decoder_of(config)
    events = [event for record in sample for event in decode.of_record(record)]
    assert len(events) == EVENTS and not [e for e in events if isinstance(e, Rejected)]
    assert "100.0 %" in said(found)["join rate"].words
    assert "100.0 %" in said(found)["same partition"].words


def test_every_line_of_the_proposal_has_a_comment() -> None:
    _, text = diagnosed({"shop": records(SHAPES["segment"].record)}, ["kafka:9092"])
    assert text is not None
    keys = [line for line in text.splitlines() if " = " in line and "bootstrap" not in line]
    assert keys and all("  # " in line for line in keys)


def test_feedback_in_another_partition_than_its_list_makes_one_lane_the_proposal() -> None:
    sample = records(partition=lambda event: int(event["type"] == "feedback"))
    found, text = diagnosed({"shop": sample}, [])
    assert text is not None and load(text, {}, "proposed").kafka.lanes == "one"
    finding = said(found)["same partition"]
    assert finding.level == "look" and finding.words.startswith("0.0 % of the feedback")
    assert said(found)["join rate"].level == "good"


def test_more_than_one_process_can_do_makes_a_stage_the_proposal() -> None:
    """By the processor time that its events take, where a stage can divide them."""

    def at_once(event: dict[str, Any]) -> Any:
        return event | {"timestamp": START_MS + (event["timestamp"] - START_MS) // 100_000}

    sample = records(at_once, partition=lambda event: int(event["type"] == "feedback"))
    found, text = diagnosed({"shop": sample}, [])
    assert text is not None and load(text, {}, "proposed").kafka.lanes == "rekey", text
    finding = said(found)["same partition"]
    assert finding.level == "look" and 'the proposal has lanes = "rekey"' in finding.words
    assert meeting_advice(0.69) == 'add lanes = "one" to [kafka]'
    assert meeting_advice(1.4).startswith('add lanes = "rekey" to [kafka]: this traffic takes 140%')


def test_ranks_from_0_are_found() -> None:
    def from_zero(event: dict[str, Any]) -> Any:
        shaped = SHAPES["segment"].record(event)
        for product in shaped["properties"].get("products", [shaped["properties"]]):
            if "position" in product:
                product["position"] -= 1
        return shaped

    found, text = diagnosed({"shop": records(from_zero)}, [])
    assert text is not None and text.count("rank_base = 0") == 2, text
    assert said(found)["ranks"].level == "good"


def test_native_ranks_that_disagree_with_the_lists_are_wrong() -> None:
    def shifted(event: dict[str, Any]) -> Any:
        return event | {"rank": event["rank"] + 1} if "rank" in event else event

    found, _ = diagnosed({"shop": records(shifted)}, [])
    finding = said(found)["ranks"]
    assert finding.level == "wrong" and "counts ranks from 2" in finding.words


def test_without_a_common_id_nothing_is_proposed_and_the_way_is_named() -> None:
    def without(event: dict[str, Any]) -> Any:
        shaped = SHAPES["segment"].record(event)
        if event["type"] == "feedback":
            shaped["properties"].pop("search_id")
            shaped["messageId"] = f"m-{event['timestamp']}-{event['item']}"
        return shaped

    found, text = diagnosed({"shop": records(without)}, [])
    finding = said(found)["join rate"]
    assert text is None and finding.level == "wrong"
    assert "have no value in common" in finding.words and "[sources.feedback]" in finding.words


def test_one_id_for_many_searches_is_wrong() -> None:
    found, _ = diagnosed({"shop": records(lambda event: event | {"impression_id": "home"})}, [])
    assert said(found)["ids"].level == "wrong" and "not a search" in said(found)["ids"].words


def test_records_of_no_preset_are_wrong_and_refusals_have_an_example() -> None:
    found, text = diagnosed({"shop": records(lambda event: {"a": 1}), "empty": []}, [])
    assert text is None and {one.level for one in found} == {"wrong"}
    assert "no preset maps" in said(found)["records of shop"].words
    assert "none arrived" in said(found)["records of empty"].words
    broken = records()
    for place in range(0, EVENTS, 10):
        value = b'{"type":"impression","impression_id":"q","timestamp":"planted","items":[]}'
        broken[place] = msgspec.structs.replace(broken[place], value=value)
    for values, words in ((False, "--show-values"), (True, "the first: timestamp")):
        finding = said(diagnosed({"shop": broken}, [], values=values)[0])["records of shop"]
        assert (
            finding.level == "wrong" and f"{EVENTS // 10} bad_timestamp ({words}" in finding.words
        )
        assert ("planted" in finding.words) == values


def test_clocks_that_are_ahead_are_wrong() -> None:
    ahead = [msgspec.structs.replace(r, timestamp=r.timestamp - 3_600_000) for r in records()]
    assert said(diagnosed({"shop": ahead}, [])[0])["time"].level == "wrong"


def lines_of(sample: list[RecordedRecord]) -> str:
    rows = (
        {"topic": r.topic, "partition": r.partition, "offset": r.offset, "ts": r.timestamp}
        | {"payload": (r.value or b"").decode()}
        for r in sample
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_id_of_a_user_and_no_item_is_printed(output: str, tmp_path: Path) -> None:
    def planted(event: dict[str, Any]) -> Any:
        user = {"user_id": "user-1"} if event["type"] == "impression" else {}
        return event | user | {"impression_id": f"secret-{event['impression_id']}"}

    path = tmp_path / "records.jsonl"
    path.write_text(lines_of(records(planted)))
    result = CliRunner().invoke(doctor_command, [str(path), "--output", output])
    assert result.exit_code == 0, result.output
    items = {item for _, event in native_events() for item in event.get("items", ())}
    assert items and "user-" not in result.output and "secret-" not in result.output
    assert not [item for item in items if item in result.output]


def test_the_proposal_is_written_and_the_exit_code_says_whether_numbers_are_right(
    tmp_path: Path,
) -> None:
    path, out = tmp_path / "records.jsonl", tmp_path / "relevanced.toml"
    path.write_text(lines_of(records(SHAPES["ga4"].record)))
    result = CliRunner().invoke(doctor_command, [str(path), "--out", str(out)])
    assert result.exit_code == 0 and out.read_text() in result.output
    out.write_text("edited = true")
    result = CliRunner().invoke(doctor_command, [str(path), "--out", str(out)])
    assert result.exit_code == 2 and "exists and may be edited" in result.output
    assert out.read_text() == "edited = true"
    path.write_text(lines_of(records(lambda event: {"a": 1})))
    result = CliRunner().invoke(doctor_command, [str(path), "--output", "json"])
    assert result.exit_code == 1 and json.loads(result.output)["configuration"] is None
    for arguments in ([], [str(path), "--topics", "a"]):
        assert CliRunner().invoke(doctor_command, arguments).exit_code == 2
    path.write_text("")
    result = CliRunner().invoke(doctor_command, [str(path)])
    assert result.exit_code == 1 and "kcat -C" in result.output


def test_names_of_segments_are_shown_only_where_asked_for() -> None:
    """An attribute may turn out to be an id of persons."""
    sample = {"shop": records(SHAPES["segment"].record)}
    named = [
        any(" US: " in line for line in as_text(diagnosed(sample, [], values=values)[0]))
        for values in (False, True)
    ]
    assert named == [False, True]


@pytest.mark.parametrize("in_batches", [False, True])
def test_refusals_are_counted_in_the_whole_sample_and_in_batches(in_batches: bool) -> None:
    """Also after the first records, by which a preset is chosen, and beside elements that map."""
    events = [event for _, event in native_events()] * 3
    late = range(len(events) * 3 // 4, len(events))
    for at in late:
        events[at] = events[at] | {"timestamp": "2026-11-20 12:00"}
    each = [events[at::100] for at in range(100)] if in_batches else events
    sample = [
        RecordedRecord("shop", 0, offset, START_MS, None, msgspec.json.encode(value), ())
        for offset, value in enumerate(each)
    ]
    hidden, shown = (said(diagnosed({"shop": sample}, [], values=values)[0]) for values in (0, 1))
    assert hidden["records of shop"].level == "good"
    assert ("of the first 2,000" in hidden["records of shop"].words) != in_batches
    finding = hidden["refused in shop"]
    assert finding.level == "wrong" and finding.words.startswith("25.0 % of 3,000 events")
    assert f"{len(late)} bad_timestamp (--show-values: an example)" in finding.words
    assert "2026-11-20 12:00" in shown["refused in shop"].words


def test_tombstones_are_neither_events_nor_refused() -> None:
    """As many as a compacted topic has."""
    some = records()
    none = [RecordedRecord("shop", 0, EVENTS + n, START_MS, b"k", None, ()) for n in range(EVENTS)]
    sample = [one for pair in zip(some, none, strict=True) for one in pair]
    found, text = diagnosed({"shop": sample}, [])
    line = said(found)["records of shop"]
    assert line.words == "100.0 % of 1,000 map with preset native; others: 1,000 tombstone"
    assert line.level == "good" and "refused in shop" not in said(found)
    assert text is not None and "  # 1,000 records were tried" in text


@pytest.mark.parametrize("refused", [0, 60])
def test_valid_records_that_are_skipped_are_not_refused(refused: int) -> None:
    """A page that was looked at is about no item of a list; there are more such than searches."""
    looked = {"action_name": "page_view", "timestamp": "2026-11-20T12:00:00Z", "query_id": "q"}
    values = [looked] * 300 + [looked | {"timestamp": "yesterday"}] * refused
    pages = [
        RecordedRecord("shop", 0, EVENTS + n, START_MS, None, msgspec.json.encode(value), ())
        for n, value in enumerate(values)
    ]
    some = records(SHAPES["ubi"].record)[:200]
    random.Random(1).shuffle(pages)
    sample = [one for pair in zip_longest(some, pages) for one in pair if one is not None]
    found = said(diagnosed({"shop": sample}, [])[0])
    assert "no_item" in found["records of shop"].words
    assert found["records of shop"].level == ("wrong" if refused else "good")
    assert ("refused in shop" in found) == bool(refused)


def test_some_refusals_are_said_and_are_not_wrong_yet() -> None:
    def one_in_fifty(event: dict[str, Any]) -> Any:
        rare = event["type"] == "feedback" and event["timestamp"] % 50 == 0
        return event | {"timestamp": "yesterday"} if rare else event

    found = said(diagnosed({"shop": records(one_in_fifty)}, [])[0])
    assert found["refused in shop"].level == "look"
    assert "refused in shop" not in said(diagnosed({"shop": records()}, [])[0])


@pytest.mark.parametrize("change", [{"impression_id": "anna@example.com"}, {"kind": "call 4917"}])
def test_ids_and_kinds_that_do_not_join_are_shown_on_request_only(change: dict[str, str]) -> None:
    def changed(event: dict[str, Any]) -> Any:
        return event | change if event["type"] == "feedback" else event

    hidden, shown = (diagnosed({"shop": records(changed)}, [], values=v)[0] for v in (0, 1))
    (value,) = change.values()
    assert value in said(shown)["join rate"].words
    assert not [one for one in hidden if value in one.words], hidden
    finding = said(hidden)["join rate"]
    assert finding.level == said(shown)["join rate"].level
    assert finding.words.endswith("(--show-values: examples)")
