"""The units and the experiment arms of open impressions: columns beside those of their state.

A unit (user, session, impression) is the hash of its id. An assignment is the experiments of an
impression with their variants: impressions share a few of them, so each is interned and an
impression has its id. Assignment ids exist in one process's memory only.
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
