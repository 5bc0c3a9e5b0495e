"""Whether a score that fell is back in what has not settled yet. Pure.

Feedback that has not arrived can only raise some scores, such as Success: their level over
impressions that still wait for it is a lower bound. Where that already is as far from the fall as
no chance explains, the score is back, however late the rest arrives.
"""

from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers

from .incidents import LiveRise, MeasuredChange
from .recovery import ERRORS, LEAST_SCORED
from .timeline import LOW_Z, from_the_top, variance

RAISED: Final = ("Success", "RR", "P", "ERR", "R")
"""Families that further feedback can only raise."""


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
    if before.mean is None or low.mean is None or not len(starts):
        return None
    scored, sums, squares = (from_the_top(columns[::-1])[:0:-1]).T
    enough = scored >= LEAST_SCORED
    count = np.maximum(scored, 1.0)
    means = sums / count
    spread = np.maximum(variance(scored, sums, squares), np.finfo(np.float64).tiny)
    errors = np.sqrt(design_effect * spread / count + (low.stderr or 0.0) ** 2)
    z = np.where(enough, (means - low.mean) / errors, -np.inf)
    nearer = means - ERRORS * errors > (low.mean + before.mean) / 2
    z = np.where(nearer & (z > LOW_Z), z, -np.inf)
    at = int(np.argmax(z))
    if not np.isfinite(z[at]):
        return None
    return LiveRise(int(starts[at]), float(means[at]), settled_ms)
