"""Attributes that are derived from the query of an impression. Pure.

A derivation sees the key of a query (`keys`): lower case, single blanks, at most 128 characters.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from .keys import NO_QUERY

DIGEST_DIGITS: Final = 8


@dataclass(frozen=True)
class Derivation:
    """One derived attribute: by words, or by patterns."""

    attribute: str
    words: tuple[int, ...] = ()
    """The most words of a query of each class, ascending; one more class has longer queries."""
    patterns: tuple[tuple[str, str], ...] = ()
    """(value, regular expression that searches the key): the first that matches counts."""

    def value_of(self, key: str) -> str | None:
        """Return the value for a query of this key; None without a query, or where none
        matches."""
        if key == NO_QUERY:
            return None
        if self.words:
            # a key has one blank between words, and none at its ends
            return self._lengths[bisect_left(self.words, key.count(" ") + 1)]
        for value, matches in self._searches:
            if matches(key):
                return value
        return None

    @cached_property
    def _lengths(self) -> tuple[str, ...]:
        ranges = pairwise((0, *self.words))
        names = (str(most) if most == less + 1 else f"{less + 1}-{most}" for less, most in ranges)
        return (*names, f"{self.words[-1] + 1}+")

    @cached_property
    def _searches(self) -> tuple[tuple[str, Callable[[str], object]], ...]:
        return tuple((value, re.compile(pattern).search) for value, pattern in self.patterns)

    @cached_property
    def meaning(self) -> str:
        """The attribute with a hash of what it is derived by: another one is another attribute."""
        shape = repr((self.words, self.patterns))
        digest = hashlib.sha256(shape.encode(errors="surrogatepass")).hexdigest()
        return f"{self.attribute}~{digest[:DIGEST_DIGITS]}"
