"""Kernels over binary relevance: precision, recall, R-Precision, success, share judged."""

import numpy as np

from .arithmetic import ratio
from .lists import Booleans, Floats, Integers


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
