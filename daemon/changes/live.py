"""Whether a score that fell is back in what has not settled yet. Pure.

Feedback that has not arrived can only raise some scores, such as Success: their level over
impressions that still wait for it is a lower bound. Where that is as far from the fall as no
chance explains, and no great part of the fall can be left, the score is back, however late the rest
arrives.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers

from .recovery import ERRORS, LEAST_SCORED
from .scan import LEAST_LOSS, LOW_Z
from .story import LiveRise, MeasuredChange
from .timeline import from_the_top, variance

RAISED: Final = ("Success", "RR", "P", "ERR", "R")
"""Families that further feedback can only raise."""


MOST_LEFT: Final = 0.25
"""A score of whose fall more may be left is not back: half a repair is none."""
DOUBTS: Final = 2.0
"""So many errors lower it is still not more."""


def can_tell(metric: str) -> bool:
    """Whether feedback that has not arrived can only raise this metric."""
    return metric.partition("@")[0].partition("(")[0] in RAISED


def live_rise(
    starts: Integers,
    columns: Floats,
    levels: tuple[MeasuredChange, MeasuredChange],
    design_effect: float,
    settled_ms: int,
) -> LiveRise | None:
    """Since when the score is back; None where it is not, or too little is known.

    `starts` are those of the latest panes, (panes,), oldest first; `columns` their scored
    impressions, sums and sums of squares, (panes, 3), in units of the metric; `levels` those before
    the fall and since.
    """
    before, low = levels
    if before.mean is None or low.mean is None:
        return None
    fall = before.mean - low.mean
    most_lost = max(MOST_LEFT * fall, LEAST_LOSS * abs(before.mean))
    best, found = LOW_Z, None
    for newest in _left_out(len(starts)):
        until = len(starts) - newest
        scored, sums, squares = from_the_top(columns[:until][::-1])[:0:-1].T
        count = np.maximum(scored, 1.0)
        means = sums / count
        spread = np.maximum(variance(scored, sums, squares), np.finfo(np.float64).tiny)
        own = design_effect * spread / count
        errors = np.sqrt(own + (low.stderr or 0.0) ** 2)
        lost, doubt = before.mean - means, np.sqrt(own + (before.stderr or 0.0) ** 2)
        stands = lost + DOUBTS * doubt < most_lost
        nearer = means - ERRORS * errors > low.mean + fall / 2
        is_back = (scored >= LEAST_SCORED) & stands & nearer
        z = np.where(is_back, (means - low.mean) / errors, -np.inf)
        at = int(np.argmax(z))
        if z[at] > best:
            best, found = float(z[at]), LiveRise(int(starts[at]), float(means[at]), settled_ms)
    return found


def _left_out(panes: int) -> Iterator[int]:
    """How many of the newest panes are left out, for which most feedback may be missing: none, 1,
    2, 4 and so on."""
    newest = 0
    while newest < panes:
        yield newest
        newest = max(2 * newest, 1)
