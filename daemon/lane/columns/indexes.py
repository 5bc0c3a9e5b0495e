"""How open impressions are found: by id for a whole batch at once, and by base pane. Pure.

An open-addressing table of slots, probed linearly by a 32-bit hash of the id. It finds equal hashes
only: callers compare the ids of the few slots that it returns.

Why not a dictionary: it needs a Python string, an integer and an entry per open impression, and a
look-up per id. The table takes 4 bytes per cell, and all ids of a batch are probed together, in
rounds of numpy calls. Every round costs the same calls for ten ids as for ten thousand, so the
number of rounds is what counts: most chains end in the first round, which needs no second axis, and
later rounds read twice as many cells each, so that one long chain does not cost forty rounds.

All impressions of a lane are open at once, so their times lie within days of each other: they are
stored as milliseconds since an origin. Times too far apart for that take eight bytes.

A list of slots per pane would take as much memory as the times, from which the panes follow. So
only the first and the last slot of each pane are stored, and its impressions are searched between
them when it settles. Impressions arrive roughly in the order of time, so these spans are short.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Booleans, Integers

from .arrays import Column, zeros

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


TIME_ROUND: Final = 1 << 32
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
            self._origin = earliest - TIME_ROUND // 2
        if not self._is_wide and not self._origin <= earliest <= latest < self._origin + TIME_ROUND:
            self._recount(earliest, latest)
        return self._origin

    def _recount(self, earliest: int, latest: int) -> None:
        """Move the origin: an eighth of the room before the earliest time, for times that arrive
        late, and the rest after the latest, because event time moves forward."""
        times_ms = self.at(slice(None))
        earliest = min(earliest, int(times_ms.min(initial=earliest)))
        latest = max(latest, int(times_ms.max(initial=latest)))
        room = TIME_ROUND - 1 - (latest - earliest)
        self._is_wide = room < 0
        self._origin = 0 if self._is_wide else earliest - room // 8
        self._offsets = Column("q" if self._is_wide else "I")
        self._offsets.extend(times_ms - self._origin)


class PaneSpans:
    """The base panes of the open impressions, ascending: of each the first and the last slot, and
    how many of its impressions are between them."""

    def __init__(self) -> None:
        self._starts, self._firsts, self._lasts, self._counts = np.zeros((4, 0), np.int64)

    def __iter__(self) -> Iterator[int]:
        return iter(self._starts.tolist())

    @property
    def impressions(self) -> int:
        """Return how many impressions all panes have."""
        return int(self._counts.sum())

    @property
    def first_slot(self) -> int | None:
        """Return the lowest slot of an open impression; None where there is none."""
        return int(self._firsts.min()) if len(self._firsts) else None

    def note(self, panes: Integers, slots: Integers) -> None:
        """Add new impressions: the base pane of each, (n,), and the slots, ascending and above all
        others."""
        starts, firsts, lasts = (
            np.concatenate(each)
            for each in ((self._starts, panes), (self._firsts, slots), (self._lasts, slots))
        )
        counts = np.append(self._counts, np.ones(len(slots), np.int64))
        order = np.argsort(starts, kind="stable")  # a known pane stands before what is new of it
        starts = starts[order]
        begins = np.flatnonzero(np.diff(starts, prepend=starts[:1] - 1))
        ends = np.append(begins[1:], len(starts)) - 1
        self._starts, self._firsts = starts[begins], firsts[order[begins]]
        self._lasts, self._counts = lasts[order[ends]], np.add.reduceat(counts[order], begins)

    def slots_of(
        self,
        pane: int,
        base: int,
        times_at: Callable[[slice], Integers],
        is_open: NDArray[np.bool_],
    ) -> Integers:
        """Return the open slots of a base pane, (n,), ascending.

        `times_at` and `is_open` are the columns of the slots from `base` on.
        """
        at = int(np.searchsorted(self._starts, pane))
        first, last = int(self._firsts[at]), int(self._lasts[at])
        where = slice(first - base, last + 1 - base)
        times_ms = times_at(where)
        is_member = is_open[where] & (times_ms >= pane)
        # Every open impression is of one of these panes: where there is no later one, none of a
        # later time is open.
        if at + 1 < len(self._starts):
            is_member &= times_ms < self._starts[at + 1]
        return np.flatnonzero(is_member) + first

    def slots_before(
        self,
        before: int,
        base: int,
        times_at: Callable[[slice], Integers],
        is_open: NDArray[np.bool_],
    ) -> Integers:
        """Return the open slots of all base panes that start earlier, (n,), ascending."""
        later = int(np.searchsorted(self._starts, before))
        if not later:
            return np.zeros(0, np.int64)
        first, last = int(self._firsts[:later].min()), int(self._lasts[:later].max())
        where = slice(first - base, last + 1 - base)
        is_member = is_open[where]
        if later < len(self._starts):
            is_member = is_member & (times_at(where) < self._starts[later])
        return np.flatnonzero(is_member) + first

    def forget_before(self, before: int) -> None:
        """Remove the panes that start earlier, which have settled: their impressions are open no
        more."""
        later = int(np.searchsorted(self._starts, before))
        self._starts, self._firsts = self._starts[later:], self._firsts[later:]
        self._lasts, self._counts = self._lasts[later:], self._counts[later:]
