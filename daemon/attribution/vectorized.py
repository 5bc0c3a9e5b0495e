"""The join of a whole run at once. Events that are not plain are left to `join_rules`.

Pure, and equal to applying the events one by one, for any cut into batches: tests compare this with
`join_rules` and with an oracle of their own, so a rule that changes, changes in all three.

An event that is joined here is judged by the watermark at which it would arrive alone. All
impression records of an id go through `join_rules`, in order, unless there is just one, new and
plain. The order may be changed like this because feedback on one impression commutes, and so do
impressions of different ids but for the order in which their segments are admitted: hence a run is
cut where a combination of values is new.

Measured on batches of 10,000 events: 0.6 µs an event for new impressions, 0.7 µs for feedback.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, KeysView
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, repeat
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from ..events import Impression
from ..lane import (
    JUMP_MS,
    NO_STATE,
    NOT_FOUND,
    Lane,
    NewImpressions,
    OpenSearches,
    Spans,
    Subjects,
    Touches,
    hashes_of,
    moved_by_all,
    new_column,
    once_per_text,
    search_steps,
    visitor_hashes,
)
from ..timing import GRACE_MS
from . import join_rules
from .gain_changes import note_delay
from .id_scanning import ranks0_of
from .runs import Run


@dataclass(frozen=True)
class RunAtWatermarks:
    """A run of n events, with the watermark of their log that each of them arrives at."""

    run: Run
    watermarks_ms: Integers
    """Of the topic-partition just before each event, (n,)."""
    lift_ms: int | None = None
    """Of the topic-partition, in a lane that has all; 0: it is not lifted."""

    def part(self, stop: int) -> "RunAtWatermarks":
        """The events before `stop`."""
        part = self.run.part(0, stop)
        return RunAtWatermarks(part, self.watermarks_ms[:stop], self.lift_ms)

    @cached_property
    def met_ms(self) -> Integers:
        """The watermark that each of them meets, (n,), as `Lane.met_ms`."""
        if self.lift_ms is None:
            return self.watermarks_ms
        return np.maximum(np.maximum(self.watermarks_ms, self.lift_ms), self.run.times_ms)


def accept_impressions(
    lane: Lane,
    topic: str,
    events: RunAtWatermarks,
    selected: Integers,
    searches: OpenSearches | None,
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
            touches=_touches(lane, events, selected),
        )
    )
    lane.changes.add_many(panes, combinations, np.full(len(states), NO_STATE), states)
    if lane.judged is not None:
        met_ms = events.met_ms[event_index]
        lane.judged.shown.add_many(first_slot, met_ms)
        if lane.is_one:
            late = np.flatnonzero(met_ms >= lane.plan.timing.judged_until(times_ms))
            slots = (first_slot + late).tolist()
            lane.open.late.update(zip(slots, met_ms[late].tolist(), strict=True))
    lane.count("impression_outcomes", "accepted", len(selected))


def _combinations(lane: Lane, topic: str, events: RunAtWatermarks, selected: Integers) -> Integers:
    """The combination ids of the selected impressions, (s,), admitted in their order."""
    run = events.run
    attribute_ids = run.attribute_ids[selected]
    watermarks_ms = events.watermarks_ms[run.impression_index[selected]]
    passed = np.flatnonzero(np.diff(watermarks_ms // lane.plan.timing.longest.pane_ms)) + 1
    found = [
        lane.admissions[topic].combinations_of(
            attribute_ids[start:stop],
            run.parsed_attributes,
            int(watermarks_ms[start]),
            lane.segments,
            lane.counts["segment_overflow"],
        )
        for start, stop in pairwise((0, *passed.tolist(), len(selected)))
        if stop > start
    ]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


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


def _touches(lane: Lane, events: RunAtWatermarks, selected: Integers) -> Touches | None:
    """Who saw the selected impressions, and the watermarks that these met; None without last
    touch."""
    if lane.open.touches is None:
        return None
    visitors, event_index = events.run.visitors, events.run.impression_index[selected]
    hashes = visitor_hashes([visitors[n] for n in selected.tolist()])
    return Touches(hashes, events.met_ms[event_index])


def read_searches(
    lane: Lane, run: Run, selected: Integers
) -> Generator[None, None, OpenSearches | None]:
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


SMALL_RUN: Final = 48
"""Fewer events than this are applied faster one by one: a join costs the same calls of numpy for
any number of events."""
MOST_TEXT_BYTES: Final = 8 << 20
"""Bytes of lists that are searched at once: lists are padded to the longest of them, so much
feedback on long lists would need much memory."""


def apply(
    lane: Lane, topic: str, run: Run, small_run: int = SMALL_RUN, marks: Integers | None = None
) -> Iterator[None]:
    """Apply a run of one topic-partition to the lane, in steps. Joins at least `small_run` events
    at once. `marks`: as of `moved_by_all`, where it is known."""
    if lane.watermarks[topic] is None and len(run):
        yield from join_rules.steps(lane, topic, [run.event(0)])
        run = run.part(1, len(run))
    if len(run.others) * 2 > len(run):
        small_run = len(run) + 1
    watermarks_ms = _move_watermark(lane, topic, run, marks)
    start, fewest = 0, 1
    while start < len(run):
        rest = run.part(start, len(run))
        arriving_at = watermarks_ms[start:]
        joined, singles = yield from _apply_first(lane, topic, rest, arriving_at, small_run)
        # Each attempt hashes and sorts all that is left. Where none succeeds, because each event
        # may admit a value, there must be few: one for each of 6,000 events took five seconds.
        fewest = 1 if joined else fewest * 2
        start += joined
        stop = min(start + max(singles, fewest if singles else 0), len(run))
        for number, index in enumerate(range(start, stop), 1):
            yield from join_rules.event_steps(
                lane, topic, run.event(index), int(watermarks_ms[index])
            )
            if not number % join_rules.STEP_EVENTS or index + 1 == stop:
                yield
        start = stop


def _move_watermark(lane: Lane, topic: str, run: Run, marks: Integers | None) -> Integers:
    """Move the watermark by all events of the run, and count those ahead of it; returns the one
    that each of them arrives at, (n,)."""
    watermark = lane.watermarks[topic]
    if watermark is None:
        return run.times_ms
    if marks is None:
        marks = moved_by_all(watermark, lane.pending[topic], run.ids.text, run.times_ms)
    lane.watermarks[topic] = int(marks[-1])
    ahead = int(np.count_nonzero(run.times_ms - marks[:-1] > JUMP_MS))
    if ahead:
        lane.count("ahead_events", topic, ahead)
    lift_ms = lane.lifts.get(topic)
    if lift_ms is not None and (behind := int(np.count_nonzero(run.times_ms <= lift_ms))):
        lane.count("behind_lift", topic, behind)
    return marks[:-1]


def _apply_first(
    lane: Lane, topic: str, run: Run, watermarks_ms: Integers, small_run: int
) -> Generator[None, None, tuple[int, int]]:
    """Join the first events of a run, which arrive at these watermarks, at once: as many as
    possible. Returns how many they are, and how many events after them must be applied one by
    one."""
    lift_ms = lane.lifts.get(topic, 0) if lane.is_one else None
    events, count = RunAtWatermarks(run, watermarks_ms, lift_ms), len(run)
    is_new = _is_new(lane, events)
    if not is_new.all() or any(isinstance(event, Impression) for event in run.others.values()):
        # Impressions that are left to `join_rules` are admitted after the others: in the same pane
        # that makes no difference.
        count = _within_a_pane(lane, watermarks_ms)
        events = events.part(count)
        is_new = is_new[: len(events.run.impression_index)]
    if count < small_run:
        return 0, count
    stop = _first_to_admit(lane, topic, events, is_new)
    if stop < min(small_run, count):
        return 0, stop + 1
    is_new = is_new[: np.searchsorted(run.impression_index, stop)]
    yield from _apply_joined(lane, topic, events.part(stop), is_new)
    return stop, min(1, count - stop)


def _within_a_pane(lane: Lane, watermarks_ms: Integers) -> int:
    """How many events arrive at a watermark in the same pane of the longest window as the first."""
    pane_ms, first = lane.plan.timing.longest.pane_ms, int(watermarks_ms[0])
    return int(np.searchsorted(watermarks_ms, first - first % pane_ms + pane_ms))


def _is_new(lane: Lane, events: RunAtWatermarks) -> Booleans:
    """Which plain impressions, (m,), are surely accepted: each the only record of a new id, and in
    time."""
    run, timing = events.run, lane.plan.timing
    index = run.impression_index
    times_ms, hashes = run.times_ms[index], run.hashes[index]
    is_new = timing.closes_at(times_ms) > events.met_ms[index]
    is_new &= _alone(run) & (lane.open.find(hashes) == NOT_FOUND)
    if waiting_ids := lane.waiting.ids():
        is_new &= ~_among(waiting_ids, run.ids.at(index), hashes)
    return is_new


def _first_to_admit(lane: Lane, topic: str, events: RunAtWatermarks, is_new: Booleans) -> int:
    """Index of the first event that is left to `join_rules` and may admit a value: the impressions
    after it must wait for that."""
    run, plan = events.run, lane.plan
    seen = lane.admissions[topic].seen_values(int(events.watermarks_ms[0]))
    left = np.flatnonzero(~is_new)
    numbered = zip(left.tolist(), run.impression_index[left].tolist(), strict=True)
    to_admit = [
        index
        for n, index in numbered
        if run.parsed_attributes[run.attribute_ids[n]].values not in seen
    ]
    for index, event in run.others.items():
        if isinstance(event, Impression):
            attributes = lane.texts.attributes_of(event)
            if plan.values_of(attributes, event.experiments) not in seen:
                to_admit.append(index)
    return min(to_admit, default=len(run))


def _apply_joined(
    lane: Lane, topic: str, events: RunAtWatermarks, is_new: Booleans
) -> Iterator[None]:
    """Join what can be joined at once, then apply the other events one by one."""
    run = events.run
    left = np.zeros(len(run), np.bool_)
    left[list(run.others)] = True
    left[run.impression_index[~is_new]] = True
    selected = np.flatnonzero(is_new)
    searches = yield from read_searches(lane, run, selected)
    accept_impressions(lane, topic, events, selected, searches)
    left[run.feedback_index[~_join(lane, events)]] = True
    joined = len(run) - int(np.count_nonzero(left))
    impressions = int(np.count_nonzero(is_new))
    lane.counts["events"] += Counter(impression=impressions, feedback=joined - impressions)
    for number, index in enumerate(np.flatnonzero(left).tolist(), 1):
        watermark_ms = int(events.watermarks_ms[index])
        yield from join_rules.event_steps(lane, topic, run.event(index), watermark_ms)
        if not number % join_rules.STEP_EVENTS:
            yield


# Impressions


def _alone(run: Run) -> Booleans:
    """Whether no other impression record of the run has the id, (m,)."""
    others = [index for index, event in run.others.items() if isinstance(event, Impression)]
    compared = np.concatenate((run.hashes[run.impression_index], run.hashes[others]))
    order = np.argsort(compared)
    same = compared[order][1:] == compared[order][:-1]
    alone = np.ones(len(compared), np.bool_)
    alone[order[1:][same]] = False
    alone[order[:-1][same]] = False
    return alone[: len(run.impression_index)]


def _among(ids: KeysView[str], texts: Spans, hashes: Integers) -> Booleans:
    """Whether each of the texts, (n,), of these hashes is among some ids. It may be said of one
    that only has the hash of such an id."""
    if len(ids) > len(texts):
        return flags(texts.text(n) in ids for n in range(len(texts)))
    return np.isin(hashes, hashes_of(ids, len(ids)))


# Feedback


def _join(lane: Lane, events: RunAtWatermarks) -> Booleans:
    """Join the feedback whose impression and rank are sure, and count the kinds without a grade;
    returns which feedback, (f,), is done with."""
    run, impressions = events.run, lane.open
    grades, kinds = lane.plan.grades, run.kinds
    gains = np.fromiter(map(grades.get, kinds, repeat(np.nan)), np.float64, len(kinds))
    hashes = run.hashes[run.feedback_index]
    slots = impressions.find(hashes)
    found = slots != NOT_FOUND
    index = np.where(found, impressions.index_of(slots), 0)
    sure = found & ~np.isnan(gains)
    if len(impressions.times_ms):
        sure &= _in_time(lane, events, index)
    for by_slot in (impressions.grades, impressions.paged_items):
        if by_slot:
            sure &= flags(slot not in by_slot for slot in slots.tolist())
    if shared := impressions.shared_hashes:
        sure &= ~np.isin(hashes, np.fromiter(shared, np.int64, len(shared)))
    selected = np.flatnonzero(sure)
    ranks0 = _ranks0(lane, run, index, selected)
    sure[selected[ranks0 < 0]] = False
    selected, ranks0 = selected[ranks0 >= 0], ranks0[ranks0 >= 0]
    _raise_gains(lane, index[selected], ranks0, gains[selected])
    if lane.plan.timed:
        times_ms = run.times_ms[run.feedback_index[selected]]
        for slot, time_ms in zip(slots[selected].tolist(), times_ms.tolist(), strict=True):
            note_delay(lane, slot, time_ms)
    ignored = np.isnan(gains)
    # Not `update`: an outcome that no event had has no count.
    lane.counts["feedback_outcomes"] += Counter(
        joined=len(selected), ignored_kind=int(np.count_nonzero(ignored))
    )
    done: Booleans = sure | ignored
    return done


def _in_time(lane: Lane, events: RunAtWatermarks, index: Integers) -> Booleans:
    """Which feedback, (f,), counts for the impressions at these indices: they are open to it, and
    both times and its watermark are within the limits."""
    run, timing, impressions = events.run, lane.plan.timing, lane.open
    times_ms = run.times_ms[run.feedback_index]
    watermarks_ms = events.met_ms[run.feedback_index]
    shown_ms = impressions.times_ms.at(index)
    in_time: Booleans = np.frombuffer(impressions.is_open, np.bool_)[index]
    in_time &= timing.closes_at(shown_ms) > watermarks_ms
    in_time &= times_ms >= shown_ms - GRACE_MS
    in_time &= times_ms <= shown_ms + timing.attribution_ms
    in_time &= timing.expires_at(times_ms) > watermarks_ms
    return in_time


def _ranks0(lane: Lane, run: Run, index: Integers, selected: Integers) -> Integers:
    """The ranks from 0 of the items of the selected feedback, (s,): NOT_FOUND where the item is not
    at its stated rank, where only decoding the list can tell, and in a list of another id (whose
    hash is the same)."""
    impressions = lane.open
    if len(selected) > 1:
        if len(selected) * impressions.items.widest(index[selected]) > MOST_TEXT_BYTES:
            halves = np.array_split(selected, 2)
            return np.concatenate([_ranks0(lane, run, index, half) for half in halves])
    lists, items = impressions.items.rows(index[selected]), run.feedback_items.at(selected)
    ranks0 = ranks0_of(lists, items, run.ranks[selected])
    same_id = impressions.ids.equal(index[selected], run.ids.at(run.feedback_index[selected]))
    return np.where(same_id, ranks0, NOT_FOUND)


def _raise_gains(lane: Lane, index: Integers, ranks0: Integers, gains: Floats) -> None:
    """Raise the gains of items: of several of one impression, the later builds on the earlier."""
    impressions, base_ms = lane.open, lane.plan.timing.base_ms
    for turn in _turns(index):
        at = index[turn]
        before = new_column(impressions.states)[at].astype(np.int64)
        after = lane.states.raised(before, ranks0[turn], gains[turn])
        changed = after != before
        at, before, after = at[changed], before[changed], after[changed]
        impressions.states.put(at, after)
        shown_ms = impressions.times_ms.at(at)
        combinations = new_column(impressions.combinations)[at]
        lane.changes.add_many(shown_ms - shown_ms % base_ms, combinations, before, after)
        lane.changes.slots.frombytes(impressions.slots_at(at).tobytes())


def _turns(index: Integers) -> Iterator[Integers]:
    """Positions in `index`, (n,), in turns: the first turn has the first occurrence of each value,
    the second turn the second, …"""
    # value and position as one number, sorted: many times as fast as a stable argsort of the values
    count = max(len(index), 1)
    ordered, order = np.divmod(np.sort(index * count + np.arange(len(index))), count)
    start = np.flatnonzero(np.diff(ordered, prepend=-1))
    turn = np.arange(len(order)) - np.repeat(start, np.diff(start, append=len(order)))
    for number in range(int(turn.max(initial=-1)) + 1):
        yield order[turn == number]


def flags(answers: Iterable[bool]) -> Booleans:
    """Truth values as an array."""
    return np.fromiter(answers, np.bool_)
