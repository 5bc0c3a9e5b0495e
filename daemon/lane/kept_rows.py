"""How long rows are kept, and which hours can still change. Pure."""

from collections.abc import Collection

from ..panes import pane_start
from ..plan import Plan


def open_hour(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that can still change."""
    return pane_start(settled_before, plan.hour_ms)


def kept_from(settled_before: int, plan: Plan) -> int:
    """Start of the first hour that is kept."""
    return open_hour(settled_before, plan) - plan.history_hours * plan.hour_ms


def has_hours_from(settled_before: int, plan: Plan, hours: Collection[int]) -> int:
    """Start of the first hour from which on a lane has all rows of hours, where it may have had
    earlier ones and dropped them. `hours`: starts of those that it has under this plan. It has not
    dropped yet what it still has of earlier hours."""
    if not plan.history_hours:
        return open_hour(settled_before, plan) + plan.hour_ms
    return min((kept_from(settled_before, plan), *hours))


def rows_kept_from(watermark_ms: int, settled_before: int, plan: Plan) -> int:
    """The first instant of which rows of a pane or an hour are kept."""
    spans = plan.timing.windows
    panes_from = min(plan.timing.dropped_before(span, watermark_ms) for span in spans)
    return min(panes_from, kept_from(settled_before, plan)) if plan.history_hours else panes_from
