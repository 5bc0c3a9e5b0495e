"""What Redis holds of a lane against the oracle over the topics' records, number by number."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relevanced.daemon.lane.lane import Lane
from tests import oracle
from tests.oracle import LaneResult, OracleConfig, Record
from tests.replica import (
    arms_of,
    counts_of,
    expected_arms,
    hours_of,
    kept_rows,
    open_of,
    row_dicts,
    rows_of,
)

Numbers: TypeAlias = Mapping[Any, Any]
"""Place → number, or what stands there."""


@dataclass(frozen=True)
class Difference:
    """The first number that is not what it must be."""

    lane: int
    part: str
    place: str
    held: object
    wanted: object

    def __str__(self) -> str:
        where = f"lane {self.lane}, {self.part}, {self.place}"
        return f"{where}: Redis holds {self.held!r}, must be {self.wanted!r}"


def expected_of(
    records: Sequence[Record], starts: Mapping[int, Mapping[str, int]], config: OracleConfig
) -> dict[int, LaneResult]:
    """The oracle over each lane's records from its starting offsets on."""
    topics = list(next(iter(starts.values())))
    counted = [
        record
        for record in records
        if record.partition in starts and record.offset >= starts[record.partition][record.topic]
    ]
    return oracle.run(counted, topics, config)


def differences(lane: Lane, expected: LaneResult, start: Mapping[str, int]) -> Iterator[Difference]:
    """Every number that differs, the plainest first. `start`: where the lane's life began.

    A lane that the store lost, and that begins anew at the end of the log, counts as a gap what a
    worker still knew to be due: at most all that stands before its start.
    """
    due = {topic: min(count, start[topic]) for topic, count in gaps_of(lane).items()}
    yield from _differences(lane.number, "gaps", gaps_of(lane), {t: n for t, n in due.items() if n})
    for part, held, wanted in _parts(lane, expected):
        yield from _differences(lane.number, part, held, wanted)


def gaps_of(lane: Lane) -> Mapping[str, int]:
    """Records that were never read, by topic."""
    return counts_of(lane)["gap_records"]


def _differences(lane: int, part: str, held: Numbers, wanted: Numbers) -> Iterator[Difference]:
    for place in sorted(held.keys() | wanted.keys(), key=repr):
        if held.get(place) != wanted.get(place):
            yield Difference(lane, part, repr(place), held.get(place), wanted.get(place))


def lost_and_doubled(lane: Lane, expected: LaneResult) -> tuple[int, int]:
    """How many events too few, and how many too many."""
    held = sum(lane.counts["events"].values()) + sum(lane.counts["rejected"].values())
    wanted = sum(expected.events.values()) + sum(expected.rejected.values())
    return max(wanted - held, 0), max(held - wanted, 0)


def _parts(lane: Lane, expected: LaneResult) -> Iterator[tuple[str, Numbers, Numbers]]:
    """(name, what is held, what is wanted)"""
    counts, names = counts_of(lane), lane.segments.names
    events = {kind.removesuffix("s"): count for kind, count in expected.events.items() if count}
    yield "events", counts["events"], events
    yield "rejected", counts["rejected"], expected.rejected
    yield "watermarks", lane.watermarks, expected.watermarks
    yield "impressions", counts["impression_outcomes"], expected.impression_outcomes
    yield "feedback", counts["feedback_outcomes"], expected.feedback_outcomes
    yield "overflow", counts["segment_overflow"], expected.segment_overflow
    yield "rows", _cells(rows_of(lane)), _cells(kept_rows(lane, expected))
    yield "totals", _cells(row_dicts(lane.totals.pages, names, lane.plan)), _cells(expected.totals)
    yield "hours", _cells(hours_of(lane)), _cells(expected.hours)
    yield "open", open_of(lane), expected.open
    yield "arms", arms_of(lane), expected_arms(expected)
    waiting = (
        (w.impression_id, w.time_ms, w.item, w.rank, w.kind, w.grade)
        for w in lane.waiting.by_serial.values()
    )
    yield "waiting", Counter(waiting), Counter(expected.waiting)


def _cells(rows: Mapping[Any, Mapping[str, int]]) -> Numbers:
    return {(*place, column): v for place, row in rows.items() for column, v in row.items()}
