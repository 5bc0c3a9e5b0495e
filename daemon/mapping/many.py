"""Values of expressions, of one instance or of many at once. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..events.types import LogRecord

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
    """Return a value of many instances."""
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
