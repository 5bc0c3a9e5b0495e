"""Whether a score that fell is back in what has not settled yet. Pure.

Feedback that has not arrived can only raise some scores, such as Success: their level over
impressions that still wait for it is a lower bound. Where that is as far from the fall as no
chance explains, and no great part of the fall can be left, the score is back, however late the rest
arrives.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers

from .recovery import ERRORS, LEAST_SCORED
from .scan import LEAST_LOSS, LOW_Z
from .story import LiveRise, Story
from .timeline import HOUR_MS, from_the_top, variance

RAISED: Final = ("Success", "RR", "P", "ERR", "R")
"""Families that further feedback can only raise."""


MOST_LEFT: Final = 0.25
"""A score of whose fall more may be left is not back: half a repair is none."""
DOUBTS: Final = 2.0
"""So many errors lower it is still not more."""
ALONE_MS: Final = 2 * HOUR_MS
"""Where no earlier week tells how a score moves by the time of the day, a fall that is older than
this is not compared with what has not settled."""


@dataclass(frozen=True, eq=False)
class LivePanes:
    """The latest panes of one series, oldest first."""

    starts: Integers
    """(panes,) ms since the epoch."""
    columns: Floats
    """(panes, 3) scored impressions, sums and sums of squares, in units of the metric."""
    usual: Floats
    """(panes,) what earlier weeks have at these times; NaN where it is not known."""


def can_tell(metric: str) -> bool:
    """Whether feedback that has not arrived can only raise this metric."""
    return metric.partition("@")[0].partition("(")[0] in RAISED


def live_rise(
    panes: LivePanes, story: Story, design_effect: float, settled_ms: int
) -> LiveRise | None:
    """Since when the score that tells an open change is back; None where it is not, or too little
    is known. `settled_ms`: the end of what has settled, by which it is not."""
    by_hour = _by_hour(panes, story, settled_ms)
    if by_hour is None:
        return None
    before, low = story.own.before, story.own.now
    if before.mean is None or low.mean is None:
        return None
    fall = before.mean - low.mean
    most_lost = max(MOST_LEFT * fall, LEAST_LOSS * abs(before.mean))
    best, found = LOW_Z, None
    comparable = panes.columns / np.stack([np.ones(len(by_hour)), by_hour, by_hour**2], axis=1)
    for newest in _left_out(len(panes.starts)):
        until = len(panes.starts) - newest
        scored, sums, squares = from_the_top(comparable[:until][::-1])[:0:-1].T
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
            shown, total, _ = panes.columns[at:until].sum(axis=0)
            rise = LiveRise(int(panes.starts[at]), float(total / shown), settled_ms)
            best, found = float(z[at]), rise
    return found


def _by_hour(panes: LivePanes, story: Story, settled_ms: int) -> Floats | None:
    """(panes,): what is usual at each as a multiple of what is usual at the hours of the level now:
    a night is compared with a noon by it. Ones where that is unknown of a fall so young that the
    time of the day makes no difference, else None."""
    usual = story.own.usual
    if story.by_weeks and usual is not None and (panes.usual > 0).all():
        return panes.usual / usual
    is_young = settled_ms - story.fall.onset.likely <= ALONE_MS
    return np.ones(len(panes.starts)) if is_young else None


def _left_out(panes: int) -> Iterator[int]:
    """How many of the newest panes are left out, for which most feedback may be missing: none, 1,
    2, 4 and so on."""
    newest = 0
    while newest < panes:
        yield newest
        newest = max(2 * newest, 1)
