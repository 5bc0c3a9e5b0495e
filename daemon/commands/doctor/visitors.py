"""How much less the searches of a sample say of a mean than as many independent ones. Pure.

One visitor's searches resemble one another. With the deviations d of scores from their mean:

    effect = sum over visitors of (sum of d)^2  /  sum of d^2

which is 1 where searches are independent (Kish's design effect, as cluster-robust standard errors
estimate it). It is that of the sample: in a whole day the same visitors come back, so that it may
be larger.
"""

from typing import Final

import numpy as np

from relevanced.metrics.lists import Floats, Integers

from ...lane.columns.column import column
from ...lane.lane import Lane
from .looked import Looked

LEAST_SEARCHES: Final = 200
"""Scored searches with a visitor, below which nothing is known."""
LEAST_REPEATED: Final = 50
"""Visitors with several of them, likewise."""


def design_effect(looked: Looked, lane: Lane, metric_index: int) -> float | None:
    """The design effect of a metric's mean over the impressions that are open in the lane, to which
    the sample was applied; None where too few of them have a visitor who comes back."""
    users = {one.impression_id: one.user_id for one in looked.impressions}
    values, is_scored = _scores(lane, metric_index)
    ids = (lane.open.ids[n].decode() for n in range(len(values)))
    named = [users.get(text) for text in ids]
    at = [n for n, user in enumerate(named) if user is not None and is_scored[n]]
    if len(at) < LEAST_SEARCHES:
        return None
    _, codes = np.unique([named[n] for n in at], return_inverse=True)
    if np.count_nonzero(np.bincount(codes) > 1) < LEAST_REPEATED:
        return None
    return effect(values[at], codes)


def effect(values: Floats, visitors: Integers) -> float | None:
    """The design effect of the mean of values, (n,), of visitors from 0, (n,); None where all
    values are equal."""
    deviations = values - values.mean()
    whole = float((deviations**2).sum())
    by_visitor = np.bincount(visitors, weights=deviations)
    return float((by_visitor**2).sum()) / whole if whole > 0 else None


def _scores(lane: Lane, metric_index: int) -> tuple[Floats, Integers]:
    """(value in units of the stored sums, whether it is defined) of each impression of the columns,
    (n,) each."""
    rows = lane.states.rows()[column(lane.open.states)]
    scored = lane.plan.metric_column(metric_index)
    return rows[:, scored + 1].astype(np.float64), rows[:, scored]
