"""What a lane remembers of impressions that can still change.

Open impressions are columns indexed by slot. Slots are numbered upwards for the life of the lane
and never reused, so that a slot names the same impression in memory and in everything stored; the
columns hold the slots from `base` on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from .columns.column import Codes, Column, column, grouped
from .columns.id_index import NOT_FOUND, IdIndex, hash_of
from .columns.pane_spans import PaneSpans
from .columns.texts import Joined, Texts, cut, joined, piece
from .columns.times import Times
from .subjects import SubjectColumns, Subjects

Slots: TypeAlias = tuple[int, ...]
Grades: TypeAlias = dict[int, tuple[int, float]]
"""Place → (event time, grade) of its latest explicit grade."""

_TRIM_AT_LEAST: Final = 4096
"""Closed slots at the front that are worth moving the columns for."""

BLANK: Final = b"null"
"""A list with a blank holds this; so may one without."""

encode_items = msgspec.json.Encoder().encode
"""A list as text. Between two ids stands `","` and nothing else, which `joining` relies on."""
_decode_items = msgspec.json.Decoder(list[str | None]).decode


class OpenImpressions:
    """The open impressions of one lane.

    A list is kept as JSON text: it is read only when feedback or a page comes, and is stored as it
    stands.
    """

    def __init__(self, base: int = 0, columns: SubjectColumns | None = None) -> None:
        self.base = base
        self.ids = Texts()
        self.items = Texts()
        """Lists as they came."""
        self.paged_items: dict[int, bytes] = {}
        """Lists by slot that a later page may have extended, instead of `items`. All lists with a
        blank are here."""
        self.times_ms = Times()
        self.combinations = Codes()
        self.states = Codes()
        self.hashes = Column("I")
        """Of the ids."""
        self.is_open = bytearray()
        """1 where the impression is open, 0 where its pane has settled."""
        self.grades: dict[int, Grades] = {}
        """Explicit grades by slot, for the few impressions that have one."""
        self.delays_ms: dict[int, int] = {}
        """From the impression to its first feedback, by slot; kept where a metric asks for it."""
        self.subjects = columns
        """Whom they were shown to, and in which arms; None where nobody asks."""
        self.teams: dict[int, tuple[str | None, ...]] = {}
        """By slot whose ranker brought each place, for lists that two rankers share."""
        self.shared_hashes: set[int] = set()
        """Hashes that more than one slot has."""
        self._index = IdIndex()
        self._panes = PaneSpans()

    @property
    def next_slot(self) -> int:
        """The slot that the next impression gets."""
        return self.base + len(self.times_ms)

    def __len__(self) -> int:
        return self._panes.impressions

    def add(
        self,
        impression_id: str,
        time_ms: int,
        pane: int,
        combination: int,
        state: int,
        items: bytes,
        subject: Subjects | None = None,
    ) -> int:
        """Remember a new impression; returns its slot."""
        slot, code = self.next_slot, hash_of(impression_id)
        places = (other - self.base for other in self._index.candidates(code))
        if any(place >= 0 and self.hashes[place] == code for place in places):
            self.shared_hashes.add(code)
        self._make_room(1)
        self.ids.append(impression_id.encode())
        self.items.append(items)
        self.times_ms.append(time_ms)
        self.combinations.append(combination)
        self.states.append(state)
        self.hashes.append(code)
        self.is_open.append(1)
        if self.subjects is not None:
            self.subjects.extend(subject, 1)
        slots = np.array([slot])
        self._index.insert(slots, np.array([code]))
        self._panes.note(pane, slots)
        return slot

    def add_many(self, born: "NewImpressions") -> int:
        """Remember new impressions; returns the slot of the first. No two of them, and none that is
        here already, may have the same hash."""
        first, count = self.next_slot, len(born.times_ms)
        if not count:
            return first
        self._make_room(count)
        self.ids.extend(*born.ids)
        self.items.extend(*born.items)
        self.times_ms.extend(born.times_ms)
        self.combinations.extend(born.combinations)
        self.states.extend(born.states)
        self.hashes.extend(born.hashes)
        self.is_open += b"\1" * count
        if self.subjects is not None:
            self.subjects.extend(born.subjects, count)
        slots = np.arange(first, first + count)
        self._index.insert(slots, born.hashes)
        for pane, chosen in grouped(born.panes):
            self._panes.note(pane, slots[chosen])
        return first

    def restore(self, slots: NDArray[np.int64], born: "NewImpressions") -> None:
        """Remember impressions under the slots, ascending, that they have already."""
        known = self.find(born.hashes) != NOT_FOUND
        ordered = np.sort(born.hashes)
        self.shared_hashes.update(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        self.shared_hashes.update(born.hashes[known].tolist())
        if BLANK in born.items[0]:
            texts = zip(slots.tolist(), cut(*born.items), strict=True)
            self.paged_items.update((slot, text) for slot, text in texts if BLANK in text)
        starts = np.flatnonzero(np.diff(slots, prepend=slots[:1] - 2) > 1).tolist()
        for start, stop in zip(starts, [*starts[1:], len(slots)], strict=True):
            self.skip_to(int(slots[start]))
            self.add_many(born.part(start, stop))

    def _make_room(self, count: int) -> None:
        if self._index.is_full(count):
            opened = np.flatnonzero(np.frombuffer(self.is_open, np.uint8))
            hashes = column(self.hashes)[opened]
            self._index.rebuild(opened + self.base, hashes, max(count, len(opened) // 2))
            ordered = np.sort(hashes)
            self.shared_hashes = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())

    def find(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The earliest slot of each hash, (n,); NOT_FOUND where there is none. It may be closed, of
        another id, or (`shared_hashes`) one of several."""
        return self._index.find(hashes, column(self.hashes), self.base)

    def slots_of(self, impression_id: str) -> Slots:
        """The open slots of an id, in the order in which they were accepted."""
        code, text, found = hash_of(impression_id), impression_id.encode(), []
        for slot in self._index.candidates(code):
            place = slot - self.base
            if place >= 0 and self.is_open[place] and self.hashes[place] == code:
                if self.ids[place] == text:
                    found.append(slot)
        return tuple(sorted(found))

    def texts_of(self, slots: NDArray[np.int64]) -> tuple[Joined, Joined]:
        """The ids and the lists of slots, ascending, as `Texts.extend` takes them."""
        places = (slots - self.base).tolist()
        whole = len(places) and places[-1] - places[0] == len(places) - 1
        if whole and self.paged_items.keys().isdisjoint(slots.tolist()):
            first, end = places[0], places[-1] + 1
            return self.ids.joined(first, end), self.items.joined(first, end)
        ids = [self.ids[place] for place in places]
        return joined(ids), joined([self.text_of(slot) for slot in slots.tolist()])

    def text_of(self, slot: int) -> bytes:
        """The shown list as text."""
        paged = self.paged_items.get(slot)
        return self.items[slot - self.base] if paged is None else paged

    def list_of(self, slot: int) -> list[str | None]:
        """The shown list; None is a blank: a place whose item stands further up."""
        return _decode_items(self.text_of(slot))

    def panes(self) -> list[int]:
        """Base panes that hold an open impression, earliest first."""
        return sorted(self._panes)

    def slots_in(self, panes: Iterable[int]) -> Iterator[int]:
        """All slots of these base panes."""
        for pane in panes:
            yield from self._slots_of(pane).tolist()

    def _slots_of(self, pane: int) -> NDArray[np.int64]:
        is_open = np.frombuffer(self.is_open, np.bool_)
        return self._panes.slots_of(pane, self.base, self.times_ms.at, is_open)

    def close_pane(self, pane: int) -> None:
        """Forget the impressions of a base pane that has settled."""
        slots = self._slots_of(pane)
        np.frombuffer(self.is_open, np.uint8)[slots - self.base] = 0
        self._panes.forget(pane)
        for few in (self.grades, self.delays_ms, self.paged_items, self.teams):
            for slot in few.keys() & slots.tolist() if few else ():
                few.pop(slot)

    def has_open(self, slot: int) -> bool:
        """True where the slot is that of an open impression."""
        return self.base <= slot < self.next_slot and self.is_open[slot - self.base] == 1

    def start_at(self, slot: int) -> None:
        """Number the slots of empty columns from here on."""
        assert not self.times_ms
        self.base = slot

    def skip_to(self, slot: int) -> None:
        """Leave the slots below this one unused: they belonged to impressions that have closed."""
        missing = slot - self.next_slot
        if missing > 0:
            self.ids.skip(missing)
            self.items.skip(missing)
            for numbers in (self.times_ms, self.combinations, self.states, self.hashes):
                numbers.skip(missing)
            self.is_open.extend(bytes(missing))
            if self.subjects is not None:
                self.subjects.extend(None, missing)

    def trim(self) -> None:
        """Give back the memory of closed slots at the front."""
        first = self._panes.first_slot
        closed = (self.next_slot if first is None else first) - self.base
        if closed < max(_TRIM_AT_LEAST, len(self.times_ms) // 4):
            return
        self.ids.drop_front(closed)
        self.items.drop_front(closed)
        for numbers in (self.times_ms, self.combinations, self.states, self.hashes):
            numbers.drop_front(closed)
        del self.is_open[:closed]
        if self.subjects is not None:
            self.subjects.drop_front(closed)
        self.base += closed


@dataclass(frozen=True)
class NewImpressions:
    """Impressions to remember, (n,) of each; texts as `Texts.extend` takes them."""

    ids: Joined
    items: Joined
    times_ms: NDArray[np.int64]
    panes: NDArray[np.int64]
    combinations: NDArray[np.int64]
    states: NDArray[np.int64]
    hashes: NDArray[np.int64]
    subjects: Subjects | None = None

    def part(self, start: int, stop: int) -> "NewImpressions":
        """Those from `start` to before `stop`."""
        if (start, stop) == (0, len(self.times_ms)):
            return self
        chosen = slice(start, stop)
        return NewImpressions(
            ids=piece(self.ids, start, stop),
            items=piece(self.items, start, stop),
            times_ms=self.times_ms[chosen],
            panes=self.panes[chosen],
            combinations=self.combinations[chosen],
            states=self.states[chosen],
            hashes=self.hashes[chosen],
            subjects=self.subjects and self.subjects.part(start, stop),
        )
