"""Times in four bytes each.

What a lane holds is open at the same time, so its times lie within days of each other: they are
kept as milliseconds since some moment. Times too far apart for that take eight bytes.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .column import Column

Integers = NDArray[np.int64]

ROUND: Final = 1 << 32
"""Milliseconds that four bytes tell apart: 49 days."""


class Times:
    """Whole milliseconds by place from 0, appended at the end and dropped at the front."""

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        self._told = Column("I")
        """Milliseconds since `_origin`."""
        self._origin: int | None = None
        """None before the first time is known."""
        self._is_wide = False

    def __len__(self) -> int:
        return len(self._told)

    def __getitem__(self, place: int) -> int:
        return self._told[place] + (self._origin or 0)

    def at(self, places: Integers | slice) -> Integers:
        """Those of these places, (n,)."""
        told: Integers = self._told.view()[places] + np.int64(self._origin or 0)
        return told

    def append(self, time_ms: int) -> None:
        """One more time."""
        self.extend(np.array([time_ms]))

    def extend(self, times_ms: Integers) -> None:
        """More times, (n,)."""
        if len(times_ms):
            origin = self._fitting(int(times_ms.min()), int(times_ms.max()))
            self._told.extend(times_ms - origin)

    def skip(self, count: int) -> None:
        """As many places that nobody asks for."""
        self._told.skip(count)

    def drop_front(self, count: int) -> None:
        """Forget the first ones; the others move up."""
        self._told.drop_front(count)
        if not len(self):
            self._start_anew()

    def _fitting(self, earliest: int, latest: int) -> int:
        """Where to count from, so that these times are told too."""
        if self._origin is None:
            self._origin = earliest - ROUND // 2
        if not self._is_wide and not self._origin <= earliest <= latest < self._origin + ROUND:
            self._tell_anew(earliest, latest)
        return self._origin

    def _tell_anew(self, earliest: int, latest: int) -> None:
        """Count from elsewhere, with room for some that come late, and most of it ahead."""
        held = self.at(slice(None))
        earliest = min(earliest, int(held.min(initial=earliest)))
        latest = max(latest, int(held.max(initial=latest)))
        room = ROUND - 1 - (latest - earliest)
        self._is_wide = room < 0
        self._origin = 0 if self._is_wide else earliest - room // 8
        self._told = Column("q" if self._is_wide else "I")
        self._told.extend(held - self._origin)
