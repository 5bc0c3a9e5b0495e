"""Which impression an event belongs to, and what it changes.

Pure: a function of the lane's memory and the event. What is open to an event is judged by the
watermark that it meets in its own topic-partition, never by what happens to be stored or by how
topics interleave, so that any cut into batches and any interleaving give the same numbers.

    impression ─▶ open one of its id? ─ no ─▶ accepted, late or later_page
                        └ yes ─▶ duplicate, filled, extended or conflicting
    later page of a lane of all partitions ─▶ its list up to there? ─ no ─▶ waits as feedback does
    feedback ─▶ an id? ─ no ─▶ held for `last_touch`
         └ yes ─▶ its impression? ─ no ─▶ waits ─▶ joins when it comes, or expires as unjoined
                        └ yes ─▶ in time, and in the list? ─▶ joined: a gain changes
                                       └ not in the list ─▶ waits for a page, or is off_list

These are the rules, one event at a time; `vectorized` applies them to whole batches. Both must give
the same numbers.
"""

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final

import numpy as np

from ..events import Decoded, Event, Feedback, Impression, Rejected
from ..lane import (
    JUMP_MS,
    NO_STATE,
    Held,
    Lane,
    LaterPage,
    Touches,
    Waiting,
    encode_items,
    visitor_hashes,
)
from ..panes import pane_start
from ..timing import GRACE_MS
from .gain_changes import grade_new_items, graded_ms, note_delay, set_gain
from .id_scanning import search_of, subject_of
from .list_changes import apply_repeated, list_with_item

BRINGS_ITEMS: Final = ("accepted", "filled", "extended")
"""The outcomes of impressions that waiting feedback may join."""
STEP_EVENTS: Final = 32
"""So many events are applied one by one in one step. One takes 5 µs, or a millisecond where it
brings a grade for each of 100 ranks, or a query that is hard to normalise."""
STEP_WAITING: Final = 500
"""So much waiting feedback of one impression is joined in one step, at some 10 µs each."""


def apply(lane: Lane, topic: str, events: Iterable[Decoded]) -> None:
    """Apply events of one topic-partition, in offset order, to the lane."""
    for _ in steps(lane, topic, events):
        pass


def steps(lane: Lane, topic: str, events: Iterable[Decoded]) -> Iterator[None]:
    """Apply them in steps of a bounded time, if the time of each event without waiting feedback is.
    All steps must be taken."""
    watermark = lane.watermarks[topic]
    for number, event in enumerate(events, 1):
        if not number % STEP_EVENTS:
            yield
        if isinstance(event, Rejected):
            lane.count_rejected(topic, event)
            continue
        yield from event_steps(lane, topic, event, watermark)
        if watermark is not None and event.time_ms > watermark + JUMP_MS:
            lane.count("ahead_events", topic)
        if event.time_ms <= lane.lifts.get(topic, event.time_ms - 1):
            lane.count("behind_lift", topic)
        watermark = lane.moved_ms(topic, watermark, event)
    lane.watermarks[topic] = watermark


def event_steps(lane: Lane, topic: str, event: Event, watermark: int | None) -> Iterator[None]:
    """Apply one event, at the watermark of its topic-partition just before it, in steps."""
    if isinstance(event, Impression):
        lane.count("events", "impression")
        outcome = _impression(lane, topic, event, watermark)
        if outcome is not None:
            lane.count("impression_outcomes", outcome)
        if outcome in BRINGS_ITEMS:
            yield from _retry_pages(lane, event.impression_id)
            yield from _retry_waiting(lane, event.impression_id)
    else:
        lane.count("events", "feedback")
        _feedback(lane, event, lane.met_ms(topic, watermark, event.time_ms))


def advance(lane: Lane) -> None:
    """Remove and count the waiting feedback and pages that expire at the lane's watermark. Settling
    is `settling.settle`."""
    watermark = lane.watermark_ms
    if watermark is None:
        return
    timing = lane.plan.timing
    for feedback in lane.waiting.take_older(watermark - timing.expires_at(0)):
        if isinstance(feedback, LaterPage):
            is_alone = feedback.bound_ms is None
            lane.count("impression_outcomes", "later_page" if is_alone else "conflicting")
            continue
        outcome = "off_list"
        if feedback.bound_ms is None:
            outcome = "unjoined"
        elif feedback.rank is not None and feedback.rank > lane.plan.depth:
            outcome = "beyond_depth"
        lane.count("feedback_outcomes", outcome)


# Impressions


def _impression(lane: Lane, topic: str, event: Impression, watermark: int | None) -> str | None:
    """The outcome of the record; None where it waits."""
    met_ms = lane.met_ms(topic, watermark, event.time_ms)
    if lane.is_one and event.first_rank > 1 and not event.by_item:
        return _later_page(lane, event, met_ms)
    slot = _open_slot(lane, event.impression_id, met_ms)
    if slot is not None:
        lane.split_ids += lane.origins.of(slot) not in (topic, None)
        return apply_repeated(lane, slot, event, met_ms)
    if met_ms is not None and lane.plan.timing.closes_at(event.time_ms) <= met_ms:
        return "late"
    if event.first_rank > 1 and not (event.by_item and event.items):
        return "later_page"
    own_ms = event.time_ms if watermark is None else watermark
    _accept(lane, topic, event, own_ms, own_ms if met_ms is None else met_ms)
    return "accepted"


