"""What of a record are its events, and the lists and fields of a table, compiled. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import msgspec

from ...events import (
    MILLISECONDS_BELOW,
    SECONDS_BELOW,
    SURELY_SHORT,
    LogRecord,
    timestamp_ms,
    timestamps_ms,
    too_long,
)
from ...schemas import Elements, MemberColumns
from ..event_tables import rank_order
from ..expressions import AUTO, UNITS, Expression, Node, TimeFormat
from ..getters import Get, Odd, Path, first_true, getter, many_of, part_of, text_argument
from ..shapes import (
    ID,
    TEXT,
    Attributes,
    Role,
    Scope,
    Shape,
    Unsupported,
    all_of,
    at_path,
    attribute_of,
    decoder_of,
    dotted,
    fast,
    leaf,
    safe,
    steps_of,
)
from ..times import instants_ms, time_ms

Column: TypeAlias = Callable[[Elements, LogRecord], Sequence[Any]]
"""Reads a value of each element."""


def listed(node: Node, scope: Scope, attributes: Attributes) -> tuple[Get, list[Scope]]:
    """Return the function that finds a list (None where it is null), and what expressions about
    its elements are relative to: all that they may be. Raises Unsupported."""
    steps, kind = steps_of(node), node["type"]
    if steps is not None:
        read, shape = at_path(steps, scope, attributes)
        return Path(read), [shape.elements()]
    if kind == "or_expression":
        gets, scopes = list[Get](), list[Scope]()
        for one in node["children"]:
            get, found = listed(one, scope, attributes)
            gets.append(get)
            scopes += found
        return first_true(gets), scopes
    if kind == "multi_select_list":
        return _as_list(node, scope, attributes)
    if kind == "projection":
        return _projected(node, scope, attributes)
    if kind == "function_expression" and node["value"] == "zip":
        return _zipped(node["children"], scope, attributes)
    raise Unsupported(part_of(node))


def listed_ids(node: Node, scope: Scope, attributes: Attributes) -> Get:
    """Return the function that finds a list whose elements are ids. Raises Unsupported."""
    if node["type"] == "function_expression" and node["value"] == "split":
        return _split(node["children"], scope, attributes)
    if node["type"] == "projection" and steps_of(node["children"][1]):
        return _projected_ids(node, scope, attributes)
    get, scopes = listed(node, scope, attributes)
    for one in scopes:
        if not isinstance(one, Shape):
            raise Unsupported("arrays as ids")
        one.as_role(ID)
    return get


def _as_list(node: Node, scope: Scope, attributes: Attributes) -> tuple[Get, list[Scope]]:
    """`[a, b]`: the objects at some paths."""
    reads, scopes = [], list[Scope]()
    for one in node["children"]:
        steps = steps_of(one)
        if steps is None:
            raise Unsupported(part_of(one))
        read, shape = at_path(steps, scope, attributes)
        reads.append(read)
        scopes.append(shape)
    return lambda instance, record: [read(instance) for read in reads], scopes


def _base(node: Node) -> Node:
    base: Node = node["children"][0]
    return base["children"][0] if base["type"] == "flatten" else base


def _projected(node: Node, scope: Scope, attributes: Attributes) -> tuple[Get, list[Scope]]:
    """`list[]` and `list[*]`: all elements that are not null."""
    if steps_of(node["children"][1]) != []:
        raise Unsupported("a member of all elements, where `item` stands, too")
    get, scopes = listed(_base(node), scope, attributes)

    def elements(instance: Any, record: LogRecord) -> Any:
        found = get(instance, record)
        return found if found is None else [one for one in found if one is not None]

    return elements, scopes


def _projected_ids(node: Node, scope: Scope, attributes: Attributes) -> Get:
    """`list[].id`: a value of all elements that have one."""
    get, scopes = listed(_base(node), scope, attributes)
    steps = steps_of(node["children"][1]) or []
    read = [leaf(steps, one, attributes, ID) for one in scopes][0]

    def elements(instance: Any, record: LogRecord) -> Any:
        found = get(instance, record)
        return found if found is None else [one for one in map(read, found) if one is not None]

    return elements


def _zipped(
    arguments: Sequence[Node], scope: Scope, attributes: Attributes
) -> tuple[Get, list[Scope]]:
    reads, shapes = [], list[Shape]()
    for one in arguments:
        steps = steps_of(one)
        if steps is None:
            raise Unsupported(part_of(one))
        read, shape = at_path(steps, scope, attributes)
        reads.append(read)
        shapes.append(shape.elements())

    def elements(instance: Any, record: LogRecord) -> Any:
        found = [read(instance) for read in reads]
        if all(one is None for one in found):
            return None
        return list(zip_longest(*[one or () for one in found]))

    return elements, [tuple(shapes)]


def _split(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
    get, separator = getter(arguments[0], scope, attributes, TEXT), text_argument(arguments[1])

    def elements(instance: Any, record: LogRecord) -> Any:
        text = get(instance, record)
        if text is None:
            return None
        if type(text) is not str:
            raise Odd
        return text.split(separator) if text else []

    return elements


def column(
    expression: Expression, scopes: Sequence[Scope], attributes: Attributes, role: Role
) -> Column:
    """Return the function that reads a value of each element. Raises Unsupported."""
    # All scopes are read by the same names of attributes: the functions are alike.
    return [_column(expression.tree, scope, attributes, role) for scope in scopes][0]


def _column(node: Node, scope: Scope, attributes: Attributes, role: Role) -> Column:
    steps = steps_of(node)
    if steps is not None:
        read = leaf(steps, scope, attributes, role)
        return _members(read, attribute_of(str(steps[0])) if len(steps) == 1 else "")
    get = getter(node, scope, attributes, role)
    if node["type"] == "or_expression":
        first = _column(node["children"][0], scope, attributes, role)
        return _first_column(first, get)
    return lambda elements, record: [get(one, record) for one in elements]


def _members(read: Callable[[Any], Any], attribute: str) -> Column:
    """The column of a path, which is one attribute or another path."""

    def values(elements: Elements, record: LogRecord) -> Sequence[Any]:
        if type(elements) is MemberColumns and attribute:
            return elements.columns[attribute]
        return list(map(read, elements))

    return values


def _first_column(first: Column, get: Get) -> Column:
    def values(elements: Elements, record: LogRecord) -> Sequence[Any]:
        found = first(elements, record)
        return found if all(found) else [get(one, record) for one in elements]

    return values


def id_texts(values: Sequence[Any]) -> Sequence[str]:
    """Return ids as text. Raises Odd where one of them is none."""
    try:
        if all(values):
            "".join(values)  # raises for what is no text, in a fifth of the time of asking each
            if max(map(len, values), default=0) <= SURELY_SHORT:
                return values
    except TypeError:
        pass
    return [id_text(value) for value in values]


def id_text(value: Any) -> str:
    """Return an id as text. Raises Odd where it is none."""
    if type(value) is int:
        return str(value)
    if type(value) is not str or not value or too_long(value):
        raise Odd
    return value


def optional_text(value: Any) -> str | None:
    """Return an id as text; None where it is null or empty. Raises Odd where it is none."""
    return None if value is None or value == "" else id_text(value)


def by_rank(ranks: Sequence[Any]) -> list[int] | None:
    """Return the order of elements of these ranks, as `rank_order`; None where it is that in which
    they stand."""
    count = len(ranks)
    if ranks.count(None) == count:
        return None
    first = ranks[0]
    if type(first) is int and ranks == list(range(first, first + count)):
        return None
    return rank_order(ranks)


_DATE_CHARACTERS: Final = len("2026-11-20")
_SHORT_DIGITS: Final = 18


@dataclass(frozen=True)
class FieldsRow:
    """Reads all fields of a table, in their order: what is a path in one call."""

    direct: Callable[[Any], tuple[Any, ...]]
    paths: int
    """How many fields are paths."""
    computed: Sequence[tuple[int, Get]]
    """Position among the fields, and what evaluates the expression there; ascending."""

    def one(self, instance: Any, record: LogRecord) -> Sequence[Any]:
        """Return the fields of one instance."""
        if not self.computed:
            return self.direct(instance)
        values = list(self.direct(instance))
        for position, get in self.computed:
            values.insert(position, get(instance, record))
        return values

    def many(self, instances: Sequence[Any], records: Sequence[LogRecord]) -> list[Sequence[Any]]:
        """Return each field of n instances, (n,). Raises what reading one of them raises."""
        columns: list[Sequence[Any]] = list(zip(*map(self.direct, instances), strict=True))
        for position, get in self.computed:
            columns.insert(position, many_of(get, instances, records))
        return columns


def row_of(
    fields: Sequence[tuple[Expression, Role]], shape: Shape, attributes: Attributes
) -> FieldsRow:
    """Return what reads these fields. Raises Unsupported."""
    paths, computed = list[str](), list[tuple[int, Get]]()
    for position, (expression, role) in enumerate(fields):
        steps = steps_of(expression.tree)
        found = None if steps is None else dotted(steps, shape)
        if found is None:
            computed.append((position, getter(expression.tree, shape, attributes, role)))
        else:
            found[1].as_role(role)
            paths.append(found[0])
    return FieldsRow(all_of(attributes, paths), len(paths), computed)


@dataclass(frozen=True)
class Milliseconds:
    """Turns times into milliseconds: gives and raises what `time_ms` does, and is faster for what
    is usual."""

    written: TimeFormat
    of: Callable[[Any], int]

    def of_many(self, values: Sequence[Any]) -> Sequence[int]:
        """Return many. Raises InvalidField where one of them is no time."""
        kinds = set(map(type, values)) if self.written.name == AUTO else None
        if kinds == {int} and min(values) >= SECONDS_BELOW and max(values) < MILLISECONDS_BELOW:
            return values
        if kinds == {str}:
            at, end = _DATE_CHARACTERS, _DATE_CHARACTERS + 1
            if all([one[at:end] == "T" for one in values]):
                return timestamps_ms(values)
        return list(map(self.of, values))


def milliseconds(written: TimeFormat) -> Milliseconds:
    """Return what turns times of a format into milliseconds."""
    name = written.name
    if name == AUTO:
        return Milliseconds(written, _auto(written))
    if name not in UNITS:
        return Milliseconds(written, _in_format(written))
    nanoseconds, per_ms = UNITS[name], UNITS["ms"]
    below = MILLISECONDS_BELOW * per_ms // nanoseconds

    def of_unit(value: Any) -> int:
        if type(value) is str and len(value) <= _SHORT_DIGITS and value.isascii():
            value = int(value) if value.isdigit() else value
        if type(value) is int and 0 <= value < below:
            return value * nanoseconds // per_ms
        return time_ms(value, "", written)

    return Milliseconds(written, of_unit)


def _in_format(written: TimeFormat) -> Callable[[Any], int]:
    def in_format(value: Any) -> int:
        first_ms, last_ms = instants_ms(value, "", written)
        if first_ms < last_ms:
            raise Odd  # the interpreter knows the time of the record
        return first_ms

    return in_format


def _auto(written: TimeFormat) -> Callable[[Any], int]:
    def auto(value: Any) -> int:
        if type(value) is int and SECONDS_BELOW <= value < MILLISECONDS_BELOW:
            return value
        if type(value) is str and value[_DATE_CHARACTERS : _DATE_CHARACTERS + 1] == "T":
            return timestamp_ms(value)
        return time_ms(value, "", written)

    return auto


_parse = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class Each:
    """Where the events of a record stand."""

    shape: Shape
    """Of a record."""
    scopes: Sequence[Shape]
    """What an event may be: the tables read the same of all of them."""
    listed: Shape | None
    """What a record is a list of, where it may be one."""
    elements: Callable[[Any], Any]
    """From the instance of a record to an event, or a list of them; None for null."""
    are_events: Callable[[Sequence[Any]], bool]
    """Whether each of some instances of records is exactly one event itself; False where that is
    not sure. May raise an AttributeError."""


def each_of(each: Expression | None) -> Each:
    """Return where the events of a record stand. Raises Unsupported."""
    record = Shape()
    steps = [] if each is None else steps_of(each.tree)
    if each is None or steps == []:
        return Each(record, [record], record, lambda root: root, _are_single)
    node = each.tree
    if node["type"] == "or_expression" and steps_of(node["children"][1]) == []:
        return _list_or_record(record, node["children"][0])
    if node["type"] == "function_expression" and node["value"] == "parse_json":
        return _in_text(record, node["children"][0])
    read, event = _listed_at(record, node)
    return Each(record, [event], None, read, _are_none)


def _listed_at(record: Shape, node: Node) -> tuple[Callable[[Any], Any], Shape]:
    steps = steps_of(node)
    found = None if steps is None else dotted(steps, record)
    if found is None:
        raise Unsupported(part_of(node))
    path, shape = found
    event = shape.elements()
    shape.or_one = True
    return fast(path) if "." not in path else safe(path), event


def _list_or_record(record: Shape, node: Node) -> Each:
    """`path || @`: the events of a list, where there is one that is not empty, else the record."""
    read, event = _listed_at(record, node)

    def elements(root: Any) -> Any:
        if type(root) is list:
            return root
        found = read(root)
        if not found:
            return root
        if type(found) is not list:
            raise Odd  # only the interpreter sees whether the object is empty
        return found

    def are_events(roots: Sequence[Any]) -> bool:
        return _are_single(roots) and not any(map(read, roots))

    return Each(record, [record, event], event, elements, are_events)


def _in_text(record: Shape, node: Node) -> Each:
    """`parse_json(path)`: the events stand as JSON in a text."""
    steps = steps_of(node)
    found = None if steps is None else dotted(steps, record)
    if found is None:
        raise Unsupported(part_of(node))
    path, shape = found
    shape.as_role(TEXT)
    read, event = safe(path), Shape()

    @cache
    def decode() -> Callable[[str], Any]:
        # Not before the tables have said what they read of an event.
        return decoder_of(event, event).decode

    def elements(root: Any) -> Any:
        text = read(root)
        if text is None:
            return None
        _parse(text)  # the interpreter refuses a text that is broken anywhere
        return decode()(text)

    return Each(record, [event], None, elements, _are_none)


def _are_single(roots: Sequence[Any]) -> bool:
    return len({list, type(None)}.intersection(map(type, roots))) == 0


def _are_none(roots: Sequence[Any]) -> bool:
    return False
