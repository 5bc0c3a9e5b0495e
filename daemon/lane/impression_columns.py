"""What is kept of open impressions beside their state, as columns: units, experiment arms and
searches; and impressions on their way into a lane. Pure.

A unit (user, session, impression) is the hash of its id. An assignment is the experiments of an
impression with their variants: impressions share a few of them, so each is interned and an
impression has its id. A query is its key (`queries.keys`), interned likewise: keys are one column
of text, found by a table of hashes, which takes some 40 bytes for each where a dictionary of
strings takes 190. Ids and numbers exist in one process's memory only. Of users there is a hash that
changes with the day.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Integers, distinct, user_hashes

from ..experiments import IMPRESSION, USER, Assignment, Tracking
from ..queries import (
    HASHED,
    NO_QUERY,
    NO_USER,
    QueryPlan,
    hashed_keys,
    key_steps,
    keys_of,
    query_user_hashes,
)
from .columns.arrays import Codes, Column, Numbers, new_column
from .columns.indexes import NOT_FOUND, IdIndex, hash_of, hashes_of
from .columns.texts import Joined, Spans, Texts, cut, joined_texts, piece

MOST_ASSIGNMENTS: Final = 20_000
"""A table beyond this is built anew from the assignments of open impressions."""
NO_UNIT: Final = 0
"""Hash of a unit that the impression does not name."""


def units_of(
    tracking: Tracking,
    impression_id: str,
    user_id: str | None,
    attributes: Mapping[str, str | None],
) -> tuple[str | None, ...]:
    """The ids of an impression's units, in the order of `Tracking.units`."""
    by_unit = {**attributes, USER: user_id, IMPRESSION: impression_id}
    return tuple(by_unit.get(unit) for unit in tracking.units)


@dataclass(frozen=True)
class Subjects:
    """Assignment ids, (n,), and hashes of units, (n, units), of new impressions."""

    assignments: Integers
    units: Integers

    def part(self, start: int, stop: int) -> "Subjects":
        """Those from `start` to before `stop`."""
        return Subjects(self.assignments[start:stop], self.units[start:stop])


class Assignments:
    """The assignments of one lane: assignment ↔ id; 0 is that of no experiment."""

    def __init__(self) -> None:
        self._ids: dict[Assignment, int] = {(): 0}
        self._table: list[Assignment] = [()]
        self._capacity = MOST_ASSIGNMENTS

    @property
    def is_full(self) -> bool:
        """True where there are so many that most must be those of closed impressions."""
        return len(self._table) > self._capacity

    def reserve(self) -> None:
        """Let the table grow to at least twice its size before it is full."""
        self._capacity = max(MOST_ASSIGNMENTS, 2 * len(self._table))

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, assignment_id: int) -> Assignment:
        return self._table[assignment_id]

    def id_of(self, assignment: Assignment) -> int:
        """The id of an assignment, a new one if it has none yet."""
        assignment_id = self._ids.get(assignment)
        if assignment_id is None:
            assignment_id = self._ids[assignment] = len(self._table)
            self._table.append(assignment)
        return assignment_id

    @staticmethod
    def subjects_of(
        ids: Integers | Sequence[int], units: Sequence[Sequence[str | None]]
    ) -> Subjects:
        """The columns of new impressions with these assignment ids, (n,), and units, (n,) for each
        unit. Units of impressions without an experiment are not kept."""
        hashes = np.full((len(ids), len(units)), NO_UNIT, np.int64)
        in_experiment = np.flatnonzero(ids).tolist()
        for column, values in enumerate(units):
            rows = [row for row in in_experiment if values[row] is not None]
            if rows:
                hashes[rows, column] = user_hashes(values[row] or "" for row in rows).view(np.int64)
        return Subjects(np.asarray(ids, np.int64), hashes)


