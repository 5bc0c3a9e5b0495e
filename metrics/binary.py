"""Kernels over binary relevance: precision, recall, R-Precision, success, share judged.

Average precision: the mean of the precision at the ranks of the relevant items.

Binary preference: how often items judged not relevant are ranked above relevant ones.

Reciprocal rank: one divided by the rank of the first relevant item.
"""

import numpy as np
from numpy.typing import NDArray

from .lists import Booleans, Floats, Integers, ratio


def hits(relevant: Booleans, k: int) -> Integers:
    """Number of relevant items among the first k.

    relevant (n, depth) -> (n,), 0…k. Never undefined.

    >>> hits(np.array([[True, False, True]]), 2).tolist()
    [1]
    """
    columns = min(k, relevant.shape[1])
    # The narrowest integer type that fits adds fastest.
    counts = np.zeros(len(relevant), dtype=np.min_scalar_type(columns))
    for column in range(columns):
        counts += relevant[:, column].view(np.uint8)
    return counts.astype(np.int64)


def precision(relevant: Booleans, k: int) -> Floats:
    """P@k: relevant items among the first k, divided by k even if the list is shorter.

    relevant (n, depth) -> (n,), 0…1. Never undefined: 0 for an empty list.
    Source: trec_eval `P_k`.

    >>> precision(np.array([[True, False, True]]), 5).tolist()
    [0.4]
    """
    return hits(relevant, k) / k


def precision_of_shown(relevant: Booleans, lengths: Integers, k: int) -> Floats:
    """P(variant=shown)@k: relevant items among the first k, divided by the items shown there.

    A short list is not penalised. relevant (n, depth), lengths (n,) -> (n,), 0…1.
    Never undefined: 0 for an empty list. Source: TensorFlow Ranking `precision`; trec_eval `set_P`.

    >>> precision_of_shown(np.array([[True, False]]), np.array([2]), 5).tolist()
    [0.5]
    """
    return ratio(hits(relevant, k), np.minimum(lengths, k), 0.0)


def recall(relevant: Booleans, known_relevant: Integers, k: int) -> Floats:
    """R@k: relevant items among the first k, divided by all items known to be relevant.

    relevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: trec_eval `recall_k`.

    >>> recall(np.array([[True, False]]), np.array([4]), 2).tolist()
    [0.25]
    """
    return ratio(hits(relevant, k), known_relevant, 0.0)


def r_precision(relevant: Booleans, known_relevant: Integers) -> Floats:
    """Rprec: precision at rank R, the number of items known to be relevant.

    relevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: trec_eval `Rprec`.

    >>> r_precision(np.array([[True, False, True]]), np.array([2])).tolist()
    [0.5]
    """
    counts = np.zeros(len(relevant), dtype=np.int64)
    for column in range(relevant.shape[1]):
        counts += relevant[:, column] & (known_relevant > column)
    return ratio(counts, known_relevant, 0.0)


def success(relevant: Booleans, k: int) -> Floats:
    """Success@k: 1 if any of the first k items is relevant, else 0.

    relevant (n, depth) -> (n,), 0 or 1. Never undefined. Source: trec_eval `success_k`.

    >>> success(np.array([[False, True], [False, False]]), 2).tolist()
    [1.0, 0.0]
    """
    return (hits(relevant, k) > 0).astype(np.float64)


def judged_share(judged: Booleans, lengths: Integers, k: int) -> Floats:
    """Judged@k: share of the first k items shown that are judged.

    A negative grade is a judgement, too.
    judged (n, depth), lengths (n,) -> (n,), 0…1. Undefined (NaN) for an empty list.
    Source: ir_measures `Judged@k`.

    >>> judged_share(np.array([[True, False]]), np.array([2]), 10).tolist()
    [0.5]
    """
    return ratio(hits(judged, k), np.minimum(lengths, k), np.nan)


def roc_area(relevant: Booleans, lengths: Integers) -> Floats:
    """AUC: share of the pairs of a relevant and another item of the list in which the relevant one
    stands above, the area under the ROC curve of the list.

    relevant (n, depth), lengths (n,) -> (n,), 0…1; NaN without such a pair.
    Source: Hanley and McNeil 1982.

    >>> roc_area(np.array([[True, False, True, False]]), np.array([4])).tolist()
    [0.75]
    """
    others = (np.arange(relevant.shape[1]) < lengths[:, None]) & ~relevant
    above = np.cumsum(others, axis=1, dtype=np.int64)
    count = np.count_nonzero(others, axis=1)
    ordered = (relevant * (count[:, None] - above)).sum(axis=1)
    return ratio(ordered, np.count_nonzero(relevant, axis=1) * count, np.nan)


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


def bpref(
    relevant: Booleans,
    nonrelevant: Booleans,
    known_relevant: Integers,
    known_nonrelevant: Integers,
) -> Floats:
    """Bpref: 1/R x sum over the relevant items returned of 1 - min(n, R) / min(N, R).

    n is the number of items judged not relevant that are ranked above the item; R and N are the
    numbers of relevant and not relevant items judged for the query. Unjudged items are ignored; a
    relevant item with n = 0 adds 1. A negative grade is judged not relevant; trec_eval treats it as
    unjudged.
    relevant, nonrelevant (n, depth), known_relevant, known_nonrelevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: trec_eval 8 and later, `bpref`.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref(shown, ~shown, np.array([6]), np.array([4])).tolist()
    [0.5]
    """
    divisor = np.minimum(known_nonrelevant, known_relevant)
    return _preference(relevant, nonrelevant, known_relevant, known_relevant, divisor)


def bpref_original(relevant: Booleans, nonrelevant: Booleans, known_relevant: Integers) -> Floats:
    """Bpref(variant=original): 1/R x sum of 1 - n/R, n is at most R.

    relevant, nonrelevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: Buckley and Voorhees 2004.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref_original(shown, ~shown, np.array([6])).round(4).tolist()
    [0.5556]
    """
    return _preference(relevant, nonrelevant, known_relevant, known_relevant, known_relevant)


def bpref_10(relevant: Booleans, nonrelevant: Booleans, known_relevant: Integers) -> Floats:
    """Bpref(variant=10): the original with 10 + R in place of R, for queries with few
    relevant items.

    relevant, nonrelevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: Buckley and Voorhees 2004, `bpref-10`.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref_10(shown, ~shown, np.array([6])).tolist()
    [0.625]
    """
    wider = known_relevant + 10
    return _preference(relevant, nonrelevant, known_relevant, wider, wider)


def _preference(
    relevant: Booleans,
    nonrelevant: Booleans,
    known_relevant: Integers,
    cap: Integers,
    divisor: Integers,
) -> Floats:
    """1/R x sum over the relevant items of 1 - min(n, cap) / divisor; a term with n = 0 is 1."""
    above = np.zeros(len(relevant), dtype=np.int64)
    total = np.zeros(len(relevant))
    for column in range(relevant.shape[1]):
        penalty = ratio(np.minimum(above, cap), divisor, 0.0)
        total += relevant[:, column] * (1.0 - penalty)
        above += nonrelevant[:, column]
    return ratio(total, known_relevant, 0.0)


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
