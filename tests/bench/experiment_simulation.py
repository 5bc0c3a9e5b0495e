"""How often experiments mislead, and what they find: the simulations behind the guide's numbers.

    python -m tests.bench.experiment_simulation [--runs N] [--seed N] [--part PART]

Activity is heavy-tailed: the number of searches of a user is log-normal. Scores are correlated
within users, so that the variance of a difference is 2, 7 or 36 times that of independent
impressions. A run assigns users to two arms and 64 buckets, shuffles their impressions and looks
after each pane. All statements are those of the product. Fails if one of them misleads more often
than it may.
"""

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import (
    BUCKETS,
    Design,
    UserBuckets,
    boundary,
    estimate,
    independent_variance,
    mean,
    mean_variance,
    one_sided_boundary,
    welch_at_planned_end,
)
from tests.bench.changing_shares import print_changing_shares
from tests.bench.few_buckets import print_few_buckets
from tests.bench.looks import MAX_MISLEADING, deviates, share_text
from tests.bench.other_statements import print_other_statements
from tests.bench.rare_outcomes import print_rare_outcomes
from tests.bench.sample_ratios import print_sample_ratios
from tests.bench.uneven_strata import print_uneven_strata

SEED: Final = 20_261_121
PANE: Final = 100
"""Impressions, or users, between two looks."""
SCORES: Final = 1.0 / np.log2(np.arange(2, 8))
"""nDCG of a search with one click at rank 1 to 6, all equally likely."""
CLICKED: Final = 0.8
"""Mean over users of the share of searches with a click."""
ACTIVITY_SIGMA: Final = 1.5
"""Standard deviation of log activity: the busiest 1 % of users make a fifth of the traffic."""
EFFECT: Final = 0.02
"""Relative change of the mean in a treatment with an effect."""


@dataclass(frozen=True)
class World:
    """A population of users."""

    design_effect: float
    """Approximate design effect at the planned total; it determines the number of users."""
    correlation: float
    """Variance of the means of users / variance of all scores: the intraclass correlation."""

    def users(self, impressions: int) -> int:
        """Users in both arms. In an arm of n impressions the design effect is 1 + correlation x n x
        sum of squared shares of its users, which is e^(sigma^2) / users for log-normal activity."""
        arm = 0.5 * impressions * self.correlation * math.exp(ACTIVITY_SIGMA**2)
        return 2 * round(arm / (self.design_effect - 1.0))


WORLDS: Final = (World(2.05, 0.1), World(7.5, 0.2), World(40.0, 0.3))
"""Their design effects are 2, 7 and 36: a sample of users lacks the end of the tail."""


