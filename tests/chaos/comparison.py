"""Compares the state of a lane in Redis with the oracle over its records, number by number."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from relevanced.daemon.lane import Lane
from tests import oracle
from tests.oracle import LaneResult, OracleConfig, Record
from tests.replica import (
    arms_of,
    counts_of,
    days_of,
    expected_arms,
    expected_days,
    expected_query_totals,
    hours_of,
    kept_rows,
    open_of,
    query_totals,
    row_dicts,
    rows_of,
)

Numbers: TypeAlias = Mapping[Any, Any]
"""Key → number, or another value."""


@dataclass(frozen=True)
class Difference:
    """One value that differs from the oracle."""

    lane: int
    part: str
    key: str
    stored: object
    expected: object

    def __str__(self) -> str:
        where = f"lane {self.lane}, {self.part}, {self.key}"
        return f"{where}: Redis has {self.stored!r}, must be {self.expected!r}"


def expected_of(
    records: Sequence[Record],
    starts: Mapping[int, Mapping[str, int]],
    config: OracleConfig,
    lifts: Mapping[int, Mapping[str, int]] = MappingProxyType({}),
) -> dict[int, LaneResult]:
    """The results of the oracle over the records of each lane, by its logs, from its starting
    offsets on. `lifts`: of `oracle.run_lane`, by lane."""
    topics = list(next(iter(starts.values())))
    counted = [
        record
        for record in records
        if record.partition in starts and record.offset >= starts[record.partition][record.topic]
    ]
    return oracle.run(counted, topics, config, lifts)


def expected_shares(
    records: Sequence[Record],
    start: Mapping[str, int],
    config: OracleConfig,
    lifts: Mapping[int, Mapping[str, int]],
    lanes: int,
) -> dict[int, LaneResult]:
    """The same of lanes among which a stage divides the records of one lane."""
    logs: dict[str, list[Record]] = {log: [] for log in start}
    for record in records:
        if record.offset >= start[record.topic]:
            logs[record.topic].append(record)
    return {
        lane: oracle.run_lane(logs, config, lifts.get(lane, {}), oracle.Share(lane, lanes))
        for lane in range(lanes)
    }


def differences(lane: Lane, expected: LaneResult, start: Mapping[str, int]) -> Iterator[Difference]:
    """Every value that differs, the most basic ones first. `start`: starting offsets of the lane.

    If Redis lost a lane that then starts again at the end of the log, a worker that knows how far
    the lane was counts the records in between as a gap: at most all records before the start.
    """
    gaps = {topic: min(count, start[topic]) for topic, count in gaps_of(lane).items()}
    yield from of_part(lane.number, "gaps", gaps_of(lane), {t: n for t, n in gaps.items() if n})
    for part, stored, oracle_values in _parts(lane, expected):
        yield from of_part(lane.number, part, stored, oracle_values)


def gaps_of(lane: Lane) -> Mapping[str, int]:
    """Records that were never read, by topic."""
    return counts_of(lane)["gap_records"]


def of_part(lane: int, part: str, stored: Numbers, expected: Numbers) -> Iterator[Difference]:
    """The values of a part that differ."""
    for key in sorted(stored.keys() | expected.keys(), key=repr):
        if stored.get(key) != expected.get(key):
            yield Difference(lane, part, repr(key), stored.get(key), expected.get(key))


def lost_and_doubled(lane: Lane, expected: LaneResult) -> tuple[int, int]:
    """(number of lost events, number of events counted twice)."""
    counted = sum(lane.counts["events"].values()) + sum(lane.counts["rejected"].values())
    produced = sum(expected.events.values()) + sum(expected.rejected.values())
    return max(produced - counted, 0), max(counted - produced, 0)


def _parts(lane: Lane, expected: LaneResult) -> Iterator[tuple[str, Numbers, Numbers]]:
    """(name, stored values, expected values)"""
    counts, names = counts_of(lane), lane.segments.names
    events = {kind.removesuffix("s"): count for kind, count in expected.events.items() if count}
    yield "events", counts["events"], events
    yield "rejected", counts["rejected"], expected.rejected
    yield "watermarks", lane.watermarks, expected.watermarks
    yield "behind lifts", counts["behind_lift"], {}
    yield "ahead", counts["ahead_events"], {t: n for t, n in expected.ahead.items() if n}
    yield "impressions", counts["impression_outcomes"], expected.impression_outcomes
    yield "feedback", counts["feedback_outcomes"], expected.feedback_outcomes
    yield "overflow", counts["segment_overflow"], expected.segment_overflow
    yield "rows", _cells(rows_of(lane)), _cells(kept_rows(lane, expected))
    yield "totals", _cells(row_dicts(lane.totals.pages, names, lane.plan)), _cells(expected.totals)
    kept = {key: row for key, row in expected.hours.items() if key[0] * 1000 not in lane.lost_hours}
    yield "hours", _cells(hours_of(lane)), _cells(kept)
    yield "queries", query_totals(lane), expected_query_totals(lane, expected)
    yield "open", open_of(lane), expected.open
    yield "arms", arms_of(lane), expected_arms(expected)
    yield "days", days_of(lane), expected_days(expected)
    waiting = (
        (w.impression_id, w.time_ms, w.item, w.rank, w.kind, w.grade)
        for w in lane.waiting.by_serial.values()
    )
    yield "waiting", Counter(waiting), Counter(expected.waiting)


def _cells(rows: Mapping[Any, Mapping[str, int]]) -> Numbers:
    return {(*key, column): v for key, row in rows.items() for column, v in row.items()}
