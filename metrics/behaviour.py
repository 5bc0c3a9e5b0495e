"""User behaviour on a result list. An item counts as clicked if its gain is above 0."""

import numpy as np

from .arithmetic import ratio
from .lists import Booleans, Floats, Integers
from .precision import hits
from .reciprocal_rank import first_rank


def clicks(clicked: Booleans, k: int) -> Floats:
    """Clicks@k: number of clicked items among the first k.

    clicked (n, depth) -> (n,), 0…k. Never undefined.

    >>> clicks(np.array([[True, False, True]]), 3).tolist()
    [2.0]
    """
    return hits(clicked, k).astype(np.float64)


def click_share(clicked: Booleans, k: int) -> Floats:
    """ClickShare@k: clicked items among the first k, divided by those of the whole list.

    clicked (n, depth) -> (n,), 0…1. Undefined (NaN) without a click.

    >>> click_share(np.array([[True, False, True], [False, False, False]]), 1).tolist()
    [0.5, nan]
    """
    return ratio(hits(clicked, k), hits(clicked, clicked.shape[1]), np.nan)


def first_click_rank(clicked: Booleans) -> Floats:
    """FirstClickRank: rank of the first clicked item, from 1; lower is better.

    clicked (n, depth) -> (n,), 1…depth. Undefined (NaN) without a click.

    >>> first_click_rank(np.array([[False, True], [False, False]])).tolist()
    [2.0, nan]
    """
    rank = first_rank(clicked, clicked.shape[1])
    return np.where(rank > 0, rank.astype(np.float64), np.nan)


def abandonment(clicked: Booleans, lengths: Integers) -> Floats:
    """Abandonment: 1 if items were shown and none was clicked, else 0; lower is better.

    clicked (n, depth), lengths (n,) -> (n,), 0 or 1. Undefined (NaN) for an empty list.

    >>> abandonment(np.array([[False], [True], [False]]), np.array([1, 1, 0])).tolist()
    [1.0, 0.0, nan]
    """
    abandoned = (hits(clicked, clicked.shape[1]) == 0).astype(np.float64)
    return np.where(lengths > 0, abandoned, np.nan)


def zero_results(lengths: Integers) -> Floats:
    """ZeroResults: 1 if no item was shown, else 0; lower is better.

    lengths (n,) -> (n,), 0 or 1. Never undefined.

    >>> zero_results(np.array([0, 3])).tolist()
    [1.0, 0.0]
    """
    empty: Floats = (lengths == 0).astype(np.float64)
    return empty
