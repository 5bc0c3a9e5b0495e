"""The scores of the last hours and of their baseline as lines of both text formats. Pure."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from relevanced.metrics.lists import Floats

from ..plan import Plan
from ..telemetry.family import Family
from .baselines import averaged
from .labels import escape
from .sample_lines import Bodies, add_defined
from .snapshot import estimates


class ScoreFamilies(Protocol):
    """The families of the scores of one side of a comparison."""

    @property
    def score(self) -> Family:
        """Of means."""

    @property
    def score_stderr(self) -> Family:
        """Of their standard errors."""

    @property
    def scored_impressions(self) -> Family:
        """Of the impressions for which the metric is defined."""


def add_scores(
    bodies: Bodies,
    of: ScoreFamilies,
    periods: Sequence[Floats],
    labels: Sequence[str],
    tail: str,
    plan: Plan,
    *,
    is_baseline: bool,
) -> None:
    """Add every metric of the last hours, which are one period, or of a baseline of several."""
    expected = np.mean(periods, axis=0)
    for index, metric in enumerate(plan.metrics):
        head = f'{{metric="{escape(metric.name)}",'
        values = [estimates(rows, plan, index) for rows in periods]
        means, errors = of_periods(values, is_baseline=is_baseline)
        add_defined(bodies, of.score, head, labels, tail, means)
        add_defined(bodies, of.score_stderr, head, labels, tail, errors)
        scored = expected[:, plan.metric_column(index)]
        add_defined(bodies, of.scored_impressions, head, labels, tail, scored)


def of_periods(
    values: Sequence[tuple[Floats, Floats]], *, is_baseline: bool
) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors): those of the last hours, or the average of a baseline."""
    if not is_baseline:
        return values[0]
    means, errors = zip(*values, strict=True)
    return averaged(np.array(means), np.array(errors))
