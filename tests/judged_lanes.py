"""Small lanes with judged rows, built hour by hour, for tests of the reading side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from relevanced.daemon.exporter import (
    Exposition,
    MeasureScores,
    Reading,
    Scorer,
    clicks_measure,
    joined,
    judged_measure,
    render_compared,
    render_grading,
    render_windows,
    rows_plan,
)
from relevanced.daemon.judgements import IndexEntry, judged_plan
from relevanced.daemon.lane import Pages, Rows
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import BY_JUDGEMENTS, Plan
from relevanced.daemon.storage import pack_page
from relevanced.daemon.timing import timing
from relevanced.daemon.views import (
    WHOLE,
    LaneFiles,
    LaneRows,
    LaneView,
    Names,
    Segment,
    busiest,
    evaluate,
)
from tests.lane_views import PLAN as BASE, pages_of

NOON: Final = 1_795_176_000_000
PLAN: Final = replace(
    BASE,
    timing=timing([("10m", 600), ("1h", 3600), ("24h", 86_400)], attribution_s=1800, lateness_s=60),
    history_hours=35 * 24,
    judged=judged_plan(["nDCG@10", "P@5", "Judged@10"], relevant_from=1, max_grade=3),
)
ROWS: Final = rows_plan(PLAN)
US: Final = ("country", "US")
NAMES: Final = (WHOLE, US)


def entry(start_ms: int, name: str = "a") -> IndexEntry:
    return IndexEntry(start_ms, f"{name}.csv", name[0] * 64)


@dataclass(frozen=True)
class JudgedHour:
    """What was shown in an hour: alike in all of its panes, alike in both segments."""

    impressions: int = 120
    score: float = 0.8
    judged: float = 0.9
    """Share of the places."""
    best_case: float | None = None
    """None: the score."""


def row(impressions: int, hour: JudgedHour) -> list[int]:
    """The row of impressions of ten places that are all scored the same but for some spread."""
    columns = [impressions, 10 * impressions, round(10 * impressions * hour.judged)]
    for score in (hour.score, hour.score if hour.best_case is None else hour.best_case):
        squares = round(1e6 * impressions * (score**2 + 0.04))
        columns += [impressions, round(1e6 * impressions * score), squares] * len(ROWS.metrics)
    return columns


def lane(
    hours: Mapping[int, JudgedHour],
    files: LaneFiles,
    *,
    until_ms: int = NOON,
    number: int = 0,
    names: Sequence[Segment] = NAMES,
    plan: Plan = PLAN,
) -> LaneView:
    """A lane whose judged rows are final until then. `hours` are by their starts."""
    watermark_ms = until_ms + plan.timing.lateness_ms
    packed: dict[int, Mapping[int, bytes]] = {}
    panes: dict[tuple[int, int], Pages] = {}
    for start, hour in hours.items():
        shown = row(hour.impressions, hour)
        packed[start] = {page: pack_page(rows) for page, rows in _pages(shown, names).items()}
    for index, window in enumerate(plan.timing.windows):
        first = plan.timing.dropped_before(window, watermark_ms)
        for start in range(first, until_ms, window.pane_ms):
            cells = [
                _part(hours[of], max(start, of), min(start + window.pane_ms, of + HOUR_MS))
                for of in range(start // HOUR_MS * HOUR_MS, start + window.pane_ms, HOUR_MS)
                if of in hours
            ]
            if cells:
                shown = np.sum(cells, axis=0).tolist()
                panes[index, start] = _pages(shown, names)
    return LaneView(
        lane=number,
        token="t",
        sequence=1,
        names=Names(names),
        panes={},
        totals={},
        counts={"events": {"impression": 1}},
        watermark_ms=watermark_ms,
        settled_before=until_ms - plan.timing.attribution_ms,
        rows={BY_JUDGEMENTS: LaneRows(panes, packed, files=files)},
    )


def _part(hour: JudgedHour, from_ms: int, until_ms: int) -> list[int]:
    return row(hour.impressions * (until_ms - from_ms) // HOUR_MS, hour)


def _pages(shown: Sequence[int], names: Sequence[Segment]) -> Mapping[int, Rows]:
    return pages_of(np.array([shown] * len(names), np.int64))


def steady(hours: int, score: float = 0.8, until_ms: int = NOON) -> dict[int, JudgedHour]:
    """So many hours that end then."""
    starts = range(until_ms - hours * HOUR_MS, until_ms, HOUR_MS)
    return {start: JudgedHour(score=score) for start in starts}


def scored(*lanes: LaneView, plan: Plan = PLAN) -> MeasureScores:
    """The judged scores of these lanes, of all segments."""
    found = judged_reading(*lanes, plan=plan).judged
    assert found is not None
    return found


def exposed_judged(scores: MeasureScores) -> Exposition:
    """Both texts of judged scores."""
    return joined(render_windows(scores), render_compared(scores), render_grading(scores))


def judged_reading(*lanes: LaneView, plan: Plan = PLAN) -> Reading:
    """What requests about these lanes are answered from."""
    views = [replace(view, panes=_shown(view, plan)) for view in lanes]
    whole = evaluate(views, plan)
    gauges = busiest(whole, plan)
    found = Scorer(judged_measure(plan)).of(views, whole, gauges)
    return Reading((MeasureScores(clicks_measure(plan), views, whole, gauges), found))


def _shown(view: LaneView, plan: Plan) -> dict[tuple[int, int], Pages]:
    """Panes in which every segment of the lane has an impression."""
    last = plan.timing.final_before(view.watermark_ms or 0) - plan.timing.attribution_ms
    rows = np.zeros((len(view.names), plan.row_width), np.int64)
    rows[:, 0] = 1
    found = {}
    for index, window in enumerate(plan.timing.windows):
        found[index, last // window.pane_ms * window.pane_ms] = pages_of(rows)
    return found


def means(scores: MeasureScores, window: str, segment: Segment = WHOLE) -> dict[str, float]:
    """Metric → mean of a window."""
    (rows,) = (each.rows for each in scores.windows if each.window == window)
    line = rows[scores.segments.index(segment)]
    found = {}
    for index, metric in enumerate(scores.plan.metrics):
        column = scores.plan.metric_column(index)
        if line[column]:
            found[metric.name] = line[column + 1] / metric.unit / line[column]
    return found


def units(scores: MeasureScores) -> dict[str, tuple[str, int]]:
    """Window → (unit, periods) of what is compared."""
    return {each.window: (each.unit, len(each.periods)) for each in scores.comparisons}
