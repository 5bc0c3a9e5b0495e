"""The fields of a table that are read at once, and times. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..events.timestamps import timestamp_ms, timestamps_ms
from ..events.types import MILLISECONDS_BELOW, SECONDS_BELOW, LogRecord
from .expressions import Expression
from .getters import Get, getter, many_of
from .paths import Attributes, all_of, dotted, steps_of
from .shapes import Role, Shape
from .tables import AUTO, UNITS, TimeFormat
from .times import time_ms

_DATE_CHARACTERS: Final = len("2026-11-20")
_SHORT_DIGITS: Final = 18


@dataclass(frozen=True)
class Row:
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


def row_of(fields: Sequence[tuple[Expression, Role]], shape: Shape, attributes: Attributes) -> Row:
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
    return Row(all_of(attributes, paths), len(paths), computed)


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
        return Milliseconds(written, lambda value: time_ms(value, "", written))
    nanoseconds, per_ms = UNITS[name], UNITS["ms"]
    below = MILLISECONDS_BELOW * per_ms // nanoseconds

    def of_unit(value: Any) -> int:
        if type(value) is str and len(value) <= _SHORT_DIGITS and value.isascii():
            value = int(value) if value.isdigit() else value
        if type(value) is int and 0 <= value < below:
            return value * nanoseconds // per_ms
        return time_ms(value, "", written)

    return Milliseconds(written, of_unit)


def _auto(written: TimeFormat) -> Callable[[Any], int]:
    def auto(value: Any) -> int:
        if type(value) is int and SECONDS_BELOW <= value < MILLISECONDS_BELOW:
            return value
        if type(value) is str and value[_DATE_CHARACTERS : _DATE_CHARACTERS + 1] == "T":
            return timestamp_ms(value)
        return time_ms(value, "", written)

    return auto
