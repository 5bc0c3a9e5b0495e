"""What a commit writes of judged rows into the head of a lane, and how that is read back. Pure.

Their pages are written as those of all rows: see `row_pages`.
"""

from collections.abc import Mapping
from typing import Final

from ..lane import Lane, LaneJudged, ShownInBatch, final_before_ms, latest_ms
from .head import Head
from .keys import pack
from .row_pages import JUDGED_FIELD, JUDGEMENTS_FIELD, JudgedHead, timeline_head

NOTHING: Final = b""
"""The value of a field of a lane where lists were judged and are not any more."""


def changed_fields(lane: Lane, stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the fields of the head that differ from what is stored."""
    fields = dict.fromkeys((JUDGED_FIELD, JUDGEMENTS_FIELD), NOTHING)
    if lane.judged is not None:
        fields |= _fields(lane, lane.judged)
    return {name: data for name, data in fields.items() if stored.get(name, NOTHING) != data}


def _fields(lane: Lane, judged: LaneJudged) -> dict[str, bytes]:
    head = JudgedHead(
        latest_ms=latest_ms(lane),
        since_ms=judged.since_ms,
        columns=judged.plan.column_ids,
        from_slot=judged.from_slot,
        lost_hours=tuple(sorted(judged.lost_hours)),
    )
    fields = {JUDGED_FIELD: pack(head)}
    if judged.files.timeline is not None:
        fields[JUDGEMENTS_FIELD] = pack(timeline_head(judged.files))
    return fields


def confirmed_judged(
    stored: Mapping[str, bytes], fields: Mapping[str, bytes]
) -> Mapping[str, bytes]:
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


def restore_head(lane: Lane, head: Head) -> None:
    """Give the judged rows of a lane what the head says of them. Raises KeyError where it says
    nothing."""
    judged = lane.judged
    assert judged is not None
    if head.judged is None:
        raise KeyError(JUDGED_FIELD)
    judged.since_ms = head.judged.since_ms
    judged.from_slot, judged.lost_hours = head.judged.from_slot, set(head.judged.lost_hours)
    judged.shown = ShownInBatch(judged.from_slot)
    if head.judgements is not None:
        head.judgements.restore(judged.files)
    if lane.watermark_ms is not None:
        judged.final_before = final_before_ms(lane.watermark_ms, lane.plan.timing)
