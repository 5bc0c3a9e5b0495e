"""Means and their standard errors from counts, sums and sums of squares. Pure."""

from typing import Final

import numpy as np

from relevanced.metrics.lists import Floats

from ..lane.paged_rows import Rows
from ..plan import COUNT_COLUMNS

_LENGTHS: Final = [
    COUNT_COLUMNS.index(name) for name in ("impressions", "items_listed", "squared_items_listed")
]


def mean_and_error(counts: Floats, sums: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """((n,) means, (n,) standard errors): NaN without a value, and NaN below two of them."""
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    several = counts > 1
    spread = np.maximum(squares - sums * np.where(several, means, 0.0), 0.0)
    pairs = np.where(several, counts * (counts - 1), np.nan)
    return means, np.sqrt(spread / pairs)


def list_lengths(rows: Rows | Floats) -> tuple[Floats, Floats]:
    """((n,) mean lengths of the result lists, (n,) standard errors) of rows."""
    impressions, sums, squares = (rows[:, column].astype(np.float64) for column in _LENGTHS)
    return mean_and_error(impressions, sums, squares)
