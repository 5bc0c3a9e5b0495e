"""Feedback that could not join yet, and the watermark it met."""

from collections.abc import Iterator, KeysView
from dataclasses import dataclass, field
from heapq import heappop, heappush

import msgspec


class Waiting(msgspec.Struct, array_like=True):
    """Feedback that could not join yet, with the watermark that it met.

    `bound_ms` is the time of the impression it belongs to, once there is one whose list lacks its
    item.
    """

    met_ms: int | None
    bound_ms: int | None
    impression_id: str
    time_ms: int
    kind: str | None
    item: str | None
    rank: int | None
    grade: float | None


@dataclass
class WaitingFeedback:
    """The feedback of one lane that waits, by serial number, and by impression id."""

    next_serial: int = 0
    by_serial: dict[int, Waiting] = field(default_factory=dict)
    _serials: dict[str, list[int]] = field(default_factory=dict)
    _by_age: list[tuple[int, int]] = field(default_factory=list)
    """Heap of (time, serial); those removed since are passed over when their turn comes."""

    def __len__(self) -> int:
        return len(self.by_serial)

    def ids(self) -> KeysView[str]:
        """The impression ids that something waits for."""
        return self._serials.keys()

    def add(self, feedback: Waiting) -> int:
        """Let feedback wait; returns its serial number."""
        serial = self.next_serial
        self.put(serial, feedback)
        self.next_serial = serial + 1
        return serial

    def put(self, serial: int, feedback: Waiting) -> None:
        """Let feedback wait under a serial number that it has already."""
        self.by_serial[serial] = feedback
        self._serials.setdefault(feedback.impression_id, []).append(serial)
        heappush(self._by_age, (feedback.time_ms, serial))

    def of(self, impression_id: str) -> list[int]:
        """Serial numbers of what waits for this impression id, in order of arrival."""
        return list(self._serials.get(impression_id, ()))

    def remove(self, serial: int) -> Waiting:
        """Feedback that waits no more."""
        feedback = self.by_serial.pop(serial)
        serials = self._serials[feedback.impression_id]
        serials.remove(serial)
        if not serials:
            del self._serials[feedback.impression_id]
        return feedback

    def take_older(self, time_ms: int) -> Iterator[Waiting]:
        """Remove and yield the feedback of this time or before."""
        while self._by_age and self._by_age[0][0] <= time_ms:
            _, serial = heappop(self._by_age)
            if serial in self.by_serial:
                yield self.remove(serial)
