"""The drawing of recorded scores over time: only this part of the replay imports matplotlib."""

from collections.abc import Sequence
from typing import Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import ConciseDateFormatter
from matplotlib.figure import Figure
from numpy.typing import NDArray

from relevanced.metrics import Booleans

from ..changes import Story, sentences
from ..views import WHOLE, estimates
from .buckets import BucketsOverTime
from .over_time import OfFile

MOST_SEGMENTS: Final = 8
"""The busiest are drawn beside the whole: more lines would be unreadable."""
WIDTH_INCHES, PANEL_INCHES = 11.0, 2.6
DOTS_PER_INCH: Final = 110
NORMAL_95: Final = 1.96
ONSET_COLOR: Final = "#dc143c"


def plot(
    found: BucketsOverTime, judged: Sequence[OfFile], changes: Sequence[Story], path: str
) -> None:
    """Draw a panel for each metric: the whole with its 95 % interval, the busiest segments, and a
    line where each change began; then those of judged metrics, with a new line for each file. What
    has not settled is dashed.

    The suffix of `path` selects the format. Raises ValueError for one that matplotlib lacks, and
    OSError where the file cannot be written.
    """
    figure = Figure(layout="constrained")
    panels = _panels(figure, found, judged)
    for axes in panels:
        for story in changes:
            onset = np.datetime64(round(story.fall.onset.likely), "ms")
            axes.axvline(onset, color=ONSET_COLOR, lw=1)
    last = panels[-1]
    ticks = last.xaxis.get_major_locator()
    last.xaxis.set_major_formatter(ConciseDateFormatter(ticks))  # type: ignore[no-untyped-call]
    why = "feedback may have come after the end of the files"
    if judged:
        why = "later feedback or searches may be missing"
    last.set_xlabel(f"event time, UTC; dashed: {why}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    # The same input gives the same bytes: by default an SVG contains random ids and the date.
    with matplotlib.rc_context({"svg.hashsalt": "relevanced"}):
        metadata = {"Date": None} if path.lower().endswith(".svg") else None
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)


def _panels(
    figure: Figure, found: BucketsOverTime, judged: Sequence[OfFile]
) -> NDArray[np.object_]:
    """(metrics,) panels, the first one at the top: each has one metric."""
    rows, metrics = _busiest(found), found.plan.metrics
    of_judged = judged[0].over_time.plan.metrics if judged else ()
    count = len(metrics) + len(of_judged)
    figure.set_size_inches(WIDTH_INCHES, PANEL_INCHES * count)
    panels: NDArray[np.object_] = figure.subplots(count, 1, squeeze=False, sharex=True)[:, 0]
    for index, (axes, metric) in enumerate(zip(panels, metrics)):
        _draw(axes, found, index, rows)
        axes.set_ylabel(metric.name)
    for index, (axes, metric) in enumerate(zip(panels[len(metrics) :], of_judged, strict=True)):
        for of_file in judged:
            _draw(axes, of_file.over_time, index, rows)
        axes.set_ylabel(f"{metric.name}\nby judgements")
    return panels


def _draw(axes: Axes, found: BucketsOverTime, metric: int, rows: Sequence[int]) -> None:
    """Draw one metric of the segments in these rows."""
    times = (found.starts + found.plan.hour_ms // 2).astype("datetime64[ms]")
    settled = found.starts + found.plan.hour_ms <= found.settled_ms
    for line, row in enumerate(rows):
        segment = found.selection.segments[row]
        mean, error = estimates(found.rows[:, row], found.plan, metric)
        is_whole = segment == WHOLE
        color = "black" if is_whole else f"C{line}"
        label = "everything" if is_whole else f"{segment[1]} ({segment[0]})"
        width = 2.0 if is_whole else 1.0
        marker = "." if len(times) == 1 else None  # a line needs two points
        shown = np.where(settled, mean, np.nan)
        axes.plot(times, shown, color=color, lw=width, marker=marker, label=_plain(label))
        _dashed(axes, times, mean, settled, color)
        if is_whole:
            half = np.where(settled, NORMAL_95 * error, np.nan)
            axes.fill_between(times, mean - half, mean + half, color=color, alpha=0.15, lw=0)


def _busiest(found: BucketsOverTime) -> list[int]:
    """Where the segments are that are drawn, the busiest first: the whole is the first of all."""
    impressions = found.rows[:, :, 0].sum(axis=0)
    order = np.argsort(-impressions, kind="stable").tolist()
    at_whole = found.selection.segments.index(WHOLE)
    return [at_whole, *[row for row in order if row != at_whole][:MOST_SEGMENTS]]


def _dashed(
    axes: Axes,
    times: NDArray[np.datetime64],
    mean: NDArray[np.float64],
    settled: Booleans,
    color: str,
) -> None:
    """The part that has not settled, from the last settled bucket on."""
    first = int(np.count_nonzero(settled))
    if first < len(times):
        rest = slice(max(first - 1, 0), None)
        axes.plot(times[rest], mean[rest], color=color, lw=1, ls="--")


def _plain(label: str) -> str:
    """The text as it is: matplotlib reads what stands between dollar signs as mathematics, and
    hides labels that begin with an underscore."""
    shown = sentences.printable(label)
    return "\u200b" * shown.startswith("_") + shown.replace("$", r"\$")
