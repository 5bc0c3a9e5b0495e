"""What a lane remembers of impressions that can still change. Pure.

Open impressions are columns, not objects. Slots are numbered upwards for the lifetime of the lane
and never reused, so that a slot names the same impression in memory and in everything stored. The
columns contain the slots from `base` on: `index_of` and `slots_at` convert between a slot and its
index into the columns, which changes whenever `trim` drops closed impressions at the front.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from .columns.arrays import Codes, Column, new_column
from .columns.indexes import NOT_FOUND, IdIndex, PaneSpans, Times, hash_of
from .columns.texts import Joined, Texts, cut, joined
from .impression_columns import (
    NewImpressions,
    OpenSearches,
    SearchColumns,
    SubjectColumns,
    Subjects,
    TouchColumns,
    Touches,
)

IntOrArray = TypeVar("IntOrArray", int, NDArray[np.int64])
"""One integer, or an array of them."""
Grades: TypeAlias = dict[int, tuple[int, float]]
"""Rank from 0 → (event time, grade) of its latest explicit grade."""

_TRIM_AT_LEAST: Final = 4096
"""Fewer closed slots than this at the front are not worth dropping."""

BLANK: Final = b"null"
"""A list with a blank contains this text; a list without one may contain it too."""

encode_items = msgspec.json.Encoder().encode
"""A list as text. Between two ids stands `","` and nothing else: `attribution.id_scanning` relies
on it."""
_decode_items = msgspec.json.Decoder(list[str | None]).decode


class OpenImpressions:
    """The open impressions of one lane.

    A list stays JSON text: it is parsed only when feedback or a later page comes, which most lists
    never see, and it is stored as it is.
    """

    def __init__(
        self,
        base: int = 0,
        columns: SubjectColumns | None = None,
        searches: SearchColumns | None = None,
        touches: TouchColumns | None = None,
    ) -> None:
        self.base = base
        """The slot at index 0 of the columns."""
        self.ids = Texts()
        self.items = Texts()
        """Lists as they arrived."""
        self.paged_items: dict[int, bytes] = {}
        """Slot → list that a later page may have extended, instead of the one in `items`. Every
        list with a blank is here."""
        self.times_ms = Times()
        self.combinations = Codes()
        self.states = Codes()
        self.hashes = Column("I")
        """Hash of each impression id."""
        self.is_open = bytearray()
        """1 where the impression is open, 0 where its pane has settled."""
        self.grades: dict[int, Grades] = {}
        """Slot → explicit grades, for the few impressions that have any."""
        self.delays_ms: dict[int, int] = {}
        """Slot → time from the impression to its first feedback, where a metric needs it."""
        self.subjects = columns
        """Units (user, session, …) and experiment arms; None where no experiment is tracked."""
        self.searches = searches
        """Queries and users; None where no queries are kept."""
        self.touches = touches
        """Visitors; None where no feedback joins by last touch."""
        self.teams: dict[int, tuple[str | None, ...]] = {}
        """Slot → the ranker that contributed each rank, for lists that two rankers share."""
        self.late: dict[int, int] = {}
        """Slot → the greatest watermark that a record met which was too late for judged rows, in a
        lane where the records of an impression may stand in several logs."""
        self.shared_hashes: set[int] = set()
        """Hashes that more than one slot has."""
        self._index = IdIndex()
        self._panes = PaneSpans()

    @property
    def next_slot(self) -> int:
        """The slot of the next new impression."""
        return self.base + len(self.times_ms)

    def index_of(self, slots: IntOrArray) -> IntOrArray:
        """The index of a slot into the columns, or of each of several: below 0 for slots that were
        trimmed."""
        return slots - self.base

    def slots_at(self, indices: IntOrArray) -> IntOrArray:
        """The slot at an index into the columns, or at each of several."""
        return indices + self.base

    def __len__(self) -> int:
        return self._panes.impressions

    def add(
        self,
        impression_id: str,
        time_ms: int,
        pane: int,
        *,
        combination: int,
        state: int,
        items: bytes,
        subject: Subjects | None = None,
        search: OpenSearches | None = None,
        touch: Touches | None = None,
    ) -> int:
        """Add a new impression; returns its slot."""
        slot, id_hash = self.next_slot, hash_of(impression_id)
        indices = map(self.index_of, self._index.candidates(id_hash))
        if any(index >= 0 and self.hashes[index] == id_hash for index in indices):
            self.shared_hashes.add(id_hash)
        self._make_room(1)
        self.ids.append(impression_id.encode())
        self.items.append(items)
        self.times_ms.append(time_ms)
        self.combinations.append(combination)
        self.states.append(state)
        self.hashes.append(id_hash)
        self.is_open.append(1)
        self._extend_beside(subject, search, touch, np.array([time_ms]))
        slots = np.array([slot])
        self._index.insert(slots, np.array([id_hash]))
        self._panes.note(np.array([pane]), slots)
        return slot

    def add_many(self, new: NewImpressions) -> int:
        """Add new impressions; returns the slot of the first. No two of them, and none that is
        here already, may have the same hash."""
        first, count = self.next_slot, len(new.times_ms)
        if not count:
            return first
        self._make_room(count)
        self.ids.extend(*new.ids)
        self.items.extend(*new.items)
        self.times_ms.extend(new.times_ms)
        self.combinations.extend(new.combinations)
        self.states.extend(new.states)
        self.hashes.extend(new.hashes)
        self.is_open += b"\1" * count
        self._extend_beside(new.subjects, new.searches, new.touches, new.times_ms)
        slots = np.arange(first, first + count)
        self._index.insert(slots, new.hashes)
        self._panes.note(new.panes, slots)
        return first

    def _extend_beside(
        self,
        subjects: Subjects | None,
        searches: OpenSearches | None,
        touches: Touches | None,
        times_ms: NDArray[np.int64],
    ) -> None:
        if self.subjects is not None:
            self.subjects.extend(subjects, len(times_ms))
        if self.searches is not None:
            self.searches.extend(searches, len(times_ms))
        if self.touches is not None:
            self.touches.extend(touches, times_ms)

    def restore(self, slots: NDArray[np.int64], new: NewImpressions) -> None:
        """Add impressions under the slots, ascending, that they had when they were stored."""
        is_known = self.find(new.hashes) != NOT_FOUND
        ordered = np.sort(new.hashes)
        self.shared_hashes.update(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        self.shared_hashes.update(new.hashes[is_known].tolist())
        if BLANK in new.items[0]:
            texts = zip(slots.tolist(), cut(*new.items), strict=True)
            self.paged_items.update((slot, text) for slot, text in texts if BLANK in text)
        starts = np.flatnonzero(np.diff(slots, prepend=slots[:1] - 2) > 1).tolist()
        for start, stop in zip(starts, [*starts[1:], len(slots)], strict=True):
            self.skip_to(int(slots[start]))
            self.add_many(new.part(start, stop))

    def _make_room(self, count: int) -> None:
        if self._index.is_full(count):
            opened = np.flatnonzero(np.frombuffer(self.is_open, np.uint8))
            hashes = new_column(self.hashes)[opened]
            self._index.rebuild(self.slots_at(opened), hashes, max(count, len(opened) // 2))
            ordered = np.sort(hashes)
            self.shared_hashes = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())

    def find(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The earliest slot of each hash, (n,); NOT_FOUND where there is none. The slot may be
        closed, of another id, or (`shared_hashes`) one of several."""
        return self._index.find(hashes, new_column(self.hashes), self.base)

    def slots_of(self, impression_id: str) -> tuple[int, ...]:
        """The open slots of an id, in the order in which they were accepted."""
        id_hash, text, found = hash_of(impression_id), impression_id.encode(), []
        for slot in self._index.candidates(id_hash):
            index = self.index_of(slot)
            if index >= 0 and self.is_open[index] and self.hashes[index] == id_hash:
                if self.ids[index] == text:
                    found.append(slot)
        return tuple(sorted(found))

    def only_open(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the slots, ascending, that are open."""
        return slots[self.are_open(slots)]

    def are_open(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each slot is that of an open impression, (n,)."""
        is_here = (slots >= self.base) & (slots < self.next_slot)
        is_here[is_here] = np.frombuffer(self.is_open, np.bool_)[self.index_of(slots[is_here])]
        return is_here

    def texts_of(self, slots: NDArray[np.int64]) -> tuple[Joined, Joined]:
        """The ids and the lists of slots, ascending, as `Texts.extend` takes them."""
        indices = self.index_of(slots).tolist()
        consecutive = len(indices) and indices[-1] - indices[0] == len(indices) - 1
        if consecutive and self.paged_items.keys().isdisjoint(slots.tolist()):
            first, end = indices[0], indices[-1] + 1
            return self.ids.joined(first, end), self.items.joined(first, end)
        ids = [self.ids[index] for index in indices]
        return joined(ids), joined([self.text_of(slot) for slot in slots.tolist()])

    def text_of(self, slot: int) -> bytes:
        """The shown list as JSON text."""
        paged = self.paged_items.get(slot)
        return self.items[self.index_of(slot)] if paged is None else paged

    def list_of(self, slot: int) -> list[str | None]:
        """The shown list; None is a blank: a rank whose item stands further up."""
        return _decode_items(self.text_of(slot))

    def panes(self) -> list[int]:
        """Base panes that have an open impression, earliest first."""
        return sorted(self._panes)

    def slots_in(self, panes: Iterable[int]) -> Iterator[int]:
        """All slots of these base panes."""
        for pane in panes:
            yield from self.pane_slots(pane).tolist()

    def pane_slots(self, pane: int) -> NDArray[np.int64]:
        """The slots of the open impressions of a base pane, (n,), ascending."""
        is_open = np.frombuffer(self.is_open, np.bool_)
        return self._panes.slots_of(pane, self.base, self.times_ms.at, is_open)

    def slots_before(self, before: int) -> NDArray[np.int64]:
        """The slots of the open impressions of all base panes that start earlier, (n,),
        ascending."""
        is_open = np.frombuffer(self.is_open, np.bool_)
        return self._panes.slots_before(before, self.base, self.times_ms.at, is_open)

    def close(self, slots: NDArray[np.int64], before: int) -> None:
        """Forget the impressions of the base panes that start earlier, which have settled: `slots`
        are what `slots_before` returns."""
        np.frombuffer(self.is_open, np.uint8)[self.index_of(slots)] = 0
        self._panes.forget_before(before)
        by_slots: list[dict[int, Any]] = [
            *(self.grades, self.delays_ms, self.paged_items, self.teams, self.late),
            *([] if self.touches is None else [self.touches.met_ms]),
        ]
        for by_slot in by_slots:
            for slot in by_slot.keys() & slots.tolist() if by_slot else ():
                by_slot.pop(slot)

    def has_open(self, slot: int) -> bool:
        """True where the slot is that of an open impression."""
        return self.base <= slot < self.next_slot and self.is_open[self.index_of(slot)] == 1

    def start_at(self, slot: int) -> None:
        """Let the slots of empty columns start here."""
        assert not self.times_ms
        self.base = slot

    def skip_to(self, slot: int) -> None:
        """Leave the slots below this one unused: they are those of impressions that have closed."""
        missing = slot - self.next_slot
        if missing > 0:
            self.ids.skip(missing)
            self.items.skip(missing)
            for values in (self.times_ms, self.combinations, self.states, self.hashes):
                values.skip(missing)
            self.is_open.extend(bytes(missing))
            self._extend_beside(None, None, None, np.zeros(missing, np.int64))

    def trim(self) -> None:
        """Release the memory of closed slots at the front."""
        first = self._panes.first_slot
        closed = self.index_of(self.next_slot if first is None else first)
        if closed < max(_TRIM_AT_LEAST, len(self.times_ms) // 4):
            return
        self.ids.drop_front(closed)
        self.items.drop_front(closed)
        for values in (self.times_ms, self.combinations, self.states, self.hashes):
            values.drop_front(closed)
        del self.is_open[:closed]
        for beside in (self.subjects, self.searches, self.touches):
            if beside is not None:
                beside.drop_front(closed)
        self.base += closed
