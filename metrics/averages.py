"""Averages of a metric over lists: macro and geometric. Micro: see `Contingency.pooled`."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from .lists import Floats

GEOMETRIC_FLOOR: Final = 1e-5
"""Smaller values count as this in a geometric mean (as in trec_eval): one 0 would make it 0."""


@dataclass(frozen=True)
class Mean:
    """A mean over lists, and the number of lists in it."""

    value: float
    """NaN if no list entered the mean."""
    scored: int
    """Number of lists in the mean."""
    lists: int
    """Number of all lists: greater than `scored` if undefined values were left out."""


def macro(values: Floats, undefined: Literal["skip", "zero"] = "skip") -> Mean:
    """The arithmetic mean over lists. Undefined values are left out, or count as 0.

    values (n,), NaN where undefined. The mean is NaN if no value is left.

    >>> macro(np.array([1.0, 0.5, np.nan, np.nan]))
    Mean(value=0.75, scored=2, lists=4)
    >>> macro(np.array([1.0, 0.5, np.nan, np.nan]), undefined="zero")
    Mean(value=0.375, scored=4, lists=4)
    """
    defined = _defined(values, undefined)
    value = float(defined.sum() / len(defined)) if len(defined) else float("nan")
    return Mean(value, len(defined), len(values))


def geometric(
    values: Floats,
    undefined: Literal["skip", "zero"] = "skip",
    floor: float = GEOMETRIC_FLOOR,
) -> Mean:
    """The geometric mean over lists: exp of the mean of ln(max(value, floor)).

    Of AP it is GMAP. values (n,), >= 0, NaN where undefined. The mean is NaN if no value is left.
    Source: trec_eval `gm_map`.

    >>> round(geometric(np.array([0.25, 1.0])).value, 6)
    0.5
    """
    defined = np.log(np.maximum(_defined(values, undefined), floor))
    value = float(np.exp(defined.sum() / len(defined))) if len(defined) else float("nan")
    return Mean(value, len(defined), len(values))


def _defined(values: Floats, undefined: Literal["skip", "zero"]) -> Floats:
    missing = np.isnan(values)
    return np.where(missing, 0.0, values) if undefined == "zero" else values[~missing]
