"""A lane read back from the store as its last commit left it, and the commit that writes all of one
from its owner's memory: it repairs a damaged lane, or puts it under another layout. Pure.

A running owner has all of its lane in memory but the rows of past hours. So whatever the store lost
of the rest can be written again, and the numbers are those of the log, integer for integer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from ..errors import Unavailable
from ..experiments import USER_PAGES
from ..lane import (
    COUNT_FAMILIES,
    Admitted,
    Lane,
    LaneSegments,
    Rows,
    admitted_of,
    begin_at,
    has_same_queries,
    kept_rows,
    new_lane,
    next_pane_ms,
    optional_rows_go_on,
    relaid,
)
from ..plan import ALL, BY_FEEDBACK, Plan
from ..queries import HASHED, secret_fingerprint
from . import (
    experiments as stored_experiments,
    optional_rows as stored_optional,
    queries as stored_queries,
    row_pages,
)
from .commit import ClaimedLane, Commit, plan_commit
from .head import (
    QUERIES_FIELD,
    Head,
    WriterState,
    hour_of,
    is_past,
    queries_hour_key,
    whole_or_damaged,
)
from .keys import (
    ADMITTED_KEY,
    ROW_KEYS,
    block_key,
    pack,
    totals_page_of,
    unpack,
    unpack_page,
)
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
from .open_blocks import Block, replay
from .row_pages import NOTHING, past_keys, restore, restore_class_files


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
        start=head.start,
        stall=head.stall,
        idle_ms=head.idle_ms,
        layouts_stored=LAYOUTS_KEY in blobs,
        stored_queries=None if head.queries is None else pack(head.queries),
        optional_fields=stored_optional.fields_of(head),
        class_files=NOTHING if head.classes is None else pack(head.classes),
    )
    if not is_same:
        _change_layout(claimed, in_force)
        claimed.outdated = frozenset(k for k in blobs if not is_past(head, k))
        if lane.queries is not None and claimed.lane.queries is None and head.queries is not None:
            claimed.outdated |= {*head.queries.hour_keys, *head.queries.example_keys}
        for measure in lane.optional_rows:
            if not optional_rows_go_on(measure, plan, in_force.plan):
                claimed.outdated |= frozenset(filter(ROW_KEYS[measure].own, blobs))
    elif stored.last.generation != in_force.generation:
        claimed.layouts = renewed(stored, in_force)
        claimed.layouts_stored = False
    pane_ms = head.whole_from(plan.timing.base_ms)
    if pane_ms is not None and not head.sequence:
        since = begin_at(lane, pane_ms)
        claimed.layouts = msgspec.structs.replace(claimed.layouts, since=since)
    return claimed


def _check_key(number: int, head: Head, plan: Plan) -> None:
    """Raise Unavailable where the queries of a lane are hashed with another secret key: rows of one
    query would have two keys."""
    if plan.queries is None or head.queries is None:
        return
    own = secret_fingerprint(plan.queries.key)
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
        None if settled is None else kept_rows.open_hour(settled, plan),
        None if settled is None else kept_rows.kept_from(settled, plan),
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
    _rebuild_admission(lane, blobs)
    log = [replay(lane, e, _blob(blobs, block_key(e.number))) for e in head.state.blocks]
    _rebuild_rows(lane, blobs, head, stored)
    tallies = stored_experiments.read(blobs)
    stored_experiments.add_days(tallies, stored_experiments.ended_days(blobs).values())
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
    if plan.rekeyed and head.sequence:
        topics = list(head.watermarks)
    lane = new_lane(number, plan, dict(head.offsets), topics)
    lane.watermarks.update(head.watermarks)
    if lane.chain is not None and head.sequence:
        lane.chain.taken = head.taken
    lane.lifts.update(head.lifts)
    if head.watermark_ms is not None:
        # A partition that the topic got since: what its lane has settled stays.
        added = [log for log in topics if log not in head.watermarks]
        lane.lifts.update(dict.fromkeys(added, head.watermark_ms))
    lane.pending.update(head.state.pending)
    lane.settled_before = head.state.settled_before
    lane.lost_hours = set(head.state.lost_hours)
    for family in COUNT_FAMILIES:
        lane.counts[family] = Counter(head.counts.get(family, {}))
    lane.timed_from = head.state.timed_from
    lane.groupings = [tuple(attributes) for attributes in stored.groupings]
    ids = (0, *(lane.groupings.index(attributes) + 1 for attributes in plan.groupings))
    lane.segments = LaneSegments.of(names_of(names, head.state.names), ids)
    return lane


def names_of(fields: Mapping[str, bytes], count: int) -> list[tuple[int, str]]:
    """Return (grouping id, segment) by segment id."""
    stored = (fields[str(segment_id)] for segment_id in range(1, count))
    return [(0, ALL), *(msgspec.json.decode(name, type=tuple[int, str]) for name in stored)]


def _rebuild_admission(lane: Lane, blobs: Mapping[str, bytes | None]) -> None:
    if len(lane.segments.names) == 1:
        # No value was admitted yet: the key is written with the first segment.
        return
    stored = unpack(_blob(blobs, ADMITTED_KEY), dict[str, Admitted])
    lane.admissions = {log: admitted_of(stored, log, lane.plan) for log in lane.watermarks}


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

    plan, past = lane.plan, partial(is_past, head)
    restore(lane, ROW_KEYS[BY_FEEDBACK], plan.timing, blobs, past, of_hour)
    if head.sequence:
        stored_optional.restore_heads(lane, head)
        for measure, rows in lane.optional_rows.items():
            restore(rows, ROW_KEYS[measure], plan.timing, blobs, past)


def _rebuild_queries(lane: Lane, head: Head, blobs: Mapping[str, bytes | None]) -> None:
    if head.queries is None:
        raise KeyError(QUERIES_FIELD)
    stored_queries.restored(lane, head.queries, blobs)


def _remove_expired(lane: Lane, state: WriterState) -> None:
    """Remove what the watermark has passed: a block is unlinked whole, so the blocks that are left
    contain impressions and feedback that have expired."""
    if lane.settled_before is not None:
        before = lane.settled_before
        lane.open.close(lane.open.slots_before(before), before)
    if lane.open.times_ms:
        lane.open.skip_to(state.next_slot)
    else:
        lane.open.start_at(state.next_slot)
    lane.waiting.next_serial = state.next_serial
    watermark = lane.watermark_ms
    if watermark is not None:
        for _ in lane.waiting.take_older(watermark - lane.plan.timing.expires_at(0)):
            pass
        for _ in lane.waiting.take_held(watermark - (lane.plan.touch_ms or 0)):
            pass  # joined, or counted as unjoined, in the commit of this watermark


def past_hour_keys(lane: Lane) -> list[str]:
    """Return the keys of the lane that only the store has."""
    return [*_followed_keys(lane), *_query_keys(lane)]


def _followed_keys(lane: Lane) -> list[str]:
    sets = lane.row_sets.items()
    return [key for measure, rows in sets for key in past_keys(rows, ROW_KEYS[measure])]


def _query_keys(lane: Lane) -> list[str]:
    queries = lane.queries
    if queries is None:
        return []
    examples = map(row_pages.examples_hour_key, queries.examples.stored)
    return [*map(queries_hour_key, queries.stored), *examples]


def lose_hours(lane: Lane, missing: Sequence[str]) -> None:
    """Note that these pages of past hours are missing in the store."""
    for measure, rows in lane.row_sets.items():
        hours = map(ROW_KEYS[measure].of_hour, missing)
        rows.lose_hours({hour[0] for hour in hours if hour is not None})
    for start in [hour_of(key) for key in missing]:
        if start is not None and lane.queries is not None:
            lane.queries.lose(start)
    for start in [row_pages.hour_of(key) for key in missing]:
        if start is not None and lane.queries is not None:
            lane.queries.examples.lose(start)


def plan_repair(claimed: ClaimedLane, idle_ms: int | None = None) -> Commit:
    """Return what to write so that the store contains the whole lane as it is now, whatever it has
    lost but past hours. May take long in a large lane: meant for a thread."""
    lane = claimed.lane
    _mark_all_as_changed(lane)
    whole = replace(
        claimed,
        log=[],
        names=1,
        next_slot=lane.open.base,
        next_serial=min(lane.waiting.by_serial, default=lane.waiting.next_serial),
        layouts_stored=False,
    )
    commit = plan_commit(whole, idle_ms)
    blocks = [block_key(block.entry.number) for block in claimed.log if block.entry is not None]
    outdated = claimed.outdated - commit.blobs.keys() - set(commit.unlinked) - set(blocks)
    unlinked = [*commit.unlinked, *blocks, *sorted(outdated)]
    return replace(
        commit, unlinked=unlinked, kept=_followed_keys(lane), kept_unread=_query_keys(lane)
    )


def _mark_all_as_changed(lane: Lane) -> None:
    experiments = lane.experiments
    for rows in lane.row_sets.values():
        rows.mark_all_rows()
    lane.changes.total_pages |= set(lane.totals.page_numbers)
    experiments.changed |= experiments.by_name.keys()
    experiments.user_pages |= {
        (name, page) for name in experiments.by_name for page in range(USER_PAGES)
    }
    experiments.ended |= {
        (name, day_ms) for name, one in experiments.by_name.items() for day_ms in one.ends
    }
    if lane.queries is not None:
        lane.queries.is_outdated = True
    if len(lane.segments.names) > 1:
        for admission in lane.admissions.values():
            admission.changed = True
