"""Hourly rows of what has settled, kept for weeks: the baseline for this time of the week.

Pure, and like totals a function of the log alone: a base pane's rows are added to those of the hour
that contains its start, once, when it settles. So an hour changes only while its own panes settle,
and a writer needs only the one hour that may still change.
"""

from collections.abc import Collection
from typing import Protocol

from ..panes import PaneKey, Timing, pane_start
from ..plan import Plan
from .paged_rows import PagedRows


class KeptHours(Protocol):
    """Rows by hour: those of a lane, or its judged rows."""

    hours: dict[int, PagedRows]
    """Of the hours that can still change, or whose changes are not durable yet."""
    stored_hours: dict[int, tuple[int, ...]]
    """Start of an earlier hour → its pages in the store."""
    lost_hours: set[int]
    """Starts of earlier hours of which the store lost pages."""


def open_hour(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that can still change."""
    return pane_start(settled_before, plan.hour_ms)


def kept_from(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that is kept."""
    return open_hour(settled_before, plan) - plan.history_hours * plan.hour_ms


def close_before(kept: KeptHours, still_open: int) -> None:
    """Leave the hours that start earlier, and are durable, to the store."""
    for start in [start for start in kept.hours if start < still_open]:
        kept.stored_hours[start] = kept.hours.pop(start).page_numbers


def lose(kept: KeptHours, starts: Collection[int]) -> list[tuple[int, int]]:
    """Note that pages of these earlier hours are missing in the store: no sum may contain the
    hours. Returns the (start, page) of the rest of them, which is to be removed."""
    lost = [start for start in starts if start in kept.stored_hours]
    kept.lost_hours.update(lost)
    return [(start, page) for start in lost for page in kept.stored_hours.pop(start)]


def drop_before(kept: KeptHours, first: int) -> list[tuple[int, int]]:
    """Drop the hours that start before the first one that is kept; returns their (start, page)."""
    kept.lost_hours = {start for start in kept.lost_hours if start >= first}
    stored = [start for start in kept.stored_hours if start < first]
    dropped = [(start, page) for start in stored for page in kept.stored_hours.pop(start)]
    changing = [start for start in kept.hours if start < first]
    return dropped + [(s, page) for s in changing for page in kept.hours.pop(s).page_numbers]


def drop_panes(
    panes: dict[PaneKey, PagedRows], timing: Timing, watermark_ms: int
) -> list[tuple[PaneKey, int]]:
    """Drop the panes that no view can need any more; returns their (pane, page)."""
    limits = [timing.dropped_before(span, watermark_ms) for span in timing.windows]
    old = [key for key in panes if key[1] < limits[key[0]]]
    return [(key, page) for key in old for page in panes.pop(key).page_numbers]
