"""Expected reciprocal rank and rank-biased precision: models of how far a user reads."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .lists import Booleans, Floats

Stop: TypeAlias = Callable[[Floats], Floats]
Discount: TypeAlias = Callable[[int], float]


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
