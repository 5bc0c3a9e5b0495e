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
from ..panes import pane_start
from ..plan import ALL, Plan
from . import experiments as keeping
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
    """The lane as its last commit left it. Raises Damaged where a part is missing or not ours."""
    with whole_or_damaged(f"lane {number}"):
        lane = _counts_and_names(number, plan, topics, head, names)
        _rebuild_admission(lane, blobs, topics)
        log = [replay(lane, e, _blob(blobs, block_key(e.number))) for e in head.state.blocks]
        _rebuild_rows(lane, blobs)
        held = keeping.read(blobs)
        _rebuild_hours(lane, blobs, head)
    _close_what_is_over(lane, head.state)
    if plan.tracking is not None:
        next_ms = _next_pane_ms(lane)
        keeping.adopt(lane.experiments, plan.tracking, head.state.experiments, held, next_ms)
    return ClaimedLane(
        lane=lane,
        token=head.token,
        sequence=head.sequence,
        log=log,
        names=head.state.names,
        next_slot=head.state.next_slot,
        next_serial=head.state.next_serial,
    )


def _next_pane_ms(lane: Lane) -> int | None:
    """The first base pane of which no impression was met yet; None where no event was."""
    marks = [mark for mark in lane.watermarks.values() if mark is not None]
    if not marks:
        return None
    base_ms = lane.plan.timing.base_ms
    last = max((*lane.open.panes(), pane_start(min(marks), base_ms)))
    return last + base_ms


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
    lane.settled_before = head.state.settled_before
    for family in COUNT_FAMILIES:
        lane.counts[family] = Counter(head.counts.get(family, {}))
    lane.segments = Segments.of(names_of(names, head.state.names))
    return lane


def names_of(fields: Mapping[str, bytes], count: int) -> list[tuple[int, str]]:
    """(grouping number, segment) by segment number."""
    stored = (fields[str(number)] for number in range(1, count))
    return [(0, ALL), *(msgspec.json.decode(name, type=tuple[int, str]) for name in stored)]


def _rebuild_admission(
    lane: Lane, blobs: Mapping[str, bytes | None], topics: Sequence[str]
) -> None:
    if len(lane.segments.names) == 1:
        # Nobody was let in yet: the key is written with the first name.
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
    """The hours that can still change, and what there is of the others."""
    past: dict[int, list[int]] = {}
    for key, data in blobs.items():
        if not key.startswith(HOURS_PREFIX):
            continue
        start, page = parse_hour_page_key(key)
        if data is None and is_past(head, key):
            past.setdefault(start, []).append(page)
        else:
            rows = _rows_of(lane.hours, start, lane.plan)
            rows.set_page(page, unpack_page(_blob(blobs, key)))
    lane.stored_hours = {start: tuple(pages) for start, pages in past.items()}


def _rows_of(held: dict[Key, PagedRows], key: Key, plan: Plan) -> PagedRows:
    if key not in held:
        held[key] = PagedRows(plan.row_width)
    return held[key]


def _close_what_is_over(lane: Lane, state: WriterState) -> None:
    """Leave the open state as the last commit left it: blocks are unlinked whole, so they hold some
    that is over."""
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
