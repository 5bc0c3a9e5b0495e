"""The open state as an append-only log of blocks: from a lane to bytes, and back. Pure.

Each commit appends one block: the new impressions and the new waiting feedback of the batch, and
the present state of each older impression that it changed. A lane is read back by replaying its
blocks in order, and a block is unlinked when all of its contents have expired. So a commit writes
what a batch touched and nothing per open impression, which is why its cost does not grow with them.

Without merging, a commit per second would leave thousands of keys per lane, each of which a new
owner has to read. So small blocks at the end of the log are rewritten as one with the new block:
the blocks of a run halve in size, and their number grows with the logarithm of the commits.

Impressions are columns, not records: columns of small integers, states, combinations and searches
as ids of tables in the same block, compress to a fraction of a field per impression (see `keys`).
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from relevanced.metrics import Integers, distinct

from ..experiments import Assignment
from ..lane import (
    NO_UNIT,
    Combination,
    GainState,
    Held,
    Lane,
    LaterPage,
    NewImpressions,
    Subjects,
    Touches,
    Waiting,
    cut,
    hashes_of,
    new_column,
)
from ..plan import NO_SURFACE
from .head import BlockEntry
from .keys import pack, pack_integers, unpack, unpack_integers
from .searches import PackedSearches, packed_searches, unpacked_searches

NO_SLOTS: Final[Integers] = np.zeros(0, np.int64)
MERGED_ENTRIES: Final = 4096
"""Blocks are not merged beyond this size, which bounds what one commit rewrites."""


@dataclass(eq=False)
class Block:
    """Which parts of a lane's state one block contains. `entry` is None until it is written."""

    first_slot: int
    end_slot: int
    first_serial: int
    end_serial: int
    slots: Integers = field(default_factory=lambda: NO_SLOTS)
    """Slots of earlier blocks whose impressions it changes, ascending."""
    relisted: set[int] = field(default_factory=set)
    """Those of them whose list changed."""
    bound: set[int] = field(default_factory=set)
    """Serials of earlier blocks whose feedback found its impression, but not its item."""
    joined: dict[int, int] = field(default_factory=dict)
    """Serials of earlier blocks whose feedback joined → the watermark at which it would expire."""
    entry: BlockEntry | None = None

    def written(self, entry: BlockEntry) -> None:
        """Note that the block is stored as `entry`. Its slots are needed for merging only, so they
        are dropped where it is too large to be merged again."""
        self.entry = entry
        if self.size >= MERGED_ENTRIES:
            self.slots = NO_SLOTS

    @property
    def size(self) -> int:
        """An upper bound of the entries that it contains; fixed when it is written."""
        if self.entry is not None:
            return self.entry.size
        new = self.end_slot - self.first_slot + self.end_serial - self.first_serial
        return new + len(self.slots) + len(self.bound) + len(self.joined)

    def entry_of(self, number: int, expires_ms: int) -> BlockEntry:
        """Return the block as the head lists it under this number."""
        return BlockEntry(
            number=number,
            first_slot=self.first_slot,
            end_slot=self.end_slot,
            first_serial=self.first_serial,
            end_serial=self.end_serial,
            expires_ms=expires_ms,
            size=self.size,
        )


def combined(earlier: Block, later: Block) -> Block:
    """Return two blocks that follow each other as one. Changes that `later` makes to what `earlier`
    brought are part of it: the block is encoded from the lane as it is now."""
    of_others = later.slots[later.slots < earlier.first_slot]
    return Block(
        first_slot=earlier.first_slot,
        end_slot=later.end_slot,
        first_serial=earlier.first_serial,
        end_serial=later.end_serial,
        slots=distinct(np.concatenate((earlier.slots, of_others))),
        relisted=earlier.relisted | {slot for slot in later.relisted if slot < earlier.first_slot},
        bound=earlier.bound | {serial for serial in later.bound if serial < earlier.first_serial},
        joined=earlier.joined | {s: e for s, e in later.joined.items() if s < earlier.first_serial},
    )


