"""A broken rule, and the rules of many keys. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .kinds import shown


@dataclass(frozen=True)
class ConfigFault:
    """One broken rule of one key."""

    key: str
    value: object
    """None where there is no value to show, or none that should be."""
    rule: str

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.key}: {self.rule}"
        return f"{self.key}={shown(self.value)}: {self.rule}"


def some(key: str, values: tuple[str, ...], what: str) -> Iterator[ConfigFault]:
    """At least one must be there."""
    if not values:
        yield ConfigFault(key, [], f"at least one {what} is needed")


def once(key: str, values: tuple[str, ...]) -> Iterator[ConfigFault]:
    """Each must stand there once."""
    for value, count in Counter(values).items():
        if count > 1:
            yield ConfigFault(key, value, "stands more than once")
