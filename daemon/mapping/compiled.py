"""A source compiled: from records to plain events, without interpreting an expression. Pure.

What a record is read into depends on its codec (`json_shapes` for JSON); what its instance comes to
does not. To read another codec, make a `Compiled` with another `decode`: it gives an instance of
`shape`, or a list of instances of `listed`, as `shapes` describes them.

Equal to `records.Mapper`, which is the definition: a record comes to the same events and skips, or
is left to it. `tests/fuzz/test_compiled.py` compares both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..events.plain import PlainEvents
from ..events.types import Feedback, Impression, Limits, LogRecord, LogRecords, Skipped
from ..schemas.bodies import Bodies
from ..schemas.instances import BodyInstances
from ..schemas.types import JSON
from .codec_shapes import typed_of
from .each import Each, each_of
from .envelopes import Headers
from .getters import Odd, condition, getter
from .many import Get, is_true
from .json_shapes import builtins_of, decoder_of
from .opened import OpenedRecords, data_of
from .outcomes import UNMAPPED, Outcome
from .paths import Attributes, fast, safe
from .plain_feedback import CompiledFeedback, compiled_feedback, is_feedback
from .plain_impressions import CompiledImpressions, compiled_impressions
from .shapes import SCALAR, Shape, Unsupported
from .slices import ODD, Instances, Slice
from .tables import CLOUDEVENTS, Drop, Source
from .values import scalar_text
from .work import Work, work_of

CLOUDEVENTS_READ_SLOWLY: Final = "the envelope of CloudEvents around another codec than JSON"
_WAYS: Final[Sequence[Attributes]] = (fast, safe)


@dataclass(frozen=True)
class Tables:
    """The tables of a source, compiled for one way through instances."""

    impressions: Sequence[tuple[Get | None, CompiledImpressions]]
    """With the condition of each."""
    feedback: Sequence[tuple[Get, CompiledFeedback]]
    drops: Sequence[tuple[str, Get]]
    """Reason, and whether an event is dropped."""

    def outcomes(self, instance: Any, record: LogRecord) -> Outcome | list[Outcome]:
        """Return what an element comes to. Raises one of ODD where the interpreter must say."""
        shown = [
            table
            for where, table in self.impressions
            if where is None or is_true(where(instance, record))
        ]
        reactions = [table for where, table in self.feedback if is_true(where(instance, record))]
        if not shown and not reactions:
            return UNMAPPED
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


@dataclass(frozen=True)
class Compiled:
    """A source compiled. `tables` are for instances without nulls on the way, `safe_tables` for
    any."""

    each: Each
    tables: Tables
    safe_tables: Tables
    work: Work
    limits: Limits
    decode: Callable[[bytes], Any]
    """Reads JSON."""
    bodies: BodyInstances | None = None
    """Reads records of another codec, in place of `decode`."""
    is_enveloped: bool = False
    """Whether the records are CloudEvents."""

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """Return what records come to; see `Decoder.plain`."""
        if self.is_enveloped:
            records = OpenedRecords(records, most_bytes)
        return Slice(self, records.logged(), self._instances(records, most_bytes)).events()

    def _instances(self, records: LogRecords, most_bytes: int) -> Instances:
        """The elements of the records."""
        values = records.values()
        if max(map(len, values), default=0) <= most_bytes and self.work.always_allowed:
            try:
                roots = self._roots(records, values)
                if self.each.are_events(roots):
                    return Instances(roots, range(len(roots)), is_several=False)
            except ODD:
                pass
        return self._one_by_one(records, most_bytes)

    def _roots(self, records: LogRecords, values: list[bytes]) -> list[Any]:
        if self.bodies is None:
            return list(map(self.decode, values))
        return self.bodies.of_all(values, [one.headers for one in records.logged()])

    def _one_by_one(self, records: LogRecords, most_bytes: int) -> Instances:
        """The same where something is odd about a record, or has not exactly one element."""
        found, elements, bodies = Instances(), self.each.elements, self.bodies
        index_of = list[int]()
        for index, record in enumerate(records.logged()):
            value = record.value
            if value is None:
                found.skipped.append((index, "tombstone"))
                continue
            try:
                if len(value) > most_bytes:
                    raise Odd
                read = self.decode(value) if bodies is None else bodies.of(value, record.headers)
                root = elements(read)
                count = len(root) if type(root) is list else 1
                if (count > 1 or not self.work.always_allowed) and not self.work.is_allowed(
                    count, len(value)
                ):
                    raise Odd
            except ODD:
                found.left.append(index)
                continue
            if type(root) is list or root is None:
                index_of += found.add_all([None] if root is None else root, index)
            else:
                found.instances.append(root)
                index_of.append(index)
        found.record_index = index_of
        return found

    def outcomes(self, element: Any, record: LogRecord) -> list[Outcome]:
        """Return what one element comes to. Raises one of ODD where the interpreter must read the
        record."""
        if element is None:
            return [UNMAPPED]
        try:
            found = self.tables.outcomes(element, record)
        except AttributeError:
            found = self.safe_tables.outcomes(element, record)
        outcomes = found if isinstance(found, list) else [found]
        for one in outcomes:
            # Plain events are compared with the times of their records as arrays.
            if isinstance(one, (Impression, Feedback)) and record.timestamp >= 0:
                if one.time_ms > record.timestamp + self.limits.max_future_ms:
                    raise Odd
        return outcomes

    def pruned(self, value: bytes, headers: Headers) -> tuple[Any, Mapping[str, object]]:
        """Return a record of JSON, or the data of a CloudEvent and its attributes, as
        `msgspec.json.decode` gives them, without what no expression reads: what is broken there
        does not matter. Raises ValueError or RecursionError."""
        attributes: Mapping[str, object] = {}
        if self.is_enveloped:
            value, attributes = data_of(value, headers)
        root = self.decode(value)
        if isinstance(root, list) and self.each.listed is not None:
            return [builtins_of(one, self.each.listed) for one in root], attributes
        return builtins_of(root, self.each.shape), attributes


def compiled(source: Source, limits: Limits, bodies: Bodies | None = None) -> Compiled | None:
    """Return a source compiled; None where one of its expressions is outside of the subset.
    `bodies` reads the records of another codec than JSON."""
    try:
        return _compiled(source, limits, bodies)
    except Unsupported:
        return None


def reason_to_interpret(source: Source, limits: Limits) -> str | None:
    """Return what of a source is outside of the compiled subset, for people; None for nothing."""
    try:
        _compiled(source, limits)
    except Unsupported as error:
        return str(error)
    return None


def _compiled(source: Source, limits: Limits, bodies: Bodies | None = None) -> Compiled:
    is_enveloped = source.envelope == CLOUDEVENTS
    if is_enveloped and source.codec != JSON:
        raise Unsupported(CLOUDEVENTS_READ_SLOWLY)
    each = each_of(source.each)
    # The tables read all scopes by the same names.
    ways = [[_tables(source, scope, way, limits) for scope in each.scopes][0] for way in _WAYS]
    decode = decoder_of(each.shape, each.listed).decode
    work, instances = work_of(source), None
    if source.codec != JSON and bodies is not None:
        listed = None if each.listed is None else typed_of(each.listed, each.scopes)
        instances = BodyInstances(bodies, typed_of(each.shape, each.scopes), listed)
    return Compiled(each, ways[0], ways[1], work, limits, decode, instances, is_enveloped)


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
