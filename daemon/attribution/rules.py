"""Which impression an event belongs to, and what it changes.

Pure: a function of the lane's memory and the event. What is open to an event is judged by the
watermark that it meets in its own topic-partition, never by what happens to be stored or by how
topics interleave, so that any cut into batches and any interleaving give the same numbers.

    impression ─▶ open one of its id? ─ no ─▶ accepted, late or later_page
                        └ yes ─▶ duplicate, filled, extended or conflicting
    feedback ─▶ an id? ─ no ─▶ held for `last_touch`
         └ yes ─▶ its impression? ─ no ─▶ waits ─▶ joins when it comes, or expires as unjoined
                        └ yes ─▶ in time, and in the list? ─▶ joined: a gain changes
                                       └ not in the list ─▶ waits for a page, or is off_list

These are the rules, one event at a time; `vectorized` applies them to whole batches. Both must give
the same numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from ..events import Decoded, Event, Feedback, Impression, Rejected
from ..lane import (
    NO_STATE,
    Held,
    Lane,
    Touches,
    Waiting,
    encode_items,
    moved,
    visitor_hashes,
)
from ..panes import GRACE_MS, JUMP_MS, pane_start
from .item_lists import search_of, subject_of

# What feedback does to its impression: the gain of a rank, and the delay of the first feedback.
# Both are the same whatever the order in which feedback comes, and however often.


def set_gain(
    lane: Lane, slot: int, rank0: int, time_ms: int, kind: str | None, grade: float | None
) -> None:
    """Set the gain of a rank (from 0): the latest explicit grade (of equal times the higher), else
    the highest implicit one."""
    before = lane.open.states[lane.open.index_of(slot)]
    explicit = lane.open.grades.get(slot, {}).get(rank0)
    if grade is not None:
        if explicit is not None and explicit >= (time_ms, grade):
            return
        lane.open.grades.setdefault(slot, {})[rank0] = (time_ms, grade)
        gain = grade
    else:
        assert kind is not None
        gain = lane.plan.grades[kind]
        present = lane.states.gain_at(before, rank0)
        if explicit is not None or (present is not None and present >= gain):
            return
    change_state(lane, slot, lane.states.with_gain(before, rank0, gain))


def change_state(lane: Lane, slot: int, after: int) -> None:
    """Give an impression another gain state, and note what that changes in its rows."""
    index = lane.open.index_of(slot)
    before = lane.open.states[index]
    pane = pane_start(lane.open.times_ms[index], lane.plan.timing.base_ms)
    lane.open.states[index] = after
    lane.changes.slots.append(slot)
    lane.changes.add(pane, lane.open.combinations[index], before, after)


def note_delay(lane: Lane, slot: int, time_ms: int) -> None:
    """Keep the shortest delay between the impression and its feedback, in whatever order that
    arrives; feedback from before its impression has a delay of 0."""
    if slot < lane.timed_from:
        return
    index = lane.open.index_of(slot)
    shown_ms = lane.open.times_ms[index]
    delay_ms = max(time_ms - shown_ms, 0)
    before_ms = lane.open.delays_ms.get(slot)
    if before_ms is not None and before_ms <= delay_ms:
        return
    lane.open.delays_ms[slot] = delay_ms
    lane.changes.slots.append(slot)
    pane = pane_start(shown_ms, lane.plan.timing.base_ms)
    lane.changes.delays.append((pane, lane.open.combinations[index], before_ms, delay_ms))


# How a later page of results, or one more item, extends the list of its impression.


class PageMismatch(Exception):
    """The page leaves a gap after the list so far, or the page or the item contradicts it."""


def extended_list(items: Sequence[str | None], page: Impression) -> list[str | None]:
    """The list with what the page adds to its end; the same list where it adds nothing.

    An item that already stands further up keeps its first rank, and leaves a blank (None) on the
    page: feedback on it means the first rank, whether it comes before the page or after it. Raises
    PageMismatch.
    """
    before = page.first_rank - 1
    if before > len(items):
        raise PageMismatch
    overlap = len(items) - before
    earlier = frozenset(items[:before])
    repeated = [_or_blank(item, earlier) for item in page.items[:overlap]]
    if repeated != list(items[before : before + len(page.items)]):
        raise PageMismatch
    listed = frozenset(items)
    return [*items, *(_or_blank(item, listed) for item in page.items[overlap:])]


def list_with_item(items: Sequence[str | None], shown: Impression) -> list[str | None]:
    """The list with an item of a list that is logged item by item; the same list where the item
    already stands at its rank, and where that rank does not count.

    An item never moves and is never replaced: the first to arrive wins. Ranks of which nothing is
    known yet are blanks (None), which the items that stand there fill when they arrive. Raises
    PageMismatch.
    """
    if not shown.items:
        return list(items)
    (item,), rank0 = shown.items, shown.first_rank - 1
    longer = [*items, *[None] * (rank0 + 1 - len(items))]
    if longer[rank0] == item:
        return longer
    if longer[rank0] is not None or item in items:
        raise PageMismatch
    longer[rank0] = item
    return longer


def _or_blank(item: str, listed: frozenset[str | None]) -> str | None:
    return None if item in listed else item


def note_relisted(
    lane: Lane, slot: int, items: Sequence[str | None], watermark_ms: int | None
) -> None:
    """Replace the list of an open impression, by a record that met this watermark."""
    now = encode_items(items)
    if lane.judged is not None:
        lane.judged.shown.change(slot, watermark_ms, lane.open.text_of(slot), now)
    lane.open.paged_items[slot] = now
    lane.changes.relisted.add(slot)


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
    watermark, pending = lane.watermarks[topic], lane.pending[topic]
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
        watermark = moved(watermark, pending, event.identity, event.time_ms)
    lane.watermarks[topic] = watermark


def event_steps(lane: Lane, topic: str, event: Event, watermark: int | None) -> Iterator[None]:
    """Apply one event, at the watermark of its topic-partition just before it, in steps."""
    if isinstance(event, Impression):
        lane.count("events", "impression")
        outcome = _impression(lane, topic, event, watermark)
        lane.count("impression_outcomes", outcome)
        if outcome in BRINGS_ITEMS:
            yield from _retry_waiting(lane, event.impression_id)
    else:
        lane.count("events", "feedback")
        _feedback(lane, event, lane.met_ms(topic, watermark, event.time_ms))


def advance(lane: Lane) -> None:
    """Remove and count the waiting feedback that expires at the lane's watermark. Settling is
    `settling.settle`."""
    watermark = lane.watermark_ms
    if watermark is None:
        return
    timing = lane.plan.timing
    for feedback in lane.waiting.take_older(watermark - timing.expires_at(0)):
        outcome = "off_list"
        if feedback.bound_ms is None:
            outcome = "unjoined"
        elif feedback.rank is not None and feedback.rank > lane.plan.depth:
            outcome = "beyond_depth"
        lane.count("feedback_outcomes", outcome)


# Impressions


def _impression(lane: Lane, topic: str, event: Impression, watermark: int | None) -> str:
    met_ms = lane.met_ms(topic, watermark, event.time_ms)
    slot = _open_slot(lane, event.impression_id, met_ms)
    if slot is not None:
        lane.split_ids += lane.origins.of(slot) not in (topic, None)
        return _apply_repeated(lane, slot, event, met_ms)
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
        lane.judged.shown.add(slot, met_ms)
    if event.teams and lane.open.subjects is not None:
        lane.open.teams[slot] = event.teams
    _grade_new_items(lane, slot, event, event.first_rank - 1)


def _touch_of(lane: Lane, event: Impression, watermark_ms: int) -> Touches | None:
    if lane.open.touches is None:
        return None
    return Touches(visitor_hashes([event.visitor]), np.array([watermark_ms]))


def _apply_repeated(lane: Lane, slot: int, event: Impression, watermark: int | None) -> str:
    """Apply one more record of an impression that is open: the first to arrive wins, unless this
    one adds items."""
    items = lane.open.list_of(slot)
    if event.first_rank == 1 and items and not event.by_item:
        same = event.items and list(event.items) == items[: len(event.items)]
        return "duplicate" if same else "conflicting"
    try:
        longer = list_with_item(items, event) if event.by_item else extended_list(items, event)
    except PageMismatch:
        return "conflicting"
    if longer == items:
        return "duplicate"
    note_relisted(lane, slot, longer, watermark)
    if lane.open.touches is not None:
        met_ms = event.time_ms if watermark is None else watermark
        lane.open.touches.note_items(slot, items, longer, met_ms)
    before = lane.open.states[lane.open.index_of(slot)]
    after = (len(longer), lane.states[before][1])
    change_state(lane, slot, lane.states.id_of(after, lane.states.surface_id_of(before)))
    _grade_new_items(lane, slot, event, event.first_rank - 1 if event.by_item else len(items))
    return "extended" if items else "filled"


def _grade_new_items(lane: Lane, slot: int, event: Impression, first_rank0: int) -> None:
    """Count judgements that came with the list as explicit grades of the record's time."""
    if not event.grades:
        return
    ranks0: dict[str | None, int] = {}
    items = lane.open.list_of(slot)[first_rank0:]
    for rank0, added in enumerate(items[:1] if event.by_item else items, first_rank0):
        ranks0.setdefault(added, rank0)
    # A look-up, not a search in the list: a record of a megabyte has 100,000 grades.
    for item, grade in event.grades.items():
        if item in ranks0:
            rank0 = ranks0[item]
            set_gain(lane, slot, rank0, event.time_ms, None, grade)


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
