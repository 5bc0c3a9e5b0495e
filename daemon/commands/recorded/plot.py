"""Draw recorded scores over time to a file: of the replay, the only module that imports
matplotlib.
"""

from collections.abc import Sequence
from typing import Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import ConciseDateFormatter
from matplotlib.figure import Figure
from numpy.typing import NDArray

from relevanced.metrics.lists import Booleans

from ...exporter.snapshot import WHOLE, estimates
from ...judging.story import Story
from .buckets import OverTime

MOST_SEGMENTS: Final = 8
"""The busiest are drawn beside the whole: more lines could not be told apart."""
WIDTH_INCHES, PANEL_INCHES = 11.0, 2.6
DOTS_PER_INCH: Final = 110
NORMAL_95: Final = 1.96
ONSET_COLOR: Final = "#dc143c"


def plot(found: OverTime, changes: Sequence[Story], path: str) -> None:
    """Draw a panel for each metric: the whole with its 95 % interval, the busiest segments, and a
    line where each change began. What has not settled is dashed.

    The suffix of `path` selects the format. Raises ValueError for one that matplotlib lacks, and
    OSError where the file cannot be written.
    """
    metrics = found.plan.metrics
    size = WIDTH_INCHES, PANEL_INCHES * len(metrics)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(metrics), 1, squeeze=False, sharex=True)[:, 0]
    for index, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
        _draw(axes, found, index)
        for story in changes:
            axes.axvline(
                np.datetime64(round(story.fall.onset.likely), "ms"), color=ONSET_COLOR, lw=1
            )
        axes.set_ylabel(metric.name)
    last = panels[-1]
    ticks = last.xaxis.get_major_locator()
    last.xaxis.set_major_formatter(ConciseDateFormatter(ticks))  # type: ignore[no-untyped-call]
    last.set_xlabel("event time, UTC; dashed: feedback may have come after the end of the files")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    # The same input gives the same bytes: by default an SVG contains random ids and the date.
    with matplotlib.rc_context({"svg.hashsalt": "relevanced"}):
        metadata = {"Date": None} if path.lower().endswith(".svg") else None
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)


def _draw(axes: Axes, found: OverTime, metric: int) -> None:
    times = (found.starts + found.plan.hour_ms // 2).astype("datetime64[ms]")
    settled = found.starts + found.plan.hour_ms <= found.settled_ms
    for line, row in enumerate(_busiest(found)):
        segment = found.selection.segments[row]
        mean, error = estimates(found.rows[:, row], found.plan, metric)
        is_whole = segment == WHOLE
        color = "black" if is_whole else f"C{line}"
        label = "everything" if is_whole else f"{segment[1]} ({segment[0]})"
        width = 2.0 if is_whole else 1.0
        axes.plot(
            times, np.where(settled, mean, np.nan), color=color, lw=width, label=_plain(label)
        )
        _dashed(axes, times, mean, settled, color)
        if is_whole:
            half = np.where(settled, NORMAL_95 * error, np.nan)
            axes.fill_between(times, mean - half, mean + half, color=color, alpha=0.15, lw=0)


def _busiest(found: OverTime) -> list[int]:
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


def _plain(text: str) -> str:
    """The text as it is: matplotlib reads what stands between dollar signs as mathematics, and
    hides labels that begin with an underscore."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return "\u200b" * shown.startswith("_") + shown.replace("$", r"\$")
