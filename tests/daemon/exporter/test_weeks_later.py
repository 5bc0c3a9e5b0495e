"""What is usual: no fall that is over is part of it, and neither a new process nor a new segment
makes less of it."""

import numpy as np

from relevanced.daemon.exporter import RESELECT_MS, Publisher, Timelines
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import HourHistory, busiest, evaluate, select
from tests.daemon.exporter.test_open_changes import Recovering, reading
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site

DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
BROKE_MS = NOW_MS - WEEK_MS - 3 * HOUR_MS
OVER_MS = BROKE_MS + 2 * HOUR_MS


def test_nothing_falls_a_week_after_a_fall_that_is_over() -> None:
    """Scores are as ever then; a week before, at the same hours, they had fallen."""
    site = Recovering(NOW_MS - 10 * DAY_MS, BROKE_MS, OVER_MS, 0.4)
    publisher, seen = Publisher(PLAN), []
    for now_ms in range(BROKE_MS - HOUR_MS, OVER_MS + HOUR_MS, 10 * MINUTE_MS):
        seen.append(bool(reading(site, now_ms, publisher).clicks.changes.open))
    assert any(seen) and not seen[0] and not seen[-1]
    for now_ms in range(BROKE_MS + WEEK_MS - HOUR_MS, NOW_MS + HOUR_MS, 10 * MINUTE_MS):
        assert not reading(site, now_ms, publisher).clicks.changes.open, now_ms


def test_all_that_is_known_is_usual_at_the_first_look_and_while_segments_change() -> None:
    view, history = Site(NOW_MS - 10 * DAY_MS, NOW_MS * 2, 0, 20).lane(NOW_MS), HourHistory(PLAN)
    history.take([view])
    snapshot = evaluate([view], PLAN)
    few = select(snapshot, PLAN, {("country", "DE")}, empty_other=False)
    all_of_them, timelines, shown = busiest(snapshot, PLAN), Timelines(PLAN), []
    assert few.segments != all_of_them.segments
    for minute in range(RESELECT_MS // MINUTE_MS + 10):
        selection = all_of_them if minute else few
        end_ms = NOW_MS - PLAN.timing.settle_ms + minute * MINUTE_MS
        timeline = timelines.of([view], history, selection, end_ms)
        assert timeline is not None and timeline.usual is not None, minute
        assert not np.isnan(timeline.usual[-60:]).any(), minute
        shown.append(timelines.segments)
    assert {shown[0], shown[-1]} == {few.segments, all_of_them.segments} == {*shown}
