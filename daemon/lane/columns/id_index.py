"""Slots by the id of their impression, for a whole batch of ids at once.

An open-addressing table of slot numbers, probed by a 32-bit hash of the id. The table itself
tells equal hashes only; whether the ids are equal is for the caller to see.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .column import zeros

SMALLEST: Final = 1024
"""Places of an empty table; always a power of two."""
ROOM: Final = 2
"""A table is made with at least this many places for each of its entries."""
FULLEST: Final = 0.6
"""The share of places taken, the dead included, at which a table is made anew."""
NOT_FOUND: Final = -1
WIDEST: Final = 64
"""Places of a chain that are looked at in one round."""
FEW: Final = 100
"""Entries that are sooner put in one by one than in many rounds of arrays."""
MASK: Final = 0xFFFF_FFFF
"""What is kept of a hash. Of a million ids a hundred pairs share one: they get a closer look."""

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def hashes_of(ids: Iterable[str], count: int) -> Integers:
    """The hashes of `count` ids. They hold in this process only."""
    return np.fromiter(map(hash, ids), np.int64, count) & MASK


def hash_of(impression_id: str) -> int:
    """The hash of one id."""
    return hash(impression_id) & MASK


class IdIndex:
    """Which slots have an id of a given hash.

    Entries are never removed one by one: `is_full` tells when the table is to be made anew from the
    slots that are still open.
    """

    def __init__(self) -> None:
        self._make(0, 0)

    def _make(self, entries: int, first_slot: int) -> None:
        places = max(SMALLEST, 1 << (ROOM * entries - 1).bit_length() if entries else SMALLEST)
        self._entries = zeros(places)
        """Slot number − `_origin`; 0 where nothing is."""
        self._origin = first_slot - 1
        self._taken = 0

    def is_full(self, more: int) -> bool:
        """True where there is no room for as many more entries."""
        return self._taken + more > FULLEST * len(self._entries)

    def rebuild(self, slots: Integers, hashes: Integers, more: int) -> None:
        """Hold exactly these slots, (n,), in ascending order, with room for `more`."""
        self._make(len(slots) + more, int(slots[0]) if len(slots) else 0)
        if not len(slots) and more:
            self._origin = -1
        self.insert(slots, hashes)

    def insert(self, slots: Integers, hashes: Integers) -> None:
        """Add slots, each (n,). There must be room; equal hashes get an entry each."""
        if not len(slots):
            return
        if not self._taken:
            self._origin = int(slots[0]) - 1
        entries, mask = self._entries, len(self._entries) - 1
        wanted = (slots - self._origin).astype(np.int32)
        places = hashes & mask
        while len(wanted) > FEW:
            free = entries[places] == 0
            entries[places[free]] = wanted[free]
            # of several that want one place the last has it
            left = entries[places] != wanted
            wanted, places = wanted[left], (places[left] + 1) & mask
        for one, place in zip(wanted.tolist(), places.tolist(), strict=True):
            while entries.item(place):
                place = (place + 1) & mask
            entries[place] = one
        self._taken += len(slots)

    def find(self, wanted: Integers, hashes: NDArray[np.uint32], base: int) -> Integers:
        """The first slot of each wanted hash, (n,), or NOT_FOUND. `hashes` are those of the slots
        from `base` on; entries of earlier slots are dead."""
        found, mask = np.full(len(wanted), NOT_FOUND, np.int64), len(self._entries) - 1
        if not len(hashes):
            return found
        # nearly all chains are one entry long: these are seen without a second axis
        slots, same, taken = self._look(wanted & mask, wanted, hashes, base)
        found[same] = slots[same]
        pending, width = np.flatnonzero(taken & ~same), 2
        places = (wanted.take(pending) + 1) & mask
        while len(pending):
            # of few chains that are long: twice as many places in each round
            around = (places[:, np.newaxis] + np.arange(width)) & mask
            asked = wanted.take(pending)[:, np.newaxis]
            slots, same, taken = self._look(around, asked, hashes, base)
            hit = same.any(axis=1)
            first = same.argmax(axis=1)
            found[pending[hit]] = slots[hit, first[hit]]
            left = ~hit & taken.all(axis=1)
            pending, places, width = pending[left], places[left] + width, min(width * 2, WIDEST)
        return found

    def _look(
        self, places: Integers, wanted: Integers, hashes: NDArray[np.uint32], base: int
    ) -> tuple[Integers, Booleans, Booleans]:
        """Of places of the table, of any shape: the slot there, whether it has the wanted hash, and
        whether anything is there at all."""
        entries = self._entries.take(places)
        taken, slots = entries != 0, entries.astype(np.int64) + self._origin
        same = hashes.take(np.maximum(slots - base, 0)) == wanted
        same &= taken & (slots >= base)
        return slots, same, taken

    def candidates(self, wanted: int) -> list[int]:
        """Every slot that may have an id of this hash, in no order."""
        entries, mask = self._entries, len(self._entries) - 1
        place, slots = wanted & mask, []
        while entry := entries.item(place):
            slots.append(entry + self._origin)
            place = (place + 1) & mask
        return slots