def merged(log: list[Block], new: Block) -> tuple[Block, list[Block]]:
    """Return the block to write instead of `new`, and the blocks at the end of the log that it
    replaces.

    A block is merged while it is at most twice as large as what follows it. So whatever is
    rewritten lands in a block half as large again, and each entry is rewritten a few times at most.
    """
    replaced: list[Block] = []
    for block in reversed(log):
        if block.size > 2 * new.size or block.size + new.size > MERGED_ENTRIES:
            break
        new = combined(block, new)
        replaced.append(block)
    return new, replaced


class _Wire(msgspec.Struct, array_like=True):
    """A block as it is stored: the order and the types of the fields are the format.

    Columns of integers are packed. Columns of impressions contain the new ones, then, in `states`
    alone, the changed ones.
    """

    new: bytes
    """Slots of the new impressions; `changed`: those of older ones."""
    changed: bytes
    ids: bytes
    id_lengths: bytes
    times_ms: bytes
    items: bytes
    item_lengths: bytes
    combination_table: list[Combination]
    combinations: bytes
    state_table: list[GainState]
    states: bytes
    relisted: list[tuple[int, bytes]]
    """(slot, list as JSON) of older impressions whose list changed."""
    grades: list[tuple[int, list[tuple[int, int, float]]]]
    """(slot, [(rank from 0, event time in ms, grade)]) of explicit grades."""
    delays: list[tuple[int, int]]
    waiting: list[tuple[int, Waiting]]
    bound: list[tuple[int, int]]
    """(serial, time of its impression in ms) of waiting feedback that found its impression."""
    joined: list[tuple[int, int]]
    """(serial, watermark at which it expires) of waiting feedback that joined."""
    # Of the new impressions in an experiment: which of them, their assignments and their units.
    subjects: bytes = b""
    assignment_table: list[Assignment] = []
    assignments: bytes = b""
    unit_names: tuple[str, ...] = ()
    units: bytes = b""
    teams: list[tuple[int, list[str | None]]] = []
    surfaces: bytes = b""
    """Of the states in the table, where propensities are configured."""


class _SearchWire(_Wire, array_like=True):
    """A block of a lane that keeps the queries of impressions."""

    searches: PackedSearches | None = None
    """Of the new impressions."""


class _TouchWire(_SearchWire, array_like=True):
    """A block of a lane in which feedback joins by last touch. It reads those of others as well."""

    visitors: bytes = b""
    """Of the new impressions, hashes of 8 bytes."""
    met_ms: bytes = b""
    """Of the new impressions, the watermarks that they met, as differences to their times."""
    items_met_ms: list[tuple[int, list[tuple[int, int]]]] = []
    """(slot, [(rank from 0, watermark)]) of the items that later records brought to `new` and to
    `relisted` lists."""
    held: list[tuple[int, Held]] = []
    """As `waiting`. The watermark of a commit tells which of it was decided by then."""


class _PageWire(_TouchWire, array_like=True):
    """A block of a lane of all partitions with pages that wait, or with impressions that are too
    late for judged rows. It reads those of others as well."""

    pages: list[tuple[int, LaterPage]] = []
    """As `waiting`."""
    late: list[tuple[int, int]] = []
    """(slot, watermark) of `new` and `relisted` impressions."""


