"""The fields of a table that are read at once, and times. Pure."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..events.timestamps import timestamp_ms
from ..events.types import MILLISECONDS_BELOW, SECONDS_BELOW, LogRecord
from .expressions import Expression
from .getters import Get, getter
from .paths import Attributes, all_of, dotted, steps_of
from .shapes import Role, Shape
from .tables import AUTO, UNITS, TimeFormat
from .times import time_ms

Row = Callable[[Any, LogRecord], Sequence[Any]]
_DATE_CHARACTERS: Final = len("2026-11-20")
_SHORT_DIGITS: Final = 18


def row_of(fields: Sequence[tuple[Expression, Role]], shape: Shape, attributes: Attributes) -> Row:
    """Return the function that reads all fields, in their order: what is a path in one call.
    Raises Unsupported."""
    paths, computed = list[str](), list[tuple[int, Get]]()
    for position, (expression, role) in enumerate(fields):
        steps = steps_of(expression.tree)
        found = None if steps is None else dotted(steps, shape)
        if found is None:
            computed.append((position, getter(expression.tree, shape, attributes, role)))
        else:
            found[1].as_role(role)
            paths.append(found[0])
    direct = all_of(attributes, paths)
    if not computed:
        return lambda instance, record: direct(instance)

    def row(instance: Any, record: LogRecord) -> Sequence[Any]:
        values = list(direct(instance))
        for position, get in computed:
            values.insert(position, get(instance, record))
        return values

    return row


def milliseconds(written: TimeFormat) -> Callable[[Any], int]:
    """Return the function from a time to milliseconds: it raises InvalidField like `time_ms`, and
    is faster for what is usual."""
    name = written.name
    if name == AUTO:
        return _auto(written)
    if name not in UNITS:
        return lambda value: time_ms(value, "", written)
    nanoseconds, per_ms = UNITS[name], UNITS["ms"]

    def of_unit(value: Any) -> int:
        if type(value) is str and len(value) <= _SHORT_DIGITS and value.isascii():
            value = int(value) if value.isdigit() else value
        if type(value) is int and 0 <= value < MILLISECONDS_BELOW * per_ms // nanoseconds:
            return value * nanoseconds // per_ms
        return time_ms(value, "", written)

    return of_unit


def _auto(written: TimeFormat) -> Callable[[Any], int]:
    def auto(value: Any) -> int:
        if type(value) is int and SECONDS_BELOW <= value < MILLISECONDS_BELOW:
            return value
        if type(value) is str and value[_DATE_CHARACTERS : _DATE_CHARACTERS + 1] == "T":
            return timestamp_ms(value)
        return time_ms(value, "", written)

    return auto
