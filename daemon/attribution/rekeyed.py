"""Messages of the stage that divides events among lanes, as runs of one source each. Pure.

Messages of many sources stand in one log. Their order within a source is kept, and what each met is
said with it, so runs of one source are as long as a batch allows.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics import Integers

from ..events import LogRecord, Mark, Of, read_sent
from ..lane import Chain, Lane, lane_watermark_ms, log_name, new_lifts, skip_label
from . import rules, runs

SHOWN: Final = b'{"type":"impression"'


@dataclass
class SourceEvents:
    """Consecutive events of one source."""

    log: str
    records: list[LogRecord] = field(default_factory=list)
    met_ms: list[int | None] = field(default_factory=list)
    """The watermark of the source just before each."""
    applied: int = 0

    @property
    def share_shown(self) -> float:
        """The share of impressions among them."""
        shown = sum(record.value.startswith(SHOWN) for record in self.records if record.value)
        return shown / len(self.records)

    def reach(
        self, lane: Lane, part: runs.Part | None
    ) -> Generator[None, None, tuple[runs.Part | None, Integers | None]]:
        """Move the watermark of the source up to the next part of these events. Returns what is to
        be applied now, and of a run the watermark that each meets and, last, the one after them."""
        count = len(part) if isinstance(part, runs.Run) else int(isinstance(part, runs.Single))
        met = self.met_ms[self.applied : self.applied + count]
        self.applied += count
        if isinstance(part, runs.Run) and met[0] is None:
            lane.origins.note(lane.open.next_slot, self.log)
            yield from rules.steps(lane, self.log, [part.event(0)])
            part, met = part.part(1, len(part)), met[1:]
        if not met or met[0] is None:
            return (None if isinstance(part, runs.Run) else part), None
        first = max(lane.watermarks[self.log] or met[0], met[0])
        lane.watermarks[self.log] = first
        marks = [first, *(each or 0 for each in (*met[1:], met[-1]))]
        return part, np.maximum.accumulate(marks)


@dataclass
class Messages:
    """Messages of a lane, in order: those that count are gathered, source by source."""

    lane: Lane
    gathered: dict[str, SourceEvents] = field(default_factory=dict)
    marks: dict[str, int | None] = field(default_factory=dict)
    """The watermarks of the sources at this place of the log, before their events are applied."""

    def read(self, records: Sequence[LogRecord]) -> Iterator[SourceEvents]:
        """Take the messages that count; gives the events of each source as they are to be applied
        before the next ones are asked for."""
        self.marks = dict(self.lane.watermarks)
        for record in records:
            try:
                sent = read_sent(record.value)
            except (ValueError, RecursionError):
                self.lane.count("rejected", "wrong_type")
                continue
            of = sent.of if isinstance(sent, Mark) else sent
            if not self._chain.takes(of):
                continue
            log = log_name(of.topic, of.partition)
            self._know([log])
            if of.met_ms is not None:
                self.marks[log] = max(self.marks[log] or of.met_ms, of.met_ms)
            if isinstance(sent, Of):
                events = self.gathered.setdefault(log, SourceEvents(log))
                events.records.append(record)
                events.met_ms.append(of.met_ms)
            else:
                yield from self._mark(log, sent)
        # Feedback before its impression waits, and both are then applied one by one.
        yield from sorted(self.gathered.values(), key=lambda events: -events.share_shown)
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
        self._know([log_name(topic, n) for topic, of in mark.sources.items() for n in range(of)])
        for own in lane.offsets:  # it stands for what was not known yet
            self.marks.pop(own, None)
        if mark.clock_ms is None:
            return
        self._chain.idle_ms[log] = mark.clock_ms
        lateness_ms = lane.plan.timing.lateness_ms
        lifts = new_lifts(self.marks, lane.lifts, [log], lateness_ms, mark.clock_ms)
        if lifts:
            if log in self.gathered:
                yield self.gathered.pop(log)
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
