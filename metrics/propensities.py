"""Position bias: how likely users look at a rank, and sums that weigh feedback by its inverse.

The position-based model: feedback needs a look at the rank, with a probability that depends on the
rank alone, and then an item that deserves it. Source: Joachims, Swaminathan and Schnabel 2017.
IPS-DCG and IPS-precision are unbiased under it. nDCG over inverse weights is not, since its ideal
depends on which items were looked at: the raw one stands beside them instead.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .arithmetic import ratio
from .dcg import Discount, Gain, exponential_gain, log2_discount
from .lists import Booleans, Floats, Integers

CLIP: Final = 10.0
"""Largest weight of a reaction: rare looks at low ranks would else rule the variance."""


@dataclass(frozen=True)
class Propensities:
    """How likely the ranks of one surface (a page of one kind on devices of one kind) are seen.

    >>> Propensities("web", "2026-11", (1.0, 0.5, 0.05)).weights(4).tolist()
    [1.0, 2.0, 10.0, 10.0]
    """

    surface: str
    version: str
    """Which estimate it is: numbers under two versions are not comparable."""
    values: tuple[float, ...]
    """By rank, above 0 and at most 1; only their ratios matter. The last holds for all below."""

    def __post_init__(self) -> None:
        wrong = [value for value in self.values if not 0.0 < value <= 1.0]
        if wrong or not self.values:
            what = f"{wrong[0]}" if wrong else "no value"
            raise ValueError(
                f"propensities of {self.surface!r}, version {self.version!r}: {what}, "
                "must be above 0 and at most 1, one a rank"
            )

    def weights(self, depth: int, clip: float = CLIP) -> Floats:
        """(depth,) what a reaction at each rank counts: 1 / propensity, at most `clip`."""
        return np.minimum(self.inverse(depth), clip)

    def inverse(self, depth: int) -> Floats:
        """(depth,) 1 / propensity without a limit, the first rank's being 1."""
        ranks = np.minimum(np.arange(depth), len(self.values) - 1)
        return self.values[0] / np.array(self.values)[ranks]


@dataclass(frozen=True)
class WeightSums:
    """Sums over the items with gain, of one table or of several: they add up."""

    items: int = 0
    clipped: int = 0
    """Items whose weight was cut."""
    weights: float = 0.0
    squares: float = 0.0

    def __add__(self, other: "WeightSums") -> "WeightSums":
        """Both together."""
        return WeightSums(
            self.items + other.items,
            self.clipped + other.clipped,
            self.weights + other.weights,
            self.squares + other.squares,
        )


def ips_dcg(
    gains: Floats,
    k: int,
    weights: Floats,
    gain: Gain = exponential_gain,
    discount: Discount = log2_discount,
) -> Floats:
    """IPS-DCG@k: sum over the first k ranks i of weight_i x gain / discount(i).

    gains (n, depth), weights (…, at least min(k, depth)) of all lists or of each one -> (n,), from
    0 to clip x the DCG. NaN where a weight is. Source: Agarwal, Takatsu, Zaitsev and Joachims 2019.

    >>> ips_dcg(np.array([[1.0, 0.0, 1.0]]), 3, np.array([1.0, 2.0, 4.0])).tolist()
    [3.0]
    """
    total = np.zeros(len(gains))
    for column in range(min(k, gains.shape[1])):
        total += gain(gains[:, column]) * (weights[..., column] / discount(column + 1))
    return total


def weighted_hits(relevant: Booleans, k: int, weights: Floats) -> Floats:
    """Weights of the relevant items among the first k.

    relevant (n, depth), weights (…, at least min(k, depth)) of all lists or of each one -> (n,),
    from 0 to k x clip. NaN where a weight is.

    >>> weighted_hits(np.array([[True, False, True]]), 3, np.array([1.0, 2.0, 5.0])).tolist()
    [6.0]
    """
    total = np.zeros(len(relevant))
    for column in range(min(k, relevant.shape[1])):
        total += relevant[:, column] * weights[..., column]
    return total


def ips_precision(relevant: Booleans, k: int, weights: Floats) -> Floats:
    """IPS-P@k: weights of the relevant items among the first k, divided by k.

    relevant (n, depth), weights (…, at least min(k, depth)) of all lists or of each one -> (n,),
    from 0 to clip. NaN where a weight is. Source: Joachims, Swaminathan and Schnabel 2017.

    >>> ips_precision(np.array([[True, False, True]]), 3, np.array([1.0, 2.0, 5.0])).tolist()
    [2.0]
    """
    return weighted_hits(relevant, k, weights) / k


def ips_precision_of_shown(relevant: Booleans, lengths: Integers, weights: Floats) -> Floats:
    """IPS-P: weights of the relevant items, divided by the items shown.

    relevant (n, depth), lengths (n,), weights (…, at least depth) of all lists or of each one ->
    (n,), from 0 to clip; 0 for an empty list. NaN where a weight is. Source: as `ips_precision`.

    >>> shown = np.array([[True, False, False]])
    >>> ips_precision_of_shown(shown, np.array([2]), np.array([1.0, 2.0, 5.0])).tolist()
    [0.5]
    """
    return ratio(weighted_hits(relevant, relevant.shape[1], weights), lengths, 0.0)


def weight_sums(by_rank: Integers, table: Propensities, clip: float = CLIP) -> WeightSums:
    """The sums of a surface, from how many items had gain at each rank: (depth,) counts.

    Counts by rank are all that need be kept: they add up exactly, and hold for any table.

    >>> weight_sums(np.array([2, 0, 1]), Propensities("web", "1", (1.0, 0.5, 0.05)))
    WeightSums(items=3, clipped=1, weights=12.0, squares=102.0)
    """
    weights = table.weights(len(by_rank), clip)
    return WeightSums(
        items=int(by_rank.sum()),
        clipped=int(by_rank[table.inverse(len(by_rank)) > clip].sum()),
        weights=float((by_rank * weights).sum()),
        squares=float((by_rank * weights**2).sum()),
    )


def effective_sample_size(sums: WeightSums) -> float:
    """Items of equal weight that would tell as much: (sum w)^2 / sum w^2, 0…items; 0 without any.

    Source: Kish 1965.

    >>> round(effective_sample_size(WeightSums(3, 1, 12.0, 102.0)), 6)
    1.411765
    """
    return sums.weights**2 / sums.squares if sums.squares else 0.0


def clipped_share(sums: WeightSums) -> float:
    """Share of the items whose weight was cut: above a few percent the numbers lean to the top.

    0…1; NaN without any item with gain.

    >>> round(clipped_share(WeightSums(3, 1, 12.0, 102.0)), 6)
    0.333333
    """
    return sums.clipped / sums.items if sums.items else float("nan")