def _open_slot(lane: Lane, impression_id: str, watermark: int | None) -> int | None:
    """The impression of this id that is open to an impression record: there is at most one."""
    for slot in lane.open.slots_of(impression_id):
        if _is_open(lane, slot, watermark):
            return slot
    return None


def _is_open(lane: Lane, slot: int, watermark: int | None) -> bool:
    time_ms = lane.open.times_ms[lane.open.index_of(slot)]
    return watermark is None or lane.plan.timing.closes_at(time_ms) > watermark


def _accept(lane: Lane, topic: str, event: Impression, own_ms: int, met_ms: int) -> None:
    attributes = lane.texts.attributes_of(event)
    values = lane.plan.values_of(attributes, event.experiments)
    combination = lane.admissions[topic].combination_of(
        values, own_ms, lane.segments, lane.counts["segment_overflow"]
    )
    items = list_with_item([], event) if event.by_item else list(event.items)
    state = lane.states.id_of((len(items), ()), lane.plan.surface_id_of(attributes))
    pane = pane_start(event.time_ms, lane.plan.timing.base_ms)
    slot = lane.open.add(
        event.impression_id,
        event.time_ms,
        pane,
        combination=combination,
        state=state,
        items=encode_items(items),
        subject=subject_of(lane, event, attributes),
        search=search_of(lane, event),
        touch=_touch_of(lane, event, met_ms),
    )
    if None in items:
        lane.open.paged_items[slot] = encode_items(items)
    lane.changes.add(pane, combination, NO_STATE, state)
    if lane.judged is not None:
        lane.judged.shown.add(slot, graded_ms(lane, slot, met_ms))
    if event.teams and lane.open.subjects is not None:
        lane.open.teams[slot] = event.teams
    grade_new_items(lane, slot, event, event.first_rank - 1)


def _touch_of(lane: Lane, event: Impression, watermark_ms: int) -> Touches | None:
    if lane.open.touches is None:
        return None
    return Touches(visitor_hashes([event.visitor]), np.array([watermark_ms]))


# Later pages, in a lane where the first page may stand in another log


def _later_page(lane: Lane, event: Impression, met_ms: int | None) -> str | None:
    """The outcome of a later page; None where it waits."""
    if met_ms is not None and lane.plan.timing.expires_at(event.time_ms) <= met_ms:
        return "late"
    page = LaterPage(
        watermark_ms=met_ms,
        bound_ms=None,
        impression_id=event.impression_id,
        time_ms=event.time_ms,
        kind=None,
        item=None,
        rank=None,
        grade=None,
        items=event.items,
        first_rank=event.first_rank,
        grades=event.grades,
    )
    if (outcome := _place(lane, page)) is None:
        lane.waiting.add(page)
    return outcome


def _place(lane: Lane, page: LaterPage) -> str | None:
    """Place a page in the list of its impression, which it is bound to once it is there; None where
    the list does not reach up to it."""
    slot = _candidate(lane, page.impression_id, page.time_ms, page.watermark_ms)
    if slot is None:
        return None
    shown_ms = lane.open.times_ms[lane.open.index_of(slot)]
    if page.bound_ms not in (None, shown_ms):
        return None
    page.bound_ms = shown_ms
    if page.first_rank - 1 > len(lane.open.list_of(slot)):
        return None
    return apply_repeated(lane, slot, page, page.watermark_ms)


def _retry_pages(lane: Lane, impression_id: str) -> Iterator[None]:
    """Place the waiting pages of an impression that is new or has a longer list, in steps."""
    waiting = [(s, lane.waiting.by_serial[s]) for s in lane.waiting.serials_of(impression_id)]
    pages = [
        (page.first_rank, serial, page) for serial, page in waiting if isinstance(page, LaterPage)
    ]
    for number, (_, serial, page) in enumerate(sorted(pages, key=itemgetter(0, 1)), 1):
        if not number % STEP_EVENTS:
            yield
        was_bound = page.bound_ms is not None
        outcome = _place(lane, page)
        if outcome is not None:
            lane.waiting.remove(serial)
            lane.changes.joined[serial] = lane.plan.timing.expires_at(page.time_ms)
            lane.count("impression_outcomes", outcome)
        elif page.bound_ms is not None and not was_bound:
            lane.changes.bound.add(serial)


# Feedback


def _feedback(lane: Lane, event: Feedback, watermark: int | None) -> None:
    if (outcome := _feedback_outcome(lane, event, watermark)) is not None:
        lane.counts["feedback_outcomes"][outcome] += 1


