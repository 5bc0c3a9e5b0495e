"""Which queries carry a change of the whole: the exact parts of its mean. Pure.

    whole now - whole usual  =  Σ share_now · (x - u)  +  Σ (share_now - share_usual) · (u - U)

with x and u the plain means of a query now and usually, U that of the whole usually, and the sums
over all queries that are listed and (other). The first sum is of queries that got worse or better,
the second of searches that moved between queries.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from relevanced.metrics.lists import Floats, Integers

from .prior import TELLING_DAYS
from .searches import Searches

SAID_BEYOND: Final = 2.0
"""Which queries carry a change is said only where it exceeds so many of its standard errors."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A change of the mean of all searches, and its parts."""

    now: float
    """The mean of the whole, 0…1."""
    usual: float
    error: float
    """The standard error of now - usual."""
    within: Floats
    """(q,) the part that comes from the query's own mean; 0 for one that was not searched."""
    mix: Floats
    """(q,) the part that comes from its share of the searches; 0 for one without a usual."""

    @property
    def change(self) -> float:
        """The sum of all parts, but for rounding."""
        return self.now - self.usual

    @property
    def is_beyond_error(self) -> bool:
        """Whether the change is large enough to ask who carries it."""
        return abs(self.change) > SAID_BEYOND * self.error

    def carried_by(self, queries: Integers) -> float | None:
        """The part of the first sum that these queries carry: 0.63 for 63 %; above 1 where all
        others together changed the other way.

        None where it must not be said: the change is within its errors, or it comes from the mix
        alone, so that the first sum has the other sign.
        """
        own = float(self.within.sum())
        if not self.is_beyond_error or own * self.change <= 0:
            return None
        return float(self.within[queries].sum()) / own


def decompose(searches: Searches) -> Decomposition | None:
    """The parts of all `searches`, listed and (other) ones; None where nothing was scored in the
    window, or nothing on the usual days."""
    scored, usual_scored = int(searches.scored.sum()), int(searches.usual_scored.sum())
    if not scored or not usual_scored:
        return None
    now, usual = (
        float(searches.total.sum()) / scored,
        float(searches.usual_total.sum()) / usual_scored,
    )
    # A query without a usual has the whole's, one that was not searched is as usual.
    own_usual = _means(searches.usual_total, searches.usual_scored, np.full(len(searches), usual))
    own_now = _means(searches.total, searches.scored, own_usual)
    share, usual_share = searches.scored / scored, searches.usual_scored / usual_scored
    return Decomposition(
        now,
        usual,
        _error_of_change(searches, now, usual),
        share * (own_now - own_usual),
        (share - usual_share) * (own_usual - usual),
    )


def _means(total: Floats, scored: Integers, otherwise: Floats) -> Floats:
    return np.divide(total, scored, out=otherwise.copy(), where=scored > 0)


def _error_of_change(searches: Searches, now: float, usual: float) -> float:
    """Chance on both sides, and what the whole varies from day to day beyond it: the usual days are
    one sample of that, the window is another."""
    n = searches.daily_scored.sum(axis=1).astype(np.float64)
    total = searches.daily_total.sum(axis=1)[n > 0]
    n = n[n > 0]
    whole, of_score = n.sum(), max(usual * (1 - usual), 0.0)
    by_chance = max(now * (1 - now), 0.0) / searches.scored.sum() + of_score / whole
    between = 0.0
    if len(n) >= TELLING_DAYS:
        excess = float(((total - n * usual) ** 2 / n).sum()) - (len(n) - 1) * of_score
        between = max(0.0, excess / float(whole - (n**2).sum() / whole))
    shares = n / whole
    return float(np.sqrt(by_chance + between * (1 + float(shares @ shares))))
