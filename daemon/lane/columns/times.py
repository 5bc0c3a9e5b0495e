"""Times in four bytes each.

All impressions of a lane are open at once, so their times lie within days of each other: they are
stored as milliseconds since an origin. Times too far apart for that take eight bytes.
"""

from typing import Final

import numpy as np

from relevanced.metrics.lists import Integers

from .column import Column

ROUND: Final = 1 << 32
"""Milliseconds that four bytes can count: 49 days."""


class Times:
    """Whole milliseconds by index from 0, appended at the end and dropped at the front."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._offsets = Column("I")
        """Milliseconds since `_origin`."""
        self._origin: int | None = None
        """None before the first time is appended."""
        self._is_wide = False

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> int:
        return self._offsets[index] + (self._origin or 0)

    def at(self, indices: Integers | slice) -> Integers:
        """Return the times at these indices, (n,)."""
        times_ms: Integers = self._offsets.view()[indices] + np.int64(self._origin or 0)
        return times_ms

    def append(self, time_ms: int) -> None:
        """Append one time."""
        self.extend(np.array([time_ms]))

    def extend(self, times_ms: Integers) -> None:
        """Append times, (n,)."""
        if len(times_ms):
            origin = self._fitting(int(times_ms.min()), int(times_ms.max()))
            self._offsets.extend(times_ms - origin)

    def skip(self, count: int) -> None:
        """Append `count` entries of no meaning, which are never read."""
        self._offsets.skip(count)

    def drop_front(self, count: int) -> None:
        """Drop the first times; the indices of the others fall by `count`."""
        self._offsets.drop_front(count)
        if not len(self):
            self._clear()

    def _fitting(self, earliest: int, latest: int) -> int:
        """Return an origin from which these times can be counted too."""
        if self._origin is None:
            self._origin = earliest - ROUND // 2
        if not self._is_wide and not self._origin <= earliest <= latest < self._origin + ROUND:
            self._recount(earliest, latest)
        return self._origin

    def _recount(self, earliest: int, latest: int) -> None:
        """Move the origin: an eighth of the room before the earliest time, for times that arrive
        late, and the rest after the latest, because event time moves forward."""
        times_ms = self.at(slice(None))
        earliest = min(earliest, int(times_ms.min(initial=earliest)))
        latest = max(latest, int(times_ms.max(initial=latest)))
        room = ROUND - 1 - (latest - earliest)
        self._is_wide = room < 0
        self._origin = 0 if self._is_wide else earliest - room // 8
        self._offsets = Column("q" if self._is_wide else "I")
        self._offsets.extend(times_ms - self._origin)
