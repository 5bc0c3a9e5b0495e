"""Reciprocal rank: one divided by the rank of the first relevant item."""

import numpy as np
from numpy.typing import NDArray

from .lists import Booleans, Floats, Integers


def first_rank(relevant: Booleans, k: int) -> Integers:
    """Rank of the first relevant item among the first k, counted from 1.

    relevant (n, depth) -> (n,), 1…k; 0 where none is relevant.

    >>> first_rank(np.array([[False, True, True], [False, False, False]]), 3).tolist()
    [2, 0]
    """
    before = _items_before_first(relevant, k)
    return np.where(before < min(k, relevant.shape[1]), before.astype(np.int64) + 1, 0)


def reciprocal_rank(relevant: Booleans, k: int) -> Floats:
    """RR@k: one divided by the rank of the first relevant item among the first k.

    relevant (n, depth) -> (n,), 0…1. Never undefined: 0 where none is relevant.
    Source: Voorhees 1999 (TREC-8 question answering); trec_eval `recip_rank`.

    >>> reciprocal_rank(np.array([[False, True], [False, False]]), 2).tolist()
    [0.5, 0.0]
    """
    ranks = np.arange(1, min(k, relevant.shape[1]) + 1)
    values: Floats = np.append(1.0 / ranks, 0.0)[_items_before_first(relevant, k)]
    return values


def _items_before_first(relevant: Booleans, k: int) -> NDArray[np.unsignedinteger]:
    """(n,) number of items before the first relevant one; all of the first k if there is none."""
    columns = min(k, relevant.shape[1])
    before = np.zeros(len(relevant), dtype=np.min_scalar_type(columns))
    searching = np.ones(len(relevant), dtype=np.bool_)
    for column in range(columns):
        searching &= ~relevant[:, column]
        before += searching.view(np.uint8)
    return before
