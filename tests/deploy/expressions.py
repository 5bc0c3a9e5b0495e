"""What a PromQL expression names: its series with their labels, the labels it joins and sums by.

Not a parser of the language, Prometheus is: only as much as rules about names need.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])|(?P<number>\d[\w.]*)'
    r"|(?P<name>[a-zA-Z_:][\w:]*)|(?P<variable>\$\w+)|(?P<sign>=~|!~|!=|[<>=]=|[^\s\w])"
)
_LABEL_LISTS: Final = frozenset("by without on ignoring group_left group_right".split())
_WORDS: Final = frozenset("and or unless bool offset atan2 inf nan".split())


@dataclass(frozen=True)
class Selector:
    """One series that is asked for."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    """(label, operator, value)"""
    function: str
    """What it is directly handed to; empty where nothing."""
    range: str
    """The text between its brackets; empty where there are none."""

    @property
    def labels(self) -> frozenset[str]:
        """The labels that it is chosen by."""
        return frozenset(label for label, _, _ in self.matchers)

    def value(self, label: str) -> str:
        """What the label must be; empty where it may be anything."""
        return next((value for name, _, value in self.matchers if name == label), "")


def tokens(expression: str) -> list[str]:
    """The words and signs of an expression."""
    return [found[0] for found in _TOKEN.finditer(expression)]


def selectors(expression: str) -> Iterator[Selector]:
    """Every series that is asked for."""
    words = tokens(expression)
    place = 0
    while place < len(words):
        word = words[place]
        following = words[place + 1] if place + 1 < len(words) else ""
        if word in _LABEL_LISTS and following == "(":
            place = words.index(")", place)
        elif _is_series(word, following):
            end = words.index("}", place) if following == "{" else place
            after = words[end + 1] if end + 1 < len(words) else ""
            yield Selector(
                name=word,
                matchers=_matchers(words[place + 2 : end]) if following == "{" else (),
                function=_function(words[:place]),
                range=after.strip("[]") if after.startswith("[") else "",
            )
            place = end
        place += 1


def aggregated_labels(expression: str) -> set[str]:
    """The labels in `by (…)`, `on (…)` and their like."""
    words = tokens(expression)
    found: set[str] = set()
    for place, word in enumerate(words[:-1]):
        if word in _LABEL_LISTS and words[place + 1] == "(":
            inside = words[place + 2 : words.index(")", place)]
            found.update(name for name in inside if name != ",")
    return found


def _is_series(word: str, following: str) -> bool:
    named = re.match(r"[a-zA-Z_:]", word) is not None and word not in _WORDS | _LABEL_LISTS
    return named and following not in ("(", "by", "without")


def _function(before: list[str]) -> str:
    return before[-2] if len(before) > 1 and before[-1] == "(" else ""


def _matchers(inside: list[str]) -> tuple[tuple[str, str, str], ...]:
    """Of `label sign "value" , …`."""
    starts = range(0, len(inside), 4)
    return tuple((inside[i], inside[i + 1], inside[i + 2].strip('"')) for i in starts)
