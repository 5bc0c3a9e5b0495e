"""A source compiled: from records to plain events, without interpreting an expression. Pure.

What a record is read into depends on its codec (`shapes` for JSON); what its instance comes to
does not. To read another codec, make a `Compiled` with another `decode`: it gives an instance of
`shape`, or a list of instances of `listed`, as `shapes` describes them.

Equal to `records.Mapper`, which is the definition: a record comes to the same events and skips, or
is left to it. `tests/fuzz/test_compiled.py` compares both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from ...events import (
    LONG_RECORD_BYTES,
    TOMBSTONE,
    Feedback,
    Impression,
    Limits,
    LogRecord,
    LogRecords,
    PlainEvents,
    Skipped,
    without_halves,
)
from ...schemas import JSON, Bodies, BodyInstances, Framing, frame_of, json_text, may_be_framed
from ..cloudevents import Headers, OpenedRecords, data_of
from ..expressions import (
    CLOUDEVENTS,
    Drop,
    Expression,
    FeedbackTable,
    ImpressionTable,
    MappedSource,
    Node,
)
from ..functions import CHARACTERS_PER_STEP, STEPS, STEPS_PER_BYTE
from ..getters import LONGEST_HEADER, Get, Odd, condition, getter, is_true
from ..shapes import (
    ANYTHING,
    MOST_LISTED,
    SCALAR,
    Attributes,
    Shape,
    Unsupported,
    builtins_of,
    decoder_of,
    fast,
    safe,
    typed_of,
)
from ..value_texts import scalar_text
from .feedback import CompiledFeedback, compiled_feedback, is_feedback
from .impressions import UNMAPPED, CompiledImpressions, Outcome, compiled_impressions
from .lists import Each, each_of, listed, listed_ids
from .slices import ODD, Instances, Slice

_LEAST_BYTES: Final = {JSON: 2}
"""Codec → least bytes of an element of a list: 1, where it is not named."""
_ABOUT_RECORD: Final = ("header", "key", "ce")


@dataclass(frozen=True)
class InterpreterWork:
    """How much work the interpreter would have with a record, at most, in steps.

    It refuses what takes too many. The compiled form takes fewer and counts none, so it reads only
    records that the interpreter certainly reads within its limit.
    """

    of_element: int
    """With an event, but for its lists."""
    of_listed: int
    """With an element of a list."""
    calls: int
    """Functions that are called: each may go through all texts of the record."""
    least_bytes: int = 1
    """Of an element of a list."""

    @cached_property
    def always_allowed(self) -> bool:
        """Whether every plain record of one event is: the bound is highest at one of these."""
        sizes = (0, MOST_LISTED * self.least_bytes, LONG_RECORD_BYTES)
        return all(self.is_allowed(1, size) for size in sizes)

    def is_allowed(self, elements: int, size: int) -> bool:
        """Whether the interpreter would surely read a record of so many events and bytes."""
        most_listed = min(elements * MOST_LISTED, size // self.least_bytes)
        steps = elements * self.of_element + most_listed * self.of_listed
        steps += self.calls * 2 * size // CHARACTERS_PER_STEP
        return steps <= STEPS + STEPS_PER_BYTE * size


def work_of(source: MappedSource) -> InterpreterWork:
    """Return the work with a record of a source."""
    once, listed = list[Expression](), list[Expression]()
    for table in source.impressions:
        listed += _given(table.item, table.rank, table.grade, table.team)
        labels, tests = table.attributes or {}, table.experiments
        once += [*table.id, table.time, table.items, *labels.values()]
        once += _given(table.where, table.first_rank, table.page, table.page_size)
        once += _given(table.visitor, table.user, tests.map, tests.list)
        once += (tests.variants or {}).values()
    for reaction in source.feedback:
        listed += _given(reaction.item, reaction.rank, reaction.grade, reaction.item_id)
        # The interpreter asks for the id of the event once for each of its items.
        listed += reaction.id or ()
        once += [*(reaction.id or ()), reaction.time]
        once += _given(reaction.where, reaction.kind, reaction.kind, reaction.items)
        listed += _given(reaction.visitor)
    for drop in source.drops:
        once += _given(drop.where, drop.value)
    counts = [_counted(one.tree) for one in once] + [_counted(one.tree) for one in listed]
    of_lists = sum(_counted(one.tree)[0] for one in listed)
    each = _counted(source.each.tree)[0] if source.each else 0
    return InterpreterWork(
        of_element=sum(one for one, _, _ in counts) + each,
        of_listed=sum(inner for _, inner, _ in counts) + of_lists,
        calls=sum(calls for _, _, calls in counts),
        least_bytes=_LEAST_BYTES.get(source.codec, 1),
    )


def _given(*expressions: Expression | None) -> Iterable[Expression]:
    return [one for one in expressions if one is not None]


def _counted(node: Node) -> tuple[int, int, int]:
    """The nodes that are evaluated once, those for each element of a list, and the calls."""
    once, listed, calls = 1, 0, 0
    is_projection = node["type"] in ("projection", "filter_projection")
    if node["type"] == "function_expression":
        calls = 1
        once += 2 * LONGEST_HEADER // CHARACTERS_PER_STEP * (node["value"] in _ABOUT_RECORD)
        listed += (2 * len(node["children"]) + 1) * (node["value"] in ("zip", "split"))
    if node["type"] == "flatten":
        listed += 1
    children: list[Any] = [child for child in node["children"] if isinstance(child, dict)]
    for position, child in enumerate(children):
        inner = _counted(child)
        if is_projection and position > 0:
            listed += inner[0] + inner[1]
        else:
            once, listed = once + inner[0], listed + inner[1]
        calls += inner[2]
    return once, listed, calls


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
    work: InterpreterWork
    limits: Limits
    decode: Callable[[bytes], Any]
    """Reads JSON."""
    bodies: BodyInstances | None = None
    """Reads records of another codec, in place of `decode`."""
    is_enveloped: bool = False
    """Whether the records are CloudEvents."""
    framing: Framing = Framing()
    """Of JSON."""

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """Return what records come to; see `Decoder.plain`."""
        if self.is_enveloped:
            records = OpenedRecords(records, most_bytes, self.framing)
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
            if not self.is_enveloped and values and may_be_framed(self.framing, values[0]):
                headers = (record.headers for record in records.logged())
                values = list(map(partial(json_text, self.framing), values, headers))
            return list(map(self.decode, values))
        return self.bodies.instances(values, [record.headers for record in records.logged()])

    def _one_by_one(self, records: LogRecords, most_bytes: int) -> Instances:
        """The same where something is odd about a record, or has not exactly one element."""
        found, elements, bodies = Instances(), self.each.elements, self.bodies
        index_of = list[int]()
        for index, record in enumerate(records.logged()):
            value = record.value
            if value is None:
                found.skipped.append((index, TOMBSTONE))
                continue
            try:
                if len(value) > most_bytes:
                    raise Odd
                if bodies is not None:
                    root = elements(bodies.instance(value, record.headers))
                elif self.is_enveloped:
                    root = elements(self.decode(value))
                else:
                    root = elements(self.decode(json_text(self.framing, value, record.headers)))
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
            value, attributes = data_of(value, headers, self.framing)
        else:
            value = frame_of(self.framing, value, headers).body
        root = self.decode(bytes(without_halves(value)))
        if isinstance(root, list) and self.each.listed is not None:
            return [builtins_of(one, self.each.listed) for one in root], attributes
        return builtins_of(root, self.each.shape), attributes


def compiled(source: MappedSource, limits: Limits, bodies: Bodies | None = None) -> Compiled | None:
    """Return a source compiled; None where one of its expressions is outside of the subset.
    `bodies` reads the records of another codec than JSON."""
    try:
        return _compiled(source, limits, bodies)
    except Unsupported:
        return None


def reason_to_interpret(source: MappedSource, limits: Limits) -> str | None:
    """Return what of a source is outside of the compiled subset, for people; None for nothing."""
    try:
        _compiled(source, limits)
    except Unsupported as error:
        return str(error)
    return None


def _compiled(source: MappedSource, limits: Limits, bodies: Bodies | None = None) -> Compiled:
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
    framing = Framing(source.codec, source.framing)
    return Compiled(each, ways[0], ways[1], work, limits, decode, instances, is_enveloped, framing)


def _tables(source: MappedSource, shape: Shape, way: Attributes, limits: Limits) -> Tables:
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


_Compile = Callable[[Expression], object]


def outside_of(source: MappedSource) -> Iterator[tuple[str, str]]:
    """Yield the key of each expression that is outside, and which part of it is, for people. One of
    them is enough for the interpreter to read all records of the source."""
    if source.reader is not None:
        return
    found = False
    for expression, compile_one in _expressions(source):
        try:
            compile_one(expression)
        except Unsupported as error:
            found = True
            yield expression.key, str(error)
    reason = None if found else reason_to_interpret(source, Limits())
    if reason is not None:
        key = f"{source.key}.envelope" if reason == CLOUDEVENTS_READ_SLOWLY else source.key
        yield key, reason


def _expressions(source: MappedSource) -> Iterator[tuple[Expression, _Compile]]:
    found: list[tuple[Expression | None, _Compile]] = [(source.each, each_of)]
    for shown in source.impressions:
        found += _of_impressions(shown)
    for reaction in source.feedback:
        found += _of_feedback(reaction)
    for drop in source.drops:
        found += [(drop.where, _condition), (drop.value, _value)]
    for expression, compile_one in found:
        if expression is not None:
            yield expression, compile_one


def _of_impressions(table: ImpressionTable) -> list[tuple[Expression | None, _Compile]]:
    tests, own = table.experiments, (table.item, table.rank, table.grade, table.team)
    values = [*table.id, table.time, table.visitor, table.user, *(tests.variants or {}).values()]
    values += [table.first_rank, table.page, table.page_size, *own]
    return [
        (table.where, _condition),
        (table.items, _ids if all(one is None for one in own) else _list),
        *((one, _value) for one in values),
        *((one, _anything) for one in (table.attributes or {}).values()),
        (tests.map, _anything),
        (tests.list, _anything),
    ]


def _of_feedback(table: FeedbackTable) -> list[tuple[Expression | None, _Compile]]:
    values = [*(table.id or ()), table.time, table.kind, table.item, table.item_id, table.rank]
    return [
        (table.where, _condition),
        (table.items, _list),
        *((one, _value) for one in (*values, table.grade)),
    ]


def _condition(expression: Expression) -> object:
    return condition(expression.tree, Shape(), fast)


def _value(expression: Expression) -> object:
    return getter(expression.tree, Shape(), fast, SCALAR)


def _anything(expression: Expression) -> object:
    return getter(expression.tree, Shape(), fast, ANYTHING)


def _list(expression: Expression) -> object:
    return listed(expression.tree, Shape(), fast)


def _ids(expression: Expression) -> object:
    return listed_ids(expression.tree, Shape(), fast)
