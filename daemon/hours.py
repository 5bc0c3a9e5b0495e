"""Hourly rows of what has settled, kept for weeks: what is usual at this time of the week.

Pure, and like totals a function of the log alone: a base pane's rows are added to those of the hour
that holds its start, once, when it settles. So an hour changes only while its own panes settle, and
a writer needs no more of the past than the one hour that may still change.
"""

from typing import Final

from relevanced.daemon.panes import pane_start
from relevanced.daemon.plan import Plan

PREFIX: Final = "hours:"
"""What the names of the keys of hourly rows begin with."""


def open_hour(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that can still change."""
    return pane_start(settled_before, plan.hour_ms)


def kept_from(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that is kept."""
    return open_hour(settled_before, plan) - plan.history_hours * plan.hour_ms


def page_key(start: int, page: int) -> str:
    """Name of a page of the rows of an hour."""
    return f"{PREFIX}{start}:{page}"


def parse_page_key(key: str) -> tuple[int, int]:
    """(start of the hour, page)."""
    start, page = key.removeprefix(PREFIX).split(":")
    return int(start), int(page)
