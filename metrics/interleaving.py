"""Interleaving: two rankers share one list, and the feedback shows which one users prefer.

Team draft assigns each item to the team of the ranker that picked it. Source: Radlinski, Kurup
and Joachims 2008; Chapelle, Joachims, Radlinski and Yue 2012.

What is claimed. The estimand is the mean credit: what the sum of the credits of all users, divided
by their lists, comes to if ever more users like these see such lists. It is 0 if a fair draft
shows two rankers between which users have no preference, whichever of them leads by chance in a
single list; there is no other arm. Users are independent, so the mean over their buckets is nearly
normal with the variance between buckets, and `sequences.py` holds for it in the filtration of the
settled lists. Asymptotic are the ratio of two sums, the normality and the variance.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .buckets import UserBuckets, estimate, too_few_buckets
from .distributions import fair_coin_two_sided
from .estimates import Estimate
from .inference import Statement
from .lists import Floats
from .sequences import Design

CONTROL: Final = -1
NEUTRAL: Final = 0
"""The team of an item that both rankers would have picked next, or neither: not counted."""
TREATMENT: Final = 1
_SAME: Final = 9
"""Decimals to which gains are compared: the order of additions must not break a tie."""


@dataclass(frozen=True)
class Preference:
    """Which team's items users prefer."""

    wins: int
    """Impressions where the items of the treatment have more gain."""
    ties: int
    losses: int
    delta: float
    """(wins + ties / 2) / impressions - 1/2, -0.5…0.5: half the mean credit. NaN without any."""
    win_share: float
    """wins / (wins + losses). NaN if all are ties."""
    sign_test_p: float
    """Two-sided, for a single look at independent impressions: a supplement to `credit`."""
    credit: Statement
    """About the mean credit, -1…1, with users as the units: valid at every look."""


def credits(gains: Floats, teams: NDArray[np.int8], k: int) -> Floats:
    """Which team won each impression: the sign of (treatment's gain - control's) at ranks 1…k.

    gains (n, depth), teams (n, depth) (-1 control, 0 neutral, 1 treatment) -> (n,), -1, 0 or 1.
    Never undefined: 0 without feedback. Source: Chapelle et al. 2012, 3.1, for clicks.

    >>> teams = np.array([[1, -1, 1], [1, -1, 0]], dtype=np.int8)
    >>> credits(np.array([[1.0, 1.0, 1.0], [0.0, 2.0, 3.0]]), teams, 10).tolist()
    [1.0, -1.0]
    """
    lead = np.zeros(len(gains))
    for column in range(min(k, gains.shape[1])):
        lead += gains[:, column] * teams[:, column]
    return np.sign(np.round(lead, _SAME)) + 0.0


def preference(arm: UserBuckets, design: Design) -> Preference:
    """Analyse interleaved impressions by the tallies of their credits, (buckets,).

    The statement is undefined (NaN) for too few effective buckets or a variance of 0.

    >>> arm = UserBuckets.of(np.repeat([1.0, 0.0, -1.0], [610, 1_870, 520]), np.arange(3_000) % 64)
    >>> result = preference(arm, Design(planned_impressions=5_000))
    >>> result.wins, result.ties, result.losses, result.delta, round(result.sign_test_p, 6)
    (610, 1870, 520, 0.015, 0.008079)
    """
    impressions = int(arm.counts.sum())
    decided, lead = int(arm.squares.sum()) // arm.unit, int(arm.sums.sum()) // arm.unit
    wins, losses = (decided + lead) // 2, (decided - lead) // 2
    mean_credit = estimate(arm)
    if too_few_buckets(arm):
        mean_credit = Estimate(math.nan, math.nan, impressions)
    return Preference(
        wins=wins,
        ties=impressions - decided,
        losses=losses,
        delta=lead / impressions / 2 if impressions else math.nan,
        win_share=wins / decided if decided else math.nan,
        sign_test_p=fair_coin_two_sided(wins, decided),
        credit=Statement.of(mean_credit, design),
    )
