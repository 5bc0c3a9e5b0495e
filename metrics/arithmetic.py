"""Division that says what 0 in the denominator means."""

import numpy as np

from relevanced.metrics.lists import Floats, Integers


def ratio(top: Floats | Integers, bottom: Floats | Integers, otherwise: float) -> Floats:
    """top / bottom where the bottom is > 0, else `otherwise`.

    top (n,), bottom (n,) -> (n,).

    >>> ratio(np.array([1, 1]), np.array([2, 0]), np.nan).tolist()
    [0.5, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = top / bottom
    nothing = ~(bottom > 0)
    if nothing.any():
        result[nothing] = otherwise
    return result