class SubjectColumns:
    """The subjects of open impressions, by the same index as their other columns."""

    def __init__(self, units: int) -> None:
        self.units_each = units
        self._assignments = Codes()
        self._units = Column("q")

    def extend(self, new: Subjects | None, count: int) -> None:
        """Append the subjects of `count` impressions; None: they are in no experiment."""
        if new is None:
            self._assignments.skip(count)
        else:
            self._assignments.extend(new.assignments)
        if new is None or not new.units.any():
            self._units.skip(count * self.units_each)
        else:
            self._units.extend(new.units.ravel())

    def drop_front(self, count: int) -> None:
        """Drop the first ones."""
        self._assignments.drop_front(count)
        self._units.drop_front(count * self.units_each)

    def assignment_ids(self) -> Numbers:
        """A view of the assignment ids, (n,): it must be gone before any are appended."""
        return self._assignments.view()

    def units(self) -> Integers:
        """A view of the hashes, (n, units): it must be gone before any are appended."""
        return self._units.view().reshape(-1, self.units_each)


NO_NUMBER: Final = 0
"""The number of no query."""
MOST_KEYS: Final = 100_000
"""A table beyond this is built anew from the keys of open impressions."""
FEW: Final = 24
"""So few keys are found faster one by one."""


class QueryKeys:
    """The keys of one lane: key ↔ number. That of no query is NO_NUMBER."""

    def __init__(self) -> None:
        self._texts, self._hashes, self._index = Texts(), Column("I"), IdIndex()
        self._capacity = MOST_KEYS
        self._append([NO_QUERY], hashes_of([NO_QUERY], 1))

    @property
    def is_full(self) -> bool:
        """True where there are so many that most must be those of closed impressions."""
        return len(self) > self._capacity

    def reserve(self) -> None:
        """Let the table grow to at least twice its size before it is full."""
        self._capacity = max(MOST_KEYS, 2 * len(self))

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> str:
        return self._texts[number].decode(errors="surrogatepass")

    def joined(self, numbers: Integers) -> Joined:
        """The keys of these numbers, (n,), in UTF-8."""
        return self._texts.gathered(numbers)

    def keys_of(self, numbers: Integers) -> list[str]:
        """The key of each number, (n,)."""
        data, sizes = self._texts.gathered(numbers)
        if not data.isascii():
            return [text.decode(errors="surrogatepass") for text in cut(data, sizes)]
        text, ends = data.decode(), np.cumsum(sizes).tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends)]

    def numbers_of(self, keys: Sequence[str]) -> Integers:
        """The number of each key, (n,), a new one if it has none yet."""
        if len(keys) <= FEW:
            return np.array([self._number_of(key) for key in keys], np.int64)
        texts, hashes = Spans.of(joined_texts(keys)), hashes_of(keys, len(keys))
        numbers = self._index.find(hashes, new_column(self._hashes), 0)
        with_its_hash = np.flatnonzero(numbers != NOT_FOUND)
        same = self._texts.equal(numbers[with_its_hash], texts.at(with_its_hash))
        new = np.flatnonzero(numbers == NOT_FOUND)
        if len(new):
            numbers[new] = self._new_numbers([keys[n] for n in new.tolist()], hashes[new])
        for index in with_its_hash[~same].tolist():  # an earlier key has the same hash
            numbers[index] = self._number_of(keys[index])
        return numbers

    def _number_of(self, key: str) -> int:
        text, key_hash = key.encode(errors="surrogatepass"), hash_of(key)
        for number in self._index.candidates(key_hash):
            if self._hashes[number] == key_hash and self._texts[number] == text:
                return number
        self._append([key], np.array([key_hash]))
        return len(self) - 1

    def _new_numbers(self, keys: Sequence[str], hashes: Integers) -> Integers:
        """Append keys that have no numbers yet, (n,) with their hashes, and return these."""
        first, of_key = len(self), dict.fromkeys(keys, 0)
        if len(of_key) == len(keys):
            self._append(keys, hashes)
            return np.arange(first, len(self))
        of_key = dict(zip(of_key, range(len(of_key)), strict=True))
        which = np.fromiter(map(of_key.__getitem__, keys), np.int64, len(keys))
        distinct_hashes = np.empty(len(of_key), np.int64)
        distinct_hashes[which] = hashes
        self._append(list(of_key), distinct_hashes)
        return which + first

    def take(self, other: "QueryKeys", numbers: Integers) -> Integers:
        """Append the keys of these numbers of another table, (n,), distinct and ascending, and
        return their numbers here, where there was none but NO_QUERY."""
        taken = numbers[numbers != NO_NUMBER]
        hashes = new_column(other._hashes)[taken].astype(np.int64)
        self._append_texts(other._texts.gathered(taken), hashes)
        return np.arange(len(numbers)) + (len(self) - len(numbers))

    def _append(self, keys: Sequence[str], hashes: Integers) -> None:
        self._append_texts(joined_texts(keys), hashes)

    def _append_texts(self, texts: Joined, hashes: Integers) -> None:
        first, more = len(self), len(hashes)
        if self._index.is_full(more):
            known = new_column(self._hashes).astype(np.int64)
            self._index.rebuild(np.arange(first), known, max(more, first // 2))
            del known
        self._texts.extend(*texts)
        self._hashes.extend(hashes)
        self._index.insert(np.arange(first, first + more), hashes)


@dataclass(frozen=True)
class OpenSearches:
    """Numbers of keys, (n,), and hashes of users, (n,), of new impressions."""

    numbers: Integers
    users: Integers

    def distinct_numbers(self) -> tuple[Integers, Integers]:
        """The distinct numbers, ascending, and for each search the index of its own, (n,)."""
        table = distinct(self.numbers)
        which = np.zeros(int(table[-1]) + 1 if len(table) else 0, np.int32)
        which[table] = np.arange(len(table))
        return table, which[self.numbers].astype(np.int64)

    def part(self, start: int, stop: int) -> "OpenSearches":
        """Those from `start` to before `stop`."""
        return OpenSearches(self.numbers[start:stop], self.users[start:stop])


def searches_of(
    keys: QueryKeys,
    plan: QueryPlan,
    queries: Sequence[str | None],
    users: Sequence[str | None],
    times_ms: Integers,
) -> OpenSearches:
    """The columns of new impressions with these queries, users and times, (n,) of each."""
    steps = search_steps(keys, plan, queries, users, times_ms)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: OpenSearches = done.value
            return found


def search_steps(
    keys: QueryKeys,
    plan: QueryPlan,
    queries: Sequence[str | None],
    users: Sequence[str | None],
    times_ms: Integers,
) -> Generator[None, None, OpenSearches]:
    """The same, in steps of a bounded time."""
    texts = [query or NO_QUERY for query in queries]
    if plan.text != HASHED and all(map(str.isascii, texts)):
        of_query = keys.numbers_of(keys_of(texts))
    else:  # normalising and hashing take long: each text once
        distinct_texts = list(dict.fromkeys(texts))
        found = yield from key_steps(distinct_texts)
        if plan.text == HASHED:
            found = hashed_keys(found, plan.key)
        numbers = dict(zip(distinct_texts, keys.numbers_of(found).tolist(), strict=True))
        of_query = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
    if not plan.min_users:
        return OpenSearches(of_query, np.full(len(queries), NO_USER, np.int64))
    return OpenSearches(of_query, query_user_hashes(users, times_ms, plan.salt))


class SearchColumns:
    """The searches of open impressions, by the same index as their other columns."""

    def __init__(self) -> None:
        self._numbers = Codes()
        self._users = Column("I")

    def extend(self, new: OpenSearches | None, count: int) -> None:
        """Append the searches of `count` impressions; None: nothing is known of them."""
        if new is None:
            self._numbers.skip(count)
            self._users.skip(count)
        else:
            self._numbers.extend(new.numbers)
            self._users.extend(new.users)

    def drop_front(self, count: int) -> None:
        """Drop the first ones."""
        self._numbers.drop_front(count)
        self._users.drop_front(count)

    def numbers(self) -> Numbers:
        """A view of the numbers, (n,): it must be gone before any are appended."""
        return self._numbers.view()

    def at(self, indices: Integers) -> OpenSearches:
        """Those of the impressions at these indices."""
        numbers, users = self._numbers.view()[indices], self._users.view()[indices]
        return OpenSearches(numbers.astype(np.int64), users.astype(np.int64))


NO_VISITOR: Final = 0
"""Hash of no visitor."""
_FARTHEST_MS: Final = 2**31 - 1


def visitor_hashes(visitors: Sequence[str | None]) -> Integers:
    """The hash of each visitor, (n,), of 8 bytes; NO_VISITOR for none."""
    found = np.full(len(visitors), NO_VISITOR, np.int64)
    named = [n for n, visitor in enumerate(visitors) if visitor]
    found[named] = user_hashes(visitors[n] or "" for n in named).view(np.int64)
    return found


@dataclass(frozen=True)
class Touches:
    """Of impressions, (n,) each, what last touch needs to know."""

    visitors: Integers
    """Hashes of those who saw them; NO_VISITOR for nobody."""
    met_ms: Integers
    """The watermarks that their first records met."""

    def part(self, start: int, stop: int) -> "Touches":
        """Those from `start` to before `stop`."""
        return Touches(self.visitors[start:stop], self.met_ms[start:stop])


class TouchColumns:
    """Visitors of open impressions and the watermarks that these met, by the same index as their
    other columns: 12 bytes each."""

    def __init__(self) -> None:
        self._visitors, self._after_ms = Column("q"), Column("i")
        self.met_ms: dict[int, dict[int, int]] = {}
        """Slot → rank from 0 → the watermark that its item met, of items of later records."""

    def extend(self, new: Touches | None, times_ms: Integers) -> None:
        """Append those of impressions of these times; None: nobody saw them."""
        if new is None:
            self._visitors.skip(len(times_ms))
            self._after_ms.skip(len(times_ms))
        else:
            self._visitors.extend(new.visitors)
            after_ms = new.met_ms - times_ms
            self._after_ms.extend(np.clip(after_ms, -_FARTHEST_MS, _FARTHEST_MS).astype(np.int32))

    def note_items(
        self, slot: int, before: Sequence[str | None], after: Sequence[str | None], met_ms: int
    ) -> None:
        """Note the watermark that a record met, of the items which it adds to a list."""
        known = [*before, *[None] * (len(after) - len(before))]
        for rank0, (old, new) in enumerate(zip(known, after, strict=True)):
            if old != new:
                self.met_ms.setdefault(slot, {})[rank0] = met_ms

    def drop_front(self, count: int) -> None:
        """Drop the first ones."""
        self._visitors.drop_front(count)
        self._after_ms.drop_front(count)

    def at(self, indices: Integers, times_ms: Integers) -> Touches:
        """Those of the impressions at these indices, and of these times."""
        after_ms = self._after_ms.view()[indices].astype(np.int64)
        return Touches(self._visitors.view()[indices], times_ms + after_ms)

    def of_visitors(self, visitors: Integers) -> Integers:
        """The indices, ascending, of the impressions of some visitors, hashes (v,), and of a few
        others: by a table of 2 bytes of the hash, so that no index must be kept."""
        table = np.zeros(1 << 16, np.bool_)
        table[visitors & 0xFFFF] = True
        low = self._visitors.view().view(np.uint16)[::4]
        return np.flatnonzero(table[low])


@dataclass(frozen=True)
class NewImpressions:
    """Impressions to add, (n,) of each; texts as `Texts.extend` takes them."""

    ids: Joined
    items: Joined
    times_ms: NDArray[np.int64]
    panes: NDArray[np.int64]
    combinations: NDArray[np.int64]
    states: NDArray[np.int64]
    hashes: NDArray[np.int64]
    subjects: Subjects | None = None
    searches: OpenSearches | None = None
    touches: Touches | None = None

    def part(self, start: int, stop: int) -> "NewImpressions":
        """The impressions from `start` to before `stop`."""
        if (start, stop) == (0, len(self.times_ms)):
            return self
        part = slice(start, stop)
        return NewImpressions(
            ids=piece(self.ids, start, stop),
            items=piece(self.items, start, stop),
            times_ms=self.times_ms[part],
            panes=self.panes[part],
            combinations=self.combinations[part],
            states=self.states[part],
            hashes=self.hashes[part],
            subjects=self.subjects and self.subjects.part(start, stop),
            searches=self.searches and self.searches.part(start, stop),
            touches=self.touches and self.touches.part(start, stop),
        )
