"""When an idle owner tells readers that its lane is complete up to now. Pure.

The mark is a clock's reading, and a clock can be wrong: one that was a day ahead for a minute
leaves a mark with which the lane seems to be complete up to tomorrow. A lane that is caught up
overwrites it at its next commit or touch; for all others it is taken back.
"""

from typing import Final

TAKEN_BACK: Final = 0
"""Stands for no mark in the store, where fields of a head are never removed."""
CLOCKS_DIFFER_MS: Final = 5_000
"""The clocks of two owners may differ by so much."""


def idle_mark(stored_ms: int | None, clock_ms: int, is_caught_up: bool) -> int | None:
    """Return the mark to write: the clock, if the ends of all logs were seen at that time; else
    TAKEN_BACK, if the stored mark is ahead of the clock; else None, which leaves it as it is."""
    if is_caught_up:
        return clock_ms
    if stored_ms is not None and stored_ms > clock_ms + CLOCKS_DIFFER_MS:
        return TAKEN_BACK
    return None
