"""The commit that makes a batch durable: from the lane in memory to bytes. Pure.

All values in a commit are absolute, never increments: the same commit may be sent again after a
lost reply, and writes the same values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from relevanced.metrics import distinct

from ..lane import Lane, kept_rows, new_column
from . import (
    experiments as stored_experiments,
    head,
    layouts as stored_layouts,
    optional_rows as stored_optional,
    queries as stored_queries,
    row_pages as stored_rows,
)
from .head import (
    IDLE_FIELD,
    LIFTS_FIELD,
    LOGS_FIELD,
    NO_QUERIES,
    NO_STALL,
    QUERIES_FIELD,
    STALL_FIELD,
    START_FIELD,
    TAKEN_FIELD,
    LogMark,
    QueryHead,
    StallMark,
    WriterState,
)
from .keys import ADMITTED_KEY, ROW_KEYS, block_key, pack, pack_page, totals_key
from .layouts import LAYOUTS_KEY, LaneLayouts
from .open_blocks import Block, encode, merged
from .queries import QueryWrites
from .row_pages import CLASSES_FIELD, NOTHING, packed_class_files


@dataclass(frozen=True)
class Commit:
    """One atomic step of a lane as bytes."""

    lane: int
    token: str
    sequence: int
    """The sequence that the writer expects in the store, which has one more afterwards."""
    blobs: Mapping[str, bytes]
    """Key → value."""
    fields: Mapping[str, bytes]
    """Fields of the head."""
    names: Mapping[str, bytes]
    """Segment id → [grouping id, segment] of new segments."""
    unlinked: Sequence[str]
    """Keys to remove."""
    listed: Sequence[str]
    """Keys among `blobs` that readers follow."""
    log: Sequence[Block]
    """The lane's blocks once this is committed."""
    kept: Sequence[str] | None = None
    """In a repair: the keys of the lane that the writer does not have in memory. Else None."""
    kept_unread: Sequence[str] = ()
    """In a repair: such keys that readers do not follow."""
    queries: QueryHead | None = None
    """What the head says of tables of queries; None where it says nothing of them."""


@dataclass
class ClaimedLane:
    """A lane in its owner's memory, and how much of it the store contains.

    `names`, `next_slot` and `next_serial` are the counts of what is stored already.
    """

    lane: Lane
    layouts: LaneLayouts
    token: str
    sequence: int
    log: list[Block]
    names: int
    next_slot: int
    next_serial: int
    logs: dict[str, LogMark] = field(default_factory=dict)
    """By topic: the logs that the lane reads, and how far."""
    start: Mapping[str, int] | None = None
    """By log: where the head says that the lane began."""
    added: Mapping[str, int] = field(default_factory=dict)
    """The same of logs that it got since, which the next commit writes."""
    stall: StallMark | None = None
    """As the head had it when the lane was claimed."""
    drop_stall: bool = False
    """The mark is about a log that is no longer read: the next commit removes it."""
    idle_ms: int | None = None
    """The idle mark in the head."""
    layouts_stored: bool = True
    """Whether the store contains `layouts` as they are."""
    stored_queries: bytes | None = None
    """What the head in the store says of tables of queries; None where it has no such field."""
    optional_fields: Mapping[str, bytes] = field(default_factory=dict)
    """What the head in the store says of optional rows and of the files that grade."""
    class_files: bytes = NOTHING
    """What the head in the store says of files of classes."""
    outdated: frozenset[str] = frozenset()
    """Keys of the lane as it was under another layout: where there are any, the next commit must be
    a repair, which writes it under this one."""


def plan_commit(claimed: ClaimedLane, idle_ms: int | None = None) -> Commit:
    """Return what to write so that the store contains the lane as it is now.

    `idle_ms` is the clock in ms if the log was read to its end, else None.
    """
    lane = claimed.lane
    blobs = _followed(lane)
    if not claimed.layouts_stored:
        blobs[LAYOUTS_KEY] = stored_layouts.packed(claimed.layouts)
    listed = list(blobs)
    if any(admission.changed for admission in lane.admissions.values()):
        blobs[ADMITTED_KEY] = pack({topic: a.seen for topic, a in lane.admissions.items()})
    log, unlinked = _append_block(claimed, blobs)
    queries = stored_queries.writes_of(lane, claimed.sequence + 1)
    if queries is not None:
        blobs |= queries.blobs
        unlinked += queries.unlinked
    new_names = enumerate(lane.segments.names[claimed.names :], claimed.names)
    return Commit(
        lane=lane.number,
        token=claimed.token,
        sequence=claimed.sequence,
        blobs=blobs,
        fields=_head_fields(lane, _state(lane, log), idle_ms)
        | ({LOGS_FIELD: head.encoded(claimed.logs)} if claimed.logs else {})
        | ({STALL_FIELD: NO_STALL} if claimed.drop_stall else {})
        | _start_fields(claimed)
        | _query_fields(claimed, queries)
        | stored_optional.changed_fields(lane, claimed.optional_fields)
        | _class_fields(claimed),
        names={str(id_): msgspec.json.encode(name) for id_, name in new_names},
        unlinked=unlinked + _dropped(lane),
        listed=listed,
        log=log,
        queries=None if queries is None else queries.head,
    )


def _start_fields(claimed: ClaimedLane) -> dict[str, bytes]:
    """Return the field of where the lane began, where it got further logs."""
    if not claimed.added or claimed.start is None:
        return {}
    return {START_FIELD: msgspec.json.encode({**claimed.start, **claimed.added})}


def _query_fields(claimed: ClaimedLane, queries: QueryWrites | None) -> dict[str, bytes]:
    """Return the field of tables of queries, where it changes."""
    data = NO_QUERIES if queries is None else pack(queries.head)
    stored = claimed.stored_queries or NO_QUERIES
    return {} if data == stored else {QUERIES_FIELD: data}


