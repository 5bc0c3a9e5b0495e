"""The driver of every command that makes a lane again: records in, what settles out to sinks. Pure.

    source ─▶ driver: lane ─▶ sinks

A source gives records: the log in Kafka (`from_kafka`), `files`, the doctor's sample. A sink takes
over what cannot change any more before the lane drops it: rows of hours, a filling, a comparison
with what is stored. So memory is that of one lane of a worker. Records are applied by the worker's
own batch processing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ..attribution import Part, join_rules, last_touch
from ..events import Decoder, Event, LogRecord
from ..lane import Lane, LaneJudged, PagedRows, RowSet, kept_rows, latest_ms, scoring, settling
from ..worker import MAX_CHUNK_RECORDS, DeadLetter, batch

LATEST_MS: Final = 10**14
"""Later than any event."""


@dataclass(frozen=True)
class Settled:
    """A lane after a batch, or at its end, and which of its hours are over."""

    lane: Lane
    first_ms: int | None
    """Panes and hours that begin earlier are not proven; None: none is."""
    before_ms: int
    """Hours that begin earlier cannot change any more."""
    final_ms: int
    """What begins here or later may lack feedback that has not come yet."""
    judged_final_ms: int
    """The same of judged rows, which may lack searches."""
    watermark_ms: int | None
    """Of the lane: no other event has confirmed the time of a later one."""

    @classmethod
    def of(cls, lane: Lane, first_ms: int | None) -> "Settled":
        """What has settled by now."""
        before, judged = lane.settled_before, lane.judged
        return cls(
            lane,
            first_ms,
            before_ms=0 if before is None else kept_rows.open_hour(before, lane.plan),
            final_ms=before or 0,
            judged_final_ms=0 if judged is None else judged.final_before or 0,
            watermark_ms=lane.watermark_ms,
        )

    def hours(self, rows: RowSet) -> Iterator[tuple[int, PagedRows]]:
        """The hours of these rows of the lane that are over and proven, by their starts."""
        first_ms = LATEST_MS if self.first_ms is None else self.first_ms
        return ((at, of) for at, of in rows.hours.items() if first_ms <= at < self.before_ms)

    @property
    def has_events(self) -> bool:
        """Whether the lane has counted an event. Of one that has not, nothing is missing: where its
        log has lost its beginning, nothing is computed from it."""
        return has_events(self.lane)

    @property
    def whole_ms(self) -> int:
        """Earlier hours are not whole."""
        return LATEST_MS if self.first_ms is None else self.first_ms


class LaneSink(Protocol):
    """Takes over what a lane has settled."""

    def take(self, settled: Settled) -> None:
        """Take over what cannot change any more. After each batch; the next one drops it."""

    def finish(self, settled: Settled) -> None:
        """Take over what is left, at the end of the lane."""


class FirstProven(Protocol):
    """Knows what a log proves that has lost its first records."""

    @property
    def first_ms(self) -> int | None:
        """Start of the first base pane that is proven; None while it is not known."""

    def applied(self, topic: str, watermark_ms: int | None) -> None:
        """Note the watermark of a topic after a batch."""


class LaneDriver:
    """Moves one lane forward, batch by batch, and hands what settles to sinks."""

    def __init__(self, lane: Lane, *sinks: LaneSink, beginning: FirstProven | None = None) -> None:
        """`lane` has seen nothing. `beginning`: None where its first record is the first of its
        log, or the one at which it began."""
        self.lane = lane
        self._sinks = sinks
        self._beginning = beginning

    @property
    def first_ms(self) -> int | None:
        """Panes and hours that begin earlier are not proven; None: none is."""
        return 0 if self._beginning is None else self._beginning.first_ms

    def apply(
        self, topic: str, parts: Iterable[Part | None], next_offsets: Mapping[str, int]
    ) -> None:
        """Apply the records of one topic, read in parts, in offset order, as one batch. Raises
        OverflowError where a counter leaves its range, and what a sink raises."""
        lane, letters = self.lane, list[DeadLetter]()
        batch.begin(lane)
        for part in parts:
            for _ in batch.part_steps(lane, topic, part, letters):
                pass
        self._end_batch(topic, next_offsets)

    def apply_records(
        self,
        topic: str,
        records: Sequence[LogRecord],
        decode: Decoder,
        next_offsets: Mapping[str, int],
    ) -> None:
        """The same for records as they are: also for messages of a stage."""
        batch.begin(self.lane)
        letters = list[DeadLetter]()
        for _, chunk in batch.chunks({topic: records}, MAX_CHUNK_RECORDS):
            for _ in batch.steps(self.lane, topic, chunk, decode, letters):
                pass
        self._end_batch(topic, next_offsets)

    def apply_events(self, topic: str, events: Iterable[Event]) -> None:
        """The same for events that are read already, without offsets."""
        batch.begin(self.lane)
        join_rules.apply(self.lane, topic, events)
        self._end_batch(topic, {})

    def _end_batch(self, log: str | None, next_offsets: Mapping[str, int]) -> None:
        lane = self.lane
        batch.end(lane, next_offsets)
        if self._beginning is not None and log is not None:
            self._beginning.applied(log, lane.watermarks.get(log))
        settled = Settled.of(lane, self.first_ms)
        for sink in self._sinks:
            sink.take(settled)
        lane.start_batch()

    def lift(self, lifts: Mapping[str, int]) -> None:
        """Let the lane go on as if these logs had been lifted on the way: no record that is not
        behind a lift could tell."""
        if lifts:
            batch.begin(self.lane)
            self.lane.lifts.update(lifts)
            self._end_batch(None, {})

    def note_end(self) -> None:
        """Join what last touch holds: no impression comes any more that it could wait for."""
        if self.lane.plan.touch_ms is not None:
            last_touch.decide(self.lane, is_read=True)
            scoring.apply_changes(self.lane)
            self.lane.start_batch()

    def finish(self) -> None:
        """Hand over the rest, as if time had passed since the last event: no log is waited for, and
        nothing comes any more that could confirm a jump in time. What had settled before is all
        that is final. The lane can take no more events afterwards."""
        settled, timing = Settled.of(self.lane, self.first_ms), self.lane.plan.timing
        if has_events(self.lane):
            end_ms = latest_ms(self.lane) + timing.settle_ms + timing.base_ms
            self._settle(dict.fromkeys(self.lane.watermarks, end_ms))
        self._finish(replace(settled, before_ms=LATEST_MS))

    def finish_at(self, clock_ms: int | None) -> None:
        """Hand over what had time to settle until the clock stood there, None: nothing more. The
        lane can take no more events afterwards."""
        if clock_ms is not None and has_events(self.lane):
            marks = self.lane.watermarks.items()
            self._settle({topic: max(mark or 0, clock_ms) for topic, mark in marks})
        self._finish(Settled.of(self.lane, self.first_ms))

    def _settle(self, watermarks: Mapping[str, int]) -> None:
        self.lane.watermarks.update(watermarks)
        if self.lane.plan.touch_ms is not None:
            last_touch.decide(self.lane)
            scoring.apply_changes(self.lane)
        settling.settle(self.lane)
        scoring.settle_optional_rows(self.lane)

    def _finish(self, settled: Settled) -> None:
        for sink in self._sinks:
            sink.finish(settled)


def has_events(lane: Lane) -> bool:
    """Whether a lane has counted an event."""
    return any(lane.counts["events"].values())


def judged_rows(lane: Lane) -> LaneJudged:
    """The judged rows of a lane that grades."""
    assert lane.judged is not None
    return lane.judged
