"""One lane made again from its log. Pure.

Records are applied by the worker's own batch processing. Where a lane stands at given offsets does
not depend on batches, nor on how its topics interleave; so the topic that is behind in event time
goes first, and no feedback waits for long. Whoever watches takes over what cannot change any more
before it is dropped: memory is that of one lane of a worker.
"""

from collections.abc import Collection, Sequence
from typing import Final, Protocol

from ...events.types import Decoder, LogRecord
from ...lane.lane import Lane
from ...worker import batch
from ...worker.batch import DeadLetter
from ...worker.pacing import MAX_CHUNK_RECORDS
from .provable import Reach

BATCH_RECORDS: Final = 10_000
FIRST_RECORDS: Final = 200
"""Of a batch while it is not known yet from which pane on rows are proven: that pane comes after
the batch in which it becomes known."""


class Watching(Protocol):
    """What takes over past hours of a lane while it is made again."""

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Take over the hours that cannot change any more. `first_ms`: earlier panes are not
        proven; None: none is yet. Before the lane starts its next batch, which drops them."""


class Replay:
    """Makes one lane again: `apply` takes records of any topic, as often as there are any."""

    def __init__(
        self, lane: Lane, decode: Decoder, reach: Reach | None, watching: Watching
    ) -> None:
        """`lane` has seen nothing. `reach`: None where its first record is the first of its log, or
        the one at which it began."""
        self.lane = lane
        self._decode = decode
        self._reach = reach
        self._watching = watching
        self.records = 0
        """That were applied."""

    @property
    def batch_records(self) -> int:
        """How many records the next `apply` should get at most."""
        ready = self._reach is None or self._reach.is_reached
        return BATCH_RECORDS if ready else FIRST_RECORDS

    @property
    def first_ms(self) -> int | None:
        """Panes and hours that begin earlier are not proven; None: none is."""
        return 0 if self._reach is None else self._reach.first_ms

    def next_topic(self, unread: Collection[str]) -> str:
        """The topic to read next: of those that have records left, the one that is behind."""
        marks = self.lane.watermarks
        return min(unread, key=lambda topic: (marks[topic] is not None, marks[topic] or 0, topic))

    def apply(self, topic: str, records: Sequence[LogRecord], next_offset: int) -> None:
        """Apply records of one topic, in offset order, as one batch. Raises OverflowError where a
        counter leaves its range, and what the watching one raises."""
        lane, letters = self.lane, list[DeadLetter]()
        if self._reach is not None:
            self._reach.note(topic, records, self._decode)
        batch.begin(lane)
        for of_topic, chunk in batch.chunks({topic: records}, MAX_CHUNK_RECORDS):
            for _ in batch.steps(lane, of_topic, chunk, self._decode, letters):
                pass
        batch.end(lane, {topic: next_offset})
        if self._reach is not None:
            self._reach.applied(topic, lane.watermarks[topic])
        self._watching.past_hours(lane, self.first_ms)
        lane.start_batch()
        self.records += len(records)