@dataclass(frozen=True)
class Limits:
    """Standard errors from 0 at which there is a verdict; all (looks,)."""

    two_sided: NDArray[np.float64]
    one_sided: NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What one run would have led its owner to believe."""

    ever: bool
    """The confidence sequence excluded 0 at some look."""
    guardrail: bool
    """The one-sided e-value for harm reached 1 / alpha at some look."""
    at_end: bool
    """The confidence sequence excludes 0 at the planned total."""
    naive: bool
    """Like `ever`, with the standard errors of independent impressions."""
    peeking: bool
    """The p-value of a fixed-horizon test, made at every look, was below 0.05 at some look."""
    welch: bool
    """The p-value of the same test, made once at the planned end, was below 0.05."""
    design_effect: float


def limits(impressions: int) -> Limits:
    """The limits of a design with so many planned impressions."""
    design, looks = Design(impressions), range(PANE, impressions + 1, PANE)
    two_sided = [boundary(n, design.rate, design.alpha) for n in looks]
    one_sided = [one_sided_boundary(n, design.one_sided_rate, design.alpha) for n in looks]
    return Limits(np.array(two_sided), np.array(one_sided))


def clicked_shares(world: World, users: int, random: np.random.Generator) -> NDArray[np.float64]:
    """(users,) share of each user's searches with a click: Beta, with the variance that gives the
    correlation."""
    level = SCORES.mean()
    total = CLICKED * (SCORES**2).mean() - (CLICKED * level) ** 2
    size = CLICKED * (1.0 - CLICKED) * level**2 / (world.correlation * total) - 1.0
    return random.beta(CLICKED * size, (1.0 - CLICKED) * size, users)


def one_run(
    world: World, impressions: int, effect: float, random: np.random.Generator
) -> tuple[UserBuckets, UserBuckets]:
    """Control and treatment, (looks, buckets) each: cumulative tallies at each look."""
    users = world.users(impressions)
    activity = np.exp(ACTIVITY_SIGMA * random.standard_normal(users))
    searches = random.multinomial(impressions, activity / activity.sum())
    user_of = np.repeat(np.arange(users), searches)
    random.shuffle(user_of)
    treated = random.integers(0, 2, users)
    clicked = clicked_shares(world, users, random)
    scores = random.choice(SCORES, impressions)
    scores[random.random(impressions) >= clicked[user_of]] = 0.0
    scores *= 1.0 + effect * treated[user_of]
    columns = (treated * BUCKETS + random.integers(0, BUCKETS, users))[user_of]
    panes = np.arange(impressions) // PANE
    return tallies(scores, panes * (2 * BUCKETS) + columns)


def tallies(
    scores: NDArray[np.float64], cells: NDArray[np.int64]
) -> tuple[UserBuckets, UserBuckets]:
    """Cumulative tallies of both arms. scores (n,), cells (n,): index of (pane, arm, bucket)."""
    steps = [np.ones(len(scores)), scores * 1_000_000, scores * scores * 1_000_000]
    looks = len(scores) // PANE
    counts, sums, squares = (
        np.bincount(cells, np.rint(step), looks * 2 * BUCKETS)
        .astype(np.int64)
        .reshape(looks, 2, BUCKETS)
        .cumsum(axis=0)
        for step in steps
    )
    control, treatment = (
        UserBuckets(counts[:, side], sums[:, side], squares[:, side]) for side in (0, 1)
    )
    return control, treatment


def outcome(control: UserBuckets, treatment: UserBuckets, bars: Limits) -> Outcome:
    """Evaluate all looks at one run."""
    change = mean(treatment) - mean(control)
    variance = mean_variance(treatment) + mean_variance(control)
    independent = independent_variance(treatment) + independent_variance(control)
    z = deviates(control, treatment)
    with np.errstate(divide="ignore", invalid="ignore"):
        naive_z = np.where(z == 0.0, 0.0, change / np.sqrt(independent))
    ends = estimate(control[-1]), estimate(treatment[-1])
    welch = welch_at_planned_end(*ends, units=(BUCKETS, BUCKETS))
    return Outcome(
        ever=bool((np.abs(z) > bars.two_sided).any()),
        guardrail=bool((-z > bars.one_sided).any()),
        at_end=bool(abs(z[-1]) > bars.two_sided[-1]),
        naive=bool((np.abs(naive_z) > bars.two_sided).any()),
        peeking=bool((np.abs(z) > 1.96).any()),
        welch=welch.p_value < 0.05,
        design_effect=float(variance[-1] / independent[-1]),
    )


def outcomes(
    world: World, *, impressions: int, runs: int, effect: float, seed: int
) -> list[Outcome]:
    """The outcomes of runs that differ by their random numbers only."""
    random = np.random.default_rng(seed)
    bars = limits(impressions)
    return [outcome(*one_run(world, impressions, effect, random), bars) for _ in range(runs)]


def print_nulls(impressions: int, runs: int, seed: int) -> bool:
    """Print the table of A/A runs; returns whether the error rates are within the limits."""
    print(f"\nno effect: share of {runs:,} runs that ever claim one")
    print("design effect    users  confidence sequence  one-sided guardrail  naive peeking  Welch")
    misleading = []
    for world in WORLDS:
        seen = outcomes(world, impressions=impressions, runs=runs, effect=0.0, seed=seed)
        ever, guardrail = [o.ever for o in seen], [o.guardrail for o in seen]
        misleading += [float(np.mean(ever)), float(np.mean(guardrail))]
        print(
            f"{np.mean([o.design_effect for o in seen]):13.1f} {world.users(impressions):8,}"
            f" {share_text(ever):>20} {share_text(guardrail):>20}"
            f" {np.mean([o.naive for o in seen]):6.1%} {np.mean([o.peeking for o in seen]):7.1%}"
            f" {np.mean([o.welch for o in seen]):6.1%}",
            flush=True,
        )
    return max(misleading) <= MAX_MISLEADING


def print_powers(impressions: int, runs: int, seed: int) -> None:
    """Print the table of runs with a true effect."""
    print(f"\n{EFFECT:.0%} more in the treatment: share of {runs:,} runs that find it")
    print("design effect    users  by the planned total   at the planned total   Welch, one look")
    for world in WORLDS:
        seen = outcomes(world, impressions=impressions, runs=runs, effect=EFFECT, seed=seed)
        print(
            f"{np.mean([o.design_effect for o in seen]):13.1f} {world.users(impressions):8,}"
            f" {share_text([o.ever for o in seen]):>21} {share_text([o.at_end for o in seen]):>22}"
            f" {share_text([o.welch for o in seen]):>22}",
            flush=True,
        )


def print_panes(runs: int, seed: int, impressions: int) -> bool:
    """Print the tables of looks at every pane; returns whether the error rates are kept."""
    print(f"a look every {PANE} impressions until {impressions:,}, the planned total")
    holds = print_nulls(impressions, runs, seed)
    print_powers(impressions, runs // 4, seed)
    return holds


PARTS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "rare": lambda runs, seed: print_rare_outcomes(max(1, runs // 2), seed),
    "few": lambda runs, seed: print_few_buckets(max(1, runs // 2), seed),
    "strata": lambda runs, seed: print_uneven_strata(max(1, runs // 5), seed),
    "shares": lambda runs, seed: print_changing_shares(max(1, runs // 40), seed),
    "other": print_other_statements,
    "ratios": lambda runs, seed: print_sample_ratios(10 * runs, seed),
}
"""The other simulations, from the number of runs and the seed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--impressions", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--part", choices=["panes", *PARTS], help="by default all of them")
    options = parser.parse_args()
    runs, seed = options.runs, options.seed
    print(f"seed {seed}")
    kept = []
    if options.part in (None, "panes"):
        kept.append(print_panes(runs, seed, options.impressions))
    for name, part in PARTS.items():
        if options.part in (None, name):
            kept.append(part(runs, seed))
    if not all(kept):
        raise SystemExit("misleads more often than it may")


if __name__ == "__main__":
    main()
