"""Finds the names in a PromQL expression: its selectors, and the labels in `by`, `on` and the like.

Not a parser of the language: promtool checks the syntax. This finds only the names.
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
    """One selector of an expression."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    """(label, operator, value)"""
    function: str
    """The function whose argument it is; empty where there is none."""
    range: str
    """The text between its brackets; empty where there are none."""

    @property
    def labels(self) -> frozenset[str]:
        """The labels in its matchers."""
        return frozenset(label for label, _, _ in self.matchers)

    def value(self, label: str) -> str:
        """The value in the matcher of this label; empty where there is none."""
        return next((value for name, _, value in self.matchers if name == label), "")


def tokens(expression: str) -> list[str]:
    """The tokens of an expression."""
    return [found[0] for found in _TOKEN.finditer(expression)]


def selectors(expression: str) -> Iterator[Selector]:
    """Every selector of an expression."""
    words = tokens(expression)
    index = 0
    while index < len(words):
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else ""
        if word in _LABEL_LISTS and following == "(":
            index = words.index(")", index)
        elif _is_series(word, following):
            end = words.index("}", index) if following == "{" else index
            after = words[end + 1] if end + 1 < len(words) else ""
            yield Selector(
                name=word,
                matchers=_matchers(words[index + 2 : end]) if following == "{" else (),
                function=_function(words[:index]),
                range=after.strip("[]") if after.startswith("[") else "",
            )
            index = end
        index += 1


def aggregated_labels(expression: str) -> set[str]:
    """The labels in `by (…)`, `on (…)` and the like."""
    words = tokens(expression)
    found: set[str] = set()
    for index, word in enumerate(words[:-1]):
        if word in _LABEL_LISTS and words[index + 1] == "(":
            inside = words[index + 2 : words.index(")", index)]
            found.update(name for name in inside if name != ",")
    return found


def _is_series(word: str, following: str) -> bool:
    named = re.match(r"[a-zA-Z_:]", word) is not None and word not in _WORDS | _LABEL_LISTS
    return named and following not in ("(", "by", "without")


def _function(before: list[str]) -> str:
    return before[-2] if len(before) > 1 and before[-1] == "(" else ""


def _matchers(inside: list[str]) -> tuple[tuple[str, str, str], ...]:
    """The matchers in the tokens `label operator "value" , …`."""
    starts = range(0, len(inside), 4)
    return tuple((inside[i], inside[i + 1], inside[i + 2].strip('"')) for i in starts)
