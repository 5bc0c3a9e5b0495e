"""The lists of a table, compiled: its elements, and a value of each of them. Pure."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from ..events.fields import too_long
from ..events.types import SURELY_SHORT, LogRecord
from ..schemas.typed import Columns, Elements
from .expressions import Expression, Node
from .getters import Odd, first_true, getter, part_of, text_argument
from .many import Get, Path
from .paths import Attributes, Scope, at_path, leaf, steps_of
from .shapes import ID, TEXT, Role, Shape, Unsupported, attribute_of
from .values import rank_from

Column: TypeAlias = Callable[[Elements, LogRecord], Sequence[Any]]
"""Reads a value of each element."""
_LAST: Final = 2**63


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
        if type(elements) is Columns and attribute:
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


def by_rank(ranks: Sequence[Any], base: int) -> list[int] | None:
    """Return the order of elements of these ranks: those without one last. None where it is that
    in which they stand."""
    count = len(ranks)
    if ranks == list(range(base, base + count)) or ranks.count(None) == count:
        return None
    keys = [rank_from(one, base) or _LAST for one in ranks]
    return sorted(range(count), key=keys.__getitem__)
