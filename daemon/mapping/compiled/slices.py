"""A slice of records, from instances to plain events. Pure.

Which table maps an instance is asked of all instances at once; those that one table maps are read
at once, too (`columns`). What is not usual is read one by one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import add, itemgetter
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...events import NOT_MAPPED, Event, LogRecord, PlainEvents, PlainFeedback, Skipped, event_types
from ..getters import Among, Get, NotAmong, Odd, is_true, many_of
from . import columns
from .columns import ReactionColumns, ShownColumns, Unusual
from .feedback import CompiledFeedback, KindIs
from .impressions import CompiledImpressions, MappedImpression, Outcome


def with_alone(
    events: PlainEvents, outcomes: Mapping[int, Sequence[Outcome]], starts: NDArray[np.int64]
) -> PlainEvents:
    """The events and what was read one by one."""
    shown, reactions = (
        defaultdict[event_types.Labels, list[tuple[int, MappedImpression]]](list),
        list[tuple[int, PlainFeedback]](),
    )
    others = dict[int, Event]()
    for n, several in outcomes.items():
        for index, one in enumerate(several, int(starts[n])):
            if isinstance(one, MappedImpression):
                shown[one.labels].append((index, one))
            elif isinstance(one, PlainFeedback):
                reactions.append((index, one))
            elif not isinstance(one, Skipped):
                others[index] = one
    events.others = others
    events.impressions = [*events.impressions, *map(_shown_alone, shown.values())]
    if reactions:
        events.feedback = [*events.feedback, _reactions_alone(reactions)]
    return events


def _shown_alone(found: Sequence[tuple[int, MappedImpression]]) -> event_types.Impressions:
    return event_types.Impressions(
        [index for index, _ in found],
        [one.impression_id for _, one in found],
        [one.items for _, one in found],
        [one.time_ms for _, one in found],
        [one.user_id for _, one in found],
        [one.values for _, one in found],
        found[0][1].labels,
        queries=[one.query for _, one in found],
        visitors=[one.visitor for _, one in found],
    )


def _reactions_alone(found: Sequence[tuple[int, PlainFeedback]]) -> event_types.FeedbackFields:
    return event_types.FeedbackFields(
        [index for index, _ in found],
        [one.impression_id for _, one in found],
        [one.timestamp for _, one in found],
        [one.kind for _, one in found],
        [str(one.item) for _, one in found],
        [one.rank for _, one in found],
    )


ODD: Final = (Odd, ValueError, TypeError, AttributeError, RecursionError, OverflowError)
"""What reading a record raises where the interpreter must read it."""
FEW: Final = 8
"""So many instances are read one by one, where something is odd about one of them."""


@dataclass
class Instances:
    """The elements of a slice of records, n of them."""

    instances: list[Any] = field(default_factory=list)
    record_index: Sequence[int] = field(default_factory=list)
    """Of each among the records, (n,), ascending."""
    left: list[int] = field(default_factory=list)
    """Records that the interpreter must read."""
    skipped: list[tuple[int, str]] = field(default_factory=list)
    is_several: bool = True
    """Whether some record has not exactly one of them."""

    def add_all(self, elements: list[Any], index: int) -> list[int]:
        """Add the elements of a record, null is none; returns its index for each of them."""
        if None in elements:
            present = [one for one in elements if one is not None]
            self.skipped += [(index, NOT_MAPPED)] * (len(elements) - len(present))
            elements = present
        self.instances += elements
        return [index] * len(elements)


class SliceTables(Protocol):
    """Compiled tables: `compiled.Tables`."""

    @property
    def impressions(self) -> Sequence[tuple[Get | None, CompiledImpressions]]: ...  # noqa: D102
    @property
    def feedback(self) -> Sequence[tuple[Get, CompiledFeedback]]: ...  # noqa: D102
    @property
    def drops(self) -> Sequence[tuple[str, Get]]: ...  # noqa: D102


class SliceSource(Protocol):
    """A compiled source: `compiled.Compiled`."""

    @property
    def tables(self) -> SliceTables: ...  # noqa: D102
    @property
    def safe_tables(self) -> SliceTables: ...  # noqa: D102
    def outcomes(self, element: Any, record: LogRecord) -> list[Outcome]: ...  # noqa: D102


Group: TypeAlias = tuple[list[int], Any, Any]
"""Instances of one table, what they come to, and the table."""


class Slice:
    """Reads the instances of a slice."""

    def __init__(self, source: SliceSource, records: Sequence[LogRecord], found: Instances) -> None:
        self._source, self._found = source, found
        self._records = records
        if found.is_several:
            self._records = [records[index] for index in found.record_index]
        """Of each instance, (n,)."""
        self._groups = list[Group]()
        self._alone = list[int]()
        """The instances that are read one by one."""
        self._outcomes = dict[int, list[Outcome]]()

    def events(self) -> PlainEvents:
        """Return what the records come to."""
        tables, safe_tables = self._source.tables, self._source.safe_tables
        ways = zip(
            [*tables.impressions, *tables.feedback],
            [*safe_tables.impressions, *safe_tables.feedback],
            strict=True,
        )
        ways_of_table = list(ways)
        for indices, table in zip(self._by_table(ways_of_table), ways_of_table, strict=True):
            if len(indices) > FEW:
                pick = itemgetter(*indices)
                instances, records = pick(self._found.instances), pick(self._records)
                self._read(indices, instances, records, (table[0][1], table[1][1]))
            else:
                self._alone += indices
        self._read_alone()
        return self._in_order()

    def _by_table(self, tables: Sequence[Any]) -> list[list[int]]:
        """The instances that one table maps, and no other, by table; without those that are
        dropped."""
        found, numbers = self._found, range(len(self._found.instances))
        try:
            maps = [self._maps(fast[0], slow[0]) for fast, slow in tables]
        except ODD:
            self._alone += numbers
            return [[] for _ in tables]
        several: list[int] = [*maps[0]]
        for one in maps[1:]:
            several = list(map(add, several, one))
        if 0 in several:
            index = found.record_index
            found.skipped += [(index[n], NOT_MAPPED) for n in numbers if not several[n]]
        if max(several, default=0) > 1:
            self._alone += [n for n in numbers if several[n] > 1]
            maps = [
                [is_mapped and count == 1 for is_mapped, count in zip(one, several, strict=True)]
                for one in maps
            ]
        return [self._not_dropped(list(compress(numbers, one))) for one in maps]

    def _maps(self, where: Get | None, safe_where: Get | None) -> Sequence[bool]:
        """Whether a table maps each of the instances."""
        instances, records = self._found.instances, self._records
        if where is None or safe_where is None:
            return [True] * len(instances)
        try:
            values = many_of(where, instances, records)
        except AttributeError:
            values = many_of(safe_where, instances, records)
        return (
            values if isinstance(where, (Among, NotAmong, KindIs)) else list(map(is_true, values))
        )

    def _not_dropped(self, indices: list[int]) -> list[int]:
        """Those that no rule drops."""
        if not self._source.tables.drops:
            return indices
        kept, found = list[int](), self._found
        for n in indices:
            try:
                reason = self._drop_reason(n)
            except ODD:
                self._alone.append(n)
                continue
            if reason is None:
                kept.append(n)
            else:
                found.skipped.append((found.record_index[n], reason))
        return kept

    def _drop_reason(self, n: int) -> str | None:
        instance, record = self._found.instances[n], self._records[n]
        try:
            rules = self._source.tables.drops
            return next((reason for reason, drops in rules if drops(instance, record)), None)
        except AttributeError:
            rules = self._source.safe_tables.drops
            return next((reason for reason, drops in rules if drops(instance, record)), None)

    def _read(
        self,
        indices: list[int],
        instances: Sequence[Any],
        records: Sequence[LogRecord],
        ways: tuple[Any, Any],
    ) -> None:
        """Read instances of a table at once: those about which something is odd in ever smaller
        parts, and at last alone."""
        if len(indices) <= FEW:
            self._alone += indices
            return
        try:
            try:
                read = _read_at_once(ways[0], instances, records)
            except AttributeError:
                read = _read_at_once(ways[1], instances, records)
        except Unusual:
            self._alone += indices
            return
        except ODD:
            half = len(indices) // 2
            self._read(indices[:half], instances[:half], records[:half], ways)
            self._read(indices[half:], instances[half:], records[half:], ways)
            return
        if not all(read.usual.mask):
            alone = zip(indices, read.usual.mask, strict=True)
            self._alone += [n for n, is_usual in alone if not is_usual]
            indices, read = list(compress(indices, read.usual.mask)), read.only_usual()
        self._groups.append((indices, read, ways[0]))

    def _read_alone(self) -> None:
        found = self._found
        for n in self._alone:
            try:
                outcomes = self._source.outcomes(found.instances[n], self._records[n])
            except ODD:
                found.left.append(found.record_index[n])
                continue
            for one in outcomes:
                if isinstance(one, Skipped):
                    found.skipped.append((found.record_index[n], one.reason))
            self._outcomes[n] = [one for one in outcomes if not isinstance(one, Skipped)]

    def _in_order(self) -> PlainEvents:
        """All events, in the order of the instances."""
        found = self._found
        counts = np.zeros(len(found.instances), np.int64)
        for indices, _, _ in self._groups:
            counts[indices] = 1
        for n, outcomes in self._outcomes.items():
            counts[n] = len(outcomes)
        starts = np.cumsum(counts) - counts
        left = set(found.left)
        events = PlainEvents(
            count=int(counts.sum()),
            impressions=[_shown(one, starts) for one in self._groups if _is_shown(one)],
            feedback=[_reactions(one, starts) for one in self._groups if not _is_shown(one)],
            record_index=np.repeat(np.array(found.record_index, np.int64), counts),
            left=found.left,
            skipped=[one for one in found.skipped if one[0] not in left],
        )
        return with_alone(events, self._outcomes, starts)


def _read_at_once(
    table: Any, instances: Sequence[Any], records: Sequence[LogRecord]
) -> ShownColumns | ReactionColumns:
    if isinstance(table, CompiledImpressions):
        return columns.impressions(table, instances, records)
    return columns.feedback(table, instances, records)


def _is_shown(group: Group) -> bool:
    return isinstance(group[1], ShownColumns)


def _shown(group: Group, starts: NDArray[np.int64]) -> event_types.Impressions:
    indices, read, table = group
    return event_types.Impressions(
        starts[indices],
        read.ids,
        read.items,
        read.times_ms,
        read.user_ids,
        read.values,
        table.labels,
        read.lengths,
        queries=read.queries,
        visitors=read.visitors,
    )


def _reactions(group: Group, starts: NDArray[np.int64]) -> event_types.FeedbackFields:
    indices, read, _ = group
    return event_types.FeedbackFields(
        starts[indices], read.ids, read.times_ms, read.kinds, read.items, read.ranks
    )
