"""A fault of the configuration, and rules that many keys share. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .kinds import shown
from .masking import masked_text


@dataclass(frozen=True)
class ConfigFault:
    """One rule that the value of a key breaks."""

    key: str
    value: object
    """None if there is no value, or one that must not be shown."""
    rule: str

    def __str__(self) -> str:
        key = masked_text(self.key)
        if self.value is None:
            return f"{key}: {self.rule}"
        return f"{key}={shown(self.value)}: {self.rule}"


def at_least_one(key: str, values: tuple[str, ...], noun: str) -> Iterator[ConfigFault]:
    """The fault of an empty list."""
    if not values:
        yield ConfigFault(key, [], f"at least one {noun} is needed")


def no_repeats(key: str, values: tuple[str, ...]) -> Iterator[ConfigFault]:
    """A fault for each value that is repeated."""
    for value, count in Counter(values).items():
        if count > 1:
            yield ConfigFault(key, value, "is given more than once")
