"""Entry point of the library: metrics of Python lists, dictionaries and numpy arrays.

Averages of a metric over lists: macro and geometric. Micro: see `Contingency.pooled`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from .catalog import parse
from .lists import Floats, Grades, Lists

GEOMETRIC_FLOOR: Final = 1e-5
"""Smaller values count as this in a geometric mean (as in trec_eval): one 0 would make it 0."""


@dataclass(frozen=True)
class Mean:
    """A mean over lists, and the number of lists in it."""

    value: float
    """NaN if no list entered the mean."""
    scored: int
    """Number of lists in the mean."""
    lists: int
    """Number of all lists: greater than `scored` if undefined values were left out."""


def macro(values: Floats, undefined: Literal["skip", "zero"] = "skip") -> Mean:
    """The arithmetic mean over lists. Undefined values are left out, or count as 0.

    values (n,), NaN where undefined. The mean is NaN if no value is left.

    >>> macro(np.array([1.0, 0.5, np.nan, np.nan]))
    Mean(value=0.75, scored=2, lists=4)
    >>> macro(np.array([1.0, 0.5, np.nan, np.nan]), undefined="zero")
    Mean(value=0.375, scored=4, lists=4)
    """
    defined = _defined(values, undefined)
    value = float(defined.sum() / len(defined)) if len(defined) else float("nan")
    return Mean(value, len(defined), len(values))


def geometric(
    values: Floats,
    undefined: Literal["skip", "zero"] = "skip",
    floor: float = GEOMETRIC_FLOOR,
) -> Mean:
    """The geometric mean over lists: exp of the mean of ln(max(value, floor)).

    Of AP it is GMAP. values (n,), >= 0, NaN where undefined. The mean is NaN if no value is left.
    Source: trec_eval `gm_map`.

    >>> round(geometric(np.array([0.25, 1.0])).value, 6)
    0.5
    """
    defined = np.log(np.maximum(_defined(values, undefined), floor))
    value = float(np.exp(defined.sum() / len(defined))) if len(defined) else float("nan")
    return Mean(value, len(defined), len(values))


def _defined(values: Floats, undefined: Literal["skip", "zero"]) -> Floats:
    missing = np.isnan(values)
    return np.where(missing, 0.0, values) if undefined == "zero" else values[~missing]


Judgements = Mapping[str, Mapping[str, float]]
Rankings = Mapping[str, Sequence[str]]


@dataclass(frozen=True, eq=False)
class Scores:
    """The values of one metric for all lists, and their mean."""

    values: Floats
    """(n,) in the order of the lists; NaN where undefined."""
    mean: Mean
    """Over the lists for which the metric is defined."""

    def __repr__(self) -> str:
        return f"Scores(mean={self.mean.value:.6g}, scored={self.mean.scored} of {self.mean.lists})"


def evaluate(
    lists: Lists | Grades | Rankings,
    metrics: Sequence[str],
    *,
    judgements: Judgements | None = None,
    relevant_from: float = 1,
    max_grade: float = 1,
) -> dict[str, Scores]:
    """Compute metrics of result lists; returns the scores by canonical name.

    `lists` is a sequence of grades for each search, in shown order (None for an unjudged item), an
    array (n, depth) of grades, or a `Lists`. With `judgements`, query -> item -> grade, it is a
    mapping query -> items in shown order; then every judged query is one list, empty if `lists`
    lacks it. `relevant_from` and `max_grade` are as for `parse`. Raises ValueError.

    >>> evaluate([[1, 0, 2], [0, 1]], ["P@2", "nDCG@2"], max_grade=2)["P@2"].values.tolist()
    [0.5, 0.5]
    >>> shown = {"shoes": ["d1", "d2"]}
    >>> evaluate(shown, ["R@2"], judgements={"shoes": {"d2": 1, "d7": 1}})
    {'R@2': Scores(mean=0.5, scored=1 of 1)}
    """
    batch = _batch(lists, judgements)
    scores = {}
    for name in metrics:
        metric = parse(name, relevant_from=relevant_from, max_grade=max_grade)
        values = metric.values(batch)
        scores[metric.name] = Scores(values, macro(values))
    return scores


def _batch(lists: Lists | Grades | Rankings, judgements: Judgements | None) -> Lists:
    if isinstance(lists, Mapping):
        if judgements is None:
            raise ValueError("lists is a mapping: judgements must be given to grade its items")
        return judged_lists(lists, judgements)
    if judgements is not None:
        raise ValueError("judgements are given: lists must be a mapping of query to items")
    return lists if isinstance(lists, Lists) else Lists.of(lists)


def judged_lists(rankings: Rankings, judgements: Judgements) -> Lists:
    """The lists of all judged queries, in the order of the judgements, with their pools.

    An item shown twice gets its grade at its first rank, and is unjudged at the later ones.
    Rankings of queries without judgements are left out.

    >>> lists = judged_lists({"q": ["a", "b", "a"]}, {"q": {"a": 2, "c": 1}, "r": {"a": 1}})
    >>> lists.gains.tolist(), lists.lengths.tolist()
    ([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [3, 0])
    """
    grades: list[list[float | None]] = []
    for query, judged in judgements.items():
        items = rankings.get(query, ())
        first = {item: rank for rank, item in reversed(list(enumerate(items)))}
        grades.append(
            [judged.get(item) if first[item] == rank else None for rank, item in enumerate(items)]
        )
    return Lists.of(grades, pool=[list(judged.values()) for judged in judgements.values()])
