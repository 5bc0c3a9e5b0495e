"""Draw the curves of scored runs to a file: the only module that imports matplotlib."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from relevanced.metrics import (
    ELEVEN_LEVELS,
    Floats,
    Integers,
    Lists,
    interpolated_curve,
    r_precision,
    r_precision_difference,
)

from .results import ScoredRun

_INCHES = (6.0, 5.0)
_DOTS_PER_INCH = 150


def plot(runs: Sequence[ScoredRun], path: str, *, relevant_from: float) -> None:
    """Draw the mean interpolated precision at eleven recall levels; for two runs, also R-Precision.

    The suffix of `path` selects the format. Raises ValueError for one that matplotlib lacks.
    """
    panels = 2 if len(runs) == 2 else 1
    figure = Figure(figsize=(_INCHES[0] * panels, _INCHES[1]), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _draw_curves(axes[0], runs, relevant_from)
    if panels == 2:
        _draw_histogram(axes[1], runs[0], runs[1], relevant_from)
    # The same input gives the same bytes: by default an SVG contains random ids and the date.
    with matplotlib.rc_context({"svg.hashsalt": "relevanced"}):
        metadata = {"Date": None} if path.lower().endswith(".svg") else None
        figure.savefig(path, dpi=_DOTS_PER_INCH, metadata=metadata)


def mean_curve(lists: Lists, relevant_from: float) -> Floats:
    """(11,) interpolated precision at each level, averaged over the queries."""
    relevant, known = lists.gains >= relevant_from, _known_relevant(lists, relevant_from)
    mean: Floats = interpolated_curve(relevant, known).mean(axis=0)
    return mean


def histogram_bars(first: ScoredRun, second: ScoredRun, relevant_from: float) -> dict[str, float]:
    """Query -> R-Precision of the first run minus that of the second, for queries of both runs."""
    by_run = []
    for run in (first, second):
        known = _known_relevant(run.lists, relevant_from)
        values = r_precision(run.lists.gains >= relevant_from, known)
        by_run.append(dict(zip(run.queries, values.tolist())))
    shared = [query for query in first.queries if query in by_run[1]]
    pairs = [np.array([values[query] for query in shared]) for values in by_run]
    return dict(zip(shared, r_precision_difference(pairs[0], pairs[1]).tolist()))


def _known_relevant(lists: Lists, relevant_from: float) -> Integers:
    pool = np.zeros((len(lists), 0)) if lists.pool is None else lists.pool
    counts: Integers = np.count_nonzero(pool >= relevant_from, axis=1).astype(np.int64)
    return counts


def _draw_curves(axes: Axes, runs: Sequence[ScoredRun], relevant_from: float) -> None:
    levels = [float(level) for level in ELEVEN_LEVELS]
    for run in runs:
        axes.plot(levels, mean_curve(run.lists, relevant_from), marker="o", label=run.name)
    axes.set(xlabel="recall", ylabel="interpolated precision", xlim=(0, 1), ylim=(0, 1))
    axes.set_title("Precision at recall, mean over queries")
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_histogram(axes: Axes, first: ScoredRun, second: ScoredRun, relevant_from: float) -> None:
    bars = histogram_bars(first, second, relevant_from)
    axes.bar(range(len(bars)), list(bars.values()))
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(bars)), list(bars), rotation=90, fontsize="small")
    axes.set(xlabel="query", ylabel=f"R-Precision: {first.name} minus {second.name}")
    axes.set_title("R-Precision difference")
