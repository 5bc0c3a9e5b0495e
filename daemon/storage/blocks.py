"""The open state as an append-only log of blocks.

Each commit appends one block: the impressions and the waiting feedback that the batch brought, and
what they have become of older impressions that it changed. Reading a lane back is replaying its
blocks in order; nothing is rewritten per impression, and a block whose whole content is over is
unlinked. Here blocks become bytes, and bytes blocks.
"""

import msgspec
import numpy as np

from relevanced.metrics.lists import Integers

from ..experiments.specs import Assignment
from ..lane.columns.column import column
from ..lane.columns.id_index import hashes_of
from ..lane.columns.texts import cut
from ..lane.gain_states import GainState
from ..lane.lane import Lane
from ..lane.open_impressions import NewImpressions
from ..lane.segments import Combination
from ..lane.subjects import NO_UNIT, Subjects
from ..lane.waiting_feedback import Waiting
from ..plan import NO_SURFACE
from .block_log import Block
from .head import BlockEntry
from .packing import pack, pack_integers, unpack, unpack_integers


class _Wire(msgspec.Struct, array_like=True):
    """A block as bytes. Columns of integers are packed; impressions are the born, then the changed
    ones."""

    born: bytes
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
    grades: list[tuple[int, list[tuple[int, int, float]]]]
    delays: list[tuple[int, int]]
    waiting: list[tuple[int, Waiting]]
    bound: list[tuple[int, int]]
    gone: list[tuple[int, int]]
    # of the born that are in an experiment: which of them, their assignments and their units
    subjects: bytes = b""
    assignment_table: list[Assignment] = []
    assignments: bytes = b""
    unit_names: tuple[str, ...] = ()
    units: bytes = b""
    teams: list[tuple[int, list[str | None]]] = []
    surfaces: bytes = b""
    """Of the states in the table, where propensities are configured."""


def encode(lane: Lane, block: Block) -> tuple[bytes, int] | None:
    """The block's bytes and the watermark at which all of it is over; None where nothing in it is
    alive."""
    born = lane.open.only_open(np.arange(max(block.first_slot, lane.open.base), block.end_slot))
    changed = lane.open.only_open(block.slots)
    by_serial = lane.waiting.by_serial
    serials = [s for s in range(block.first_serial, block.end_serial) if s in by_serial]
    waiting = [(s, by_serial[s]) for s in serials]
    bound = [(s, by_serial[s]) for s in sorted(block.bound) if s in by_serial]
    alive = _lasting(lane, block.gone)
    if not (len(born) or len(changed) or waiting or bound or alive):
        return None
    timing = lane.plan.timing
    ends = [timing.expires_at(held.time_ms) for _, held in (*waiting, *bound)]
    ends += [dies_ms for _, dies_ms in alive]
    for slots in (born, changed):
        if len(slots):
            latest = lane.open.times_ms.at(lane.open.index_of(slots)).max()
            ends.append(timing.closes_at(int(latest)))
    wire = _wire(lane, born, changed)
    _write_subjects(lane, wire, born)
    relisted = (s for s in sorted(block.relisted) if lane.open.has_open(s))
    wire.relisted = [(s, lane.open.text_of(s)) for s in relisted]
    wire.waiting = waiting
    wire.bound = [(serial, held.bound_ms) for serial, held in bound if held.bound_ms is not None]
    wire.gone = alive
    return pack(wire), max(ends)


def _lasting(lane: Lane, gone: dict[int, int]) -> list[tuple[int, int]]:
    """What must be known as gone because a block that brought it may still stand."""
    watermark = lane.watermark_ms
    return [
        (s, dies_ms)
        for s, dies_ms in sorted(gone.items())
        if watermark is None or dies_ms > watermark
    ]


def _wire(lane: Lane, born: Integers, changed: Integers) -> _Wire:
    held = lane.open
    both = np.concatenate((born, changed))
    born_at, both_at = held.index_of(born), held.index_of(both)
    combinations, of_born = _distinct(column(held.combinations)[born_at])
    states, of_both = _distinct(column(held.states)[both_at])
    (ids, id_lengths), (items, item_lengths) = held.texts_of(born)
    graded = sorted(held.grades.keys() & both.tolist()) if held.grades else []
    surfaces = [lane.states.surface_id_of(number) for number in states]
    return _Wire(
        born=pack_integers(born),
        changed=pack_integers(changed),
        ids=ids,
        id_lengths=pack_integers(id_lengths),
        times_ms=pack_integers(held.times_ms.at(born_at)),
        items=items,
        item_lengths=pack_integers(item_lengths),
        combination_table=[lane.segments.combinations[number] for number in combinations],
        combinations=pack_integers(of_born),
        state_table=[lane.states[number] for number in states],
        states=pack_integers(of_both),
        relisted=[],
        grades=[
            (slot, [(place, *grade) for place, grade in sorted(held.grades[slot].items())])
            for slot in graded
        ],
        delays=(
            [(s, held.delays_ms[s]) for s in both.tolist() if s in held.delays_ms]
            if held.delays_ms
            else []
        ),
        waiting=[],
        bound=[],
        gone=[],
        surfaces=pack_integers(np.array(surfaces, np.int64)) if lane.plan.surfaces else b"",
    )