def _feedback_outcome(lane: Lane, event: Feedback, watermark: int | None) -> str | None:
    """The outcome of the feedback; None where it waits."""
    if event.grade is None and event.kind not in lane.plan.grades:
        return "ignored_kind"
    if watermark is not None and lane.plan.timing.expires_at(event.time_ms) <= watermark:
        return "late"
    if not event.impression_id:
        lane.waiting.add(_held(event, watermark))
        return None
    slot = _candidate(lane, event.impression_id, event.time_ms, watermark)
    outcome = None if slot is None else _join(lane, slot, event)
    if outcome is None:
        bound_ms = None if slot is None else lane.open.times_ms[lane.open.index_of(slot)]
        lane.waiting.add(_waiting(event, watermark, bound_ms))
    return outcome


def _candidate(lane: Lane, impression_id: str, time_ms: int, watermark: int | None) -> int | None:
    """The earliest impression of the id that is open to feedback of this time and watermark.

    An impression is accepted only when the one before it has closed, so the order of acceptance is
    that of time.
    """
    for slot in lane.open.slots_of(impression_id):
        if not _is_open(lane, slot, watermark):
            continue
        if lane.open.times_ms[lane.open.index_of(slot)] <= time_ms + GRACE_MS:
            return slot
    return None


def _join(lane: Lane, slot: int, event: Feedback | Waiting) -> str | None:
    """Join feedback to its impression; the outcome, or None while the list lacks the item."""
    shown_ms = lane.open.times_ms[lane.open.index_of(slot)]
    if event.time_ms > shown_ms + lane.plan.timing.attribution_ms:
        return "out_of_window"
    if event.item is None:
        assert event.rank is not None
        if event.rank > lane.plan.depth:
            return "beyond_depth"
        length, _ = lane.states[lane.open.states[lane.open.index_of(slot)]]
        rank0: int | None = event.rank - 1 if event.rank <= length else None
    else:
        rank0 = rank0_of(lane.open.list_of(slot), event.item, event.rank)
    if rank0 is None:
        return None
    join_at(lane, slot, rank0, event)
    return "joined"


def join_at(lane: Lane, slot: int, rank0: int, event: Feedback | Waiting) -> None:
    """Join feedback to its impression at a rank, from 0."""
    if lane.joins is not None:
        index = lane.open.index_of(slot)
        about = event.time_ms, event.kind, event.item, event.rank, event.grade
        lane.joins.append((about, lane.open.ids[index].decode(), lane.open.times_ms[index]))
    if event.rank is not None and event.rank != rank0 + 1:
        lane.count("feedback_outcomes", "rank_mismatch")
    set_gain(lane, slot, rank0, event.time_ms, event.kind, event.grade)
    if lane.plan.timed:
        note_delay(lane, slot, event.time_ms)


def rank0_of(items: list[str | None], item: str, rank: int | None) -> int | None:
    """The rank from 0 of the item: its stated rank if the item is there, else that of its first
    occurrence."""
    if rank is not None and 1 <= rank <= len(items) and items[rank - 1] == item:
        return rank - 1
    return items.index(item) if item in items else None


# Waiting feedback


def _waiting(event: Feedback, watermark: int | None, bound_ms: int | None) -> Waiting:
    return Waiting(
        watermark_ms=watermark,
        bound_ms=bound_ms,
        impression_id=event.impression_id,
        time_ms=event.time_ms,
        kind=event.kind,
        item=event.item,
        rank=event.rank,
        grade=event.grade,
    )


def _held(event: Feedback, watermark: int | None) -> Held:
    return Held(
        watermark_ms=watermark,
        bound_ms=None,
        impression_id="",
        time_ms=event.time_ms,
        kind=event.kind,
        item=event.item,
        rank=event.rank,
        grade=event.grade,
        visitor=int(visitor_hashes([event.visitor])[0]),
    )


def _retry_waiting(lane: Lane, impression_id: str) -> Iterator[None]:
    """Try to join the waiting feedback of an impression that is new or has a longer list, in
    steps."""
    for number, serial in enumerate(lane.waiting.serials_of(impression_id), 1):
        if not number % STEP_WAITING:
            yield
        feedback = lane.waiting.by_serial[serial]
        if isinstance(feedback, LaterPage):
            continue
        slot = _candidate(lane, impression_id, feedback.time_ms, feedback.watermark_ms)
        if slot is None:
            continue
        shown_ms = lane.open.times_ms[lane.open.index_of(slot)]
        if feedback.bound_ms is not None and feedback.bound_ms != shown_ms:
            # its own impression has closed; this one has only the id in common
            continue
        outcome = _join(lane, slot, feedback)
        if outcome is not None:
            lane.waiting.remove(serial)
            lane.changes.joined[serial] = lane.plan.timing.expires_at(feedback.time_ms)
            lane.count("feedback_outcomes", outcome)
        elif feedback.bound_ms is None:
            feedback.bound_ms = shown_ms
            lane.changes.bound.add(serial)
