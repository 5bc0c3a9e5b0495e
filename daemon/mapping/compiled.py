"""A source compiled: from records to plain events, without interpreting an expression. Pure.

What a record is read into depends on its codec (`json_shapes` for JSON); what its instance comes to
does not. To read another codec: make a `Compiled` and give `events_of` an instance of its `shape`,
as `shapes` describes it.

Equal to `records.Mapper`, which is the definition: a record comes to the same events and skips, or
is left to it. `tests/fuzz/test_compiled.py` compares both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..events.types import (
    NOT_MAPPED,
    Event,
    Feedback,
    Impression,
    Limits,
    LogRecord,
    LogRecords,
    Plain,
    PlainEvents,
    Skipped,
)
from .each import each_of
from .getters import Get, Odd, condition, getter, is_true
from .json_shapes import builtins_of, decoder_of
from .paths import Attributes, fast, safe
from .plain_feedback import CompiledFeedback, compiled_feedback, is_feedback
from .plain_impressions import CompiledImpressions, Outcome, compiled_impressions
from .shapes import SCALAR, Shape, Unsupported
from .tables import Drop, Source
from .values import scalar_text
from .work import Work, work_of

_ODD: Final = (Odd, ValueError, TypeError, AttributeError, RecursionError, OverflowError)
_NOT_MAPPED: Final = Skipped(NOT_MAPPED)


@dataclass(frozen=True)
class Tables:
    """The tables of a source, compiled for one way through instances."""

    impressions: Sequence[tuple[Get | None, CompiledImpressions]]
    """With the condition of each."""
    feedback: Sequence[tuple[Get, CompiledFeedback]]
    drops: Sequence[tuple[str, Get]]
    """Reason, and whether an event is dropped."""

    def outcomes(self, instance: Any, record: LogRecord) -> Outcome | list[Outcome]:
        """Return what an element comes to. Raises one of _ODD where the interpreter must say."""
        shown = [
            table
            for where, table in self.impressions
            if where is None or is_true(where(instance, record))
        ]
        reactions = [table for where, table in self.feedback if is_true(where(instance, record))]
        if not shown and not reactions:
            return _NOT_MAPPED
        for reason, drops in self.drops:
            if drops(instance, record):
                return Skipped(reason)
        if len(shown) + len(reactions) == 1:
            table: Any = shown[0] if shown else reactions[0]
            found: Outcome | list[Outcome] = table.read(instance, record)
            return found
        several: list[Outcome] = [table.read(instance, record) for table in shown]
        for reaction in reactions:
            one = reaction.read(instance, record)
            several += one if isinstance(one, list) else [one]
        return several


@dataclass
class _Gathered:
    """What the records of a slice came to."""

    events: list[Plain | None] = field(default_factory=list)
    record_index: list[int] = field(default_factory=list)
    others: dict[int, Event] = field(default_factory=dict)
    skipped: list[tuple[int, str]] = field(default_factory=list)

    def add(self, index: int, outcome: Outcome) -> None:
        """Add an outcome of a record."""
        if type(outcome) is Skipped:
            self.skipped.append((index, outcome.reason))
            return
        if isinstance(outcome, (Impression, Feedback)):
            self.others[len(self.events)] = outcome
            self.events.append(None)
        else:
            assert not isinstance(outcome, Skipped)
            self.events.append(outcome)
        self.record_index.append(index)

    def leave(self, index: int) -> None:
        """Leave a record to the interpreter."""
        self.events.append(None)
        self.record_index.append(index)


@dataclass(frozen=True)
class Compiled:
    """A source compiled. `tables` are for instances without nulls on the way, `safe_tables` for
    any."""

    shape: Shape
    """Of a record."""
    listed: Shape | None
    """Of the elements of a record that is a list; None where no record may be one."""
    tables: Tables
    safe_tables: Tables
    elements: Callable[[Any], Any]
    """The elements of an instance: one, or a list."""
    work: Work
    limits: Limits
    decode: Callable[[bytes], Any]

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """Return what records come to; see `Decoder.plain`."""
        gathered = _Gathered()
        for index, record in enumerate(records.logged()):
            value = record.value
            if value is None:
                gathered.skipped.append((index, "tombstone"))
                continue
            try:
                if len(value) > most_bytes:
                    raise Odd
                found = self.outcomes(self.decode(value), record, len(value))
            except _ODD:
                gathered.leave(index)
                continue
            if type(found) is list:
                for outcome in found:
                    gathered.add(index, outcome)
            else:
                gathered.add(index, found)  # type: ignore[arg-type]  # a list is handled above
        return PlainEvents(
            gathered.events, gathered.record_index, gathered.others, gathered.skipped
        )

    def outcomes(self, root: Any, record: LogRecord, size: int) -> Outcome | list[Outcome]:
        """Return what an instance of a record of so many bytes comes to: a list where it is not
        exactly one event or skip. Raises one of _ODD where the interpreter must read the record."""
        elements = self.elements(root)
        if type(elements) is list:
            return self._several(elements, record, size)
        if not self.work.is_allowed(1, size):
            raise Odd
        return self._in_time(self._one(elements, record), record)

    def _several(self, elements: list[Any], record: LogRecord, size: int) -> list[Outcome]:
        if not self.work.is_allowed(len(elements), size):
            raise Odd
        outcomes = list[Outcome]()
        for element in elements:
            found = self._in_time(self._one(element, record), record)
            if type(found) is list:
                outcomes += found
            else:
                outcomes.append(found)  # type: ignore[arg-type]  # a list is handled above
        return outcomes

    def _one(self, element: Any, record: LogRecord) -> Outcome | list[Outcome]:
        if element is None:
            return _NOT_MAPPED
        try:
            return self.tables.outcomes(element, record)
        except AttributeError:
            return self.safe_tables.outcomes(element, record)

    def _in_time(
        self, found: Outcome | list[Outcome], record: LogRecord
    ) -> Outcome | list[Outcome]:
        """The same, if events that are not plain are in time: others are looked at later."""
        if type(found) is list:
            for one in found:
                self._in_time(one, record)
        elif isinstance(found, (Impression, Feedback)) and record.timestamp >= 0:
            if found.time_ms > record.timestamp + self.limits.max_future_ms:
                raise Odd
        return found

    def pruned(self, value: bytes) -> Any:
        """Return a record as `msgspec.json.decode` gives it, without what no expression reads: what
        is broken there does not matter. Raises ValueError or RecursionError."""
        root = self.decode(value)
        if isinstance(root, list) and self.listed is not None:
            return [builtins_of(one, self.listed) for one in root]
        return builtins_of(root, self.shape)


def compiled(source: Source, limits: Limits) -> Compiled | None:
    """Return a source compiled; None where one of its expressions is outside of the subset."""
    try:
        return _compiled(source, limits)
    except Unsupported:
        return None


def reason_to_interpret(source: Source, limits: Limits) -> str | None:
    """Return what of a source is outside of the compiled subset, for people; None for nothing."""
    try:
        _compiled(source, limits)
    except Unsupported as error:
        return str(error)
    return None


def _compiled(source: Source, limits: Limits) -> Compiled:
    if source.envelope != "none":
        raise Unsupported("CloudEvents")
    each = each_of(source.each)
    ways = [
        [_tables(source, scope, way, limits) for scope in each.scopes][0] for way in (fast, safe)
    ]
    decode = decoder_of(each.shape, each.listed).decode
    work = work_of(source)
    return Compiled(each.shape, each.listed, ways[0], ways[1], each.elements, work, limits, decode)


def _tables(source: Source, shape: Shape, way: Attributes, limits: Limits) -> Tables:
    impressions, feedback = source.impressions, source.feedback
    return Tables(
        [
            (
                None if table.where is None else condition(table.where.tree, shape, way),
                compiled_impressions(table, shape, way, source.time, limits),
            )
            for table in impressions
        ],
        [
            (
                is_feedback(table, shape, way),
                compiled_feedback(table, shape, way, source.time, limits),
            )
            for table in feedback
        ],
        [(drop.reason, _drops(drop, shape, way)) for drop in source.drops],
    )


def _drops(drop: Drop, shape: Shape, way: Attributes) -> Get:
    """The function that says whether an event is dropped."""
    where = None if drop.where is None else condition(drop.where.tree, shape, way)
    if drop.value is None:
        if where is None:
            return lambda instance, record: False
        return lambda instance, record: is_true(where(instance, record))
    get, values = getter(drop.value.tree, shape, way, SCALAR), drop.values

    def drops(instance: Any, record: LogRecord) -> bool:
        if where is not None and not is_true(where(instance, record)):
            return False
        return scalar_text(get(instance, record)) in values

    return drops
