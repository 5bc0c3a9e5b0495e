"""Interned gain states: every distinct vector of gains is scored once, however many impressions
hold it.

A state says how many places a list has and which of them hold feedback with which gain; where
propensities are configured, also the surface that weighs them. Traffic
repeats the same few thousand states for ever (nothing clicked, the first clicked, …), so an
impression is one small integer, a click is a look-up, and the metrics of a batch are a gather of
ready int64 rows.

State numbers live in one process's memory only. What is stored are the facts themselves, so the
table may be forgotten and built anew at any time without changing a number.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Floats, Integers, Lists
from relevanced.metrics.precision import hits
from relevanced.metrics.propensities import weighted_hits

from ..events.types import MOST_ITEMS
from ..plan import COUNT_COLUMNS, LARGEST_EXACT, NO_SURFACE, WEIGHT_COLUMNS, WEIGHT_UNIT, Plan
from .columns.sorted_map import MISSING, SortedMap

Cells: TypeAlias = tuple[tuple[int, float], ...]
"""(place from 0, gain) of the places that hold feedback, by place. A place with feedback may have
gain 0."""
GainState: TypeAlias = tuple[int, Cells]
"""(places in the list, cells)."""

NO_STATE: Final = 0
"""The state of an impression that does not exist yet: a row of zeros, so that being born is a
change like any other."""
MOST_STATES: Final = 100_000
"""A table beyond this is built anew from the states that impressions still hold."""


class GainStates:
    """The table of one lane: state ↔ number, and the row of each number."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._numbers: dict[tuple[GainState, int], int] = {}
        self._states: list[GainState] = [(0, ())]
        self._surfaces: list[int] = [NO_SURFACE]
        self._changes: dict[tuple[int, int, float], int] = {}
        self._gains = distinct(np.array(list(plan.grades.values()), np.float64))
        self._raises = SortedMap()
        """By state, place and gain, as one number."""
        self._rows: NDArray[np.int64] = np.zeros((1, plan.row_width), np.int64)
        self._room = MOST_STATES

    @property
    def is_full(self) -> bool:
        """True where there are so many states, or changes between them, that most must be gone."""
        return max(len(self._states), len(self._changes), len(self._raises)) > self._room

    def leave_room(self) -> None:
        """Let the table grow to at least twice its size before it is full."""
        self._room = max(MOST_STATES, 2 * len(self._states))

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, number: int) -> GainState:
        return self._states[number]

    def id_of(self, state: GainState, surface: int = NO_SURFACE) -> int:
        """The number of a state on a surface, a new one if it was not met before."""
        known = self._numbers.get((state, surface))
        if known is None:
            known = self._numbers[state, surface] = len(self._states)
            self._states.append(state)
            self._surfaces.append(surface)
        return known

    def surface_id_of(self, number: int) -> int:
        """The surface of a state."""
        return self._surfaces[number]

    def with_gain(self, number: int, place: int, gain: float) -> int:
        """The state in which `place` holds feedback of exactly this gain."""
        key = (number, place, gain)
        known = self._changes.get(key)
        if known is None:
            known = self._changes[key] = self._changed(number, place, gain)
        return known

    def _changed(self, number: int, place: int, gain: float) -> int:
        length, cells = self._states[number]
        return self.id_of((length, with_cell(cells, place, gain)), self._surfaces[number])

    def raised(self, numbers: Integers, places: Integers, gains: Floats) -> Integers:
        """The states, (n,), in which `places` hold at least these gains, which must be those of
        kinds of feedback: implicit feedback only adds."""
        keys = (numbers * MOST_ITEMS + places) * len(self._gains)
        keys += np.searchsorted(self._gains, gains)
        after = self._raises.find(keys)
        if (unknown := after == MISSING).any():
            new = distinct(keys[unknown])
            self._raises.add(new, np.array([self._raised_one(key) for key in new.tolist()]))
            after[unknown] = self._raises.find(keys[unknown])
        return after

    def _raised_one(self, key: int) -> int:
        rest, gain_number = divmod(key, len(self._gains))
        (number, place), gain = divmod(rest, MOST_ITEMS), float(self._gains[gain_number])
        held = self.gain_at(number, place)
        enough = held is not None and held >= gain
        return number if enough else self._changed(number, place, gain)

    def untouched(self, lengths: Integers, surfaces: Integers | None = None) -> Integers:
        """The states of lists of these lengths and on these surfaces, (n,) of each, that nobody has
        reacted to."""
        most = 1 if surfaces is None else int(surfaces.max(initial=NO_SURFACE)) + 1
        kinds = lengths if surfaces is None else lengths * most + surfaces
        distinct, which = np.unique(kinds, return_inverse=True)
        told = (divmod(kind, most) for kind in distinct.tolist())
        numbers = [self.id_of((length, ()), surface) for length, surface in told]
        untouched: Integers = np.array(numbers, np.int64)[which.reshape(-1)]
        return untouched

    def gain_at(self, number: int, place: int) -> float | None:
        """The gain that a place holds; None where it has no feedback."""
        for held, gain in self._states[number][1]:
            if held == place:
                return gain
        return None

    def rows(self) -> NDArray[np.int64]:
        """The rows of all states so far, (states, columns); row 0 is zeros."""
        scored = len(self._rows)
        if scored < len(self._states):
            surfaces = self._surfaces[scored:]
            fresh = score_states(self._states[scored:], self._plan, surfaces)
            self._rows = np.concatenate([self._rows, fresh])
        return self._rows


