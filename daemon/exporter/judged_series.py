"""Judged scores as lines of both text formats. Pure."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from relevanced.metrics.lists import Floats

from ..judgements.index import start_text
from ..lane.paged_rows import Rows
from ..plan import Plan
from ..telemetry import judged_families as families
from ..telemetry.family import Family
from ..telemetry.judged_families import JUDGED_BASELINE, JUDGED_RECENT, JudgedPeriod
from .baselines import Comparison
from .judged import IMPRESSIONS, JudgedScores, judged_shares
from .labels import escape, label_names, segment_labels
from .period_lines import add_scores
from .sample_lines import Bodies, add, add_defined
from .snapshot import estimates


def add_judged(bodies: Bodies, scores: JudgedScores) -> None:
    """Add everything that is served of judged scores."""
    plan = scores.plan
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    labels = segment_labels(scores.segments, attributes, label_names(plan.groupings))
    for window in scores.windows:
        tail = f',window="{escape(window.window)}"}} '
        _add_window(bodies, window.rows, labels, tail, plan)
    for comparison in scores.comparisons:
        _add_comparison(bodies, comparison, labels, plan)
    _add_files(bodies, scores)


def _add_window(bodies: Bodies, rows: Rows, labels: Sequence[str], tail: str, plan: Plan) -> None:
    add(bodies, families.JUDGED_IMPRESSIONS, "{", labels, tail, rows[:, IMPRESSIONS].tolist())
    add_defined(bodies, families.JUDGED_ITEMS_SHARE, "{", labels, tail, judged_shares(rows))
    for index, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        means, errors = estimates(rows, plan, index)
        add_defined(bodies, families.JUDGED_SCORE, head, labels, tail, means)
        add_defined(bodies, families.JUDGED_SCORE_STDERR, head, labels, tail, errors)
        scored = rows[:, plan.metric_column(index)].tolist()
        add(bodies, families.JUDGED_SCORED_IMPRESSIONS, head, labels, tail, scored)


def _add_comparison(
    bodies: Bodies, comparison: Comparison, labels: Sequence[str], plan: Plan
) -> None:
    tail = f',window="{comparison.window}"}} '
    _add_period(bodies, JUDGED_RECENT, [comparison.recent], labels, tail, plan)
    if comparison.periods:
        _add_period(bodies, JUDGED_BASELINE, [*comparison.periods.values()], labels, tail, plan)
    unit = f'{{window="{comparison.window}",unit="{comparison.unit}"}} '
    count = len(comparison.periods)
    add(bodies, families.JUDGED_BASELINE_PERIODS, "", [""], unit, [count])


def _add_period(
    bodies: Bodies,
    period: JudgedPeriod,
    rows_of_periods: Sequence[Floats],
    labels: Sequence[str],
    tail: str,
    plan: Plan,
) -> None:
    """Add the last hours, which are one period, or the baseline, the average of several."""
    expected = np.mean(rows_of_periods, axis=0)
    add_defined(bodies, period.impressions, "{", labels, tail, expected[:, IMPRESSIONS])
    add_defined(bodies, period.items_share, "{", labels, tail, judged_shares(expected))
    is_baseline = period is JUDGED_BASELINE
    add_scores(bodies, period, rows_of_periods, labels, tail, plan, is_baseline=is_baseline)


def _add_files(bodies: Bodies, scores: JudgedScores) -> None:
    refused = Counter(entry for lane in scores.files for entry in lane.refused)
    for entry, lanes in sorted(refused.items()):
        named = f'name="{escape(entry.name)}",start="{start_text(entry.start_ms)}"'
        add(bodies, families.JUDGEMENTS_REFUSED, "{", [named], "} ", [lanes])
    measure = scores.measure
    if measure is None or scores.until_ms is None:
        return
    _add_one(bodies, families.JUDGED_UNTIL, scores.until_ms / 1000)
    _add_one(bodies, families.JUDGED_SINCE, measure.since_ms / 1000)
    _add_one(bodies, families.JUDGEMENTS_MIXED, int(measure.is_mixed))


def _add_one(bodies: Bodies, family: Family, value: float) -> None:
    add(bodies, family, "", [""], " ", [value])
