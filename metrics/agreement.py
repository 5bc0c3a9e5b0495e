"""How far raters agree on the grades of the same items, beyond what chance would make them."""

import numpy as np

from .lists import Floats


def cohen_kappa(first: Floats, second: Floats, *, quadratic: bool = False) -> float:
    """Cohen's kappa: 1 - disagreement / that by chance, of raters who grade as often as these.

    first (n,), second (n,): the grades that two raters gave the same items. Any two grades disagree
    by 1, or with `quadratic` by the square of their difference. NaN where nothing can disagree.
    Sources: Cohen 1960; Cohen 1968.

    >>> counts = [20, 5, 10, 15]
    >>> pairs = np.repeat([1.0, 1, 0, 0], counts), np.repeat([1.0, 0, 1, 0], counts)
    >>> round(cohen_kappa(*pairs), 6)
    0.4
    """
    if not len(first):
        return float("nan")
    seen = float(_apart(first, second, quadratic).mean())
    grades = np.unique(np.concatenate([first, second]))
    shares = [np.array([(rated == grade).mean() for grade in grades]) for rated in (first, second)]
    by_chance = float(shares[0] @ _apart(grades[:, None], grades, quadratic) @ shares[1])
    return 1 - seen / by_chance if by_chance > 0 else float("nan")


def krippendorff_alpha(grades: Floats, *, interval: bool = False) -> float:
    """Krippendorff's alpha: 1 - disagreement / that of all grades with one another.

    grades (items, raters), NaN where a rater gave none. Any two grades disagree by 1, or with
    `interval` by the square of their difference. NaN where no item has two grades, or all grades
    are the same. Source: Krippendorff 2011.

    >>> nan = np.nan
    >>> round(krippendorff_alpha(np.array([[1, 1], [2, 2], [3, 3], [1, nan], [2, 1.0]])), 4)
    0.6667
    """
    known = ~np.isnan(grades)
    rated = known.sum(axis=1)
    grades, known, rated = grades[rated > 1], known[rated > 1], rated[rated > 1]
    values = np.unique(grades[known])
    if len(values) < 2:
        return float("nan")
    counts = np.stack([(grades == value).sum(axis=1) for value in values], axis=1).astype(float)
    apart = _apart(values[:, None], values, interval)
    # Of an item each grade is compared with every other one of it.
    seen = float((np.einsum("ia,ab,ib->i", counts, apart, counts) / (rated - 1)).sum())
    totals = counts.sum(axis=0)
    return float(1 - seen * (totals.sum() - 1) / (totals @ apart @ totals))


def _apart(first: Floats, second: Floats, squared: bool) -> Floats:
    apart: Floats = np.square(first - second) if squared else (first != second).astype(np.float64)
    return apart
