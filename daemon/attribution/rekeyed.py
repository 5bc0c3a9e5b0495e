"""Messages of the stage that divides events among lanes, as runs of one source each. Pure.

Messages of many sources stand in one log. What each met is said with it, so runs of impressions or
of feedback of one source, in its order, are as long as a batch allows.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics import Integers

from ..events import LogRecord, Mark, Of, read_sent
from ..lane import (
    Chain,
    Lane,
    lane_watermark_ms,
    log_name,
    lost_records,
    new_lifts,
    skip_label,
)
from . import join_rules, runs

SHOWN: Final = b'{"type":"impression"'


@dataclass
class SourceEvents:
    """Impressions or feedback of one source, in its order."""

    log: str
    watermark_ms: int | None
    """That of the source before them."""
    records: list[LogRecord] = field(default_factory=list)
    met_ms: list[int | None] = field(default_factory=list)
    """The watermark of the source just before each."""
    applied: int = 0

    def reach(
        self, lane: Lane, part: runs.Part | None
    ) -> Generator[None, None, tuple[runs.Part | None, Integers | None]]:
        """Move the watermark of the source up to the next part of these events. Returns what is to
        be applied now, and of a run the watermark that each meets and, last, the one after them."""
        count = len(part) if isinstance(part, runs.Run) else int(isinstance(part, runs.Single))
        met = self.met_ms[self.applied : self.applied + count]
        self.applied += count
        if met and met[0] is None:
            lane.watermarks[self.log] = None
        if isinstance(part, runs.Run) and met[0] is None:
            lane.origins.note(lane.open.next_slot, self.log)
            yield from join_rules.steps(lane, self.log, [part.event(0)])
            part, met = part.part(1, len(part)), met[1:]
        if not met or met[0] is None:
            return (None if isinstance(part, runs.Run) else part), None
        first = max(self.watermark_ms or met[0], met[0])
        lane.watermarks[self.log] = first
        marks = np.maximum.accumulate([first, *(each or 0 for each in (*met[1:], met[-1]))])
        self.watermark_ms = int(marks[-1])
        return part, marks


@dataclass
class Messages:
    """Messages of a lane, in order: those that count are gathered by source."""

    lane: Lane
    gathered: dict[tuple[bool, str], SourceEvents] = field(default_factory=dict)
    """By whether they are feedback, and source."""
    marks: dict[str, int | None] = field(default_factory=dict)
    """The watermarks of the sources at this place of the log, before their events are applied."""

    def read(self, records: Sequence[LogRecord]) -> Iterator[SourceEvents]:
        """Take the messages that count; gives the events of each source as they are to be applied
        before the next ones are asked for. Raises SourceReplaced."""
        self.marks = dict(self.lane.watermarks)
        for record in records:
            try:
                sent = read_sent(record.value)
            except (ValueError, RecursionError):
                self.lane.count("rejected", "wrong_type")
                continue
            of = sent.of if isinstance(sent, Mark) else sent
            if isinstance(sent, Mark):
                self._chain.require_same_life(of.topic, sent.life)
            last = self._chain.last_of(of)
            if not self._chain.takes(of):
                continue
            log = log_name(of.topic, of.partition)
            self._know([log])
            if of.met_ms is not None:
                self.marks[log] = max(self.marks[log] or of.met_ms, of.met_ms)
            if isinstance(sent, Of):
                key = not (record.value or b"").startswith(SHOWN), log
                events = self.gathered.get(key)
                if events is None:
                    events = SourceEvents(log, self.lane.watermarks[log])
                    self.gathered[key] = events
                events.records.append(record)
                events.met_ms.append(of.met_ms)
            else:
                if lost := lost_records(last, sent):
                    self.lane.count("gap_records", log, lost)
                yield from self._mark(log, sent)
        # Feedback before its impression waits, and both are then applied one by one. What each
        # meets is said with it, so all impressions may be applied first.
        yield from (self.gathered[key] for key in sorted(self.gathered))
        self.gathered.clear()
        self.lane.watermarks = self.marks

    @property
    def _chain(self) -> Chain:
        assert self.lane.chain is not None
        return self.lane.chain

    def _mark(self, log: str, mark: Mark) -> Iterator[SourceEvents]:
        lane = self.lane
        for reason, count in mark.rejected.items():
            lane.count("rejected", reason, count)
        for reason, count in mark.skipped.items():
            lane.count("skipped", skip_label(log, reason), count)
        every = [log_name(topic, n) for topic, of in mark.sources.items() for n in range(of)]
        self._know(every)
        self._chain.know_all(every)
        for own in lane.offsets:  # it stands for what was not known yet
            self.marks.pop(own, None)
        if mark.clock_ms is None:
            return
        self._chain.end_ms[log] = mark.clock_ms
        if not mark.is_idle:
            return
        lateness_ms = lane.plan.timing.lateness_ms
        lifts = new_lifts(self.marks, lane.lifts, [log], lateness_ms, mark.clock_ms)
        if lifts:
            for key in ((False, log), (True, log)):
                if key in self.gathered:
                    yield self.gathered.pop(key)
            lane.lifts |= lifts

    def _know(self, logs: Sequence[str]) -> None:
        new = [log for log in logs if log not in self.marks]
        if not new:
            return
        at_ms = lane_watermark_ms(self.marks, self.lane.lifts)
        for log in new:
            self.lane.begin_log(log)
            self.marks[log] = None
            if at_ms is not None:  # a partition that came since: what has settled stays
                self.lane.lifts[log] = at_ms
