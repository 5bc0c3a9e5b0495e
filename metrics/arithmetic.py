"""Division with a stated value for 0 in the denominator, and sorted distinct values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lists import Floats, Integers


def ratio(numerator: Floats | Integers, denominator: Floats | Integers, otherwise: float) -> Floats:
    """numerator / denominator where the denominator is > 0, else `otherwise`.

    numerator (n,), denominator (n,) -> (n,).

    >>> ratio(np.array([1, 1]), np.array([2, 0]), np.nan).tolist()
    [0.5, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = numerator / denominator
    undefined = ~(denominator > 0)
    if undefined.any():
        result[undefined] = otherwise
    return result


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values, ascending: (n,) -> (m,), m <= n.

    The same as `np.unique`, which goes through a hash table that costs ten times as much as this
    sort.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
