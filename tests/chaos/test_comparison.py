"""The comparison finds a lost or doubled number and names its key."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Final

import msgspec
import pytest

from relevanced.daemon.lane import Lane, new_lane
from tests.chaos.comparison import differences, expected_of, lost_and_doubled
from tests.oracle import LaneResult, OracleConfig, Record
from tests.replica import decoder_of, plan_of
from tests.whole_batch import process_batch

CONFIG: Final = OracleConfig(windows_s=(60,), attribution_window_s=60, lateness_s=5)
START: Final = 3
"""Offset of the first record that counts."""


def impression(offset: int) -> Record:
    at_ms = 1_795_176_000_000 + offset
    event = {"type": "impression", "impression_id": offset, "timestamp": at_ms, "items": ["d1"]}
    return Record("events", 0, offset, at_ms, msgspec.json.encode(event))


RECORDS: Final = [impression(offset) for offset in range(10)]


def lane_over(records: list[Record]) -> Lane:
    """A lane of the daemon after it processed these records."""
    lane = new_lane(0, plan_of(CONFIG), {"events": START}, ["events"])
    read = [SimpleNamespace(**vars(record), timestamp=record.timestamp_ms) for record in records]
    process_batch(lane, {"events": read}, {"events": 10}, decoder_of(CONFIG))
    return lane


@pytest.fixture
def expected() -> LaneResult:
    return expected_of(RECORDS, {0: {"events": START}}, CONFIG)[0]


def test_records_before_the_start_do_not_count(expected: LaneResult) -> None:
    lane = lane_over(RECORDS[START:])
    assert list(differences(lane, expected, {"events": START})) == []
    assert lost_and_doubled(lane, expected) == (0, 0)


def test_lost_record_is_reported(expected: LaneResult) -> None:
    lane = lane_over(RECORDS[START + 1 :])
    assert lost_and_doubled(lane, expected) == (1, 0)
    difference = str(next(differences(lane, expected, {"events": START})))
    assert difference == "lane 0, events, 'impression': Redis has 6, must be 7"


def test_doubled_record_is_reported(expected: LaneResult) -> None:
    doubled = [*RECORDS[START:], replace(RECORDS[-1], offset=10)]
    assert lost_and_doubled(lane_over(doubled), expected) == (0, 1)


def test_gap_is_at_most_the_records_before_the_start(expected: LaneResult) -> None:
    lane = lane_over(RECORDS[START:])
    lane.count("gap_records", "events", START)
    assert list(differences(lane, expected, {"events": START})) == []
    lane.count("gap_records", "events", 1)
    (only,) = differences(lane, expected, {"events": START})
    assert (only.part, only.stored, only.expected) == ("gaps", 4, 3)


def test_changed_integer_of_a_row_is_found(expected: LaneResult) -> None:
    lane = lane_over(RECORDS[START:])
    next(iter(lane.panes.values())).page(0)[0, 0] += 1
    (only,) = differences(lane, expected, {"events": START})
    assert (only.part, only.stored, only.expected) == ("rows", 8, 7)
