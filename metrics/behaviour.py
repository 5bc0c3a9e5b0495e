"""User behaviour on a result list. An item counts as clicked if its gain is above 0.

Precision-recall curves, raw and interpolated, and the metrics that are read off them.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from .binary import first_rank, hits, r_precision
from .lists import Booleans, Floats, Integers, ratio


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


ELEVEN_LEVELS: Final = tuple(Fraction(tenth, 10) for tenth in range(11))


def curve_points(relevant: Booleans, known_relevant: int) -> list[tuple[float, float]]:
    """Points (recall, precision) of one list at the rank of each relevant item.

    relevant (depth,), known_relevant > 0 -> at most depth points, recall ascending; none if no item
    is relevant.

    >>> curve_points(np.array([True, False, True]), 4)
    [(0.25, 1.0), (0.5, 0.6666666666666666)]
    """
    ranks = np.flatnonzero(relevant) + 1
    return [(hits / known_relevant, hits / int(rank)) for hits, rank in enumerate(ranks, start=1)]


def interpolated_precision(
    relevant: Booleans, known_relevant: Integers, level: Fraction, k: int
) -> Floats:
    """IPrec@level: the highest precision at any of the first k ranks with recall >= level.

    Recall is compared in whole numbers: hits x denominator >= numerator x known_relevant.
    trec_eval compares rounded numbers, and so differs at some levels.
    relevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where the level is not reached. Source: trec_eval `iprec_at_recall`.

    >>> relevant, known = np.array([[False, True, True]]), np.array([2])
    >>> interpolated_precision(relevant, known, Fraction(1, 2), 3).round(4).tolist()
    [0.6667]
    """
    hits = np.zeros(len(relevant), dtype=np.int64)
    best = np.zeros(len(relevant))
    needed = level.numerator * known_relevant
    for column in range(min(k, relevant.shape[1])):
        hits += relevant[:, column]
        reached = hits * level.denominator >= needed
        best = np.maximum(best, np.where(reached, hits / (column + 1), 0.0))
    return best


def interpolated_curve(
    relevant: Booleans,
    known_relevant: Integers,
    levels: Sequence[Fraction] = ELEVEN_LEVELS,
) -> Floats:
    """Interpolated precision at several recall levels; the mean over lists is a system's curve.

    relevant (n, depth), known_relevant (n,) -> (n, levels), 0…1.
    Never undefined: 0 at levels that are not reached. Source: trec_eval `iprec_at_recall`.

    >>> curve = interpolated_curve(np.array([[True, False, True]]), np.array([2]))
    >>> curve.mean(axis=0).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.667, 0.667, 0.667, 0.667, 0.667]
    """
    depth = relevant.shape[1]
    return np.stack(
        [interpolated_precision(relevant, known_relevant, level, depth) for level in levels],
        axis=1,
    )


def eleven_point_average(relevant: Booleans, known_relevant: Integers, k: int) -> Floats:
    """AP(variant=11pt)@k: the mean of the interpolated precision at recall 0, 0.1, … 1.

    relevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 at levels that are not reached.
    Source: trec_eval `11pt_avg`, but recall compared in whole numbers.

    >>> eleven_point_average(np.array([[True, False]]), np.array([2]), 2).round(4).tolist()
    [0.5455]
    """
    total = np.zeros(len(relevant))
    for level in ELEVEN_LEVELS:
        total += interpolated_precision(relevant, known_relevant, level, k)
    return total / len(ELEVEN_LEVELS)


def break_even_point(relevant: Booleans, known_relevant: Integers) -> Floats:
    """BreakEven: the value at which precision equals recall. They do at rank R: it is R-Precision.

    relevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: van Rijsbergen 1979.

    >>> break_even_point(np.array([[True, False, True]]), np.array([2])).tolist()
    [0.5]
    """
    return r_precision(relevant, known_relevant)


def r_precision_difference(first: Floats, second: Floats) -> Floats:
    """Bars of the R-Precision histogram of two systems: above 0 where the first is better.

    first (n,), second (n,): R-Precision of the same queries in the same order -> (n,), -1…1.
    Source: Baeza-Yates and Ribeiro-Neto 1999.

    >>> r_precision_difference(np.array([0.5, 0.25]), np.array([0.25, 0.25])).tolist()
    [0.25, 0.0]
    """
    return first - second
