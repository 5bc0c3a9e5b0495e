"""Feedback that could not join yet, and later pages whose list is not there yet, with the watermark
that they arrived at. Pure."""

from collections.abc import Iterator, KeysView
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import ClassVar

import msgspec


class Waiting(msgspec.Struct, array_like=True):
    """Feedback that could not join yet. Stored as an array: the order of the fields is the format.

    `watermark_ms` is its topic-partition's watermark when it arrived, None before the first event.
    `bound_ms` is the time of the impression it belongs to, once there is one whose list lacks its
    item.
    """

    watermark_ms: int | None
    bound_ms: int | None
    impression_id: str
    time_ms: int
    kind: str | None
    item: str | None
    rank: int | None
    grade: float | None


class Held(Waiting, array_like=True):
    """Feedback that names no impression, until last touch chooses one: `impression_id` is empty."""

    visitor: int = 0
    """Hash of who reacted, as `impression_columns.visitor_hashes` gives it."""


class LaterPage(Waiting, array_like=True):
    """A later page that came before its first page, or before one between, in a lane where these
    may stand in other logs. `bound_ms` is the time of its impression, once there is one."""

    by_item: ClassVar[bool] = False
    items: tuple[str, ...] = ()
    first_rank: int = 1
    grades: dict[str, float] = {}
    """Judgements that are known of its items."""


@dataclass
class WaitingFeedback:
    """The waiting feedback of one lane, and its waiting pages, by serial, and by impression id but
    for what is held."""

    next_serial: int = 0
    by_serial: dict[int, Waiting] = field(default_factory=dict)
    _serials: dict[str, dict[int, None]] = field(default_factory=dict)
    """By impression id, in order of arrival: not a list, from whose front nothing is removed
    cheaply."""
    _by_age: list[tuple[int, int]] = field(default_factory=list)
    """Heap of (time, serial); entries of feedback that was removed are skipped when they are
    popped."""
    _held: list[tuple[int, int]] = field(default_factory=list)
    """The same of what is held."""

    _pages: int = 0

    def __len__(self) -> int:
        """How much feedback waits."""
        return len(self.by_serial) - self._pages

    def ids(self) -> KeysView[str]:
        """The impression ids for which feedback waits."""
        return self._serials.keys()

    def add(self, feedback: Waiting) -> int:
        """Add feedback; returns its serial."""
        serial = self.next_serial
        self.put(serial, feedback)
        self.next_serial = serial + 1
        return serial

    def put(self, serial: int, feedback: Waiting) -> None:
        """Add feedback under the serial that it had when it was stored."""
        self.by_serial[serial] = feedback
        self._pages += isinstance(feedback, LaterPage)
        if isinstance(feedback, Held):
            heappush(self._held, (feedback.time_ms, serial))
            return
        self._serials.setdefault(feedback.impression_id, {})[serial] = None
        heappush(self._by_age, (feedback.time_ms, serial))

    def serials_of(self, impression_id: str) -> list[int]:
        """The serials of feedback that waits for this impression id, in order of arrival."""
        return list(self._serials.get(impression_id, ()))

    def remove(self, serial: int) -> Waiting:
        """Remove feedback and return it."""
        feedback = self.by_serial.pop(serial)
        self._pages -= isinstance(feedback, LaterPage)
        if isinstance(feedback, Held):
            return feedback
        serials = self._serials[feedback.impression_id]
        del serials[serial]
        if not serials:
            del self._serials[feedback.impression_id]
        return feedback

    def take_older(self, time_ms: int) -> Iterator[Waiting]:
        """Remove and yield the feedback of this time or an earlier one."""
        while self._by_age and self._by_age[0][0] <= time_ms:
            _, serial = heappop(self._by_age)
            if serial in self.by_serial:
                yield self.remove(serial)

    def take_held(self, time_ms: int | None) -> Iterator[Held]:
        """Remove and yield what is held of this time or an earlier one; None: all of it."""
        while self._held and (time_ms is None or self._held[0][0] <= time_ms):
            _, serial = heappop(self._held)
            if serial in self.by_serial:
                feedback = self.remove(serial)
                assert isinstance(feedback, Held)
                yield feedback
