"""Hourly rows of what has settled, kept for weeks: the baseline for this time of the week.

Pure, and like totals a function of the log alone: a base pane's rows are added to those of the hour
that contains its start, once, when it settles. So an hour changes only while its own panes settle,
and a writer needs only the one hour that may still change.
"""

from ..panes import pane_start
from ..plan import Plan


def open_hour(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that can still change."""
    return pane_start(settled_before, plan.hour_ms)


def kept_from(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that is kept."""
    return open_hour(settled_before, plan) - plan.history_hours * plan.hour_ms
