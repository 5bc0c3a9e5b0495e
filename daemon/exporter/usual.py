"""The last hours beside the same hours before, as requests need them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relevanced.metrics.lists import Floats

from ..judging.settings import DEFAULTS, Judging
from ..judging.weeks import Sides
from ..plan import Plan
from .baselines import Comparison, averaged
from .snapshot import estimates


@dataclass(frozen=True)
class Usual:
    """What the last hours are compared with, and by which settings."""

    comparisons: Sequence[Comparison] = ()
    judging: Judging = DEFAULTS
    """With the design effect that is used, measured or set."""


def sides_of(recent: Floats, periods: Sequence[Floats], plan: Plan) -> Sides:
    """Both sides, (segments, metrics): the last hours, and the mean of at least one earlier period.
    All rows are (segments, columns)."""
    found: list[tuple[Floats, ...]] = []
    for index in range(len(plan.metrics)):
        score, stderr = estimates(recent, plan, index)
        earlier = [estimates(rows, plan, index) for rows in periods]
        usual, usual_stderr = averaged(*(np.array(each) for each in zip(*earlier, strict=True)))
        scored = recent[:, plan.metric_column(index)]
        found.append((score, stderr, scored, usual, usual_stderr))
    return Sides(*(np.stack(part, axis=1) for part in zip(*found, strict=True)))
