"""Slots by the id of their impression, for a whole batch of ids at once.

An open-addressing table of slots, probed linearly by a 32-bit hash of the id. It finds equal hashes
only: callers compare the ids of the few slots that it returns.

Why not a dictionary: it needs a Python string, an integer and an entry per open impression, and a
look-up per id. The table takes 4 bytes per cell, and all ids of a batch are probed together, in
rounds of numpy calls. Every round costs the same calls for ten ids as for ten thousand, so the
number of rounds is what counts: most chains end in the first round, which needs no second axis,
and later rounds read twice as many cells each, so that one long chain does not cost forty rounds.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Booleans, Integers

from .column import zeros

SMALLEST: Final = 1024
"""Cells of an empty table. Sizes are always powers of two."""
ROOM: Final = 2
"""A new table has at least this many cells per entry."""
FULLEST: Final = 0.6
"""The share of used cells, closed slots included, from which a table is rebuilt: chains of linear
probing get long beyond it."""
NOT_FOUND: Final = -1
WIDEST: Final = 64
"""The most cells of a chain that one round reads."""
FEW: Final = 100
"""So few entries are inserted faster one by one than in further rounds of arrays."""
MASK: Final = 0xFFFF_FFFF
"""Keeps 32 bits of a hash, half the memory of 64. Among a million ids about a hundred pairs have
equal bits: the ids themselves are compared."""


def hashes_of(ids: Iterable[str], count: int) -> Integers:
    """Return the hashes of `count` ids, (count,). They differ in other processes."""
    return np.fromiter(map(hash, ids), np.int64, count) & MASK


def hash_of(impression_id: str) -> int:
    """Return the hash of one id."""
    return hash(impression_id) & MASK


class IdIndex:
    """Which slots have an id of a given hash.

    Entries are never removed singly, because a gap would end the chains that pass it. When the
    table `is_full`, `rebuild` it from the slots that are still open.
    """

    def __init__(self) -> None:
        self._make(0, 0)

    def _make(self, entries: int, first_slot: int) -> None:
        cells = max(SMALLEST, 1 << (ROOM * entries - 1).bit_length() if entries else SMALLEST)
        self._entries = zeros(cells)
        """Slot − `_origin`, which fits four bytes; 0 in an empty cell."""
        self._origin = first_slot - 1
        self._used = 0

    def is_full(self, more: int) -> bool:
        """True where `more` entries do not fit any more."""
        return self._used + more > FULLEST * len(self._entries)

    def rebuild(self, slots: Integers, hashes: Integers, more: int) -> None:
        """Replace all entries by these slots, (n,), ascending, with room for `more`."""
        self._make(len(slots) + more, int(slots[0]) if len(slots) else 0)
        if not len(slots) and more:
            self._origin = -1
        self.insert(slots, hashes)

    def insert(self, slots: Integers, hashes: Integers) -> None:
        """Add slots by their hashes, (n,) of each. There must be room. Every slot gets an entry,
        whether or not its hash is there already."""
        if not len(slots):
            return
        if not self._used:
            self._origin = int(slots[0]) - 1
        entries, mask = self._entries, len(self._entries) - 1
        pending = (slots - self._origin).astype(np.int32)
        cells = hashes & mask
        while len(pending) > FEW:
            free = entries[cells] == 0
            entries[cells[free]] = pending[free]
            # Of several that were written to one cell the last stays: the others go on.
            left = entries[cells] != pending
            pending, cells = pending[left], (cells[left] + 1) & mask
        for entry, cell in zip(pending.tolist(), cells.tolist(), strict=True):
            while entries.item(cell):
                cell = (cell + 1) & mask
            entries[cell] = entry
        self._used += len(slots)

    def find(self, wanted: Integers, hashes: NDArray[np.uint32], base: int) -> Integers:
        """Return the first slot of each wanted hash, (n,), or NOT_FOUND.

        `hashes` are those of the slots from `base` on; entries of earlier slots are passed over.
        """
        found, mask = np.full(len(wanted), NOT_FOUND, np.int64), len(self._entries) - 1
        if not len(hashes):
            return found
        # Nearly all chains are one entry long: the first round needs no second axis.
        slots, same, used = self._read(wanted & mask, wanted, hashes, base)
        found[same] = slots[same]
        pending, width = np.flatnonzero(used & ~same), 2
        cells = (wanted.take(pending) + 1) & mask
        while len(pending):
            # Few chains are longer: each round reads the next cells of all of them, (n, width).
            chain = (cells[:, np.newaxis] + np.arange(width)) & mask
            pending_hashes = wanted.take(pending)[:, np.newaxis]
            slots, same, used = self._read(chain, pending_hashes, hashes, base)
            hit = same.any(axis=1)
            first = same.argmax(axis=1)
            found[pending[hit]] = slots[hit, first[hit]]
            left = ~hit & used.all(axis=1)
            pending, cells, width = pending[left], cells[left] + width, min(width * 2, WIDEST)
        return found

    def _read(
        self, cells: Integers, wanted: Integers, hashes: NDArray[np.uint32], base: int
    ) -> tuple[Integers, Booleans, Booleans]:
        """Return for cells of the table, in their shape: the slot, whether it is open and has the
        wanted hash, and whether the cell is used."""
        entries = self._entries.take(cells)
        used, slots = entries != 0, entries.astype(np.int64) + self._origin
        same = hashes.take(np.maximum(slots - base, 0)) == wanted
        same &= used & (slots >= base)
        return slots, same, used

    def candidates(self, wanted: int) -> list[int]:
        """Return every slot of the hash's chain, in no order: callers compare the ids."""
        entries, mask = self._entries, len(self._entries) - 1
        cell, slots = wanted & mask, []
        while entry := entries.item(cell):
            slots.append(entry + self._origin)
            cell = (cell + 1) & mask
        return slots
