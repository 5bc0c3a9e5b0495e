"""What is derived from the text of a query by its key: a class, or what matches a pattern. Pure."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from .table import NO_QUERY

DIGEST_DIGITS: Final = 8


@dataclass(frozen=True)
class Derivation:
    """One attribute that is derived from the key of an impression's query: by words, by patterns,
    or by files of classes."""

    attribute: str
    words: tuple[int, ...] = ()
    """The most words of a query of each class, ascending; one more class has longer queries."""
    patterns: tuple[tuple[str, str], ...] = ()
    """(value, regular expression that searches the key): the first that matches counts."""
    by_files: bool = False
    """Whether files say the class of each query: `DerivedAttributes` has them."""
    unlisted: str | None = None
    """The class of queries that the file in force does not list."""

    def classes_of(
        self, keys: Sequence[str], classes: Mapping[str, str] | None
    ) -> list[str | None]:
        """Return the class of each query of these keys, (n,), in a file; None without a query, or
        where no file is in force."""
        if classes is None:
            return [None] * len(keys)
        get, unlisted = classes.get, self.unlisted
        return [get(key, unlisted) if key else None for key in keys]

    def lengths_of(self, keys: Sequence[str]) -> list[str | None]:
        """Return the class of each query of these keys, (n,), by its words; None without a
        query."""
        # a key has one blank between words, and none at its ends
        get, longest = self._lengths.get, f"{self.words[-1] + 1}+"
        return [get(key.count(" "), longest) if key else None for key in keys]

    def value_of(self, key: str) -> str | None:
        """Return the value of the first pattern that matches the key of a query; None without a
        query, or where none matches."""
        if key != NO_QUERY:
            for value, matches in self._searches:
                if matches(key):
                    return value
        return None

    @cached_property
    def _lengths(self) -> Mapping[int, str]:
        """Blanks of a key → the class of its words, but the last one."""
        return {
            words - 1: str(most) if most == less + 1 else f"{less + 1}-{most}"
            for less, most in pairwise((0, *self.words))
            for words in range(less + 1, most + 1)
        }

    @cached_property
    def _searches(self) -> tuple[tuple[str, Callable[[str], object]], ...]:
        return tuple((value, re.compile(pattern).search) for value, pattern in self.patterns)

    @cached_property
    def meaning(self) -> str:
        """The attribute with a hash of what it is derived by: another one is another attribute."""
        of_files = ("files", self.unlisted)
        shape = repr(of_files if self.by_files else (self.words, self.patterns))
        digest = hashlib.sha256(shape.encode(errors="surrogatepass")).hexdigest()
        return f"{self.attribute}~{digest[:DIGEST_DIGITS]}"
