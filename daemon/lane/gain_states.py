"""Interned gain states: every distinct vector of gains is scored once, however many impressions
have it. Pure.

A state is the length of a list and the gains of the ranks that have feedback; where propensities
are configured, also the surface that weights them. Traffic repeats the same few thousand states for
ever (nothing clicked, the first clicked, …), so an impression is one small integer, a click is a
look-up, and the metrics of a batch are a gather of ready int64 rows. Measured: 4.3 µs less per
event, out of 11.

State ids exist in one process's memory only. The states themselves are stored, so the table may be
dropped and built anew at any time without changing a count.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Floats, Integers, Lists, distinct, hits, weighted_hits

from ..events import MOST_ITEMS
from ..plan import COUNT_COLUMNS, LARGEST_EXACT, NO_SURFACE, WEIGHT_COLUMNS, WEIGHT_UNIT, Plan
from .columns.arrays import NO_PLACE, SortedMap

Cells: TypeAlias = tuple[tuple[int, float], ...]
"""(rank from 0, gain) of the ranks that have feedback, ascending. Such a rank may have gain 0."""
GainState: TypeAlias = tuple[int, Cells]
"""(length of the list, cells)."""

NO_STATE: Final = 0
"""The state of an impression that does not exist yet: a row of zeros, so that a new impression is
a change like any other."""
MOST_STATES: Final = 100_000
"""A table beyond this is built anew from the states of open impressions."""


class GainStates:
    """The states of one lane: state ↔ id, and the row of each id."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ids: dict[tuple[GainState, int], int] = {}
        """By state and surface id."""
        self._states: list[GainState] = [(0, ())]
        self._surfaces: list[int] = [NO_SURFACE]
        self._changes: dict[tuple[int, int, float], int] = {}
        self._gains = distinct(np.array(list(plan.grades.values()), np.float64))
        self._raises = SortedMap()
        """(state id, rank from 0, index of the gain), packed into one integer → state id. An array,
        as a batch has thousands of keys: a dictionary would take an object for each of them."""
        self._rows: NDArray[np.int64] = np.zeros((1, plan.row_width), np.int64)
        self._capacity = MOST_STATES

    @property
    def is_full(self) -> bool:
        """True where there are so many states, or changes between them, that most are unused."""
        return max(len(self._states), len(self._changes), len(self._raises)) > self._capacity

    def reserve(self) -> None:
        """Let the table grow to at least twice its size before it is full."""
        self._capacity = max(MOST_STATES, 2 * len(self._states))

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, state_id: int) -> GainState:
        return self._states[state_id]

    def id_of(self, state: GainState, surface: int = NO_SURFACE) -> int:
        """The id of a state on a surface, a new one if it has none yet."""
        state_id = self._ids.get((state, surface))
        if state_id is None:
            state_id = self._ids[state, surface] = len(self._states)
            self._states.append(state)
            self._surfaces.append(surface)
        return state_id

    def surface_id_of(self, state_id: int) -> int:
        """The id of a state's surface."""
        return self._surfaces[state_id]

    def with_gain(self, state_id: int, rank0: int, gain: float) -> int:
        """The id of the state in which the rank (from 0) has exactly this gain."""
        key = (state_id, rank0, gain)
        after = self._changes.get(key)
        if after is None:
            after = self._changes[key] = self._changed(state_id, rank0, gain)
        return after

    def _changed(self, state_id: int, rank0: int, gain: float) -> int:
        length, cells = self._states[state_id]
        return self.id_of((length, with_cell(cells, rank0, gain)), self._surfaces[state_id])

    def raised(self, state_ids: Integers, ranks0: Integers, gains: Floats) -> Integers:
        """The ids of the states, (n,), in which each rank (from 0) has at least this gain. Gains
        must be those of kinds of feedback: implicit feedback only raises a gain."""
        keys = (state_ids * MOST_ITEMS + ranks0) * len(self._gains)
        keys += np.searchsorted(self._gains, gains)
        after = self._raises.find(keys)
        if (missing := after == NO_PLACE).any():
            new = distinct(keys[missing])
            self._raises.add(new, np.array([self._raised_one(key) for key in new.tolist()]))
            after[missing] = self._raises.find(keys[missing])
        return after

    def _raised_one(self, key: int) -> int:
        rest, gain_index = divmod(key, len(self._gains))
        (state_id, rank0), gain = divmod(rest, MOST_ITEMS), float(self._gains[gain_index])
        present = self.gain_at(state_id, rank0)
        is_enough = present is not None and present >= gain
        return state_id if is_enough else self._changed(state_id, rank0, gain)

    def untouched(self, lengths: Integers, surfaces: Integers | None = None) -> Integers:
        """The ids of the states without feedback of lists of these lengths, on surfaces of these
        ids, (n,) of each."""
        most = 1 if surfaces is None else int(surfaces.max(initial=NO_SURFACE)) + 1
        keys = lengths if surfaces is None else lengths * most + surfaces
        distinct_keys, which = np.unique(keys, return_inverse=True)
        pairs = (divmod(key, most) for key in distinct_keys.tolist())
        state_ids = [self.id_of((length, ()), surface) for length, surface in pairs]
        untouched: Integers = np.array(state_ids, np.int64)[which.reshape(-1)]
        return untouched

    def gain_at(self, state_id: int, rank0: int) -> float | None:
        """The gain of a rank (from 0); None where it has no feedback."""
        for rank, gain in self._states[state_id][1]:
            if rank == rank0:
                return gain
        return None

    def rows(self) -> NDArray[np.int64]:
        """The rows of all states so far, (states, columns); row 0 is zeros."""
        scored = len(self._rows)
        if scored < len(self._states):
            surfaces = self._surfaces[scored:]
            new = score_states(self._states[scored:], self._plan, surfaces)
            self._rows = np.concatenate([self._rows, new])
        return self._rows


