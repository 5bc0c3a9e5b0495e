"""A lane read back from the store, as its last commit left it. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from ..lane.admission import Admitted, admitted_of
from ..lane.counts import COUNT_FAMILIES
from ..lane.lane import Lane, new_lane
from ..lane.paged_rows import PagedRows
from ..lane.segments import Segments
from ..panes import JUMP_MS, pane_start
from ..plan import ALL, Plan
from . import experiments as stored_experiments
from .blocks import replay
from .commit import ClaimedLane
from .head import Head, WriterState, is_past, whole_or_damaged
from .keys import ADMITTED_KEY, HOURS_PREFIX, block_key, parse_hour_page_key, parse_page_key
from .packing import unpack, unpack_page

Key = TypeVar("Key")


def rebuild(
    number: int,
    plan: Plan,
    topics: Sequence[str],
    head: Head,
    names: Mapping[str, bytes],
    blobs: Mapping[str, bytes | None],
) -> ClaimedLane:
    """Return the lane as its last commit left it, for its new owner.

    Raises Damaged where a part is missing or was not written by this version.
    """
    with whole_or_damaged(f"lane {number}"):
        lane = _counts_and_names(number, plan, topics, head, names)
        _rebuild_admission(lane, blobs, topics)
        log = [replay(lane, e, _blob(blobs, block_key(e.number))) for e in head.state.blocks]
        _rebuild_rows(lane, blobs)
        tallies = stored_experiments.read(blobs)
        stored_experiments.read_days(tallies, blobs)
        _rebuild_hours(lane, blobs, head)
    _remove_expired(lane, head.state)
    if plan.tracking is not None:
        stored, next_ms = head.state.experiments, _next_pane_ms(lane)
        stored_experiments.adopt(lane.experiments, plan.tracking, stored, tallies, next_ms)
    return ClaimedLane(
        lane=lane,
        token=head.token,
        sequence=head.sequence,
        log=log,
        names=head.state.names,
        next_slot=head.state.next_slot,
        next_serial=head.state.next_serial,
        logs=dict(head.logs),
        stall=head.stall,
        idle_ms=head.idle_ms,
    )


def _next_pane_ms(lane: Lane) -> int | None:
    """Return the start of the first base pane without an impression so far; None before the first
    event of the lane."""
    marks = [mark for mark in lane.watermarks.values() if mark is not None]
    if not marks:
        return None
    base_ms = lane.plan.timing.base_ms
    # An impression of a wrong clock may lie in a pane of next year: no experiment waits for that.
    pending_ms = [time_ms for p in lane.pending.values() for time_ms in p.times_ms.values()]
    reach = max((*marks, *pending_ms)) + JUMP_MS
    reached = [pane for pane in lane.open.panes() if pane <= reach]
    return max((*reached, pane_start(min(marks), base_ms))) + base_ms


def _blob(blobs: Mapping[str, bytes | None], key: str) -> bytes:
    data = blobs.get(key)
    if data is None:
        raise KeyError(key)
    return data


def _counts_and_names(
    number: int, plan: Plan, topics: Sequence[str], head: Head, names: Mapping[str, bytes]
) -> Lane:
    lane = new_lane(number, plan, dict(head.offsets), topics)
    lane.watermarks.update(head.watermarks)
    lane.pending.update(head.state.pending)
    lane.settled_before = head.state.settled_before
    lane.lost_hours = set(head.state.lost_hours)
    for family in COUNT_FAMILIES:
        lane.counts[family] = Counter(head.counts.get(family, {}))
    lane.segments = Segments.of(names_of(names, head.state.names))
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


def _rebuild_rows(lane: Lane, blobs: Mapping[str, bytes | None]) -> None:
    for key in blobs:
        if not key.startswith(("rows:", "totals:")):
            continue
        pane, page = parse_page_key(key)
        rows = lane.totals if pane is None else _rows_of(lane.panes, pane, lane.plan)
        rows.set_page(page, unpack_page(_blob(blobs, key)))


def _rebuild_hours(lane: Lane, blobs: Mapping[str, bytes | None], head: Head) -> None:
    """Read the hours that can still change, and note which pages are stored of the others."""
    stored: dict[int, list[int]] = {}
    for key, data in blobs.items():
        if not key.startswith(HOURS_PREFIX):
            continue
        start, page = parse_hour_page_key(key)
        if data is None and is_past(head, key):
            stored.setdefault(start, []).append(page)
        else:
            rows = _rows_of(lane.hours, start, lane.plan)
            rows.set_page(page, unpack_page(_blob(blobs, key)))
    lane.stored_hours = {start: tuple(pages) for start, pages in stored.items()}


def _rows_of(by_key: dict[Key, PagedRows], key: Key, plan: Plan) -> PagedRows:
    if key not in by_key:
        by_key[key] = PagedRows(plan.row_width)
    return by_key[key]


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
