"""Set metrics: formulas over the fourfold (contingency) table of a returned set, without order.

The same formulas over `Contingency.pooled` give micro averages.
"""

from dataclasses import dataclass

import numpy as np

from .lists import Floats, Integers, ratio


@dataclass(frozen=True, eq=False)
class Contingency:
    """Number of items of each query, by whether they were returned and are relevant; all (n,)."""

    returned_relevant: Integers
    returned_nonrelevant: Integers
    missed: Integers
    """Relevant and not returned."""
    rest: Integers
    """Neither relevant nor returned."""

    @classmethod
    def of(cls, a: int, b: int, c: int, d: int = 0) -> "Contingency":
        """One query: returned relevant, returned non-relevant, missed, rest.

        >>> precision(Contingency.of(18, 2, 82)).tolist()
        [0.9]
        """
        columns = [np.array([count], dtype=np.int64) for count in (a, b, c, d)]
        return cls(*columns)

    def pooled(self) -> "Contingency":
        """The counts of all queries added up, one row: its formulas give micro averages.

        >>> first_and_second = Contingency(*np.array([[2, 2], [3, 2], [2, 1], [0, 0]]))
        >>> precision(first_and_second.pooled()).round(4).tolist()
        [0.4444]
        """
        return Contingency.of(
            int(self.returned_relevant.sum()),
            int(self.returned_nonrelevant.sum()),
            int(self.missed.sum()),
            int(self.rest.sum()),
        )


def precision(table: Contingency) -> Floats:
    """SetP: returned relevant / returned. (n,), 0…1; 0 where nothing was returned.

    Source: trec_eval `set_P`.

    >>> precision(Contingency.of(2, 2, 2)).tolist()
    [0.5]
    """
    returned = table.returned_relevant + table.returned_nonrelevant
    return ratio(table.returned_relevant, returned, 0.0)


def recall(table: Contingency) -> Floats:
    """SetR: returned relevant / relevant. (n,), 0…1; 0 where nothing is relevant.

    Source: trec_eval `set_recall`.

    >>> recall(Contingency.of(1, 2, 3)).tolist()
    [0.25]
    """
    return ratio(table.returned_relevant, table.returned_relevant + table.missed, 0.0)


def f_measure(precisions: Floats, recalls: Floats, beta: float = 1.0) -> Floats:
    """F_beta: (1 + b²) P R / (b² P + R); beta > 1 gives more weight to recall.

    precisions (n,), recalls (n,) -> (n,), 0…1. Never undefined: 0 where either is 0.
    Source: van Rijsbergen 1979; trec_eval `set_F`.

    >>> f_measure(np.array([0.5]), np.array([0.25])).round(4).tolist()
    [0.3333]
    """
    square = beta * beta
    top = (1.0 + square) * precisions * recalls
    return ratio(top, square * precisions + recalls, 0.0)


def e_precision_weighted(precisions: Floats, recalls: Floats, b: float) -> Floats:
    """E(precision_weight=b): 1 - (1 + b²) / (b²/P + 1/R); b > 1 favours precision.

    It is 1 - F with beta = 1/b. precisions (n,), recalls (n,) -> (n,), 0…1, lower is better.
    Never undefined: 1 where either is 0.

    >>> e_precision_weighted(np.array([0.9]), np.array([0.18]), 2.0).round(4).tolist()
    [0.5]
    """
    return 1.0 - f_measure(precisions, recalls, 1.0 / b)


def e_recall_weighted(precisions: Floats, recalls: Floats, b: float) -> Floats:
    """E(recall_weight=b): 1 - (1 + b²) / (b²/R + 1/P); b > 1 favours recall.

    It is 1 - F with beta = b. precisions (n,), recalls (n,) -> (n,), 0…1, lower is better.
    Never undefined: 1 where either is 0. Source: van Rijsbergen 1979.

    >>> e_recall_weighted(np.array([0.9]), np.array([0.18]), 2.0).round(4).tolist()
    [0.7857]
    """
    return 1.0 - f_measure(precisions, recalls, b)


