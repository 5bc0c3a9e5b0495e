"""The commit that writes a batch down: from the lane in memory to bytes. Pure.

Everything in a commit is absolute, so that the same commit sent twice is harmless.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from relevanced.metrics.arithmetic import distinct

from ..lane import hours
from ..lane.columns.column import column
from ..lane.lane import Lane
from . import experiments as keeping
from .block_log import Block, merged
from .blocks import encode
from .head import BlockEntry, WriterState
from .keys import ADMITTED_KEY, block_key, hour_page_key, page_key, totals_key
from .packing import pack, pack_page


@dataclass(frozen=True)
class Commit:
    """One atomic step of a lane, as bytes: sent again it is the same."""

    lane: int
    token: str
    sequence: int
    """The sequence that the writer believes in; the store has one more afterwards."""
    blobs: Mapping[str, bytes]
    """Key → value."""
    fields: Mapping[str, bytes]
    """Fields of the head."""
    names: Mapping[str, bytes]
    unlinked: Sequence[str]
    listed: Sequence[str]
    """Keys among `blobs` that readers follow."""
    log: Sequence[Block]
    """The blocks as they stand once this is committed."""


@dataclass
class ClaimedLane:
    """A lane in its owner's memory, with what the store is believed to hold of it."""

    lane: Lane
    token: str
    sequence: int
    log: list[Block]
    names: int
    next_slot: int
    next_serial: int


def plan_commit(held: ClaimedLane, idle_ms: int | None = None) -> Commit:
    """What to write so that the store holds the lane as it is now.

    `idle_ms` is the clock where the log was read to its end, else None.
    """
    lane = held.lane
    blobs = _followed(lane)
    listed = list(blobs)
    if any(admission.changed for admission in lane.admissions.values()):
        blobs[ADMITTED_KEY] = pack({topic: a.seen for topic, a in lane.admissions.items()})
    log, unlinked = _append_block(held, blobs)
    fresh_names = enumerate(lane.segments.names[held.names :], held.names)
    return Commit(
        lane=lane.number,
        token=held.token,
        sequence=held.sequence,
        blobs=blobs,
        fields=_head_fields(lane, _state(lane, log), idle_ms),
        names={str(number): msgspec.json.encode(name) for number, name in fresh_names},
        unlinked=unlinked + _dropped(lane),
        listed=listed,
        log=log,
    )


def _followed(lane: Lane) -> dict[str, bytes]:
    """What changed of the rows and of experiments, which readers follow."""
    changes = lane.changes
    panes = {
        page_key(key, page): pack_page(lane.panes[key].page(page))
        for key, page in sorted(changes.pages)
    }
    totals = {
        totals_key(page): pack_page(lane.totals.page(page)) for page in sorted(changes.total_pages)
    }
    of_hours = {
        hour_page_key(start, page): pack_page(lane.hours[start].page(page))
        for start, page in sorted(changes.hour_pages)
    }
    return panes | totals | keeping.blobs_of(lane.experiments) | of_hours


def _dropped(lane: Lane) -> list[str]:
    """The keys of rows and of experiments that are over."""
    changes = lane.changes
    panes = [page_key(key, page) for key, page in changes.dropped]
    of_hours = [hour_page_key(start, page) for start, page in changes.dropped_hours]
    return [*panes, *of_hours, *keeping.unlinked(lane.experiments)]


def _state(lane: Lane, log: Sequence[Block]) -> WriterState:
    tracking = lane.plan.tracking
    return WriterState(
        next_slot=lane.open.next_slot,
        next_serial=lane.waiting.next_serial,
        settled_before=lane.settled_before,
        open_hour=_open_hour(lane),
        names=len(lane.segments.names),
        blocks=[block.entry for block in log if block.entry is not None],
        experiments=[] if tracking is None else keeping.tracked(lane.experiments, tracking),
    )


def _open_hour(lane: Lane) -> int | None:
    return None if lane.settled_before is None else hours.open_hour(lane.settled_before, lane.plan)


def _append_block(held: ClaimedLane, blobs: dict[str, bytes]) -> tuple[list[Block], list[str]]:
    """Add the batch's block to `blobs`; the log with it, and the keys of blocks that are over or
    merged."""
    lane, changes = held.lane, held.lane.changes
    watermark = lane.watermark_ms
    earlier = distinct(column(changes.slots))
    fresh = Block(
        first_slot=held.next_slot,
        end_slot=lane.open.next_slot,
        first_serial=held.next_serial,
        end_serial=lane.waiting.next_serial,
        slots=earlier[earlier < held.next_slot],
        relisted={slot for slot in changes.relisted if slot < held.next_slot},
        bound={serial for serial in changes.bound if serial < held.next_serial},
        gone={serial: dies for serial, dies in changes.joined.items() if serial < held.next_serial},
    )
    living = [block for block in held.log if not _is_over(block, watermark)]
    over = [block for block in held.log if _is_over(block, watermark)]
    if not fresh.size:
        return living, [_block_key(block) for block in over]
    block, replaced = merged(living, fresh)
    log = living[: len(living) - len(replaced)]
    encoded = encode(lane, block)
    if encoded is not None:
        data, dies_ms = encoded
        number = held.sequence + 1
        entry = BlockEntry(
            number,
            block.first_slot,
            block.end_slot,
            block.first_serial,
            block.end_serial,
            dies_ms,
            block.size,
        )
        block.written(entry)
        log.append(block)
        blobs[_block_key(block)] = data
    return log, [_block_key(old) for old in (*over, *replaced)]


def _is_over(block: Block, watermark: int | None) -> bool:
    return block.entry is not None and watermark is not None and block.entry.dies_ms <= watermark


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
    if idle_ms is not None:
        fields["idle"] = str(idle_ms).encode()
    return fields


def confirm(held: ClaimedLane, commit: Commit) -> None:
    """The store has taken the commit: the lane's changes are durable."""
    lane = held.lane
    held.sequence = commit.sequence + 1
    held.log = list(commit.log)
    held.names = len(lane.segments.names)
    held.next_slot = lane.open.next_slot
    held.next_serial = lane.waiting.next_serial
    lane.start_batch()
