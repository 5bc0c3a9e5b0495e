"""A batch: records become events in order, refused records dead letters, and offsets advance."""

from collections.abc import Sequence
from itertools import islice

import pytest

from relevanced.daemon.attribution import join_rules, runs
from relevanced.daemon.events import (
    Decoded,
    Decoder,
    Feedback,
    Impression,
    Limits,
    LogRecord,
    Rejected,
    decoder,
)
from relevanced.daemon.worker import DeadLetter, batch
from relevanced.metrics import parse
from tests.builders import START_MS, TOPIC, lane_of, plan_with, record, row
from tests.replica import rows_of
from tests.whole_batch import process_batch

DECODE = decoder("native", Limits())


def decode(records: Sequence[LogRecord], read: Decoder) -> tuple[list[Decoded], list[DeadLetter]]:
    """The events of records in order, and the dead letters of a batch of them."""
    events = [event for record in records for event in read(record.value, record.timestamp)]
    return events, process_batch(lane_of(), {TOPIC: records}, {}, read)


IMPRESSION = {"type": "impression", "impression_id": "q", "timestamp": START_MS, "items": ["a"]}
CLICK = {"type": "feedback", "impression_id": "q", "timestamp": START_MS + 1} | {
    "kind": "click",
    "item": "a",
}


def test_events_stand_in_the_order_of_records_and_elements() -> None:
    events, letters = decode([record(IMPRESSION), record([CLICK, 7, IMPRESSION])], DECODE)
    assert [type(event) for event in events] == [Impression, Feedback, Rejected, Impression]
    assert [letter.reason for letter in letters] == ["wrong_type"]


@pytest.mark.parametrize("value", [None, [], [IMPRESSION]], ids=["tombstone", "empty", "good"])
def test_a_record_without_a_fault_is_no_dead_letter(value: object) -> None:
    assert decode([record(value)], DECODE)[1] == []


def test_a_dead_letter_says_which_record_and_why() -> None:
    bad = record(b"{", offset=8)
    [rejected], [letter] = decode([bad], DECODE)
    assert isinstance(rejected, Rejected)
    assert letter.record is bad
    assert (letter.reason, letter.detail) == ("not_json", rejected.detail)


def test_a_record_is_one_dead_letter_however_many_of_its_elements_are_bad() -> None:
    """Each letter carries the whole record: a megabyte of rubbish must not become a terabyte."""
    rubbish = record([7] * 1000 + [{"type": "session"}])
    events, letters = decode([rubbish, record(b"{")], DECODE)
    assert [event.reason for event in events if isinstance(event, Rejected)][-2:] == [
        "unknown_type",
        "not_json",
    ]
    assert [letter.reason for letter in letters] == ["wrong_type", "not_json"]
    assert letters[0].detail.endswith("(and 1000 more)")


def test_an_event_time_in_the_future_is_judged_by_the_records_own_time() -> None:
    early = record(IMPRESSION | {"timestamp": START_MS + 300_001}, timestamp=START_MS)
    [rejected], [letter] = decode([early], DECODE)
    assert letter.reason == "future"
    assert isinstance(decode([record(IMPRESSION, timestamp=-1)], DECODE)[0][0], Impression)


def test_a_batch_moves_rows_counts_and_offsets() -> None:
    lane = lane_of()
    process_batch(lane, {"events": [record(IMPRESSION), record(CLICK)]}, {"events": 2}, DECODE)
    assert lane.offsets == {"events": 2}
    assert row(lane, 0)["RR:sum"] == 1_000_000
    assert dict(lane.counts["events"]) == {"impression": 1, "feedback": 1}


def test_the_topics_of_a_batch_may_come_in_any_order() -> None:
    rows = []
    for topics in (("searches", "clicks"), ("clicks", "searches")):
        lane = lane_of("searches", "clicks")
        values = {"searches": [record(IMPRESSION)], "clicks": [record(CLICK)]}
        process_batch(lane, {topic: values[topic] for topic in topics}, {}, DECODE)
        rows.append(row(lane, 0))
    assert rows[0] == rows[1]
    assert rows[0]["RR:sum"] == 1_000_000


