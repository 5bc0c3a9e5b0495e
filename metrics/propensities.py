"""Position bias: the probability that users examine a rank, and metrics weighted by its inverse.

The position-based model: an item gets feedback if its rank is examined, with a probability that
depends on the rank alone, and if the item deserves it. Source: Joachims, Swaminathan and Schnabel
2017. Inverse propensity scoring (IPS) makes DCG and precision unbiased under this model, up to
clipping. nDCG with such weights would stay biased, since its ideal depends on which items were
examined: there is none.

What is claimed of a difference between two arms is what `inference.py` says of any metric: the
estimand is the mean of the weighted metric, in the same filtration. That it is also the difference
in deserved gain holds only if the table is that of the surface in both arms: the table is taken as
known, and its errors are in no interval. Weights make values heavy-tailed, so normality takes more
traffic; `clip` bounds them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .graded import Discount, Gain, exponential_gain, log2_discount
from .lists import Booleans, Floats, Integers, ratio

CLIP: Final = 10.0
"""Highest weight of an item. Without it, the few items with feedback at rarely examined ranks would
dominate the variance; the price is a bias towards the top ranks."""


@dataclass(frozen=True)
class Propensities:
    """Examination probabilities by rank of one surface: a kind of page on a kind of device.

    >>> Propensities("web", "2026-11", (1.0, 0.5, 0.05)).weights(4).tolist()
    [1.0, 2.0, 10.0, 10.0]
    """

    surface: str
    version: str
    """Names this estimate: values computed with two versions are not comparable."""
    values: tuple[float, ...]
    """By rank, above 0 and at most 1; the last is that of all further ranks. Only ratios matter."""

    def __post_init__(self) -> None:
        invalid = [value for value in self.values if not 0.0 < value <= 1.0]
        if invalid or not self.values:
            shown = f"{invalid[0]}" if invalid else "no value"
            raise ValueError(
                f"propensities of {self.surface!r}, version {self.version!r}: {shown}, "
                "must be above 0 and at most 1, one for each rank"
            )

    def weights(self, depth: int, clip: float = CLIP) -> Floats:
        """(depth,) weight of an item at each rank: 1 / propensity, at most `clip`."""
        return np.minimum(self.inverse(depth), clip)

    def inverse(self, depth: int) -> Floats:
        """(depth,) 1 / propensity, not clipped, relative to the first rank."""
        ranks = np.minimum(np.arange(depth), len(self.values) - 1)
        return self.values[0] / np.array(self.values)[ranks]


@dataclass(frozen=True)
class WeightSums:
    """Sums of weights over the items with gain; those of several tables can be added."""

    items: int = 0
    """Items with gain."""
    clipped: int = 0
    """Items whose weight was clipped."""
    weights: float = 0.0
    squares: float = 0.0
    """Sum of the squared weights."""

    def __add__(self, other: "WeightSums") -> "WeightSums":
        """The sums over the items of both."""
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

    gains (n, depth), weights (w,) for all lists or (n, w) for each, w >= min(k, depth) -> (n,),
    from 0 to clip x the DCG. NaN where a weight is NaN.
    Source: Agarwal, Takatsu, Zaitsev and Joachims 2019.

    >>> ips_dcg(np.array([[1.0, 0.0, 1.0]]), 3, np.array([1.0, 2.0, 4.0])).tolist()
    [3.0]
    """
    total = np.zeros(len(gains))
    for column in range(min(k, gains.shape[1])):
        total += gain(gains[:, column]) * (weights[..., column] / discount(column + 1))
    return total


def weighted_hits(relevant: Booleans, k: int, weights: Floats) -> Floats:
    """Sum of the weights of the relevant items among the first k.

    relevant (n, depth), weights (w,) for all lists or (n, w) for each, w >= min(k, depth) -> (n,),
    from 0 to k x clip. NaN where a weight is NaN.

    >>> weighted_hits(np.array([[True, False, True]]), 3, np.array([1.0, 2.0, 5.0])).tolist()
    [6.0]
    """
    total = np.zeros(len(relevant))
    for column in range(min(k, relevant.shape[1])):
        total += relevant[:, column] * weights[..., column]
    return total


def ips_precision(relevant: Booleans, k: int, weights: Floats) -> Floats:
    """IPS-P@k: sum of the weights of the relevant items among the first k, divided by k.

    relevant (n, depth), weights (w,) for all lists or (n, w) for each, w >= min(k, depth) -> (n,),
    from 0 to clip. NaN where a weight is NaN. Source: Joachims, Swaminathan and Schnabel 2017.

    >>> ips_precision(np.array([[True, False, True]]), 3, np.array([1.0, 2.0, 5.0])).tolist()
    [2.0]
    """
    return weighted_hits(relevant, k, weights) / k


def ips_precision_of_shown(relevant: Booleans, lengths: Integers, weights: Floats) -> Floats:
    """IPS-P: sum of the weights of the relevant items, divided by the items shown.

    relevant (n, depth), lengths (n,), weights (w,) for all lists or (n, w) for each, w >= depth ->
    (n,), from 0 to clip; 0 for an empty list. NaN where a weight is NaN.
    Source: as `ips_precision`.

    >>> shown = np.array([[True, False, False]])
    >>> ips_precision_of_shown(shown, np.array([2]), np.array([1.0, 2.0, 5.0])).tolist()
    [0.5]
    """
    return ratio(weighted_hits(relevant, relevant.shape[1], weights), lengths, 0.0)


def weight_sums(by_rank: Integers, table: Propensities, clip: float = CLIP) -> WeightSums:
    """Sums of weights of one surface, by the number of items with gain at each rank, (depth,).

    Integer counts by rank are enough to store: they add up exactly, and fit any table.

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
    """Number of equally weighted items with the same variance: (sum w)^2 / sum w^2.

    0…items; 0 without an item with gain.
    Source: Kish 1965.

    >>> round(effective_sample_size(WeightSums(3, 1, 12.0, 102.0)), 6)
    1.411765
    """
    return sums.weights**2 / sums.squares if sums.squares else 0.0


def clipped_share(sums: WeightSums) -> float:
    """Share of the items with gain whose weight was clipped.

    Above a few percent, the metrics are biased towards the top ranks. 0…1; NaN without an item with
    gain.

    >>> round(clipped_share(WeightSums(3, 1, 12.0, 102.0)), 6)
    0.333333
    """
    return sums.clipped / sums.items if sums.items else float("nan")
