"""The log of a lane as a source, from its first record on or from what is left of it. Pure.

Where a lane stands at given offsets does not depend on batches, nor on how its topics interleave;
so the topic that is behind in event time goes first, and no feedback waits for long.
"""

from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Final

from ..events import Decoder, LogRecord
from ..lane import Lane, Lifts, new_lifts
from .driver import LATEST_MS, LaneDriver, LaneSink
from .lost_beginning import LostBeginning

BATCH_RECORDS: Final = 10_000
FIRST_RECORDS: Final = 200
"""Of a batch while it is not known yet from which pane on rows are proven: that pane comes after
the batch in which it becomes known."""


class LogReplay:
    """Reads one lane again: `apply` takes records of any topic, as often as there are any."""

    def __init__(
        self,
        lane: Lane,
        decode: Decoder,
        sink: LaneSink,
        lost: LostBeginning | None = None,
        lifts: Lifts = MappingProxyType({}),
    ) -> None:
        """See `LaneDriver`. `lifts`: how far logs may be lifted at most once they are read."""
        self._lifts = lifts
        self.driver = LaneDriver(lane, sink, beginning=lost)
        self._decode = decode
        self._lost = lost
        self.records = 0
        """That were applied."""

    @property
    def batch_records(self) -> int:
        """How many records the next `apply` should get at most."""
        ready = self._lost is None or self._lost.is_reached
        return BATCH_RECORDS if ready else FIRST_RECORDS

    def next_log(self, unread: Collection[str]) -> str:
        """The log to read next: of those that have records left, the one that is behind."""
        marks = self.driver.lane.watermarks
        return min(unread, key=lambda log: (marks.get(log) is not None, marks.get(log) or 0, log))

    def lift(self, read: Collection[str]) -> None:
        """Let the lane not wait for logs of which all was applied, from its next batch on."""
        lane = self.driver.lane
        idle, lateness_ms = self._lifts.keys() & read, lane.plan.timing.lateness_ms
        lifts = new_lifts(lane.watermarks, lane.lifts, idle, lateness_ms, LATEST_MS)
        lane.lifts |= {log: min(to_ms, self._lifts[log]) for log, to_ms in lifts.items()}

    def apply(self, topic: str, records: Sequence[LogRecord], next_offset: int) -> None:
        """Apply records of one topic, in offset order, as one batch; see `LaneDriver.apply`."""
        if self._lost is not None:
            self._lost.note(topic, records, self._decode)
        self.driver.apply_records(topic, records, self._decode, {topic: next_offset})
        self.records += len(records)
