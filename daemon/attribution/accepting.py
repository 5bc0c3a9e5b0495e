"""The impressions of a run that are surely new, added to the lane all at once. Pure."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from relevanced.metrics.lists import Integers

from ..lane.attribute_texts import once_per_text
from ..lane.gain_states import NO_STATE
from ..lane.lane import Lane
from ..lane.new_impressions import NewImpressions
from ..lane.searches import Searches, search_steps
from ..lane.subjects import Subjects
from .runs import Run


@dataclass(frozen=True)
class RunAtWatermarks:
    """A run of n events, with the watermark that each of them arrives at."""

    run: Run
    watermarks_ms: Integers
    """Of the topic-partition just before each event, (n,)."""

    def part(self, stop: int) -> "RunAtWatermarks":
        """The events before `stop`."""
        return RunAtWatermarks(self.run.part(0, stop), self.watermarks_ms[:stop])


def accept(
    lane: Lane, topic: str, events: RunAtWatermarks, selected: Integers, searches: Searches | None
) -> None:
    """Add the selected plain impressions of the run, (s,) indices among them, to the lane, and what
    they searched for."""
    run, base_ms = events.run, lane.plan.timing.base_ms
    event_index = run.impression_index[selected]
    combinations = _combinations(lane, topic, events, selected)
    states = lane.states.untouched(run.lengths[selected], _surface_ids(lane, run, selected))
    times_ms = run.times_ms[event_index]
    panes = times_ms - times_ms % base_ms
    first_slot = lane.open.add_many(
        NewImpressions(
            ids=run.ids.at(event_index).joined(),
            items=run.items.at(selected).joined(),
            times_ms=times_ms,
            panes=panes,
            combinations=combinations,
            states=states,
            hashes=run.hashes[event_index],
            subjects=_subjects(lane, run, selected),
            searches=searches,
        )
    )
    lane.changes.add_many(panes, combinations, np.full(len(states), NO_STATE), states)
    if lane.judged is not None:
        lane.judged.shown.add_many(first_slot, events.watermarks_ms[event_index])
    lane.count("impression_outcomes", "accepted", len(selected))


def _combinations(lane: Lane, topic: str, events: RunAtWatermarks, selected: Integers) -> Integers:
    """The combination ids of the selected impressions, (s,), admitted in their order."""
    run = events.run
    return lane.admissions[topic].combinations_of(
        run.attribute_ids[selected],
        run.parsed_attributes,
        int(events.watermarks_ms[0]),  # all are in one pane of the longest window
        lane.segments,
        lane.counts["segment_overflow"],
    )


def _surface_ids(lane: Lane, run: Run, selected: Integers) -> Integers | None:
    """The surface ids of the selected impressions, (s,); None without propensities."""
    if lane.plan.surfaces is None:
        return None
    parsed = run.parsed_attributes
    return once_per_text(
        run.attribute_ids[selected],
        len(parsed),
        lambda attribute_id, _: parsed[attribute_id].surface_id,
    )


def _subjects(lane: Lane, run: Run, selected: Integers) -> Subjects | None:
    """The units and experiment arms of the selected impressions; None without experiments."""
    if lane.plan.tracking is None:
        return None
    parsed, id_of = run.parsed_attributes, lane.assignments.id_of
    assignment_ids = once_per_text(
        run.attribute_ids[selected],
        len(parsed),
        lambda attribute_id, _: id_of(parsed[attribute_id].assignment),
    )
    indices = selected.tolist()
    units = [[values[n] for n in indices] for values in run.units]
    return lane.assignments.subjects_of(assignment_ids, units)


def read_searches(
    lane: Lane, run: Run, selected: Integers
) -> Generator[None, None, Searches | None]:
    """What the selected impressions searched for, in steps; None where it is not kept."""
    plan, keys = lane.plan.searches, lane.query_keys
    if plan is None or keys is None:
        return None
    times_ms = run.times_ms[run.impression_index[selected]]
    queries, users = run.queries, run.searchers or [None] * len(run.queries)
    if len(selected) < len(queries):
        indices = selected.tolist()
        queries, users = [queries[n] for n in indices], [users[n] for n in indices]
    return (yield from search_steps(keys, plan, queries, users, times_ms))
