"""Binary preference: how often a relevant item stands below one that was judged not relevant."""

import numpy as np

from .arithmetic import ratio
from .lists import Booleans, Floats, Integers


def bpref(
    relevant: Booleans,
    nonrelevant: Booleans,
    known_relevant: Integers,
    known_nonrelevant: Integers,
) -> Floats:
    """Bpref: 1/R x sum over the relevant items returned of 1 - min(n, R) / min(N, R).

    n counts the judged non-relevant items above, R and N all that are judged of the query. Unjudged
    items are passed over; a relevant item with n = 0 counts 1. A negative grade is judged, and not
    relevant: trec_eval takes it for unjudged.
    relevant, nonrelevant (n, depth), known_relevant, known_nonrelevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: trec_eval 8 and later, `bpref`.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref(shown, ~shown, np.array([6]), np.array([4])).tolist()
    [0.5]
    """
    worst = np.minimum(known_nonrelevant, known_relevant)
    return _preference(relevant, nonrelevant, known_relevant, known_relevant, worst)


def bpref_original(relevant: Booleans, nonrelevant: Booleans, known_relevant: Integers) -> Floats:
    """Bpref(variant=original): 1/R x sum of 1 - n/R, n among the first R judged non-relevant items.

    relevant, nonrelevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: Buckley and Voorhees 2004.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref_original(shown, ~shown, np.array([6])).round(4).tolist()
    [0.5556]
    """
    return _preference(relevant, nonrelevant, known_relevant, known_relevant, known_relevant)


def bpref_10(relevant: Booleans, nonrelevant: Booleans, known_relevant: Integers) -> Floats:
    """Bpref(variant=10): the original with 10 + R in place of R, for few relevant items.

    relevant, nonrelevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: Buckley and Voorhees 2004, `bpref-10`.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref_10(shown, ~shown, np.array([6])).tolist()
    [0.625]
    """
    wider = known_relevant + 10
    return _preference(relevant, nonrelevant, known_relevant, wider, wider)


def _preference(
    relevant: Booleans,
    nonrelevant: Booleans,
    known_relevant: Integers,
    most: Integers,
    worst: Integers,
) -> Floats:
    """1/R x sum over relevant items of 1 - min(n, most) / worst; a term with n = 0 is 1."""
    above = np.zeros(len(relevant), dtype=np.int64)
    total = np.zeros(len(relevant))
    for column in range(relevant.shape[1]):
        lost = ratio(np.minimum(above, most), worst, 0.0)
        total += relevant[:, column] * (1.0 - lost)
        above += nonrelevant[:, column]
    return ratio(total, known_relevant, 0.0)
