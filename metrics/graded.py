"""Cumulated gain: plain, discounted and normalised.

Two functions define it: the gain function of a grade (the grade itself, or 2^g - 1), and the
discount, by which the gain at a rank is divided.

Expected reciprocal rank and rank-biased precision: models of how far a user reads.

Gains of subtopics, which shrink with each item that was relevant to the same one.
"""

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .lists import Booleans, Floats, ratio

Gain: TypeAlias = Callable[[Floats], Floats]
Discount: TypeAlias = Callable[[int], float]

_MOST_TALLIES: Final = 8192
"""Up to so many possible tallies, a table by tally is used instead of sorting every list."""


def linear_gain(gains: Floats) -> Floats:
    """The gain is the grade itself. Any shape -> the same shape. Source: Järvelin, Kekäläinen 2002.

    >>> linear_gain(np.array([0.0, 3.0])).tolist()
    [0.0, 3.0]
    """
    return gains


def exponential_gain(gains: Floats) -> Floats:
    """The gain is 2^g - 1. Any shape -> the same shape. Source: Burges et al. 2005.

    >>> exponential_gain(np.array([0.0, 1.0, 3.0])).tolist()
    [0.0, 1.0, 7.0]
    """
    values: Floats = np.exp2(gains)
    values -= 1.0
    return values


