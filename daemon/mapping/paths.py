"""Paths of expressions, as functions that read attributes of instances. Pure.

There are two ways through an instance. The fast one fails with an AttributeError where an object on
the way is null; the safe one gives null there, as JMESPath does.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from .expressions import Node
from .shapes import Role, Shape, Unsupported, attribute_of

Read: TypeAlias = Callable[[Any], Any]
Attributes: TypeAlias = Callable[[str], Read]
"""Makes the function that reads a dotted path of attributes: `fast` or `safe`."""
Scope: TypeAlias = Shape | tuple[Shape, ...]
"""What an expression is relative to: an object, or an array of values of known shapes, as `zip`
makes it."""

fast: Attributes = attrgetter


def safe(path: str) -> Read:
    """Return the function that reads a dotted path, and gives None behind a None."""
    names = path.split(".")

    def read(instance: Any) -> Any:
        for name in names:
            if instance is None:
                return None
            instance = getattr(instance, name)
        return instance

    return read


def all_of(attributes: Attributes, paths: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that reads several paths at once."""
    if attributes is fast and len(paths) > 1:
        return attrgetter(*paths)
    reads = [attributes(path) for path in paths]
    return lambda instance: tuple([read(instance) for read in reads])


def steps_of(node: Node) -> list[str | int] | None:
    """Return the members and indices that a path consists of; None for another expression."""
    if node["type"] in ("identity", "current"):
        return []
    if node["type"] in ("field", "index"):
        return [node["value"]]
    if node["type"] not in ("subexpression", "index_expression"):
        return None
    steps = list[str | int]()
    for child in node["children"]:
        inner = steps_of(child)
        if inner is None:
            return None
        steps += inner
    return steps


def dotted(steps: Sequence[str | int], scope: Scope) -> tuple[str, Shape] | None:
    """Return the path of attributes of some members, and the shape there; None where there is an
    index, or no member. Raises Unsupported."""
    if not steps or isinstance(scope, tuple) or any(isinstance(step, int) for step in steps):
        return None
    for step in steps:
        scope = scope.member(str(step))
    return ".".join(attribute_of(str(step)) for step in steps), scope


def at_path(steps: Sequence[str | int], scope: Scope, attributes: Attributes) -> tuple[Read, Shape]:
    """Return the function that reads a path, and the shape of what it reads. Raises
    Unsupported."""
    if isinstance(scope, tuple):
        if not steps or not isinstance(steps[0], int) or not 0 <= steps[0] < len(scope):
            raise Unsupported("an element of zip() is read by [0], [1], …")
        return _then(_nth(steps[0]), steps[1:], scope[steps[0]], attributes)
    if not steps:
        return _itself, scope
    names = next((n for n, step in enumerate(steps) if isinstance(step, int)), len(steps))
    found = dotted(steps[:names], scope)
    read, shape = (_itself, scope) if found is None else (attributes(found[0]), found[1])
    if names == len(steps):
        return read, shape
    index = int(steps[names])
    return _then(_indexed(read, index), steps[names + 1 :], shape.elements(), attributes)


def leaf(steps: Sequence[str | int], scope: Scope, attributes: Attributes, role: Role) -> Read:
    """Return the function that reads the value at a path, in a role. Raises Unsupported."""
    read, shape = at_path(steps, scope, attributes)
    shape.as_role(role)
    return read


def _then(
    read: Read, steps: Sequence[str | int], shape: Shape, attributes: Attributes
) -> tuple[Read, Shape]:
    if not steps:
        return read, shape
    rest, last = at_path(steps, shape, attributes)

    def read_rest(instance: Any) -> Any:
        inner = read(instance)
        return None if inner is None else rest(inner)

    return read_rest, last


def _itself(instance: Any) -> Any:
    return instance


def _nth(index: int) -> Read:
    return lambda values: values[index]


def _indexed(read: Read, index: int) -> Read:
    def read_one(instance: Any) -> Any:
        values = read(instance)
        if values is None or not -len(values) <= index < len(values):
            return None
        return values[index]

    return read_one