def _class_fields(claimed: ClaimedLane) -> dict[str, bytes]:
    """Return the field of files of classes, where it changes."""
    data = packed_class_files(claimed.lane)
    return {} if data == claimed.class_files else {CLASSES_FIELD: data}


def _followed(lane: Lane) -> dict[str, bytes]:
    """Return key → value of the changed rows and experiments, which readers follow."""
    changes = lane.changes
    totals = {
        totals_key(page): pack_page(lane.totals.page(page)) for page in sorted(changes.total_pages)
    }
    blobs = totals | stored_experiments.blobs_of(lane.experiments)
    for measure, rows in lane.row_sets.items():
        blobs |= stored_rows.blobs_of(rows, ROW_KEYS[measure], lane.plan.timing)
    return blobs


def _dropped(lane: Lane) -> list[str]:
    """Return the keys of rows and experiments that are no longer kept."""
    keys = list[str]()
    for measure, rows in lane.row_sets.items():
        keys += stored_rows.dropped(rows, ROW_KEYS[measure], lane.plan.timing)
    return [*keys, *stored_experiments.unlinked(lane.experiments)]


def _state(lane: Lane, log: Sequence[Block]) -> WriterState:
    tracking = lane.plan.tracking
    return WriterState(
        next_slot=lane.open.next_slot,
        next_serial=lane.waiting.next_serial,
        settled_before=lane.settled_before,
        open_hour=_open_hour(lane),
        names=len(lane.segments.names),
        blocks=[block.entry for block in log if block.entry is not None],
        experiments=(
            [] if tracking is None else stored_experiments.tracked(lane.experiments, tracking)
        ),
        pending=dict(lane.pending),
        lost_hours=sorted(lane.lost_hours),
        timed_from=lane.timed_from,
    )


def _open_hour(lane: Lane) -> int | None:
    return (
        None if lane.settled_before is None else kept_rows.open_hour(lane.settled_before, lane.plan)
    )


def _append_block(claimed: ClaimedLane, blobs: dict[str, bytes]) -> tuple[list[Block], list[str]]:
    """Add the batch's block to `blobs`; returns the log with it, and the keys of blocks that have
    expired or were merged."""
    lane, changes = claimed.lane, claimed.lane.changes
    watermark = lane.watermark_ms
    earlier = distinct(new_column(changes.slots))
    new = Block(
        first_slot=claimed.next_slot,
        end_slot=lane.open.next_slot,
        first_serial=claimed.next_serial,
        end_serial=lane.waiting.next_serial,
        slots=earlier[earlier < claimed.next_slot],
        relisted={slot for slot in changes.relisted if slot < claimed.next_slot},
        bound={serial for serial in changes.bound if serial < claimed.next_serial},
        joined={s: e for s, e in changes.joined.items() if s < claimed.next_serial},
    )
    kept = [block for block in claimed.log if not _has_expired(block, watermark)]
    expired = [block for block in claimed.log if _has_expired(block, watermark)]
    if not new.size:
        return kept, [_block_key(block) for block in expired]
    block, replaced = merged(kept, new)
    log = kept[: len(kept) - len(replaced)]
    encoded = encode(lane, block)
    if encoded is not None:
        data, expires_ms = encoded
        block.written(block.entry_of(claimed.sequence + 1, expires_ms))
        log.append(block)
        blobs[_block_key(block)] = data
    return log, [_block_key(old) for old in (*expired, *replaced)]


def _has_expired(block: Block, watermark: int | None) -> bool:
    return block.entry is not None and watermark is not None and block.entry.expires_ms <= watermark


def _block_key(block: Block) -> str:
    assert block.entry is not None
    return block_key(block.entry.number)


def _head_fields(lane: Lane, state: WriterState, idle_ms: int | None) -> dict[str, bytes]:
    counts = {family: dict(labels) for family, labels in lane.counts.items() if labels}
    fields = {
        "offsets": msgspec.json.encode(lane.offsets),
        "watermarks": msgspec.json.encode(lane.watermarks),
        "counts": msgspec.json.encode(counts),
        "state": pack(state),
    }
    if lane.lifts:
        fields[LIFTS_FIELD] = msgspec.json.encode(lane.lifts)
    if lane.chain is not None:
        fields[TAKEN_FIELD] = msgspec.json.encode(lane.chain.taken)
    if idle_ms is not None:
        fields[IDLE_FIELD] = str(idle_ms).encode()
    return fields


def confirm(claimed: ClaimedLane, commit: Commit) -> None:
    """Note that the store has applied the commit: the lane's changes are durable."""
    lane = claimed.lane
    claimed.sequence = commit.sequence + 1
    claimed.log = list(commit.log)
    claimed.names = len(lane.segments.names)
    claimed.next_slot = lane.open.next_slot
    claimed.next_serial = lane.waiting.next_serial
    if IDLE_FIELD in commit.fields:
        claimed.idle_ms = int(commit.fields[IDLE_FIELD])
    claimed.drop_stall, claimed.added = False, {}
    claimed.layouts_stored = claimed.layouts_stored or LAYOUTS_KEY in commit.blobs
    claimed.outdated = frozenset()
    claimed.stored_queries = commit.fields.get(QUERIES_FIELD, claimed.stored_queries)
    claimed.optional_fields = stored_optional.confirmed(claimed.optional_fields, commit.fields)
    claimed.class_files = commit.fields.get(CLASSES_FIELD, claimed.class_files)
    if commit.queries is not None:
        stored_queries.confirmed(lane, commit.queries)
    lane.start_batch()
