"""Examples of queries: single searches as they were shown. Pure.

An example belongs to a row of the table of an hour, and goes with it. Examples are taken from a
base pane right after it was merged, for rows that then are among the first ones and have enough
users: so none shows what a query of too few users came to.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

FIRST_ROWS: Final = 100
"""Examples are taken for so many rows of a table: those whose queries may be the most frequent."""
FIRST_ITEMS: Final = 10
"""An example has so many items of its list at most."""
KEPT_HOURS: Final = 24
"""Examples of an hour are kept for so many hours."""
NO_SCORE: Final = 2**62
"""In the place of a score that is undefined: after all others."""

Order: TypeAlias = tuple[int, int, bytes, int]


class Example(msgspec.Struct, array_like=True, frozen=True):
    """One search as it was shown, and what feedback made of it."""

    sort_score: int
    """Its score by the first metric in fixed point, negative where a lower one is better; NO_SCORE
    where it is undefined."""
    impression_id: str
    time_ms: int
    items: tuple[str | None, ...]
    """The first items of its list; None is a blank."""
    gains: tuple[float, ...]
    """Those of the items."""
    attributes: dict[str, str]
    """The values of the attributes that groupings name, as far as they are known."""
    segment: str = ""
    """Its segment of the grouping `queries.by`, if there is one."""

    @property
    def order(self) -> Order:
        """What examples are ordered by."""
        return order_of(self.sort_score, self.impression_id.encode(), self.time_ms)


Examples: TypeAlias = tuple[Example, ...]
"""In their order."""


def order_of(sort_score: int, impression_id: bytes, time_ms: int) -> Order:
    """Return what examples are ordered by: equal scores are in an order that has nothing to do
    with time or arrival. Two impressions may have one id, but never at one time."""
    return sort_score, crc32(impression_id), impression_id, time_ms


def first_examples(examples: Iterable[Example], count: int) -> Examples:
    """Return the first so many."""
    return tuple(sorted(examples, key=lambda one: one.order)[:count])
