"""Binary preference: how often items judged not relevant are ranked above relevant ones."""

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

    n is the number of items judged not relevant that are ranked above the item; R and N are the
    numbers of relevant and not relevant items judged for the query. Unjudged items are ignored; a
    relevant item with n = 0 adds 1. A negative grade is judged not relevant; trec_eval treats it as
    unjudged.
    relevant, nonrelevant (n, depth), known_relevant, known_nonrelevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: trec_eval 8 and later, `bpref`.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref(shown, ~shown, np.array([6]), np.array([4])).tolist()
    [0.5]
    """
    divisor = np.minimum(known_nonrelevant, known_relevant)
    return _preference(relevant, nonrelevant, known_relevant, known_relevant, divisor)


def bpref_original(relevant: Booleans, nonrelevant: Booleans, known_relevant: Integers) -> Floats:
    """Bpref(variant=original): 1/R x sum of 1 - n/R, n is at most R.

    relevant, nonrelevant (n, depth), known_relevant (n,) -> (n,), 0…1.
    Never undefined: 0 where nothing is relevant. Source: Buckley and Voorhees 2004.

    >>> shown = np.array([[False, True, True, True, True]])
    >>> bpref_original(shown, ~shown, np.array([6])).round(4).tolist()
    [0.5556]
    """
    return _preference(relevant, nonrelevant, known_relevant, known_relevant, known_relevant)


def bpref_10(relevant: Booleans, nonrelevant: Booleans, known_relevant: Integers) -> Floats:
    """Bpref(variant=10): the original with 10 + R in place of R, for queries with few
    relevant items.

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
    cap: Integers,
    divisor: Integers,
) -> Floats:
    """1/R x sum over the relevant items of 1 - min(n, cap) / divisor; a term with n = 0 is 1."""
    above = np.zeros(len(relevant), dtype=np.int64)
    total = np.zeros(len(relevant))
    for column in range(relevant.shape[1]):
        penalty = ratio(np.minimum(above, cap), divisor, 0.0)
        total += relevant[:, column] * (1.0 - penalty)
        above += nonrelevant[:, column]
    return ratio(total, known_relevant, 0.0)
