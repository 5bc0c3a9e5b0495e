"""Average precision: the mean of the precision at the ranks of the relevant items."""

import numpy as np

from .arithmetic import ratio
from .lists import Booleans, Floats, Integers


def precision_sum(relevant: Booleans, k: int) -> Floats:
    """Sum of the precisions at the ranks of the relevant items among the first k.

    relevant (n, depth) -> (n,), 0…k. Never undefined: 0 without a relevant item.

    >>> precision_sum(np.array([[True, False, True, True]]), 3).round(4).tolist()
    [1.6667]
    """
    hits = np.zeros(len(relevant))
    total = np.zeros(len(relevant))
    for column in range(min(k, relevant.shape[1])):
        here = relevant[:, column]
        hits += here
        total += here * (hits / (column + 1))
    return total


def average_precision(relevant: Booleans, known_relevant: Integers, k: int) -> Floats:
    """AP@k: the sum of the precisions divided by all items known to be relevant, returned or not.

    The cut at k shortens the sum, not the divisor.
    relevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: trec_eval `map`, `map_cut_k`.

    >>> average_precision(np.array([[True, False, True]]), np.array([4]), 3).round(4).tolist()
    [0.4167]
    """
    return ratio(precision_sum(relevant, k), known_relevant, 0.0)


def average_precision_of_returned(relevant: Booleans, k: int) -> Floats:
    """AP(variant=returned)@k: the mean precision over the relevant items returned.

    It ignores the relevant items missed, and so favours a system that returns few items.
    relevant (n, depth) -> (n,), 0…1. Never undefined: 0 where nothing relevant was returned.
    Source: Baeza-Yates and Ribeiro-Neto 1999, "average precision at seen relevant documents".

    >>> average_precision_of_returned(np.array([[True, False, True]]), 3).round(4).tolist()
    [0.8333]
    """
    hits = np.zeros(len(relevant), dtype=np.int64)
    for column in range(min(k, relevant.shape[1])):
        hits += relevant[:, column]
    return ratio(precision_sum(relevant, k), hits, 0.0)
