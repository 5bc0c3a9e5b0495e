"""What the stage of `lanes = "rekey"` sends for one source, a topic-partition of the input topics.
Pure.

Records in, messages out: each event goes to the partition of its visitor or its id, and marks say
how far the source is. All of it follows from the records and from the state at the offset where a
run begins, which is committed with it: so a run that begins anew sends the same again, and lanes
drop what they have taken.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from ..events import (
    AT_END,
    COUNTED,
    NOTHING,
    Decoded,
    Event,
    Mark,
    Of,
    Place,
    Rejected,
    Skipped,
    event_text,
    mark_text,
)
from ..lane import Pending, moved

MOST_BYTES: Final = 1_000_000
"""What a topic takes unless it says otherwise."""
COUNTED_RECORDS: Final = 1_000
"""What is skipped is told with the next mark, and at least once in so many offsets."""


class SourceState(msgspec.Struct):
    """What decides how the watermark of a source moves. Committed with its offset."""

    w: int | None = None
    """The watermark, in ms; None before the first event."""
    pending: Pending = msgspec.field(default_factory=Pending)
    read: int = 0
    """The offset up to which records were read, where that is beyond the one that is committed:
    what they left out is not told yet."""

    def text(self) -> str:
        """Return it as metadata of an offset: at most some 300 bytes."""
        return msgspec.json.encode(self).decode()


def state_in(metadata: str) -> SourceState:
    """Return the state in the metadata of an offset; that of a source of which nothing was read,
    where there is none."""
    return msgspec.json.decode(metadata, type=SourceState) if metadata else SourceState()


@dataclass(frozen=True)
class Message:
    """Something to send."""

    partition: int
    value: bytes
    timestamp_ms: int | None = None
    """That of the record it came from."""


@dataclass(frozen=True)
class Targets:
    """Among what the events of the sources are divided."""

    partitions: int
    """Of the stage's topic."""
    hash_of: Callable[[bytes], int]
    """Of a visitor or an id, by which its partition is chosen."""
    sources: Mapping[str, int]
    """Topic → partitions."""
    base_ms: int
    """Length of the base pane: a mark tells of each that the watermark enters."""
    most_bytes: int = MOST_BYTES
    """A longer event is refused: the stage's topic does not take it."""
    needed_of: Callable[[Event], Event] = lambda event: event
    """The event without what is only passed on, which is left out first."""


class SourceRun:
    """One run of the stage over one source, from an offset on. The messages of each call are to be
    sent in order."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        state: SourceState,
        targets: Targets,
        *,
        lost_from: int | None = None,
        life: str = "",
    ) -> None:
        """`lost_from`: from where on the log has nothing left before this offset, where that is so.
        `life`: the id of the topic."""
        self._topic, self._partition = topic, partition
        self._state, self._targets = state, targets
        self._lost_from, self._life = lost_from, life
        self._prev: list[Place] = [NOTHING] * targets.partitions
        self.rejected, self.skipped = Counter[str](), Counter[str]()
        """By reason, what no mark has told yet."""
        self._next = offset
        self.point = (offset if lost_from is None else lost_from), state.text()
        """The next offset and the metadata with it, from where another run may go on once all
        that was sent so far is acknowledged."""

    @property
    def to_commit(self) -> tuple[int, str]:
        """The point, with how far was read beyond it."""
        if not self._is_untold:
            return self.point  # also where a loss is not told yet: it is no record that was read
        offset, text = self.point
        state = state_in(text)
        state.read = self._next
        return offset, state.text()

    def begin(self) -> Iterator[Message]:
        """Send what was deleted before it was read, if anything was."""
        if self._lost_from is not None:
            yield self._chained(self._home, (self._next, COUNTED), None)
            self.point = self._next, self._state.text()

    def read(
        self,
        offset: int,
        timestamp_ms: int | None,
        decoded: Iterable[Decoded],
        note: Callable[[Decoded], None] = lambda one: None,
    ) -> Iterator[Message]:
        """Send what a record came to; `note` takes each part of it, and what is refused here."""
        if offset // COUNTED_RECORDS > (self._next - 1) // COUNTED_RECORDS and self._is_untold:
            yield self._chained(self._home, (offset, COUNTED), timestamp_ms)
            self.point = self._next, self._state.text()
        pane, number, is_refused = self._pane, 0, False
        for one in decoded:
            sent: Message | Rejected
            if isinstance(one, Rejected):
                sent = one
            else:
                sent = self._event(one, (offset, number), timestamp_ms)
                number += 1  # also of what is refused here: another run may send it
            if isinstance(sent, Message):
                note(one)
                yield sent
                continue
            note(sent)
            counts = self.skipped if isinstance(sent, Skipped) else self.rejected
            counts[sent.reason] += 1
            is_refused |= not sent.skipped
        self._next = offset + 1
        every = range(self._targets.partitions) if self._pane != pane else ()
        for partition in every or (self._home,) * is_refused:
            yield self._chained(partition, (offset, number), timestamp_ms)
        if not self._is_untold:
            self.point = self._next, self._state.text()

    def at_end(self, clock_ms: int, *, is_idle: bool) -> Iterator[Message]:
        """Send that the source was seen at its end; `is_idle`: and got no record for long."""
        for partition in range(self._targets.partitions):
            yield self._mark(partition, (self._next, AT_END), None, clock_ms, is_idle)

    @property
    def _pane(self) -> int | None:
        return None if self._state.w is None else self._state.w // self._targets.base_ms

    @property
    def _is_untold(self) -> bool:
        return bool(self.rejected or self.skipped)

    @property
    def _home(self) -> int:
        """The partition whose lane counts what this source has that is no event."""
        return self._partition % self._targets.partitions

    def _event(self, event: Event, place: Place, at_ms: int | None) -> Message | Rejected:
        """The event as it is sent, which moves the watermark; or why it is not."""
        key = (event.visitor or event.impression_id).encode("utf-8", "surrogatepass")
        partition = self._targets.hash_of(key) % self._targets.partitions
        of = self._of(partition, place)
        text, most = event_text(event, of), self._targets.most_bytes
        if len(text) > most:
            text = event_text(self._targets.needed_of(event), of)
        if len(text) > most:
            return Rejected("too_large", f"{len(text)} bytes for the lanes: must be <= {most}")
        self._prev[partition] = place
        identity = blake2b(event.identity.encode("utf-8", "surrogatepass"), digest_size=8)
        state = self._state
        state.w = moved(state.w, state.pending, identity.hexdigest(), event.time_ms)
        return Message(partition, text, at_ms)

    def _chained(self, partition: int, place: Place, at_ms: int | None) -> Message:
        message = self._mark(partition, place, at_ms)
        self._prev[partition] = place
        return message

    def _mark(
        self,
        partition: int,
        place: Place,
        at_ms: int | None,
        clock_ms: int | None = None,
        is_idle: bool = False,
    ) -> Message:
        of, sources = self._of(partition, place), dict(self._targets.sources)
        mark = Mark(of, sources, clock_ms, is_idle, life=self._life)
        if partition == self._home and clock_ms is None:
            untold = {"rejected": dict(self.rejected), "skipped": dict(self.skipped)}
            mark = replace(mark, **untold, lost_from=self._lost_from)
            self.rejected.clear()
            self.skipped.clear()
            self._lost_from = None
        return Message(partition, mark_text(mark), at_ms)

    def _of(self, partition: int, place: Place) -> Of:
        return Of(self._topic, self._partition, *place, self._state.w, self._prev[partition])
