"""Compare runs with the first, over the same queries as their means. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics import Comparison, Metric, compare
from relevanced.metrics.lists import Floats
from relevanced.metrics.metric import Direction

from .results import ScoredRun, Undefined

Better: TypeAlias = Literal["higher", "lower", "neither"]

_BETTER: Final[dict[Direction, Better]] = {"up": "higher", "down": "lower", "none": "neither"}


@dataclass(frozen=True)
class RunComparison:
    """One run compared with the first by one metric. Differences are run minus first."""

    run: str
    against: str
    metric: Metric
    better: Better
    """Which value is the better one. A win is a query where the run has it; where neither is
    better, a query where the run has the higher one."""
    left_out: int
    """Queries that one of the two means counts, or both, and that are no pair: only one run has
    them, or the metric is undefined there and undefined values are left out."""
    comparison: Comparison


def compare_runs(
    runs: Sequence[ScoredRun], metrics: Sequence[Metric], undefined: Undefined
) -> list[RunComparison]:
    """Compare every further run with the first, by the same values as their means: an undefined one
    is 0, or leaves its pair out."""
    return [_compared(run, runs[0], metric, undefined) for run in runs[1:] for metric in metrics]


def _compared(
    run: ScoredRun, first: ScoredRun, metric: Metric, undefined: Undefined
) -> RunComparison:
    mine, theirs = _by_query(run, metric, undefined), _by_query(first, metric, undefined)
    shared = [query for query in mine if query in theirs]
    found = compare(_array(mine, shared), _array(theirs, shared))
    better = _BETTER[metric.direction]
    if better == "lower":
        found = replace(found, wins=found.losses, losses=found.wins)
    left_out = len(mine.keys() | theirs.keys()) - found.pairs
    return RunComparison(run.name, first.name, metric, better, left_out, found)


def _by_query(run: ScoredRun, metric: Metric, undefined: Undefined) -> dict[str, float]:
    """The values that the mean of the run is over."""
    values = zip(run.queries, run.values[metric.name].tolist())
    if undefined == "zero":
        return {query: 0.0 if value != value else value for query, value in values}
    return {query: value for query, value in values if value == value}


def _array(values: dict[str, float], queries: Sequence[str]) -> Floats:
    return np.array([values[query] for query in queries], dtype=np.float64)