def accuracy(table: Contingency) -> Floats:
    """SetAccuracy: items treated rightly / all. (n,), 0…1; NaN for an empty collection.

    Returning nothing scores nearly 1 on any large collection.

    >>> accuracy(Contingency.of(1, 1, 1, 7)).tolist()
    [0.8]
    """
    right = table.returned_relevant + table.rest
    return ratio(right, right + table.returned_nonrelevant + table.missed, np.nan)


def miss(table: Contingency) -> Floats:
    """Miss: missed / relevant. (n,), 0…1, lower is better; NaN where nothing is relevant.

    >>> miss(Contingency.of(1, 0, 3)).tolist()
    [0.75]
    """
    return ratio(table.missed, table.returned_relevant + table.missed, np.nan)


def false_rate(table: Contingency) -> Floats:
    """FalseRate: returned non-relevant / returned. (n,), 0…1, lower is better.

    NaN where nothing was returned.

    >>> false_rate(Contingency.of(1, 3, 0)).tolist()
    [0.75]
    """
    returned = table.returned_relevant + table.returned_nonrelevant
    return ratio(table.returned_nonrelevant, returned, np.nan)


def generality(table: Contingency) -> Floats:
    """Generality: relevant / all items. (n,), 0…1; a property of the query, not of the system.

    NaN for an empty collection.

    >>> generality(Contingency.of(1, 1, 1, 7)).tolist()
    [0.2]
    """
    relevant = table.returned_relevant + table.missed
    return ratio(relevant, relevant + table.returned_nonrelevant + table.rest, np.nan)


def fallout(table: Contingency) -> Floats:
    """Fallout: returned non-relevant / non-relevant. (n,), 0…1, lower is better.

    NaN where all items are relevant.

    >>> fallout(Contingency.of(1, 1, 1, 7)).tolist()
    [0.125]
    """
    nonrelevant = table.returned_nonrelevant + table.rest
    return ratio(table.returned_nonrelevant, nonrelevant, np.nan)


def coverage(returned_known: Integers, known_relevant: Integers) -> Floats:
    """Coverage: share of the relevant items known to the user before that were returned.

    returned_known (n,), known_relevant (n,) -> (n,), 0…1; NaN where none was known.
    Source: Baeza-Yates and Ribeiro-Neto 1999.

    >>> coverage(np.array([3]), np.array([4])).tolist()
    [0.75]
    """
    return ratio(returned_known, known_relevant, np.nan)


def novelty(returned_known: Integers, returned_unknown: Integers) -> Floats:
    """Novelty: share of the relevant items returned that were not known to the user before.

    returned_known (n,), returned_unknown (n,): counts of relevant items -> (n,), 0…1;
    NaN where nothing relevant was returned. Source: Baeza-Yates and Ribeiro-Neto 1999.

    >>> novelty(np.array([1]), np.array([3])).tolist()
    [0.75]
    """
    return ratio(returned_unknown, returned_known + returned_unknown, np.nan)


def utility(table: Contingency, a: float, b: float, c: float = 0.0, d: float = 0.0) -> Floats:
    """Utility: a x returned relevant + b x returned non-relevant + c x missed + d x rest.

    table -> (n,), unbounded. Never undefined. Source: trec_eval `utility`.

    >>> utility(Contingency.of(18, 2, 82), 2, -1).tolist()
    [34.0]
    """
    value: Floats = (
        a * table.returned_relevant.astype(np.float64)
        + b * table.returned_nonrelevant
        + c * table.missed
        + d * table.rest
    )
    return value


def t11u(table: Contingency) -> Floats:
    """T11U: 2 x returned relevant - returned non-relevant. (n,), unbounded.

    Source: TREC-11 filtering track.

    >>> t11u(Contingency.of(1, 3, 0)).tolist()
    [-1.0]
    """
    return utility(table, 2.0, -1.0)


def t11f(precisions: Floats, recalls: Floats) -> Floats:
    """T11F: 1.25 / (0.25/R + 1/P), which is F with beta 0.5. (n,), 0…1.

    Source: TREC-11 filtering track.

    >>> t11f(np.array([0.9]), np.array([0.18])).round(4).tolist()
    [0.5]
    """
    return f_measure(precisions, recalls, 0.5)
