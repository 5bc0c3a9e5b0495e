"""Expressions compiled to functions over instances of a shape. Pure.

The compiled subset of JMESPath: paths with indices, `a || b`, `&&`, `!`, comparisons, literals, the
first element that meets a condition (`params[?key=='id'].value | [0]`), and the functions of
`_CALLS`. What is outside raises Unsupported; the interpreter then reads the whole topic. A function
here gives what the interpreter gives, or raises: then the record is read by the interpreter.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..events import LogRecord
from .cloudevents import Opened
from .expressions import Expression, Node
from .functions import MATCHED_CHARACTERS, header, text_of
from .shapes import SCALAR, TEXT, Attributes, Role, Scope, Unsupported, at_path, leaf, steps_of

Get: TypeAlias = Callable[[Any, LogRecord], Any]
"""Evaluates an expression about an instance."""
NUMBERS: Final = (int, float)


def is_true(value: Any) -> bool:
    """Whether JMESPath takes a scalar or null as true."""
    return value is not None and value is not False and value != ""


@dataclass(frozen=True)
class FirstTrue:
    """A value if it is true, else another one."""

    first: Get
    rest: Get

    def __call__(self, instance: Any, record: LogRecord) -> Any:
        value = self.first(instance, record)
        # 0 is true.
        if value or (value is not False and type(value) in NUMBERS):
            return value
        return self.rest(instance, record)

    def many(self, instances: Sequence[Any], records: Sequence[LogRecord]) -> list[Any]:
        """The same of many instances."""
        values = many_of(self.first, instances, records)
        if all(values):
            return values
        others = many_of(self.rest, instances, records)
        return [
            value if value or (value is not False and type(value) in NUMBERS) else other
            for value, other in zip(values, others, strict=True)
        ]


@dataclass(frozen=True)
class Path:
    """The value at a path."""

    read: Callable[[Any], Any]

    def __call__(self, instance: Any, record: LogRecord) -> Any:
        return self.read(instance)

    def many(self, instances: Sequence[Any], records: Sequence[LogRecord]) -> list[Any]:
        """The same of many instances."""
        return list(map(self.read, instances))


def many_of(get: Get, instances: Sequence[Any], records: Sequence[LogRecord]) -> list[Any]:
    """Return the value of an expression, of many instances at once."""
    many: Callable[..., list[Any]] | None = getattr(get, "many", None)
    return list(map(get, instances, records)) if many is None else many(instances, records)


@dataclass(frozen=True)
class Among:
    """Whether a value is one of some texts."""

    read: Callable[[Any], Any]
    texts: frozenset[str]

    def __call__(self, instance: Any, record: LogRecord) -> bool:
        return self.read(instance) in self.texts

    def many(self, instances: Sequence[Any], records: Sequence[LogRecord]) -> list[bool]:
        """The same of many instances."""
        texts = self.texts
        return [value in texts for value in map(self.read, instances)]


@dataclass(frozen=True)
class NotAmong:
    """Whether a value is another one."""

    among: Among

    def __call__(self, instance: Any, record: LogRecord) -> bool:
        return not self.among(instance, record)

    def many(self, instances: Sequence[Any], records: Sequence[LogRecord]) -> list[bool]:
        """The same of many instances."""
        texts = self.among.texts
        return [value not in texts for value in map(self.among.read, instances)]


_ORDER: Final = {
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
_ABOUT_RECORD: Final = ("header", "key", "kafka_time", "ce")
LONGEST_HEADER: Final = 4096
"""Most characters of a header or a key: the work with it counts."""


class Odd(Exception):
    """The compiled form cannot tell what this record comes to."""


def getter(node: Node, scope: Scope, attributes: Attributes, role: Role) -> Get:
    """Return the function that evaluates an expression whose value is read in a role. Raises
    Unsupported."""
    steps = steps_of(node)
    if steps is not None:
        return Path(leaf(steps, scope, attributes, role))
    kind = node["type"]
    if kind == "literal":
        get = _constant(node["value"])
        return get if role.longest is None else _no_longer(get, role.longest)
    if kind in ("comparator", "and_expression", "not_expression"):
        return condition(node, scope, attributes)
    if kind == "or_expression":
        return first_true([getter(one, scope, attributes, role) for one in node["children"]])
    if kind == "pipe":
        return _first_match(node, scope, attributes, role)
    if kind == "function_expression" and node["value"] in _CALLS:
        get = _CALLS[node["value"]](node["children"], scope, attributes)
        return get if role.longest is None else _no_longer(get, role.longest)
    raise Unsupported(part_of(node))


def part_of(node: Node) -> str:
    """Return what a node is, for people."""
    kind = node["type"]
    return f"{node['value']}(…)" if kind == "function_expression" else kind.replace("_", " ")


def condition(node: Node, scope: Scope, attributes: Attributes) -> Get:
    """Return the function that evaluates a condition: its value is true as `is_true` says. Raises
    Unsupported."""
    kind, children = node["type"], node["children"]
    if kind == "comparator":
        if node["value"] == "ne":
            among = _any_equal({**node, "value": "eq"}, scope, attributes)
            if among is not None:
                return NotAmong(among)
            return _comparison(node, scope, attributes)
        return _any_equal(node, scope, attributes) or _comparison(node, scope, attributes)
    if kind == "or_expression":
        return _any_equal(node, scope, attributes) or first_true(
            [condition(one, scope, attributes) for one in children]
        )
    if kind == "and_expression":
        left, right = (condition(one, scope, attributes) for one in children)
        return lambda instance, record: (
            right(instance, record) if is_true(value := left(instance, record)) else value
        )
    if kind == "not_expression":
        inner = condition(children[0], scope, attributes)
        return lambda instance, record: not is_true(inner(instance, record))
    return getter(node, scope, attributes, SCALAR)


def first_true(gets: Sequence[Get]) -> Get:
    """Return the function that gives the first value that is true, else the last."""
    return FirstTrue(gets[0], first_true(gets[1:]) if len(gets) > 2 else gets[1])


def _constant(value: Any) -> Get:
    if isinstance(value, (list, dict)):
        raise Unsupported("a literal that is an array or an object")
    return lambda instance, record: value


def _no_longer(get: Get, longest: int) -> Get:
    """The value, where it is no longer text than a shape would read."""

    def value(instance: Any, record: LogRecord) -> Any:
        found = get(instance, record)
        if type(found) is str and len(found) > longest:
            raise Odd
        return found

    return value


def _any_equal(node: Node, scope: Scope, attributes: Attributes) -> Among | None:
    """A path compared with several texts: one look-up."""
    texts, paths, waiting = list[str](), list[Any](), [node]
    while waiting:
        one = waiting.pop()
        if one["type"] == "or_expression":
            waiting += one["children"]
            continue
        if one["type"] != "comparator" or one["value"] != "eq":
            return None
        left, right = one["children"]
        if right["type"] != "literal" or type(right["value"]) is not str:
            return None
        paths.append(steps_of(left))
        texts.append(right["value"])
    if paths[0] is None or any(path != paths[0] for path in paths):
        return None
    return Among(leaf(paths[0], scope, attributes, SCALAR), frozenset(texts))


def _comparison(node: Node, scope: Scope, attributes: Attributes) -> Get:
    left, right = (getter(one, scope, attributes, SCALAR) for one in node["children"])
    name = node["value"]
    if name == "eq":
        return lambda instance, record: _equal(left(instance, record), right(instance, record))
    if name == "ne":
        return lambda instance, record: not _equal(left(instance, record), right(instance, record))
    compare = _ORDER[name]

    def get(instance: Any, record: LogRecord) -> bool | None:
        a, b = left(instance, record), right(instance, record)
        if type(a) is str and type(b) is str or type(a) in NUMBERS and type(b) in NUMBERS:
            return bool(compare(a, b))
        return None

    return get


def _equal(a: Any, b: Any) -> bool:
    """Whether two scalars are equal: a truth value is no number."""
    return bool(a == b) and (type(a) is bool) == (type(b) is bool)


def _first_match(node: Node, scope: Scope, attributes: Attributes, role: Role) -> Get:
    """`list[?condition].value | [0]`, or `list[?condition] | [0].value`."""
    projection, selected = node["children"]
    steps = steps_of(selected)
    if projection["type"] != "filter_projection" or not steps or steps[0] != 0:
        raise Unsupported("a pipe, but for [?…] | [0]")
    listed, right, where = projection["children"]
    of_element, of_list = steps_of(right), steps_of(listed)
    if of_list is None or of_element is None or (of_element and len(steps) > 1):
        raise Unsupported("a pipe, but for [?…] | [0]")
    read_list, shape = at_path(of_list, scope, attributes)
    element = shape.elements()
    if _has_call(where):
        raise Unsupported("a function in [?…]")
    holds = condition(where, element, attributes)
    read = leaf([*of_element, *steps[1:]], element, attributes, role)
    return _first_of(read_list, holds, read, not of_element)


def _first_of(
    read_list: Callable[[Any], Any], holds: Get, read: Callable[[Any], Any], any_element: bool
) -> Get:
    def get(instance: Any, record: LogRecord) -> Any:
        for one in read_list(instance) or ():
            if is_true(holds(one, record)):
                value = read(one)
                if value is not None or (any_element and one is not None):
                    return value
        return None

    return get


def asks_record(expression: Expression | None) -> bool:
    """Whether the value of an expression differs by the record that its scope stands in."""
    return expression is not None and _asks_record(expression.tree)


def _asks_record(node: Node) -> bool:
    if node["type"] == "function_expression" and node["value"] in _ABOUT_RECORD:
        return True
    return any(_asks_record(child) for child in node["children"] if isinstance(child, dict))


def _has_call(node: Node) -> bool:
    return node["type"] == "function_expression" or any(map(_has_call, node["children"]))


def text_argument(node: Node) -> str:
    """Return an argument that is a text of the expression. Raises Unsupported."""
    if node["type"] != "literal" or type(node["value"]) is not str:
        raise Unsupported("an argument that is no text of the expression")
    return str(node["value"])


def _short(text: str | None) -> str | None:
    if text is not None and len(text) > LONGEST_HEADER:
        raise Odd
    return text


def _header(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
    name = text_argument(arguments[0])
    return lambda instance, record: _short(header(record.headers, name))


def _key(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
    return lambda instance, record: _short(text_of(record.key))


def _kafka_time(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
    return lambda instance, record: None if record.timestamp < 0 else record.timestamp


def _topic(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
    return lambda instance, record: record.topic


def _ce(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
    name = text_argument(arguments[0]).lower()

    def get(instance: Any, record: LogRecord) -> str | None:
        value = record.attributes.get(name) if isinstance(record, Opened) else None
        if value is not None and not isinstance(value, str):
            raise Odd
        return _short(value)

    return get


def _regex(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
    get, search = (
        getter(arguments[0], scope, attributes, TEXT),
        re.compile(text_argument(arguments[1])).search,
    )

    def found(instance: Any, record: LogRecord) -> bool:
        text = get(instance, record)
        if text is None:
            return False
        if type(text) is not str:
            raise Odd
        return search(text[:MATCHED_CHARACTERS]) is not None

    return found


def _of_text(method: Callable[[str, str], bool]) -> Callable[..., Get]:
    """A function of two texts, the second of which stands in the expression."""

    def compiled(arguments: Sequence[Node], scope: Scope, attributes: Attributes) -> Get:
        get, part = getter(arguments[0], scope, attributes, TEXT), text_argument(arguments[1])

        def found(instance: Any, record: LogRecord) -> bool | None:
            text = get(instance, record)
            if text is None:
                return None
            if type(text) is not str:
                raise Odd
            return method(text, part)

        return found

    return compiled


_CALLS: Final[dict[str, Callable[[Sequence[Node], Scope, Attributes], Get]]] = {
    "header": _header,
    "key": _key,
    "kafka_time": _kafka_time,
    "topic": _topic,
    "ce": _ce,
    "regex": _regex,
    "starts_with": _of_text(str.startswith),
    "ends_with": _of_text(str.endswith),
    "contains": _of_text(str.__contains__),
}
