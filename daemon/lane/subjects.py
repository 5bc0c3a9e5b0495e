"""Whom an open impression was shown to, and in which arms: columns beside those of its state.

An assignment is a number out of a table, as impressions share a few of them; a unit (user, session,
impression) is its hash. Numbers live in one process's memory only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics.lists import Integers
from relevanced.metrics.users import user_hashes

from ..experiments.specs import IMPRESSION, USER, Assignment, Tracking
from .columns.column import Codes, Column, Numbers

MOST_ASSIGNMENTS: Final = 20_000
NO_UNIT: Final = 0
"""Hash of a unit that the impression does not tell."""


def units_of(
    tracking: Tracking,
    impression_id: str,
    user_id: str | None,
    attributes: Mapping[str, str | None],
) -> tuple[str | None, ...]:
    """Whom an impression was shown to, in the order of `Tracking.units`."""
    known = {**attributes, USER: user_id, IMPRESSION: impression_id}
    return tuple(known.get(unit) for unit in tracking.units)


@dataclass(frozen=True)
class Subjects:
    """Subjects of new impressions, (n,) assignments and (n, units) hashes."""

    assignments: Integers
    units: Integers

    def part(self, start: int, stop: int) -> "Subjects":
        """Those from `start` to before `stop`."""
        return Subjects(self.assignments[start:stop], self.units[start:stop])


class Assignments:
    """The table of one lane: assignment ↔ number; 0 is that of no experiment."""

    def __init__(self) -> None:
        self._numbers: dict[Assignment, int] = {(): 0}
        self._table: list[Assignment] = [()]
        self._room = MOST_ASSIGNMENTS

    @property
    def is_full(self) -> bool:
        """True where there are so many that most must be of impressions that have closed."""
        return len(self._table) > self._room

    def leave_room(self) -> None:
        """Let the table grow to at least twice its size before it is full."""
        self._room = max(MOST_ASSIGNMENTS, 2 * len(self._table))

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, number: int) -> Assignment:
        return self._table[number]

    def id_of(self, assignment: Assignment) -> int:
        """The number of an assignment, a new one if it was not met before."""
        known = self._numbers.get(assignment)
        if known is None:
            known = self._numbers[assignment] = len(self._table)
            self._table.append(assignment)
        return known

    @staticmethod
    def subjects_of(
        numbers: Integers | Sequence[int], units: Sequence[Sequence[str | None]]
    ) -> Subjects:
        """The columns of new impressions of these assignments, (n,), and units, (n,) for each;
        nothing is kept of one without an experiment."""
        hashes = np.full((len(numbers), len(units)), NO_UNIT, np.int64)
        dealt = np.flatnonzero(numbers).tolist()
        for column, values in enumerate(units):
            places = [place for place in dealt if values[place] is not None]
            if places:
                told = (values[place] or "" for place in places)
                hashes[places, column] = user_hashes(told).view(np.int64)
        return Subjects(np.asarray(numbers, np.int64), hashes)


class SubjectColumns:
    """By place among the columns of the open impressions."""

    def __init__(self, units: int) -> None:
        self.units_each = units
        self.assignments = Codes()
        self._units = Column("q")

    def extend(self, born: Subjects | None, count: int) -> None:
        """Add as many as are born; None: impressions without any experiment."""
        if born is None:
            self.assignments.skip(count)
        else:
            self.assignments.extend(born.assignments)
        if born is None or not born.units.any():
            self._units.skip(count * self.units_each)
        else:
            self._units.extend(born.units.ravel())

    def drop_front(self, count: int) -> None:
        """Forget the first ones."""
        self.assignments.drop_front(count)
        self._units.drop_front(count * self.units_each)

    def assignment_ids(self) -> Numbers:
        """(n,) assignments: gone before any are added."""
        return self.assignments.view()

    def units(self) -> Integers:
        """(n, units) hashes: gone before any are added."""
        return self._units.view().reshape(-1, self.units_each)
