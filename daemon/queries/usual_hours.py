"""Which earlier hours are usual for a window of queries. Pure."""

from collections.abc import Sequence
from typing import Final

USUAL_DAYS: Final = 7
HOURS_OF_DAY: Final = 24
ENOUGH_HOURS: Final = 0.5
"""A day counts if at least this part of its hours does: few hours of a day have another mean than
the day."""


def usual_hours(
    window: range,
    covered: range,
    left_out: frozenset[int] = frozenset(),
    shifts: Sequence[int] = (),
) -> list[list[int]]:
    """The starts of the usual hours of a window, a list for each day that counts, the latest day
    first: the same hours of each of the 7 days before it. One week before alone would be too thin
    for one hour of one query.

    `window` and `covered` are starts of whole hours in ms, one hour apart: of the window, which may
    be the hour that is still open, and of all that is stored. `left_out` are hours that do not
    count, such as outages. A window of up to a day has its hours one to seven days earlier; of a
    longer one whole days before it are usual, which all hours of a day belong to. `shifts`: how
    many ms before a window of fewer hours than a day it was the same local time 1, 2 … 7 days
    before, in whole hours; without them a day has 24 hours.

    >>> hour = 3_600_000
    >>> days = usual_hours(range(200 * hour, 201 * hour, hour), range(0, 200 * hour, hour))
    >>> [[start // hour for start in day] for day in days]
    [[176], [152], [128], [104], [80], [56], [32]]
    """
    days = []
    day_ms = HOURS_OF_DAY * window.step
    hours = min(len(window), HOURS_OF_DAY)
    for days_before in range(1, USUAL_DAYS + 1):
        by_clock = shifts and hours < HOURS_OF_DAY
        first = window.start - (shifts[days_before - 1] if by_clock else days_before * day_ms)
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