def encode(lane: Lane, block: Block) -> tuple[bytes, int] | None:
    """Return the block's bytes and the watermark at which all of it expires; None where nothing in
    it is open or waiting any more."""
    new = lane.open.only_open(np.arange(max(block.first_slot, lane.open.base), block.end_slot))
    changed = lane.open.only_open(block.slots)
    by_serial = lane.waiting.by_serial
    serials = [s for s in range(block.first_serial, block.end_serial) if s in by_serial]
    waiting = [(s, one) for s in serials if not isinstance(one := by_serial[s], Held | LaterPage)]
    pages = [(s, one) for s in serials if isinstance(one := by_serial[s], LaterPage)]
    held = [(s, one) for s in serials if isinstance(one := by_serial[s], Held)]
    bound = [(s, by_serial[s]) for s in sorted(block.bound) if s in by_serial]
    joined = _still_needed(lane, block.joined)
    if not (len(new) or len(changed) or waiting or pages or held or bound or joined):
        return None
    timing = lane.plan.timing
    ends = [timing.expires_at(feedback.time_ms) for _, feedback in (*waiting, *pages, *bound)]
    ends += [feedback.time_ms + (lane.plan.touch_ms or 0) for _, feedback in held]
    ends += [expires_ms for _, expires_ms in joined]
    for slots in (new, changed):
        if len(slots):
            latest = lane.open.times_ms.at(lane.open.index_of(slots)).max()
            ends.append(timing.closes_at(int(latest)))
    relisted = [s for s in sorted(block.relisted) if lane.open.has_open(s)]
    late = sorted(lane.open.late.keys() & {*new.tolist(), *relisted}) if lane.open.late else []
    wire = _wire(lane, new, changed, _PageWire if pages or late else _kind_of(lane))
    _write_subjects(lane, wire, new)
    if isinstance(wire, _SearchWire):
        wire.searches = packed_searches(lane, new)
    wire.relisted = [(s, lane.open.text_of(s)) for s in relisted]
    if isinstance(wire, _TouchWire) and lane.open.touches is not None:
        _write_touches(lane, wire, new, relisted)
        wire.held = held
    if isinstance(wire, _PageWire):
        wire.pages, wire.late = pages, [(slot, lane.open.late[slot]) for slot in late]
    wire.waiting = waiting
    wire.bound = [(serial, f.bound_ms) for serial, f in bound if f.bound_ms is not None]
    wire.joined = joined
    return pack(wire), max(ends)


def _still_needed(lane: Lane, joined: dict[int, int]) -> list[tuple[int, int]]:
    """Return (serial, watermark at which it expires) of joined feedback that is still waiting in an
    earlier block, which may be stored as long."""
    watermark = lane.watermark_ms
    return [
        (s, expires_ms)
        for s, expires_ms in sorted(joined.items())
        if watermark is None or expires_ms > watermark
    ]


def _kind_of(lane: Lane) -> type[_Wire]:
    if lane.open.touches is not None:
        return _TouchWire
    return _Wire if lane.query_keys is None else _SearchWire


def _wire(lane: Lane, new: Integers, changed: Integers, kind: type[_Wire]) -> _Wire:
    """Return the columns of the impressions. The ids of combinations and states belong to this
    process, so the block contains tables of its own for those that it uses."""
    impressions = lane.open
    both = np.concatenate((new, changed))
    new_at, both_at = impressions.index_of(new), impressions.index_of(both)
    combinations, of_new = _distinct(new_column(impressions.combinations)[new_at])
    states, of_both = _distinct(new_column(impressions.states)[both_at])
    (ids, id_lengths), (items, item_lengths) = impressions.texts_of(new)
    graded = sorted(impressions.grades.keys() & both.tolist()) if impressions.grades else []
    surfaces = [lane.states.surface_id_of(state) for state in states]
    return kind(
        new=pack_integers(new),
        changed=pack_integers(changed),
        ids=ids,
        id_lengths=pack_integers(id_lengths),
        times_ms=pack_integers(impressions.times_ms.at(new_at)),
        items=items,
        item_lengths=pack_integers(item_lengths),
        combination_table=[lane.segments.combinations[n] for n in combinations],
        combinations=pack_integers(of_new),
        state_table=[lane.states[state] for state in states],
        states=pack_integers(of_both),
        relisted=[],
        grades=[
            (slot, [(rank0, *grade) for rank0, grade in sorted(impressions.grades[slot].items())])
            for slot in graded
        ],
        delays=(
            [(s, impressions.delays_ms[s]) for s in both.tolist() if s in impressions.delays_ms]
            if impressions.delays_ms
            else []
        ),
        waiting=[],
        bound=[],
        joined=[],
        surfaces=pack_integers(np.array(surfaces, np.int64)) if lane.plan.surfaces else b"",
    )


