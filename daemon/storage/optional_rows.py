"""What a commit writes into the head of a lane of rows that its plan asks for, and of the files
that grade; and how that is read back. Pure.

Their pages are written as those of all rows: see `row_pages`.
"""

from collections.abc import Mapping
from typing import Final

from ..lane import Lane, latest_ms
from .head import Head
from .keys import OPTIONAL_KEYS, pack
from .row_pages import JUDGEMENTS_FIELD, RowsHead, timeline_head

NOTHING: Final = b""
"""The value of a field of a lane that had such rows and has them no more."""
FIELDS: Final = (*(keys.field for keys in OPTIONAL_KEYS.values()), JUDGEMENTS_FIELD)


def changed_fields(lane: Lane, stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the fields of the head that differ from what is stored."""
    fields = dict.fromkeys(FIELDS, NOTHING) | _fields(lane)
    return {name: data for name, data in fields.items() if stored.get(name, NOTHING) != data}


def _fields(lane: Lane) -> dict[str, bytes]:
    fields = {}
    for measure, rows in lane.optional_rows.items():
        head = RowsHead(
            latest_ms=latest_ms(lane),
            since_ms=rows.since_ms,
            columns=lane.plan.optional[measure].column_ids,
            from_slot=rows.from_slot,
            lost_hours=tuple(sorted(rows.lost_hours)),
        )
        fields[OPTIONAL_KEYS[measure].field] = pack(head)
    if lane.judged is not None and lane.judged.files.timeline is not None:
        fields[JUDGEMENTS_FIELD] = pack(timeline_head(lane.judged.files))
    return fields


def confirmed(stored: Mapping[str, bytes], fields: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return what the head says once a commit of these fields is applied."""
    written = {name: fields[name] for name in FIELDS if name in fields}
    return {**stored, **written} if written else stored


def fields_of(head: Head) -> dict[str, bytes]:
    """Return the fields as the head in the store has them."""
    fields = {OPTIONAL_KEYS[measure].field: pack(of) for measure, of in head.optional_rows.items()}
    if head.judgements is not None:
        fields[JUDGEMENTS_FIELD] = pack(head.judgements)
    return fields


def restore_heads(lane: Lane, head: Head) -> None:
    """Give the optional rows of a lane, and the files that grade, what the head says of them.
    Raises KeyError where it says nothing."""
    for measure, rows in lane.optional_rows.items():
        of = head.optional_rows.get(measure)
        if of is None:
            raise KeyError(OPTIONAL_KEYS[measure].field)
        rows.begin(of.from_slot, of.since_ms)
        rows.lost_hours = set(of.lost_hours)
        if lane.watermark_ms is not None:
            rows.final_before = lane.plan.timing.final_before(lane.watermark_ms)
    if lane.judged is not None and head.judgements is not None:
        head.judgements.restore(lane.judged.files)