def not_below_zero(gain: Gain) -> Gain:
    """The same gain function, with negative grades counted as grade 0.

    >>> not_below_zero(linear_gain)(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return lambda gains: gain(np.maximum(gains, 0.0))


def no_discount(rank: int) -> float:
    """Divide by 1 at every rank: the discount of CG.

    >>> no_discount(3)
    1.0
    """
    return 1.0


def log2_discount(rank: int) -> float:
    """Divide by log2(rank + 1). rank >= 1 -> at least 1. Source: Burges et al. 2005.

    >>> log2_discount(3)
    2.0
    """
    return math.log2(rank + 1)


def base_discount(base: float) -> Discount:
    """The discount that begins at rank `base` > 1: 1 before it, log_base(rank) from it on.

    Source: Järvelin and Kekäläinen 2002; with base 2, ranks 1 and 2 are not discounted.

    >>> [round(base_discount(2)(rank), 3) for rank in (1, 2, 4)]
    [1.0, 1.0, 2.0]
    """

    def discount(rank: int) -> float:
        return 1.0 if rank < base else math.log(rank) / math.log(base)

    return discount


def dcg(
    gains: Floats, k: int, gain: Gain = exponential_gain, discount: Discount = log2_discount
) -> Floats:
    """DCG@k: sum over the first k ranks i of gain / discount(i). With `no_discount` it is CG@k.

    gains (n, depth) -> (n,), >= 0 for gains >= 0. Never undefined.
    Source: Järvelin and Kekäläinen 2002; Burges et al. 2005 for 2^g - 1 and log2(i + 1).

    >>> shown = np.array([[3.0, 2.0, 3.0, 0.0, 1.0, 2.0]])
    >>> dcg(shown, 6, linear_gain).round(9).tolist()
    [6.861126689]
    """
    total = np.zeros(len(gains))
    part = np.empty(len(gains))
    # Rank by rank, not as a matrix product: the order of its additions depends on the shape, and
    # the same list would differ in its last bits from batch to batch.
    for column in range(min(k, gains.shape[1])):
        total += np.multiply(gain(gains[:, column]), 1.0 / discount(column + 1), out=part)
    return total


def dcg_vector(
    gains: Floats, gain: Gain = exponential_gain, discount: Discount = log2_discount
) -> Floats:
    """DCG at every rank.

    gains (n, depth) -> (n, depth), >= 0 for gains >= 0. Never undefined.
    Source: Järvelin and Kekäläinen 2002.

    >>> dcg_vector(np.array([[3.0, 2.0, 3.0]]), linear_gain, no_discount).tolist()
    [[3.0, 5.0, 8.0]]
    """
    weights = [1.0 / discount(rank) for rank in range(1, gains.shape[1] + 1)]
    vector: Floats = np.cumsum(gain(gains) * np.array(weights), axis=1)
    return vector


def descending(gains: Floats) -> Floats:
    """Sort each row in descending order: (n, depth) -> (n, depth), stored by column.

    >>> descending(np.array([[1.0, 3.0, 2.0]])).tolist()
    [[3.0, 2.0, 1.0]]
    """
    return np.asfortranarray(np.sort(gains, axis=1)[:, ::-1])


def best_dcg(
    gains: Floats, k: int, gain: Gain = exponential_gain, discount: Discount = log2_discount
) -> Floats:
    """DCG@k of each list's ideal order, that by descending grade.

    gains (n, depth) -> (n,). Never undefined. Source: Järvelin and Kekäläinen 2002.

    >>> best_dcg(np.array([[0.0, 1.0, 3.0]]), 2).round(4).tolist()
    [7.6309]
    """
    # Lists with the same number of items of each grade have the same ideal. Computed once for each
    # such tally, a million lists take a third of the time of sorting each, with the same bits.
    tallies = _tallies(gains)
    if tallies is None:
        return dcg(descending(gains), k, gain, discount)
    base = gains.shape[1] + 1
    key = np.zeros(len(gains), dtype=np.uint16)
    for digit, tally in enumerate(tallies):
        key += tally * np.uint16(base**digit)
    index = key.astype(np.intp)
    present = np.flatnonzero(np.bincount(index))
    values = np.zeros(int(index.max(initial=0)) + 1)
    values[present] = dcg(_ideal_orders(present, base, len(tallies)), k, gain, discount)
    return values[index]


def _tallies(gains: Floats) -> list[NDArray[np.unsignedinteger]] | None:
    """For each grade g = 1, 2 …: the number of items of each list with a grade >= g, (n,).

    None if a grade is negative or fractional, or if there are too many possible tallies.
    """
    depth = gains.shape[1]
    # Bytes are compared several times as fast as float64.
    with np.errstate(invalid="ignore"):
        codes = gains.T.astype(np.uint8)
    if (codes != gains.T).any():
        return None
    highest = int(codes.max(initial=0))
    if highest * math.log(depth + 1) > math.log(_MOST_TALLIES):
        return None
    narrowest = np.min_scalar_type(depth)
    return [
        np.add.reduce((codes >= grade).view(np.uint8), axis=0, dtype=narrowest)
        for grade in range(1, highest + 1)
    ]


def _ideal_orders(keys: NDArray[np.intp], base: int, grades: int) -> Floats:
    """Grades in descending order, (m, base - 1), of each key (m,).

    Digit i of a key, in base `base`, is the number of items with a grade above i.
    """
    ranks = np.arange(base - 1)
    orders = np.zeros((len(keys), len(ranks)), order="F")
    for digit in range(grades):
        orders += (keys // base**digit % base)[:, None] > ranks
    return orders


def ndcg(actual: Floats, ideal: Floats) -> Floats:
    """nDCG@k: the DCG@k of a list divided by that of the ideal order; of CG@k it is nCG@k.

    actual (n,), ideal (n,) -> (n,), 0…1. Undefined (NaN) where the ideal is 0.
    Source: Järvelin and Kekäläinen 2002; trec_eval `ndcg_cut_k`.

    >>> shown = np.array([[0.0, 1.0]])
    >>> ndcg(dcg(shown, 2), best_dcg(shown, 2)).round(4).tolist()
    [0.6309]
    """
    return ratio(actual, ideal, np.nan)


def ndcg_vector(
    gains: Floats,
    pool: Floats,
    gain: Gain = exponential_gain,
    discount: Discount = log2_discount,
) -> Floats:
    """nDCG at every rank of the list; with `no_discount` it is nCG.

    gains (n, depth) as shown, pool (n, width) grades of all items of the query ->
    (n, depth), 0…1.
    Undefined (NaN) where the ideal is 0. Source: Järvelin and Kekäläinen 2002.

    >>> shown = np.array([[1.0, 3.0]])
    >>> ndcg_vector(shown, shown, linear_gain, no_discount).round(3).tolist()
    [[0.333, 1.0]]
    """
    padded = np.zeros((len(pool), max(gains.shape[1], pool.shape[1])))
    padded[:, : pool.shape[1]] = descending(pool)
    ideal = dcg_vector(padded, gain, discount)[:, : gains.shape[1]]
    vector = np.full(gains.shape, np.nan)
    np.divide(dcg_vector(gains, gain, discount), ideal, out=vector, where=ideal > 0)
    return vector


Stop: TypeAlias = Callable[[Floats], Floats]


def stop_probability(max_grade: float) -> Stop:
    """R(g) = (2^g - 1) / 2^max_grade: the probability that an item of grade g satisfies the user.

    Grades of any shape, 0…max_grade -> the same shape, 0 to below 1. Source: Chapelle et al. 2009.

    >>> stop_probability(2.0)(np.array([0.0, 1.0, 2.0])).tolist()
    [0.0, 0.25, 0.75]
    """
    scale = 2.0**-max_grade

    def stop(gains: Floats) -> Floats:
        probability: Floats = np.exp2(gains)
        probability -= 1.0
        probability *= scale
        return probability

    return stop


def reciprocal(rank: int) -> float:
    """The discount of ERR: 1 / rank, for ranks from 1.

    >>> reciprocal(4)
    0.25
    """
    return 1.0 / rank


def cascade(gains: Floats, k: int, stop: Stop, discount: Discount = reciprocal) -> Floats:
    """Sum over the first k ranks r of discount(r) x probability that the user stops at r.

    `stop` maps grades to the probability of stopping at an item once it is reached. `discount`
    must be 1 at rank 1 and decrease towards 0.
    gains (n, depth) -> (n,), 0…1. Never undefined. Source: Chapelle et al. 2009, section 4.

    >>> cascade(np.array([[1.0, 1.0]]), 2, lambda gains: gains / 2).tolist()
    [0.625]
    """
    total = np.zeros(len(gains))
    reached = np.ones(len(gains))
    for column in range(min(k, gains.shape[1])):
        stopping = stop(gains[:, column]) * reached
        reached -= stopping
        stopping *= discount(column + 1)
        total += stopping
    return total


def err(gains: Floats, k: int, max_grade: float, discount: Discount = reciprocal) -> Floats:
    """ERR@k: the cascade with R(g) for a constant highest grade.

    `max_grade` is the highest grade of the scale, never that of the list: otherwise a poor list
    would score like a good one.
    gains (n, depth), 0…max_grade -> (n,), 0 to below 1. Never undefined: 0 if all grades are 0.
    Source: Chapelle et al. 2009; gdeval `err@k` (max_grade 4).

    >>> err(np.array([[0.0, 1.0]]), 2, 1.0).tolist()
    [0.25]
    """
    return cascade(gains, k, stop_probability(max_grade), discount)


def rank_biased_precision(relevant: Booleans, k: int, persistence: float) -> Floats:
    """RBP(p)@k: (1 - p) x sum over the relevant ranks i of p^(i - 1).

    relevant (n, depth), 0 < persistence < 1 -> (n,), 0 to below 1. Never undefined: 0 where
    nothing is relevant. Source: Moffat and Zobel 2008.

    >>> rank_biased_precision(np.array([[True, False, True]]), 3, 0.5).tolist()
    [0.625]
    """
    total = np.zeros(len(relevant))
    for column in range(min(k, relevant.shape[1])):
        total += relevant[:, column] * ((1.0 - persistence) * persistence**column)
    return total


def rank_biased_residual(judged: Booleans, k: int, persistence: float) -> Floats:
    """RBPResidual(p)@k: what RBP would gain if all items were relevant that are not judged, or
    follow rank k or the end of the list.

    judged (n, depth), 0 < persistence < 1 -> (n,), 0…1. Never undefined: 1 for an empty list.
    Source: Moffat and Zobel 2008.

    >>> rank_biased_residual(np.array([[True, False, True]]), 3, 0.5).tolist()
    [0.375]
    """
    return 1.0 - rank_biased_precision(judged, k, persistence)


def novel_gains(relevant: Booleans, k: int, alpha: float) -> Floats:
    """The gain of each of the first k ranks: for each subtopic that its item is relevant to,
    (1 - alpha)^n, where n items before it are relevant to the same.

    relevant (n, depth, subtopics), 0 <= alpha <= 1 -> (n, at most k). Source: Clarke et al. 2008.

    >>> novel_gains(np.array([[[True, True], [True, False]]]), 2, 0.5).tolist()
    [[2.0, 0.5]]
    """
    left = np.ones((len(relevant), relevant.shape[2]))
    gains = np.zeros((len(relevant), min(k, relevant.shape[1])))
    for column in range(gains.shape[1]):
        gains[:, column] = _worth(relevant[:, column, np.newaxis], left)[:, 0]
        left *= np.where(relevant[:, column], 1.0 - alpha, 1.0)
    return gains


def best_novel_gains(relevant: Booleans, k: int, alpha: float) -> Floats:
    """The same in the order that takes at each rank the item of the highest gain; of equal ones the
    first. An order that gains more may exist: to find the best one is NP-complete.

    relevant (n, width, subtopics) -> (n, at most k). Source: Clarke et al. 2008; ndeval.

    >>> best_novel_gains(np.array([[[True, False], [True, True]]]), 2, 0.5).tolist()
    [[2.0, 0.5]]
    """
    left, lists = np.ones((len(relevant), relevant.shape[2])), np.arange(len(relevant))
    is_used = np.zeros(relevant.shape[:2], np.bool_)
    gains = np.zeros((len(relevant), min(k, relevant.shape[1])))
    for column in range(gains.shape[1]):
        worth = np.where(is_used, -1.0, _worth(relevant, left))
        best = worth.argmax(axis=1)
        gains[:, column] = worth[lists, best]
        left *= np.where(relevant[lists, best], 1.0 - alpha, 1.0)
        is_used[lists, best] = True
    return gains


def _worth(relevant: Booleans, left: Floats) -> Floats:
    """(n, items): the sum over the subtopics of each item of what is left of them, one by one, so
    that more subtopics of other lists change no bit."""
    worth = np.zeros(relevant.shape[:2])
    for subtopic in range(relevant.shape[2]):
        worth += relevant[:, :, subtopic] * left[:, subtopic, np.newaxis]
    return worth