def _write_subjects(lane: Lane, wire: _Wire, new: Integers) -> None:
    columns, tracking = lane.open.subjects, lane.plan.tracking
    if columns is None or tracking is None or not len(new):
        return
    indices, teams = lane.open.index_of(new), lane.open.teams
    assignment_ids = columns.assignment_ids()[indices]
    in_experiment = np.flatnonzero(assignment_ids)
    table, which = _distinct(assignment_ids[in_experiment].astype(np.int64))
    wire.subjects, wire.assignments = pack_integers(in_experiment), pack_integers(which)
    wire.assignment_table = [lane.assignments[n] for n in table]
    wire.teams = [(s, list(teams[s])) for s in new.tolist() if s in teams] if teams else []
    wire.unit_names = tracking.units
    wire.units = pack_integers(columns.units()[indices[in_experiment]].T)


def _write_touches(lane: Lane, wire: _TouchWire, new: Integers, relisted: list[int]) -> None:
    touches = lane.open.touches
    assert touches is not None
    index = lane.open.index_of(new)
    times_ms = lane.open.times_ms.at(index)
    found = touches.at(index, times_ms)
    wire.visitors = found.visitors.astype("<i8").tobytes()
    wire.met_ms = pack_integers(found.met_ms - times_ms)
    slots = sorted(touches.met_ms.keys() & {*new.tolist(), *relisted}) if touches.met_ms else []
    wire.items_met_ms = [(slot, sorted(touches.met_ms[slot].items())) for slot in slots]


def _read_touches(lane: Lane, wire: _TouchWire, times_ms: Integers) -> Touches | None:
    if lane.open.touches is None or not wire.visitors:
        return None
    visitors = np.frombuffer(wire.visitors, "<i8").astype(np.int64)
    return Touches(visitors, times_ms + unpack_integers(wire.met_ms))


def _read_subjects(lane: Lane, wire: _Wire, new: int) -> Subjects | None:
    """Return the experiments and units of `new` impressions; None where none is in an experiment.

    Units that were not needed when the block was written are NO_UNIT.
    """
    tracking, in_experiment = lane.plan.tracking, unpack_integers(wire.subjects)
    if tracking is None or not len(in_experiment):
        return None
    table = np.array([lane.assignments.id_of(assignment) for assignment in wire.assignment_table])
    assignments = np.zeros(new, np.int64)
    assignments[in_experiment] = table[unpack_integers(wire.assignments)]
    stored = unpack_integers(wire.units).reshape(len(wire.unit_names), -1)
    units = np.full((new, len(tracking.units)), NO_UNIT, np.int64)
    for column_index, unit in enumerate(tracking.units):
        if unit in wire.unit_names:
            units[in_experiment, column_index] = stored[wire.unit_names.index(unit)]
    return Subjects(assignments, units)


def _distinct(ids: Integers) -> tuple[list[int], Integers]:
    """Return the distinct ids, ascending, and for each id its index among them, (n,).

    Ids are indices into a small table: counting them costs a fourth of sorting them.
    """
    is_used = np.bincount(ids) > 0
    return np.flatnonzero(is_used).tolist(), (np.cumsum(is_used) - 1)[ids]


