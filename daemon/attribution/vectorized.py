"""The join of a whole run at once. What is not plain about it is left to `attribution`.

Pure, and equal to taking the events one by one. An event that is joined here meets the watermark
that it would meet alone; all impression records of an id go the other way, in their order, unless
there is just one and it is new and plain. That may be done because feedback on one impression
commutes, and so do impressions of different ids but for the order in which their segments are
admitted: a run is cut where a combination of values is new.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final

import numpy as np

from relevanced.metrics.lists import Booleans, Floats, Integers

from ..events.types import Impression
from ..lane.columns.column import column
from ..lane.columns.id_index import NOT_FOUND, hashes_of
from ..lane.lane import Lane
from ..panes import GRACE_MS
from . import rules
from .accepting import RunAtWatermarks, accept
from .gains import note_delay
from .item_lists import NO_RANK, places_of
from .runs import Run

SMALL_RUN: Final = 48
"""Fewer events than this are sooner taken one by one."""
MOST_TEXT_BYTES: Final = 8 << 20
"""Of lists that are searched at once: much feedback on long lists would need much memory."""


def apply(lane: Lane, topic: str, run: Run, small_run: int = SMALL_RUN) -> None:
    """Let a run of one topic-partition meet the lane. Joins at least `small_run` events at once."""
    if len(run.odd) * 2 > len(run):
        small_run = len(run) + 1
    start = 0
    while start < len(run):
        joined, singles = _apply_some(lane, topic, run.part(start, len(run)), small_run)
        start, stop = start + joined, start + joined + singles
        rules.apply(lane, topic, [run.event(place) for place in range(start, stop)])
        start = stop


def _apply_some(lane: Lane, topic: str, run: Run, small_run: int) -> tuple[int, int]:
    """Join the first events of a run at once, as many as may be; how many they are, and how many
    behind them must be taken one by one."""
    watermark = lane.watermarks[topic]
    if watermark is None:
        return 0, 1
    count = _within_a_pane(lane, watermark, run.times_ms)
    if count < small_run:
        return 0, count
    met_ms = np.maximum.accumulate(np.append(watermark, run.times_ms[: count - 1]))
    meeting = RunAtWatermarks(run.part(0, count), met_ms, hashes_of(run.ids[:count], count))
    new = _new(lane, meeting)
    stop = _first_unknown(lane, topic, meeting, new)
    if stop < min(small_run, count):
        return 0, stop + 1
    _apply_known(lane, topic, meeting.part(stop), new[: np.searchsorted(run.shown, stop)])
    return stop, min(1, count - stop)


def _within_a_pane(lane: Lane, watermark: int, times_ms: Integers) -> int:
    """How many events meet a watermark in the same longest pane as this one."""
    pane_ms = lane.plan.timing.longest.pane_ms
    beyond = times_ms >= watermark - watermark % pane_ms + pane_ms
    # the event that is beyond leads into the next pane, but does not meet it
    return int(beyond.argmax()) + 1 if beyond.any() else len(times_ms)


def _new(lane: Lane, meeting: RunAtWatermarks) -> Booleans:
    """Which plain impressions, (m,), are accepted for sure: the only record of a new id, in
    time."""
    run, timing = meeting.run, lane.plan.timing
    times_ms, hashes = run.times_ms[run.shown], meeting.hashes[run.shown]
    new = timing.closes_at(times_ms) > meeting.met_ms[run.shown]
    new &= _alone(run, meeting.hashes) & (lane.open.find(hashes) == NOT_FOUND)
    if waited_for := lane.waiting.ids():
        new &= flags(run.ids[place] not in waited_for for place in run.shown.tolist())
    return new


def _first_unknown(lane: Lane, topic: str, meeting: RunAtWatermarks, new: Booleans) -> int:
    """The first impression that is left to the rules for one, and may have to be admitted: those
    behind it must wait for that."""
    run, plan = meeting.run, lane.plan
    recent = lane.admissions[topic].recent(int(meeting.met_ms[0]))
    left = np.flatnonzero(~new)
    unknown = [
        place
        for number, place in zip(left.tolist(), run.shown[left].tolist(), strict=True)
        if run.table[run.told[number]].values not in recent
    ]
    for place, event in run.odd.items():
        if isinstance(event, Impression):
            if plan.values_of(event.attributes, event.experiments) not in recent:
                unknown.append(place)
    return min(unknown, default=len(run))


def _apply_known(lane: Lane, topic: str, meeting: RunAtWatermarks, new: Booleans) -> None:
    """Join what is plain, then let the others meet the lane one by one."""
    run, watermark = meeting.run, lane.watermarks[topic]
    left = np.zeros(len(run), np.bool_)
    left[list(run.odd)] = True
    left[run.shown[~new]] = True
    accept(lane, topic, meeting, np.flatnonzero(new))
    left[run.reacted[~_join(lane, meeting)]] = True
    counted = len(run) - int(np.count_nonzero(left))
    shown = int(np.count_nonzero(new))
    lane.counts["events"].update(impression=shown, feedback=counted - shown)
    for place in np.flatnonzero(left).tolist():
        rules.meet(lane, topic, run.event(place), int(meeting.met_ms[place]))
    latest_ms = int(run.times_ms.max())
    lane.watermarks[topic] = latest_ms if watermark is None else max(watermark, latest_ms)


# Impressions


def _alone(run: Run, hashes: Integers) -> Booleans:
    """Whether no other impression record of the run has the id, (m,)."""
    odd = [place for place, event in run.odd.items() if isinstance(event, Impression)]
    wanted = np.concatenate((hashes[run.shown], hashes[odd]))
    order = np.argsort(wanted)
    same = wanted[order][1:] == wanted[order][:-1]
    alone = np.ones(len(wanted), np.bool_)
    alone[order[1:][same]] = False
    alone[order[:-1][same]] = False
    return alone[: len(run.shown)]


# Feedback


def _join(lane: Lane, meeting: RunAtWatermarks) -> Booleans:
    """Join the feedback whose impression and place are sure, (f,)."""
    run, hashes, met_ms = meeting.run, meeting.hashes, meeting.met_ms
    timing, held = lane.plan.timing, lane.open
    kinds = [one.kind for one in run.feedback]
    gains = np.fromiter(map(lane.plan.grades.get, kinds, repeat(np.nan)), np.float64, len(kinds))
    slots = held.find(hashes[run.reacted])
    found = slots != NOT_FOUND
    columns = np.where(found, held.index_of(slots), 0)
    times_ms, met_ms = run.times_ms[run.reacted], met_ms[run.reacted]
    sure = found & ~np.isnan(gains)
    if len(held.times_ms):
        shown_ms = held.times_ms.at(columns)
        sure &= np.frombuffer(held.is_open, np.bool_)[columns]
        sure &= timing.closes_at(shown_ms) > met_ms
        sure &= times_ms >= shown_ms - GRACE_MS
        sure &= times_ms <= shown_ms + timing.attribution_ms
        sure &= timing.expires_at(times_ms) > met_ms
    for few in (held.grades, held.paged_items):
        if few:
            sure &= flags(slot not in few for slot in slots.tolist())
    if held.shared_hashes:
        sure &= flags(c not in held.shared_hashes for c in hashes[run.reacted].tolist())
    chosen = np.flatnonzero(sure)
    places = _places(lane, run, columns, chosen)
    sure[chosen[places < 0]] = False
    chosen, places = chosen[places >= 0], places[places >= 0]
    _raise(lane, columns[chosen], places, gains[chosen])
    if lane.plan.timed:
        for slot, time_ms in zip(slots[chosen].tolist(), times_ms[chosen].tolist(), strict=True):
            note_delay(lane, slot, time_ms)
    ignored = np.isnan(gains)
    lane.counts["feedback_outcomes"].update(
        joined=len(chosen), ignored_kind=int(np.count_nonzero(ignored))
    )
    done: Booleans = sure | ignored
    return done


def _places(lane: Lane, run: Run, columns: Integers, chosen: Integers) -> Integers:
    """Where the items of chosen feedback stand, (n,): NOT_FOUND where not at the rank that was
    told, where that is not sure, or in a list of another id."""
    held = lane.open
    if len(chosen) > 1 and len(chosen) * held.items.widest(columns[chosen]) > MOST_TEXT_BYTES:
        halves = np.array_split(chosen, 2)
        return np.concatenate([_places(lane, run, columns, half) for half in halves])
    told = [run.feedback[number] for number in chosen.tolist()]
    ranks = [NO_RANK if one.rank is None else one.rank for one in told]
    places = places_of(
        held.items.rows(columns[chosen]),
        [str(one.item) for one in told],
        np.fromiter(ranks, np.int64, len(ranks)),
    )
    same = held.ids.equal(columns[chosen], [one.impression_id for one in told])
    return np.where(same, places, NOT_FOUND)


def _raise(lane: Lane, columns: Integers, places: Integers, gains: Floats) -> None:
    """Raise the gains of items: of several of one impression, the later builds on the earlier."""
    held, base_ms = lane.open, lane.plan.timing.base_ms
    for turn in _turns(columns):
        at = columns[turn]
        before = column(held.states)[at].astype(np.int64)
        after = lane.states.raised(before, places[turn], gains[turn])
        moved = after != before
        at, before, after = at[moved], before[moved], after[moved]
        held.states.put(at, after)
        shown_ms = held.times_ms.at(at)
        combinations = column(held.combinations)[at]
        lane.changes.add_many(shown_ms - shown_ms % base_ms, combinations, before, after)
        lane.changes.slots.frombytes(held.slots_at(at).tobytes())


def _turns(numbers: Integers) -> Iterator[Integers]:
    """Where the numbers stand, in turns that hold each number once, the earlier first."""
    # one sort of plain numbers: many times as fast as a stable one that tells the order
    count = max(len(numbers), 1)
    ordered, order = np.divmod(np.sort(numbers * count + np.arange(len(numbers))), count)
    start = np.flatnonzero(np.diff(ordered, prepend=-1))
    turn = np.arange(len(order)) - np.repeat(start, np.diff(start, append=len(order)))
    for number in range(int(turn.max(initial=-1)) + 1):
        yield order[turn == number]


def flags(answers: Iterable[bool]) -> Booleans:
    """Answers as an array."""
    return np.fromiter(answers, np.bool_)
