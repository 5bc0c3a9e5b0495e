"""Cumulated gain: plain, discounted and normalised.

Two functions shape it: the gain turns grades into worth (the grade itself, or 2^g - 1), and the
discount says what divides the worth at a rank.
"""

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arithmetic import ratio
from .lists import Floats

Gain: TypeAlias = Callable[[Floats], Floats]
Discount: TypeAlias = Callable[[int], float]

_MOST_TALLIES: Final = 8192
"""Different counts of grades that are worth looking up instead of sorting every list."""


def linear_gain(gains: Floats) -> Floats:
    """The grade itself. Any shape -> the same shape.

    >>> linear_gain(np.array([0.0, 3.0])).tolist()
    [0.0, 3.0]
    """
    return gains


def exponential_gain(gains: Floats) -> Floats:
    """2^g - 1. Any shape -> the same shape. Source: Burges et al. 2005.

    >>> exponential_gain(np.array([0.0, 1.0, 3.0])).tolist()
    [0.0, 1.0, 7.0]
    """
    worth: Floats = np.exp2(gains)
    worth -= 1.0
    return worth


def not_below_zero(gain: Gain) -> Gain:
    """The same gain, with a negative grade worth as much as a grade of 0.

    >>> not_below_zero(linear_gain)(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return lambda gains: gain(np.maximum(gains, 0.0))


def no_discount(rank: int) -> float:
    """Every rank counts alike: CG.

    >>> no_discount(3)
    1.0
    """
    return 1.0


def log2_discount(rank: int) -> float:
    """What divides the worth at a rank: log2(rank + 1).

    >>> log2_discount(3)
    2.0
    """
    return math.log2(rank + 1)


def base_discount(base: float) -> Discount:
    """The discount that starts at rank `base`: 1 below it, log_base(rank) from it on.

    Source: Järvelin and Kekäläinen 2002, where base 2 leaves ranks 1 and 2 undiscounted.

    >>> [round(base_discount(2)(rank), 3) for rank in (1, 2, 4)]
    [1.0, 1.0, 2.0]
    """

    def discount(rank: int) -> float:
        return 1.0 if rank < base else math.log(rank) / math.log(base)

    return discount


def dcg(
    gains: Floats, k: int, gain: Gain = exponential_gain, discount: Discount = log2_discount
) -> Floats:
    """DCG@k: sum over the first k ranks i of gain / discount(i); CG@k without a discount.

    gains (n, depth) -> (n,). Never undefined.
    Source: Järvelin and Kekäläinen 2002; Burges et al. 2005 for 2^g - 1 and log2(i + 1).

    >>> shown = np.array([[3.0, 2.0, 3.0, 0.0, 1.0, 2.0]])
    >>> dcg(shown, 6, linear_gain).round(9).tolist()
    [6.861126689]
    """
    total = np.zeros(len(gains))
    part = np.empty(len(gains))
    for column in range(min(k, gains.shape[1])):
        total += np.multiply(gain(gains[:, column]), 1.0 / discount(column + 1), out=part)
    return total


def dcg_vector(
    gains: Floats, gain: Gain = exponential_gain, discount: Discount = log2_discount
) -> Floats:
    """DCG at every rank.

    gains (n, depth) -> (n, depth). Never undefined. Source: Järvelin and Kekäläinen 2002.

    >>> dcg_vector(np.array([[3.0, 2.0, 3.0]]), linear_gain, no_discount).tolist()
    [[3.0, 5.0, 8.0]]
    """
    weights = [1.0 / discount(rank) for rank in range(1, gains.shape[1] + 1)]
    vector: Floats = np.cumsum(gain(gains) * np.array(weights), axis=1)
    return vector


def descending(gains: Floats) -> Floats:
    """(n, depth) -> (n, depth), each row from the greatest to the least, laid out by column.

    >>> descending(np.array([[1.0, 3.0, 2.0]])).tolist()
    [[3.0, 2.0, 1.0]]
    """
    return np.asfortranarray(np.sort(gains, axis=1)[:, ::-1])


def best_dcg(
    gains: Floats, k: int, gain: Gain = exponential_gain, discount: Discount = log2_discount
) -> Floats:
    """DCG@k of each list's best order.

    Lists with equally many items of every grade share their best order: where grades are few and
    whole it is worked out once for each such tally. Equal to the result of sorting to the last bit.
    gains (n, depth) -> (n,). Never undefined.

    >>> best_dcg(np.array([[0.0, 1.0, 3.0]]), 2).round(4).tolist()
    [7.6309]
    """
    tallies = _tallies(gains)
    if tallies is None:
        return dcg(descending(gains), k, gain, discount)
    base = gains.shape[1] + 1
    key = np.zeros(len(gains), dtype=np.uint16)
    for place, tally in enumerate(tallies):
        key += tally * np.uint16(base**place)
    index = key.astype(np.intp)
    seen = np.flatnonzero(np.bincount(index))
    values = np.zeros(int(index.max(initial=0)) + 1)
    values[seen] = dcg(_orders(seen, base, len(tallies)), k, gain, discount)
    return values[index]


def _tallies(gains: Floats) -> list[NDArray[np.unsignedinteger]] | None:
    """For each grade 1, 2 … how many items of each list, (n,), hold it or a higher one.

    None where a grade is negative or not whole, or grades or ranks are too many to look tallies up.
    """
    depth = gains.shape[1]
    # Bytes are compared several times as fast as the numbers they stand for.
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


def _orders(keys: NDArray[np.intp], base: int, grades: int) -> Floats:
    """The grades from the greatest down, (m, base - 1), for each key of tallies, (m,)."""
    ranks = np.arange(base - 1)
    orders = np.zeros((len(keys), len(ranks)), order="F")
    for place in range(grades):
        orders += (keys // base**place % base)[:, None] > ranks
    return orders


def ndcg(actual: Floats, ideal: Floats) -> Floats:
    """nDCG@k: the DCG@k of a list divided by that of the best order; nCG@k of two CG@k.

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
    """nDCG at every rank of the list; nCG without a discount.

    gains (n, depth) as shown, pool (n, width) what there was to show -> (n, depth), 0…1.
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