def test_offsets_move_past_records_without_events() -> None:
    lane = lane_of()
    letters = process_batch(lane, {"events": [record(None), record(b"{")]}, {"events": 5}, DECODE)
    assert (len(letters), lane.offsets, lane.watermark_ms) == (1, {"events": 5}, None)
    assert dict(lane.counts["rejected"]) == {"tombstone": 1, "not_json": 1}


def test_a_full_table_of_states_is_built_anew_without_changing_a_number() -> None:
    """One impression goes through twenty states; few of them are still in use at the end."""
    lane = lane_of(plan=plan_with(metrics=(parse("CG"),)))
    judged = {**IMPRESSION, "type": "feedback", "item": "a"}
    for number in range(20):
        lane.states._capacity = 5
        grade = {**judged, "timestamp": START_MS + number, "grade": number / 20}
        process_batch(lane, {"events": [record(grade)]}, {"events": number}, DECODE)
        if number == 0:
            process_batch(lane, {"events": [record(IMPRESSION)]}, {"events": 1}, DECODE)
        lane.start_batch()
    assert len(lane.states) <= 7
    assert row(lane, 0)["CG:sum"] == 950


@pytest.mark.parametrize("sizes", [[5] * 10, [300], [1, 300, 1], [90, 20, 90, 20], [0] * 9 + [250]])
def test_a_chunk_ends_by_bytes_too(sizes: list[int]) -> None:
    records = [record(b"x" * size if size else None) for size in sizes]
    cut = [chunk for _, chunk in batch.chunks({"events": records}, most=100, most_bytes=100)]
    assert [one for chunk in cut for one in chunk] == records and all(cut)
    assert all(batch.bytes_of(chunk[:-1]) <= 100 for chunk in cut)
    assert len(cut) <= -(-sum(sizes) // 100)


@pytest.mark.parametrize("taken", [1, 3, 7])
def test_a_long_record_is_applied_in_steps_wherever_turns_are_taken(taken: int) -> None:
    """Also where its first events close what its last ones refer to."""
    clicks = [CLICK | {"timestamp": START_MS + n * 100_000} for n in range(1_200)]
    values: list[object] = [IMPRESSION, [*clicks, {}, IMPRESSION, 7], CLICK]
    assert len(values[1]) * 60 > runs.LONG_RECORD_BYTES  # type: ignore[arg-type]
    whole, stepped, letters = lane_of(), lane_of(), list[DeadLetter]()
    records = [record(value) for value in values]
    for value in records:
        join_rules.apply(whole, TOPIC, DECODE(value.value, value.timestamp))
    steps = batch.steps(stepped, TOPIC, records, DECODE, letters)
    while sum(1 for _ in islice(steps, taken)):
        pass
    assert [(letter.reason, letter.detail.endswith("(and 1 more)")) for letter in letters] == [
        ("missing_field", True)
    ]
    for lane in (whole, stepped):
        batch.end(lane, {TOPIC: 3})
    assert stepped.counts == whole.counts and stepped.watermarks == whole.watermarks
    assert rows_of(stepped) == rows_of(whole)


@pytest.mark.parametrize("count", [0, 1, 6, 7, 13, 14])
def test_a_batch_is_cut_into_chunks_in_order_of_about_the_same_length(count: int) -> None:
    records = [record(b"{}") for _ in range(count)]
    cut = list(batch.chunks({"events": records, "more": records[:1]}, most=6))
    of_events = [chunk for topic, chunk in cut if topic == "events"]
    assert [record for chunk in of_events for record in chunk] == records
    sizes = [len(chunk) for chunk in of_events]
    assert len(sizes) == -(-count // 6) and max(sizes, default=0) - min(sizes, default=0) <= 1
    assert [topic for topic, _ in cut][len(of_events) :] == ["more"] * min(count, 1)