def replay(lane: Lane, entry: BlockEntry, data: bytes) -> Block:
    """Restore the contents of a stored block into the lane; returns the block.

    Blocks must be replayed in the order of the log. Slots and serials of unlinked blocks stay
    unused. Contents that the lane's watermark has passed are restored too: callers remove them.
    """
    wire = unpack(data, _PageWire)
    changed = unpack_integers(wire.changed)
    block = Block(
        first_slot=entry.first_slot,
        end_slot=entry.end_slot,
        first_serial=entry.first_serial,
        end_serial=entry.end_serial,
        slots=changed,
        relisted={slot for slot, _ in wire.relisted},
        bound={serial for serial, _ in wire.bound},
        joined=dict(wire.joined),
    )
    block.written(entry)
    table = wire.state_table
    surfaces = unpack_integers(wire.surfaces).tolist() or [NO_SURFACE] * len(table)
    states = [lane.states.id_of(*pair) for pair in zip(table, surfaces, strict=True)]
    state_ids = np.array(states, np.int64)[unpack_integers(wire.states)]
    _replay_new(lane, wire, state_ids)
    _replay_changed(lane, wire, changed, state_ids[len(state_ids) - len(changed) :])
    _replay_touches(lane, wire)
    lane.open.late.update((slot, ms) for slot, ms in wire.late if lane.open.has_open(slot))
    _replay_waiting(lane, wire)
    return block


def _replay_new(lane: Lane, wire: _TouchWire, states: Integers) -> None:
    slots = unpack_integers(wire.new)
    if not len(slots):
        return
    impressions, times_ms = lane.open, unpack_integers(wire.times_ms)
    id_lengths = unpack_integers(wire.id_lengths)
    if not impressions.times_ms:
        impressions.start_at(int(slots[0]))
    combinations = np.array([lane.segments.combination_id(c) for c in wire.combination_table])
    new = NewImpressions(
        ids=(wire.ids, id_lengths),
        items=(wire.items, unpack_integers(wire.item_lengths)),
        times_ms=times_ms,
        panes=times_ms - times_ms % lane.plan.timing.base_ms,
        combinations=combinations[unpack_integers(wire.combinations)],
        states=states[: len(slots)],
        hashes=hashes_of(map(bytes.decode, cut(wire.ids, id_lengths)), len(slots)),
        subjects=_read_subjects(lane, wire, len(slots)),
        searches=unpacked_searches(lane, wire.searches, len(slots)),
        touches=_read_touches(lane, wire, times_ms),
    )
    impressions.restore(slots, new)
    impressions.teams.update(
        (slot, tuple(teams)) for slot, teams in wire.teams if impressions.has_open(slot)
    )


def _replay_touches(lane: Lane, wire: _TouchWire) -> None:
    touches = lane.open.touches
    if touches is not None:
        found = ((slot, met_ms) for slot, met_ms in wire.items_met_ms if lane.open.has_open(slot))
        touches.met_ms.update((slot, dict(met_ms)) for slot, met_ms in found)


def _replay_changed(lane: Lane, wire: _Wire, slots: Integers, states: Integers) -> None:
    impressions = lane.open
    is_open = impressions.are_open(slots)
    impressions.states.put(impressions.index_of(slots[is_open]), states[is_open])
    for slot, text in wire.relisted:
        if impressions.has_open(slot):
            impressions.paged_items[slot] = text
    for slot, delay_ms in wire.delays:
        if impressions.has_open(slot):
            impressions.delays_ms[slot] = delay_ms
    for slot, grades in wire.grades:
        if impressions.has_open(slot):
            impressions.grades[slot] = {rank0: (time_ms, grade) for rank0, time_ms, grade in grades}


def _replay_waiting(lane: Lane, wire: _PageWire) -> None:
    for serial, waiting in (*wire.waiting, *wire.held, *wire.pages):
        lane.waiting.put(serial, waiting)
    for serial, bound_ms in wire.bound:
        if serial in lane.waiting.by_serial:
            lane.waiting.by_serial[serial].bound_ms = bound_ms
    for serial, _ in wire.joined:
        if serial in lane.waiting.by_serial:
            lane.waiting.remove(serial)
