"""The impressions of a run that are new for sure, remembered all at once. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relevanced.metrics.lists import Integers

from ..lane.columns.texts import joined, joined_texts
from ..lane.gain_states import NO_STATE
from ..lane.lane import Lane
from ..lane.open_impressions import NewImpressions
from ..lane.segments import NO_COMBINATION, combination_of
from ..lane.subjects import Subjects
from .runs import Run


@dataclass(frozen=True)
class RunAtWatermarks:
    """A run about to meet a lane, with an entry for each event."""

    run: Run
    met_ms: Integers
    """The watermark that each event meets."""
    hashes: Integers
    """Of the ids."""

    def part(self, stop: int) -> "RunAtWatermarks":
        """The events before `stop`."""
        return RunAtWatermarks(self.run.part(0, stop), self.met_ms[:stop], self.hashes[:stop])


def accept(lane: Lane, topic: str, meeting: RunAtWatermarks, chosen: Integers) -> None:
    """Remember chosen impressions of the run."""
    run, base_ms = meeting.run, lane.plan.timing.base_ms
    numbers, places = chosen.tolist(), run.shown[chosen]
    combinations = _combinations(lane, topic, meeting, chosen)
    states = lane.states.untouched(run.lengths[chosen], _surfaces(lane, run, chosen))
    times_ms = run.times_ms[places]
    panes = times_ms - times_ms % base_ms
    lane.open.add_many(
        NewImpressions(
            ids=joined_texts([run.ids[place] for place in places.tolist()]),
            items=joined([run.items[n] for n in numbers]),
            times_ms=times_ms,
            panes=panes,
            combinations=combinations,
            states=states,
            hashes=meeting.hashes[places],
            subjects=_subjects(lane, run, chosen),
        )
    )
    lane.changes.add_many(panes, combinations, np.full(len(states), NO_STATE), states)
    lane.count("impression_outcomes", "accepted", len(numbers))


def _subjects(lane: Lane, run: Run, chosen: Integers) -> Subjects | None:
    """Whom chosen impressions were shown to, and in which arms."""
    if lane.plan.tracking is None:
        return None
    number_of = lane.assignments.id_of
    numbers = _by_text(run, chosen, lambda text, _: number_of(run.table[text].assignment))
    units = [[values[number] for number in chosen.tolist()] for values in run.units]
    return lane.assignments.subjects_of(numbers, units)


def _surfaces(lane: Lane, run: Run, chosen: Integers) -> Integers | None:
    """Where chosen impressions were shown, (n,), where anybody asks."""
    if lane.plan.surfaces is None:
        return None
    return _by_text(run, chosen, lambda text, _: run.table[text].surface_id)


def _combinations(lane: Lane, topic: str, meeting: RunAtWatermarks, chosen: Integers) -> Integers:
    """The combinations of chosen impressions, (n,), admitted in their order."""
    run, met_ms = meeting.run, int(meeting.met_ms[0])  # of the same longest pane as all others
    admission, overflow = lane.admissions[topic], lane.counts["segment_overflow"]
    known = admission.by_text(met_ms, run.table)

    def combination(text: int, count: int) -> int:
        values = run.table[text].values
        number = combination_of(values, met_ms, admission, lane.segments, overflow, count)
        if not admission.recent(met_ms)[values].left_out:  # else each one counts as left out
            known[text] = number
        return number

    combinations = known[run.told[chosen]]
    unknown = combinations == NO_COMBINATION
    if unknown.any():
        combinations[unknown] = _by_text(run, chosen[unknown], combination)
    return combinations


def _by_text(run: Run, chosen: Integers, number_of: Callable[[int, int], int]) -> Integers:
    """The numbers of chosen impressions, (n,): asked for once for each text, with its count, in the
    order in which the texts come."""
    told = run.told[chosen]
    counts, first = np.bincount(told), np.zeros(len(run.table), np.int64)
    first[told[::-1]] = np.arange(len(told))[::-1]  # of several the last has it
    distinct = np.flatnonzero(counts)
    numbers = np.zeros(len(run.table), np.int64)
    for text in distinct[np.argsort(first[distinct])].tolist():
        numbers[text] = number_of(text, int(counts[text]))
    return numbers[told]
