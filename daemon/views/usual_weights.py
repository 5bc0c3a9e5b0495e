"""Which hours of a period count how much where some of its hours are left out. Pure."""

from collections.abc import Collection, Mapping, Set
from datetime import tzinfo
from typing import Final

import numpy as np

from relevanced.metrics import Floats

from ..panes import HOUR_MS, on_other_days

ENOUGH: Final = 0.5
"""The least share of a period whose hours must be there, and have a column."""


def stand_in(share: Floats | float) -> Floats:
    """By what the sums of the hours that are this share of a period are multiplied, so that they
    stand for the others, too; NaN where they are fewer than `ENOUGH`."""
    return np.where(np.asarray(share) >= ENOUGH, 1 / np.maximum(share, ENOUGH), np.nan)


def without_fallen(
    weights: Mapping[int, float],
    fell: Set[int],
    telling: Collection[int],
    zone: tzinfo,
    hour_ms: int = HOUR_MS,
) -> tuple[dict[int, float], float]:
    """(start of an hour → by how much its weight changes, by what the sum is multiplied then) for
    a score that had fallen in some hours.

    The same local hour of the nearest day stands for each, of those that tell: an hour of the night
    has another score than one of the day. Where no day tells, the other hours of the period do. The
    factor is NaN where less than `ENOUGH` of the period had not fallen.
    """
    total, fallen, lacking = sum(weights.values()), 0.0, 0.0
    changes: dict[int, float] = {}
    for hour in sorted(weights.keys() & fell):
        weight = weights[hour]
        others = on_other_days(hour, zone, hour_ms)
        other = next((each for each in others if each in telling and each not in fell), None)
        changes[hour] = changes.get(hour, 0.0) - weight
        fallen += weight
        if other is None:
            lacking += weight
        else:
            changes[other] = changes.get(other, 0.0) + weight
    is_enough = 1 - fallen / total >= ENOUGH
    return changes, float(stand_in(1 - lacking / total)) if is_enough else np.nan
