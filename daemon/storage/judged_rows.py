"""The judged rows of a lane: what a commit writes of them, and how they are read back. Pure."""

from collections.abc import Mapping
from typing import Final

from ..lane.judged import final_before_ms, row_width
from ..lane.judged_rows import LaneJudged, ShownInBatch
from ..lane.lane import Lane
from ..lane.paged_rows import PagedRows
from .head import Head, is_past
from .judged import (
    JUDGED_FIELD,
    JUDGEMENTS_FIELD,
    PREFIX,
    JudgedHead,
    judged_hour_key,
    judged_key,
    parse_judged_hour_key,
    parse_judged_key,
    timeline_head,
)
from .packing import pack, pack_page, unpack_page

NOTHING: Final = b""
"""The value of a field of a lane where lists were judged and are not any more."""


def blobs_of(lane: Lane) -> dict[str, bytes]:
    """Return key → value of the judged rows that changed."""
    judged = lane.judged
    if judged is None:
        return {}
    panes = {
        judged_key(lane.plan.timing, key, page): pack_page(judged.panes[key].page(page))
        for key, page in sorted(judged.pages)
    }
    return panes | {
        judged_hour_key(start, page): pack_page(judged.hours[start].page(page))
        for start, page in sorted(judged.hour_pages)
    }


def dropped(lane: Lane) -> list[str]:
    """Return the keys of judged rows that are no longer kept."""
    judged = lane.judged
    if judged is None:
        return []
    panes = [judged_key(lane.plan.timing, key, page) for key, page in judged.dropped]
    return [*panes, *(judged_hour_key(start, page) for start, page in judged.dropped_hours)]


def changed_fields(lane: Lane, stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the fields of the head that differ from what is stored."""
    fields = dict.fromkeys((JUDGED_FIELD, JUDGEMENTS_FIELD), NOTHING)
    if lane.judged is not None:
        fields |= _fields(lane.judged)
    return {name: data for name, data in fields.items() if stored.get(name, NOTHING) != data}


def _fields(judged: LaneJudged) -> dict[str, bytes]:
    head = JudgedHead(
        latest_ms=judged.latest_ms,
        since_ms=judged.since_ms,
        columns=judged.plan.column_ids,
        from_slot=judged.from_slot,
        lost_hours=tuple(sorted(judged.lost_hours)),
    )
    fields = {JUDGED_FIELD: pack(head)}
    if judged.timeline is not None:
        fields[JUDGEMENTS_FIELD] = pack(timeline_head(judged.timeline, judged.past))
    return fields


def confirmed(stored: Mapping[str, bytes], fields: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return what the head says once a commit of these fields is applied."""
    written = {name: fields[name] for name in (JUDGED_FIELD, JUDGEMENTS_FIELD) if name in fields}
    return {**stored, **written} if written else stored


def fields_of(head: Head) -> dict[str, bytes]:
    """Return the fields as the head in the store has them."""
    fields = {}
    if head.judged is not None:
        fields[JUDGED_FIELD] = pack(head.judged)
    if head.judgements is not None:
        fields[JUDGEMENTS_FIELD] = pack(head.judgements)
    return fields


def restored(lane: Lane, head: Head, blobs: Mapping[str, bytes | None]) -> None:
    """Give a lane its judged rows as its last commit left them. Raises KeyError where a part is
    missing."""
    judged = lane.judged
    assert judged is not None
    if head.judged is None:
        raise KeyError(JUDGED_FIELD)
    judged.latest_ms, judged.since_ms = head.judged.latest_ms, head.judged.since_ms
    judged.from_slot, judged.lost_hours = head.judged.from_slot, set(head.judged.lost_hours)
    judged.shown = ShownInBatch(judged.from_slot)
    if head.judgements is not None:
        judged.timeline, judged.past = head.judgements.timeline, head.judgements.history_before
    if lane.watermark_ms is not None:
        judged.final_before = final_before_ms(lane.watermark_ms, lane.plan.timing)
    width, stored = row_width(judged.plan), dict[int, list[int]]()
    for key, data in blobs.items():
        if not key.startswith(PREFIX):
            continue
        of_hour = parse_judged_hour_key(key)
        if of_hour is not None and data is None and is_past(head, key):
            stored.setdefault(of_hour[0], []).append(of_hour[1])
        elif data is None:
            raise KeyError(key)
        elif of_hour is not None:
            rows = judged.hours.setdefault(of_hour[0], PagedRows(width))
            rows.set_page(of_hour[1], unpack_page(data))
        elif (of_pane := parse_judged_key(lane.plan.timing, key)) is not None:
            rows = judged.panes.setdefault(of_pane[0], PagedRows(width))
            rows.set_page(of_pane[1], unpack_page(data))
    judged.stored_hours = {start: tuple(pages) for start, pages in stored.items()}


def outdated(before: Lane, after: Lane, keys: Mapping[str, bytes | None]) -> frozenset[str]:
    """Return the keys of judged rows that a lane under another plan has no more."""
    if before.judged is None or before.judged is after.judged:
        return frozenset()
    return frozenset(key for key in keys if key.startswith(PREFIX))


def past_keys(lane: Lane) -> list[str]:
    """Return the keys of judged rows that only the store has."""
    stored = {} if lane.judged is None else lane.judged.stored_hours
    return [judged_hour_key(start, page) for start, pages in stored.items() for page in pages]


def mark_all_as_changed(lane: Lane) -> None:
    """Let the next commit write all judged rows that are in memory."""
    judged = lane.judged
    if judged is None:
        return
    judged.pages |= {
        (key, page) for key, rows in judged.panes.items() for page in rows.page_numbers
    }
    judged.hour_pages |= {
        (start, page) for start, rows in judged.hours.items() for page in rows.page_numbers
    }
