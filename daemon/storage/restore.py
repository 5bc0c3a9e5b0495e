"""A lane read back from the store, as its last commit left it. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from ..lane import row_set
from ..lane.admission import Admitted, admitted_of
from ..lane.counts import COUNT_FAMILIES
from ..lane.lane import Lane, new_lane
from ..lane.paged_rows import Rows
from ..lane.queries import has_same_queries
from ..lane.relayout import next_pane_ms, relaid
from ..lane.segments import Segments
from ..errors import Unavailable
from ..plan import ALL, Plan
from ..queries.keys import fingerprint
from ..queries.plan import HASHED
from . import experiments as stored_experiments
from . import judged_rows as stored_judged
from . import queries as stored_queries
from .block_log import Block
from .blocks import replay
from .class_files import NOTHING, restore_class_files
from .commit import ClaimedLane
from .head import QUERIES_FIELD, Head, WriterState, is_past, whole_or_damaged
from .keys import ADMITTED_KEY, CLICKS, JUDGED, block_key, totals_page_of
from .layouts import (
    LAYOUTS_KEY,
    InForce,
    LaneLayouts,
    Layouts,
    first_layouts,
    has_same_rows,
    layouts_of,
    renewed,
    translated,
    with_next,
)
from .packing import pack, unpack, unpack_page
from .query_head import packed_head
from .rows import restore


def rebuild(
    number: int,
    layouts: Layouts,
    topics: Sequence[str],
    head: Head,
    names: Mapping[str, bytes],
    blobs: Mapping[str, bytes | None],
) -> ClaimedLane:
    """Return the lane as its last commit left it, for its new owner, under the layout in force.

    Where it is stored under another one, its owner must write all of it: `outdated` has the keys
    that are stored. Raises Damaged where a part is missing or was not written by this version,
    Unavailable where this program does not know all of a stored layout, and OverflowError as
    scoring does.
    """
    in_force = layouts.in_force
    with whole_or_damaged(f"lane {number}, {LAYOUTS_KEY}"):
        stored = _stored_layouts(head, blobs, in_force)
    before = layouts.plan_of(stored.last)
    if has_same_queries(before, layouts.in_force.plan):
        _check_key(number, head, before)
    is_same = has_same_rows(before, in_force.plan)
    plan = in_force.plan if is_same else replace(before, tracking=in_force.plan.tracking)
    with whole_or_damaged(f"lane {number}"):
        lane, log = _rebuilt(number, plan, topics, head, names, blobs, stored)
    claimed = ClaimedLane(
        lane=lane,
        layouts=stored,
        token=head.token,
        sequence=head.sequence,
        log=log,
        names=head.state.names,
        next_slot=head.state.next_slot,
        next_serial=head.state.next_serial,
        logs=dict(head.logs),
        stall=head.stall,
        idle_ms=head.idle_ms,
        layouts_stored=LAYOUTS_KEY in blobs,
        stored_queries=None if head.queries is None else packed_head(head.queries),
        judged_fields=stored_judged.fields_of(head),
        class_files=NOTHING if head.classes is None else pack(head.classes),
    )
    if not is_same:
        _change_layout(claimed, in_force)
        claimed.outdated = frozenset(k for k in blobs if not is_past(head, k))
        if lane.queries is not None and claimed.lane.queries is None and head.queries is not None:
            claimed.outdated |= {*head.queries.hour_keys, *head.queries.example_keys}
        if lane.judged is not None and lane.judged is not claimed.lane.judged:
            claimed.outdated |= frozenset(filter(JUDGED.own, blobs))
    elif stored.last.generation != in_force.generation:
        claimed.layouts = renewed(stored, in_force)
        claimed.layouts_stored = False
    return claimed


def _check_key(number: int, head: Head, plan: Plan) -> None:
    """Raise Unavailable where the queries of a lane are hashed with another secret key: rows of one
    query would have two keys."""
    if plan.queries is None or head.queries is None:
        return
    own = fingerprint(plan.queries.key)
    if plan.queries.text == HASHED and head.queries.key != own:
        raise Unavailable(
            f"lane {number}: its queries are hashed with the key {head.queries.key}, this process"
            f" has {own}: give it the same queries.key_file, or set queries.text = off first"
        )


def _stored_layouts(
    head: Head, blobs: Mapping[str, bytes | None], in_force: InForce
) -> LaneLayouts:
    stored = layouts_of(blobs)
    if stored is None and head.sequence:
        raise KeyError(LAYOUTS_KEY)
    return stored or first_layouts(in_force)


def _change_layout(claimed: ClaimedLane, in_force: InForce) -> None:
    plan = in_force.plan
    lane, since = relaid(claimed.lane, plan, claimed.layouts.since)
    settled = lane.settled_before
    claimed.lane = lane
    claimed.layouts = with_next(
        claimed.layouts,
        in_force,
        lane.groupings,
        since,
        None if settled is None else row_set.open_hour(settled, plan),
        None if settled is None else row_set.kept_from(settled, plan),
    )
    claimed.layouts_stored = False


def _rebuilt(
    number: int,
    plan: Plan,
    topics: Sequence[str],
    head: Head,
    names: Mapping[str, bytes],
    blobs: Mapping[str, bytes | None],
    stored: LaneLayouts,
) -> tuple[Lane, list[Block]]:
    lane = _counts_and_names(number, plan, topics, head, names, stored)
    _rebuild_admission(lane, blobs, topics)
    log = [replay(lane, e, _blob(blobs, block_key(e.number))) for e in head.state.blocks]
    _rebuild_rows(lane, blobs, head, stored)
    tallies = stored_experiments.read(blobs)
    stored_experiments.read_days(tallies, blobs)
    if lane.queries is not None and head.sequence:
        _rebuild_queries(lane, head, blobs)
    if head.sequence:
        restore_class_files(lane, head.classes)
    _remove_expired(lane, head.state)
    if plan.tracking is not None:
        entries, next_ms = head.state.experiments, next_pane_ms(lane)
        stored_experiments.adopt(lane.experiments, plan.tracking, entries, tallies, next_ms)
    return lane, log


def _blob(blobs: Mapping[str, bytes | None], key: str) -> bytes:
    data = blobs.get(key)
    if data is None:
        raise KeyError(key)
    return data


def _counts_and_names(
    number: int,
    plan: Plan,
    topics: Sequence[str],
    head: Head,
    names: Mapping[str, bytes],
    stored: LaneLayouts,
) -> Lane:
    lane = new_lane(number, plan, dict(head.offsets), topics)
    lane.watermarks.update(head.watermarks)
    lane.pending.update(head.state.pending)
    lane.settled_before = head.state.settled_before
    lane.lost_hours = set(head.state.lost_hours)
    for family in COUNT_FAMILIES:
        lane.counts[family] = Counter(head.counts.get(family, {}))
    lane.timed_from = head.state.timed_from
    lane.groupings = [tuple(attributes) for attributes in stored.groupings]
    ids = (0, *(lane.groupings.index(attributes) + 1 for attributes in plan.groupings))
    lane.segments = Segments.of(names_of(names, head.state.names), ids)
    return lane


def names_of(fields: Mapping[str, bytes], count: int) -> list[tuple[int, str]]:
    """Return (grouping id, segment) by segment id."""
    stored = (fields[str(segment_id)] for segment_id in range(1, count))
    return [(0, ALL), *(msgspec.json.decode(name, type=tuple[int, str]) for name in stored)]


def _rebuild_admission(
    lane: Lane, blobs: Mapping[str, bytes | None], topics: Sequence[str]
) -> None:
    if len(lane.segments.names) == 1:
        # No value was admitted yet: the key is written with the first segment.
        return
    stored = unpack(_blob(blobs, ADMITTED_KEY), dict[str, Admitted])
    lane.admissions = {topic: admitted_of(stored, topic, lane.plan) for topic in topics}


def _rebuild_rows(
    lane: Lane, blobs: Mapping[str, bytes | None], head: Head, stored: LaneLayouts
) -> None:
    """Read totals, panes, and the hours that can still change, and note which pages are stored of
    the others."""
    for key in blobs:
        if (page := totals_page_of(key)) is not None:
            lane.totals.set_page(page, unpack_page(_blob(blobs, key)))

    def of_hour(start: int, rows: Rows) -> Rows:
        return translated(rows, stored.of_hour(start), lane.plan)

    restore(lane, CLICKS, lane.plan.timing, blobs, partial(is_past, head), of_hour)
    if lane.judged is not None and head.sequence:
        stored_judged.restore_head(lane, head)
        restore(lane.judged, JUDGED, lane.plan.timing, blobs, partial(is_past, head))


def _rebuild_queries(lane: Lane, head: Head, blobs: Mapping[str, bytes | None]) -> None:
    if head.queries is None:
        raise KeyError(QUERIES_FIELD)
    stored_queries.restored(lane, head.queries, blobs)


def _remove_expired(lane: Lane, state: WriterState) -> None:
    """Remove what the watermark has passed: a block is unlinked whole, so the blocks that are left
    contain impressions and feedback that have expired."""
    if lane.settled_before is not None:
        for pane in lane.open.panes():
            if pane < lane.settled_before:
                lane.open.close_pane(pane)
    if lane.open.times_ms:
        lane.open.skip_to(state.next_slot)
    else:
        lane.open.start_at(state.next_slot)
    lane.waiting.next_serial = state.next_serial
    watermark = lane.watermark_ms
    if watermark is not None:
        for _ in lane.waiting.take_older(watermark - lane.plan.timing.expires_at(0)):
            pass
