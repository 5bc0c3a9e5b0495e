"""What each query lost or gained in a window against its own usual, in searches. Pure.

The usual mean of a query is shrunk towards that of its segment, so that a query without a usual
needs no rule of its own. The error counts chance in the window, what is not known of the usual
mean, and how queries vary from day to day. It is a rule for lists, not a test: of 500 queries about
two an hour are listed by chance.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics.lists import Booleans, Floats, Integers

from .prior import Prior
from .searches import Searches

LISTED_ERRORS: Final = 2.5
"""*At least* is what is left of a loss after so many standard errors. Undisturbed traffic then has
less than 1 % of its queries in a list. 2 errors would have 1.3 %, 3 would miss one more in ten of
the queries that lost half."""
SURE_ERRORS: Final = 3.5
"""A loss that exceeds so many is called sure: by chance a query in two to four hours is."""
CONTINUITY: Final = 0.5
"""Searches are whole: half a search is no loss."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Every array is (q,), in searches where nothing else is said."""

    expected: Floats
    """The usual mean score of the query, 0…1, shrunk towards that of its segment."""
    lost: Floats
    """What the scores of the window sum to less than expected; negative where they sum to more.
    Only what is recorded counts: where searches are missing, more may be lost."""
    error: Floats
    """Its standard error."""

    @property
    def gained(self) -> Floats:
        """What they sum to more than expected."""
        return -self.lost

    @property
    def lost_at_least(self) -> Floats:
        """Above 0 where a list of losses names the query."""
        return self.lost - CONTINUITY - LISTED_ERRORS * self.error

    @property
    def gained_at_least(self) -> Floats:
        """Above 0 where a list of gains names the query."""
        return self.gained - CONTINUITY - LISTED_ERRORS * self.error

    @property
    def surely_lost(self) -> Booleans:
        """Whether the loss would stand with wider errors."""
        return self.lost - CONTINUITY > SURE_ERRORS * self.error

    @property
    def surely_gained(self) -> Booleans:
        """Whether the gain would."""
        return self.gained - CONTINUITY > SURE_ERRORS * self.error


def compare(
    searches: Searches, prior: Prior, variation: float, *, lower_is_better: bool = False
) -> Losses:
    """Compare queries of one segment with their usual.

    `prior` is that of the segment's listed queries, `variation` that of the table (see `prior.py`).
    With `lower_is_better` a sum above the expected one is the loss. The variance of a mean of
    scores in 0…1 is at most mean · (1 - mean), so errors need no sum of squares.
    """
    n = searches.scored.astype(np.float64)
    weight = prior.strength + searches.usual_scored
    expected = (prior.mean * prior.strength + searches.usual_total) / weight
    # Rounding may leave a mean of scores that are all 1 just above 1.
    expected = np.clip(expected, 0.0, 1.0)
    of_score = expected * (1 - expected)
    of_expected = of_score / (weight + 1) + variation * of_score**2
    lost = n * expected - searches.total
    error = np.sqrt(n * of_score + n**2 * of_expected)
    return Losses(expected, -lost if lower_is_better else lost, error)


def order_lost(losses: Losses) -> Integers:
    """(q,) indices of the queries, those that lost most *at least* first; ties are in the order of
    the queries."""
    return np.argsort(-losses.lost_at_least, kind="stable").astype(np.int64)


def order_gained(losses: Losses) -> Integers:
    """(q,) the same by what was gained at least."""
    return np.argsort(-losses.gained_at_least, kind="stable").astype(np.int64)
