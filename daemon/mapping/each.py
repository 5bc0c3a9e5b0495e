"""`each`, compiled: what of a record are its events. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from .expressions import Expression, Node
from .getters import Odd, part_of
from .json_shapes import decoder_of
from .paths import dotted, safe, steps_of
from .shapes import TEXT, Shape, Unsupported

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


def each_of(each: Expression | None) -> Each:
    """Return where the events of a record stand. Raises Unsupported."""
    record = Shape()
    steps = [] if each is None else steps_of(each.tree)
    if each is None or steps == []:
        return Each(record, [record], record, lambda root: root)
    node = each.tree
    if node["type"] == "or_expression" and steps_of(node["children"][1]) == []:
        return _list_or_record(record, node["children"][0])
    if node["type"] == "function_expression" and node["value"] == "parse_json":
        return _in_text(record, node["children"][0])
    read, event = _listed_at(record, node)
    return Each(record, [event], None, read)


def _listed_at(record: Shape, node: Node) -> tuple[Callable[[Any], Any], Shape]:
    steps = steps_of(node)
    found = None if steps is None else dotted(steps, record)
    if found is None:
        raise Unsupported(part_of(node))
    path, shape = found
    event = shape.elements()
    shape.or_one = True
    return safe(path), event


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

    return Each(record, [record, event], event, elements)


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

    return Each(record, [event], None, elements)
