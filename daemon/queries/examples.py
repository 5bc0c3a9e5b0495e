"""Examples of queries, single searches as they were shown, and the usual hours of a window. Pure.

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


USUAL_DAYS: Final = 7
HOURS_OF_DAY: Final = 24
ENOUGH_HOURS: Final = 0.5
"""A day counts if at least this part of its hours does: few hours of a day have another mean than
the day."""


def usual_hours(
    window: range, covered: range, left_out: frozenset[int] = frozenset()
) -> list[list[int]]:
    """The starts of the usual hours of a window, a list for each day that counts, the latest day
    first: the same hours of each of the 7 days before it. One week before alone would be too thin
    for one hour of one query.

    `window` and `covered` are starts of whole hours in ms, one hour apart: of the window, which may
    be the hour that is still open, and of all that is stored. `left_out` are hours that do not
    count, such as outages. A window of up to a day has its hours one to seven days earlier; of a
    longer one whole days before it are usual, which all hours of a day belong to.

    >>> hour = 3_600_000
    >>> days = usual_hours(range(200 * hour, 201 * hour, hour), range(0, 200 * hour, hour))
    >>> [[start // hour for start in day] for day in days]
    [[176], [152], [128], [104], [80], [56], [32]]
    """
    days = []
    day_ms = HOURS_OF_DAY * window.step
    hours = min(len(window), HOURS_OF_DAY)
    for days_before in range(1, USUAL_DAYS + 1):
        first = window.start - days_before * day_ms
        day = range(first, first + hours * window.step, window.step)
        counted = [start for start in day if start in covered and start not in left_out]
        if counted and len(counted) >= ENOUGH_HOURS * len(day):
            days.append(counted)
    return days


def days_to_keep(window_hours: int) -> int:
    """The days of hours that must be stored for a window to have all its usual days.

    >>> days_to_keep(1), days_to_keep(24), days_to_keep(168)
    (8, 8, 14)
    """
    return USUAL_DAYS + -(-window_hours // HOURS_OF_DAY)
