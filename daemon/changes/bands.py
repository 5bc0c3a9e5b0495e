"""Sizes and shares are told in bands; the word that was told last stays a little longer. Pure."""

from bisect import bisect
from dataclasses import dataclass
from math import inf
from typing import Final


@dataclass(frozen=True)
class Bands:
    """Words for the bands of a value, the lowest first."""

    words: tuple[str, ...]
    bounds: tuple[float, ...]
    """Between two words each: a value at a bound has the higher word."""
    margin: float
    """A word that was told stays until the value is so far beyond its band."""

    def word(self, value: float, last: str = "") -> str:
        """The word of a value. `last`: the one told before, if any."""
        if last in self.words:
            at = self.words.index(last)
            lower, upper = (-inf, *self.bounds)[at], (*self.bounds, inf)[at]
            if lower - self.margin <= value < upper + self.margin:
                return last
        return self.words[bisect(self.bounds, value)]


SIZES: Final = Bands(("slightly", "clearly", "much"), (0.1, 0.3), 0.03)
"""Of a change, as a share of the level before."""
SHARES: Final = Bands(("a part", "about half", "most", "nearly all"), (0.4, 0.6, 0.9), 0.04)
"""Of the fall of the whole, that of the segments which are named."""