def with_cell(cells: Cells, place: int, gain: float) -> Cells:
    """The cells with one place set."""
    kept = [cell for cell in cells if cell[0] != place]
    return tuple(sorted([*kept, (place, gain)]))


def score_states(
    states: list[GainState], plan: Plan, surfaces: Sequence[int] = ()
) -> NDArray[np.int64]:
    """One row per state, (states, columns) of int64, by the kernels of the plan's metrics.

    `surfaces`: of each state, where the plan knows any; none: all are unknown.
    A value v counts as floor(unit·v + 0.5001), its square likewise; the odd fraction keeps float
    noise off the ties. Raises OverflowError where a scaled value is too large to be exact.
    """
    lists = lists_of(states)
    on = np.array(surfaces or [NO_SURFACE] * len(states), np.int64)
    if plan.surfaces is not None:
        lists = replace(lists, weights=plan.rank_weights[on, : max(lists.depth, 1)])
    rows = np.zeros((len(states), plan.row_width), np.int64)
    items_with_feedback = lists.judged.sum(axis=1)
    counts = (
        np.ones(len(states)),
        items_with_feedback > 0,
        lists.lengths == 0,
        items_with_feedback,
    )
    for column, values in enumerate(counts):
        rows[:, column] = values
    assert len(counts) == len(COUNT_COLUMNS)
    _score(rows, lists, plan, [n for n in range(len(plan.metrics)) if n not in plan.timed])
    if lists.weights is not None:
        _weigh(rows, lists, lists.weights, plan, on)
    return rows


def _weigh(rows: Integers, lists: Lists, weights: Floats, plan: Plan, surfaces: Integers) -> None:
    """Write the columns of what was weighed: items with a gain on a surface that is known."""
    k, clipped = plan.weighted_depth, plan.clipped_ranks[surfaces, : lists.depth]
    gained = (lists.gains > 0) & (surfaces != NO_SURFACE)[:, np.newaxis]
    known = np.nan_to_num(weights)
    columns = (
        hits(gained, k),
        hits(gained & clipped, k),
        scaled(weighted_hits(gained, k, known), WEIGHT_UNIT),
        scaled(weighted_hits(gained, k, known**2), WEIGHT_UNIT),
    )
    assert len(columns) == len(WEIGHT_COLUMNS)
    rows[:, plan.weight_column :] = np.stack(columns, axis=1)


def score_delays(delays_ms: Sequence[int | None], plan: Plan) -> NDArray[np.int64]:
    """One row per delay of the first feedback, (delays, columns): the metrics of time alone.

    None, for no feedback yet, is a row of zeros.
    """
    seconds = [np.nan if delay is None else delay / 1000 for delay in delays_ms]
    nothing = np.zeros((len(seconds), 0))
    lists = Lists(
        gains=nothing,
        lengths=np.zeros(len(seconds), np.int64),
        judged=nothing.astype(np.bool_),
        first_feedback_s=np.array(seconds),
    )
    rows = np.zeros((len(seconds), plan.row_width), np.int64)
    _score(rows, lists, plan, plan.timed)
    return rows


def _score(rows: Integers, lists: Lists, plan: Plan, positions: Sequence[int]) -> None:
    """Write the columns of some metrics."""
    if not positions:
        return
    metrics = [plan.metrics[position] for position in positions]
    columns = np.array([plan.metric_column(position) for position in positions])
    values = np.stack([metric.values(lists) for metric in metrics], axis=1)
    units = np.array([metric.unit for metric in metrics], np.float64)
    defined = ~np.isnan(values)
    values[~defined] = 0.0
    rows[:, columns] = defined
    rows[:, columns + 1] = scaled(values, units)
    rows[:, columns + 2] = scaled(values**2, units)


def scaled(values: Floats, units: Floats | int) -> Integers:
    """Values as whole numbers of 1/unit, any shape; units of the last axis, or one of all. Raises
    OverflowError where that is not exact."""
    numbers = np.floor(units * values + 0.5001)
    if numbers.size and np.abs(numbers).max() > LARGEST_EXACT:
        largest = np.abs(numbers).argmax()
        unit = np.broadcast_to(units, values.shape).flat[largest]
        raise OverflowError(
            f"metric value {values.flat[largest]}: too large for units of 1/{unit:.0f}"
        )
    return numbers.astype(np.int64)


def lists_of(states: list[GainState]) -> Lists:
    """States as the batch of arrays that kernels take."""
    depth = max((length for length, _ in states), default=0)
    gains = np.zeros((len(states), depth), np.float64, order="F")  # as kernels go through them
    judged = np.zeros((len(states), depth), np.bool_)
    for number, (_, cells) in enumerate(states):
        for place, gain in cells:
            gains[number, place] = gain
            judged[number, place] = True
    lengths = np.array([length for length, _ in states], np.int64)
    return Lists(gains=gains, lengths=lengths, judged=judged)