def _write_subjects(lane: Lane, wire: _Wire, born: Integers) -> None:
    columns, tracking = lane.open.subjects, lane.plan.tracking
    if columns is None or tracking is None or not len(born):
        return
    places, held = lane.open.index_of(born), lane.open.teams
    numbers = columns.assignment_ids()[places]
    dealt = np.flatnonzero(numbers)
    table, which = _distinct(numbers[dealt].astype(np.int64))
    wire.subjects, wire.assignments = pack_integers(dealt), pack_integers(which)
    wire.assignment_table = [lane.assignments[number] for number in table]
    wire.teams = [(s, list(held[s])) for s in born.tolist() if s in held] if held else []
    wire.unit_names = tracking.units
    wire.units = pack_integers(columns.units()[places[dealt]].T)


def _read_subjects(lane: Lane, wire: _Wire, born: int) -> Subjects | None:
    """Units that were not asked for when the block was written are unknown."""
    tracking, dealt = lane.plan.tracking, unpack_integers(wire.subjects)
    if tracking is None or not len(dealt):
        return None
    table = np.array([lane.assignments.id_of(told) for told in wire.assignment_table])
    assignments = np.zeros(born, np.int64)
    assignments[dealt] = table[unpack_integers(wire.assignments)]
    stored = unpack_integers(wire.units).reshape(len(wire.unit_names), -1)
    units = np.full((born, len(tracking.units)), NO_UNIT, np.int64)
    for place, unit in enumerate(tracking.units):
        if unit in wire.unit_names:
            units[dealt, place] = stored[wire.unit_names.index(unit)]
    return Subjects(assignments, units)


def _distinct(numbers: Integers) -> tuple[list[int], Integers]:
    """The distinct numbers, ascending, and which of them each one is. They must be places in a
    table: then they can be counted, at a fourth of what it costs to sort them."""
    is_there = np.bincount(numbers) > 0
    return np.flatnonzero(is_there).tolist(), (np.cumsum(is_there) - 1)[numbers]


def replay(lane: Lane, entry: BlockEntry, data: bytes) -> Block:
    """Put what a stored block holds into the lane. Blocks must come in the order of the log.

    Slots and serials of blocks that are over stay unused; what is over by the lane's watermark is
    left to the caller.
    """
    wire = unpack(data, _Wire)
    changed = unpack_integers(wire.changed).tolist()
    block = Block(
        first_slot=entry.first_slot,
        end_slot=entry.end_slot,
        first_serial=entry.first_serial,
        end_serial=entry.end_serial,
        slots=np.array(changed, np.int64),
        relisted={slot for slot, _ in wire.relisted},
        bound={serial for serial, _ in wire.bound},
        gone=dict(wire.gone),
    )
    block.written(entry)
    table = wire.state_table
    surfaces = unpack_integers(wire.surfaces).tolist() or [NO_SURFACE] * len(table)
    states = [lane.states.id_of(*told) for told in zip(table, surfaces, strict=True)]
    numbers = [states[number] for number in unpack_integers(wire.states).tolist()]
    _replay_born(lane, wire, numbers)
    _replay_changed(lane, wire, changed, numbers[len(numbers) - len(changed) :])
    _replay_waiting(lane, wire)
    return block


def _replay_born(lane: Lane, wire: _Wire, states: list[int]) -> None:
    slots = unpack_integers(wire.born)
    if not len(slots):
        return
    held, times_ms = lane.open, unpack_integers(wire.times_ms)
    id_lengths = unpack_integers(wire.id_lengths)
    if not held.times_ms:
        held.start_at(int(slots[0]))
    combinations = np.array([lane.segments.combination_id(c) for c in wire.combination_table])
    born = NewImpressions(
        ids=(wire.ids, id_lengths),
        items=(wire.items, unpack_integers(wire.item_lengths)),
        times_ms=times_ms,
        panes=times_ms - times_ms % lane.plan.timing.base_ms,
        combinations=combinations[unpack_integers(wire.combinations)],
        states=np.array(states[: len(slots)], np.int64),
        hashes=hashes_of(map(bytes.decode, cut(wire.ids, id_lengths)), len(slots)),
        subjects=_read_subjects(lane, wire, len(slots)),
    )
    held.restore(slots, born)
    held.teams.update((slot, tuple(teams)) for slot, teams in wire.teams if held.has_open(slot))


def _replay_changed(lane: Lane, wire: _Wire, slots: list[int], states: list[int]) -> None:
    held = lane.open
    for slot, state in zip(slots, states, strict=True):
        if held.has_open(slot):
            held.states[held.index_of(slot)] = state
    for slot, text in wire.relisted:
        if held.has_open(slot):
            held.paged_items[slot] = text
    for slot, delay_ms in wire.delays:
        if held.has_open(slot):
            held.delays_ms[slot] = delay_ms
    for slot, grades in wire.grades:
        if held.has_open(slot):
            held.grades[slot] = {place: (time_ms, grade) for place, time_ms, grade in grades}


def _replay_waiting(lane: Lane, wire: _Wire) -> None:
    for serial, waiting in wire.waiting:
        lane.waiting.put(serial, waiting)
    for serial, bound_ms in wire.bound:
        if serial in lane.waiting.by_serial:
            lane.waiting.by_serial[serial].bound_ms = bound_ms
    for serial, _ in wire.gone:
        if serial in lane.waiting.by_serial:
            lane.waiting.remove(serial)
