"""What only the writer of a lane reads, against what the log proves: open impressions, waiting
feedback, admitted values, and what the head says of them. Pure.

The lane is read back as its next owner would read it, without rows. Slots and serials follow the
order in which topics were read, so impressions go by id and time, and feedback by what it says.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from msgspec.json import encode as encoded

from relevanced.metrics import Integers

from ...errors import Unavailable
from ...events import timestamp_text
from ...lane import BEFORE, Lane, latest_ms, open_hour
from ...plan import NO_SURFACE
from ...storage import ClaimedLane, InForce, Layouts, encode, rebuild, whole_or_damaged
from ..driver import Settled
from .differences import Difference, Differences
from .files import Classes
from .stored import StoredLane

MOVED: Final = (
    "a commit came between each two reads of the lane: open impressions, waiting feedback and"
    " admitted values are not compared"
)


class _Unknown:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


UNKNOWN: Final = _Unknown()
"""What an impression had that came before the lane had a layout that needs it."""
Place: TypeAlias = str
"""What differences are named by."""
Things: TypeAlias = Mapping[tuple[Place, Hashable], Mapping[str, Hashable]]
"""(place, what identifies it) → its fields by name."""


def compare_things(
    differences: Differences,
    name: Callable[[Place, str, int, int], Difference],
    stored: Things,
    proven: Things,
) -> None:
    """Compare what is there, and field by field what is there on both sides; differences are
    counted by place."""
    found = Counter[tuple[Place, str, bool]]()
    of_both = Counter(place for place, _ in stored.keys() & proven.keys())
    for key in stored.keys() - proven.keys():
        found[key[0], "that the log does not have", True] += 1
    for key in proven.keys() - stored.keys():
        found[key[0], "that are missing", False] += 1
    unequal = Counter[tuple[Place, str]]()
    for key in stored.keys() & proven.keys():
        ours, theirs = stored[key], proven[key]
        differences.compared += 1 + len(theirs)
        if ours != theirs:
            for column in ours.keys() | theirs.keys():
                unequal[key[0], column] += ours.get(column) != theirs.get(column)
    named = [
        name(place, column, count if is_stored else 0, 0 if is_stored else count)
        for (place, column, is_stored), count in sorted(found.items())
    ]
    named += [
        name(place, f"with the same {column}", of_both[place], of_both[place] - count)
        for (place, column), count in sorted(unequal.items())
        if count
    ]
    differences.note(named, len(named))


def written_lane(stored: StoredLane) -> ClaimedLane | None:
    """The lane as its next owner would read it, without rows; None where it was not read. Raises
    Damaged, and Unavailable where its queries are hashed with another key."""
    if stored.writer is None or stored.layouts is None:
        return None
    last, head = stored.layouts.last, stored.head
    in_force = InForce(stored.plan, last.generation, last.digest, last.text)
    topics, values = list(head.offsets), stored.writer
    return rebuild(stored.lane, Layouts(in_force), topics, head, values.names, values.blobs)


@dataclass
class OpenComparison:
    """What was compared of the open state of one lane."""

    stored: StoredLane
    summed: Callable[[int], Collection[int]]
    """Start → groupings of which it is not known which segment an impression is in."""
    classes: Classes
    differences: Differences
    notes: list[str] = field(default_factory=list)

    def finish(self, settled: Settled, *, is_whole: bool, is_reconfigured: bool) -> None:
        """Compare all of it where the log is whole, else impressions from the first instant on
        that it proves."""
        lane, first_ms = settled.lane, settled.first_ms
        try:
            claimed = written_lane(self.stored)
        except Unavailable as error:
            self.notes.append(f"open state is not compared: {error}")
            return
        if claimed is None:
            self.notes += [] if self.stored.layouts is None else [MOVED]
        elif first_ms is not None:
            seen = _Fields(self.stored, self.summed, self.classes, is_reconfigured)
            with whole_or_damaged(f"lane {self.stored.lane}, open impressions"):
                found = [seen.of(each, first_ms) for each in (claimed.lane, lane)]
            compare_things(self.differences, _named("open impressions"), *found)
            if is_whole:
                self._whole(claimed, lane)

    def _whole(self, claimed: ClaimedLane, proven: Lane) -> None:
        both = claimed.lane, proven
        compare_things(self.differences, _named("waiting feedback"), *map(_waiting, both))
        compare_things(self.differences, _named("watermark"), *map(_pending, both))
        has_all = self.stored.coverage.is_whole and self.stored.has_one_admission
        if has_all and self.classes.are_known():
            compare_things(self.differences, _named("admitted"), *map(_admitted, both))
        with whole_or_damaged(f"lane {self.stored.lane}, blocks"):
            self._blocks(claimed)
        state, before = self.stored.head.state, proven.settled_before
        names = ("settled before, ms", "open hour, ms", "next slot")
        hour_ms = None if before is None else open_hour(before, proven.plan)
        stored = (state.settled_before, state.open_hour, state.next_slot)
        found = (before, hour_ms, proven.open.next_slot)
        pair = (dict(zip(names, values, strict=True)) for values in (stored, found))
        self.differences.compare_values("state", *pair)
        head = self.stored.head
        said = {**head.optional_rows, "classes": head.classes}
        latest = {name: one.latest_ms for name, one in said.items() if one is not None}
        proven_ms = dict.fromkeys(latest, latest_ms(proven))
        self.differences.compare_values("latest event, ms", latest, proven_ms)

    def _blocks(self, claimed: ClaimedLane) -> None:
        """A block that is dropped before what it contains would lose it."""
        for block in claimed.log:
            needed = encode(claimed.lane, block)
            self.differences.compared += 1
            if block.entry is not None and needed is not None:
                if block.entry.expires_ms < needed[1]:
                    column = f"block {block.entry.number} is dropped at, ms"
                    pair = block.entry.expires_ms, needed[1]
                    self.differences.note([Difference("open impressions", column, *pair)], 1)


def _named(what: str) -> Callable[[Place, str, int, int], Difference]:
    def name(place: Place, column: str, stored: int, proven: int) -> Difference:
        return Difference(what, f"{place}{column}", stored, proven)

    return name


@dataclass(frozen=True)
class _Fields:
    """Open impressions, as far as their fields are known."""

    stored: StoredLane
    summed: Callable[[int], Collection[int]]
    classes: Classes
    is_reconfigured: bool

    def of(self, lane: Lane, first_ms: int) -> Things:
        """Those of panes from an instant on."""
        return {
            (f"{timestamp_text(pane)}, ", (lane.open.ids[index], time_ms)): fields
            for pane in lane.open.panes()
            if pane >= first_ms
            for index, time_ms, fields in self._of_pane(lane, pane)
        }

    def _of_pane(self, lane: Lane, pane: int) -> Iterator[tuple[int, int, dict[str, Hashable]]]:
        names = [name for _, name in lane.segments.names]
        summed = self.summed(pane)
        groupings = [n for n in range(len(lane.plan.grouping_names)) if n not in summed]
        slots = lane.open.pane_slots(pane)
        columns = lane.open.searches
        searches = None if columns is None else columns.at(lane.open.index_of(slots))
        touches = _touches(lane, slots)
        for at, slot in enumerate(slots.tolist()):
            index = lane.open.index_of(slot)
            state = int(lane.open.states[index])
            length, cells = lane.states[state]
            segments = lane.segments.combinations[lane.open.combinations[index]]
            of_groupings = (names[segments[n]] for n in groupings)
            is_timed = slot >= lane.timed_from
            fields: dict[str, Hashable] = {
                "list": tuple(lane.open.list_of(slot)),
                "length": length,
                "gains": cells,
                "grades": _frozen(lane.open.grades.get(slot)),
                "segments": tuple(UNKNOWN if name == BEFORE else name for name in of_groupings),
                "delay": lane.open.delays_ms.get(slot) if is_timed else UNKNOWN,
            }
            if not self.classes.metrics(pane):
                surface = lane.states.surface_id_of(state)
                is_known = surface != NO_SURFACE or self.stored.coverage.is_whole
                fields["surface"] = surface if is_known else UNKNOWN
            if not self.is_reconfigured and self.classes.are_known():
                fields |= _subjects(lane, slot, index)
            if searches is not None and lane.query_keys is not None:
                number, user = int(searches.numbers[at]), int(searches.users[at])
                is_known = bool(number or user) or not self._began_later
                fields["query"] = lane.query_keys[number] if is_known else UNKNOWN
                fields["user"] = user if is_known else UNKNOWN
            fields |= touches[at] if touches else {}
            yield index, lane.open.times_ms[index], fields

    @property
    def _began_later(self) -> bool:
        """Whether impressions of before that have no search."""
        queries, optional = self.stored.head.queries, self.stored.head.optional_rows
        of_queries = 0 if queries is None else queries.since_ms or 0
        return any((of_queries, *(rows.since_ms for rows in optional.values())))


def _touches(lane: Lane, slots: Integers) -> list[dict[str, Hashable]]:
    """What last touch knows of impressions; nothing where it is off."""
    touches, index = lane.open.touches, lane.open.index_of(slots)
    if touches is None:
        return []
    found = touches.at(index, lane.open.times_ms.at(index))
    pairs = zip(found.visitors.tolist(), found.met_ms.tolist(), strict=True)
    return [
        {"visitor": visitor, "met": met_ms, "items met": _frozen(touches.met_ms.get(slot))}
        for slot, (visitor, met_ms) in zip(slots.tolist(), pairs, strict=True)
    ]


def _subjects(lane: Lane, slot: int, index: int) -> dict[str, Hashable]:
    columns = lane.open.subjects
    if columns is None or not (assignment := int(columns.assignment_ids()[index])):
        return {}
    return {
        "experiments": lane.assignments[assignment],
        "units": tuple(columns.units()[index].tolist()),
        "teams": lane.open.teams.get(slot),
    }


def _frozen(found: Mapping[Any, Any] | None) -> Hashable:
    return None if found is None else tuple(sorted(found.items()))


def _counted(found: Iterable[tuple[Place, Hashable]]) -> Things:
    """Things that may be there several times."""
    return {(key[0], (key, n)): {} for key, count in Counter(found).items() for n in range(count)}


def _waiting(lane: Lane) -> Things:
    return _counted(("", encoded(one)) for one in lane.waiting.by_serial.values())


def _pending(lane: Lane) -> Things:
    return {
        (f"{topic}, ", topic): {
            "events ahead of it": _frozen(of.times_ms),
            "votes": of.votes,
            "events near it": of.near,
        }
        for topic, of in lane.pending.items()
    }


def _admitted(lane: Lane) -> Things:
    names: Sequence[str] = lane.plan.grouping_names[1:]
    return {
        (f"{topic}, {grouping}, ", value): {"pane in which it was last seen": pane}
        for topic, admission in lane.admissions.items()
        for grouping, seen in zip(names, admission.seen, strict=True)
        for value, pane in seen.items()
    }