def with_cell(cells: Cells, rank0: int, gain: float) -> Cells:
    """The cells with the gain of one rank set."""
    others = [cell for cell in cells if cell[0] != rank0]
    return tuple(sorted([*others, (rank0, gain)]))


def score_states(
    states: list[GainState], plan: Plan, surfaces: Sequence[int] = ()
) -> NDArray[np.int64]:
    """One row per state, (states, columns) of int64, by the kernels of the plan's metrics.

    `surfaces` are the surface ids of the states; empty: no state has a surface.
    A value v counts as floor(unit·v + 0.5001), its square likewise; the 0.0001 keeps float noise
    from deciding ties. Raises OverflowError where a scaled value is too large to be exact.
    """
    lists = lists_of(states)
    surface_ids = np.array(surfaces or [NO_SURFACE] * len(states), np.int64)
    if plan.surfaces is not None:
        lists = replace(lists, weights=plan.rank_weights[surface_ids, : max(lists.depth, 1)])
    rows = np.zeros((len(states), plan.row_width), np.int64)
    items_with_feedback = lists.judged.sum(axis=1)
    counts = (
        np.ones(len(states)),
        items_with_feedback > 0,
        lists.lengths == 0,
        items_with_feedback,
        lists.lengths,
        lists.lengths**2,
    )
    for column, values in enumerate(counts):
        rows[:, column] = values
    assert len(counts) == len(COUNT_COLUMNS)
    _score(rows, lists, plan, [n for n in range(len(plan.metrics)) if n not in plan.timed])
    if lists.weights is not None:
        _weight(rows, lists, plan, surface_ids)
    return rows


def _weight(rows: Integers, lists: Lists, plan: Plan, surface_ids: Integers) -> None:
    """Write `WEIGHT_COLUMNS`: of items with a gain, in lists that have a surface."""
    assert lists.weights is not None
    k, clipped = plan.weighted_depth, plan.clipped_ranks[surface_ids, : lists.depth]
    gained = (lists.gains > 0) & (surface_ids != NO_SURFACE)[:, np.newaxis]
    weights = np.nan_to_num(lists.weights)
    columns = (
        hits(gained, k),
        hits(gained & clipped, k),
        scaled(weighted_hits(gained, k, weights), WEIGHT_UNIT),
        scaled(weighted_hits(gained, k, weights**2), WEIGHT_UNIT),
    )
    assert len(columns) == len(WEIGHT_COLUMNS)
    rows[:, plan.weight_column :] = np.stack(columns, axis=1)


def score_delays(delays_ms: Sequence[int | None], plan: Plan) -> NDArray[np.int64]:
    """One row per delay of the first feedback, (delays, columns): only the metrics of time count.

    None, for no feedback yet, gives a row of zeros.
    """
    seconds = [np.nan if delay is None else delay / 1000 for delay in delays_ms]
    no_gains = np.zeros((len(seconds), 0))
    lists = Lists(
        gains=no_gains,
        lengths=np.zeros(len(seconds), np.int64),
        judged=no_gains.astype(np.bool_),
        first_feedback_s=np.array(seconds),
    )
    rows = np.zeros((len(seconds), plan.row_width), np.int64)
    _score(rows, lists, plan, plan.timed)
    return rows


def _score(rows: Integers, lists: Lists, plan: Plan, metric_indices: Sequence[int]) -> None:
    """Write the columns of the metrics at these indices."""
    if not metric_indices:
        return
    metrics = [plan.metrics[index] for index in metric_indices]
    columns = np.array([plan.metric_column(index) for index in metric_indices])
    values = np.stack([metric.values(lists) for metric in metrics], axis=1)
    units = np.array([metric.unit for metric in metrics], np.float64)
    defined = ~np.isnan(values)
    values[~defined] = 0.0
    rows[:, columns] = defined
    rows[:, columns + 1] = scaled(values, units)
    rows[:, columns + 2] = scaled(values**2, units)


def scaled(values: Floats, units: Floats | int) -> Integers:
    """Values as integer multiples of 1/unit, of any shape; `units` are those along the last axis,
    or one for all. Raises OverflowError where a multiple is too large to be exact."""
    multiples = np.floor(units * values + 0.5001)
    if multiples.size and np.abs(multiples).max() > LARGEST_EXACT:
        largest = np.abs(multiples).argmax()
        unit = np.broadcast_to(units, values.shape).flat[largest]
        raise OverflowError(
            f"metric value {values.flat[largest]}: too large for units of 1/{unit:.0f}"
        )
    return multiples.astype(np.int64)


def lists_of(states: list[GainState]) -> Lists:
    """States as the batch of arrays that kernels take."""
    depth = max((length for length, _ in states), default=0)
    gains = np.zeros((len(states), depth), np.float64, order="F")  # as kernels go through them
    judged = np.zeros((len(states), depth), np.bool_)
    for row, (_, cells) in enumerate(states):
        for rank0, gain in cells:
            gains[row, rank0] = gain
            judged[row, rank0] = True
    lengths = np.array([length for length, _ in states], np.int64)
    return Lists(gains=gains, lengths=lengths, judged=judged)
