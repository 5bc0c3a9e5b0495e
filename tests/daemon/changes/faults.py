"""Faults of a search, played by the simulator's cascade on arrays: what they leave as counts.

    python -m tests.daemon.changes.faults --searches 20000 --runs 120 --seed 1

prints how often each pattern is said of each fault.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeAlias

import numpy as np

from relevanced.daemon.changes import Noise, Side, evidence, largest_mix_share, pattern_of
from relevanced.daemon.tools.traffic import (
    EXPERIMENT,
    PATIENCE,
    RANKER_NOISE,
    SATISFIED,
    SHARES,
    SHOWN,
    make_world,
)
from relevanced.metrics import Booleans, Floats, Integers

NOISE: Final = Noise(design_effect=1.2, drift_ratio=0.006, share_drift_ratio=0.05)
PERIODS: Final = 3
EMPTY: Final = 0.02
JUDGED_SHARE: Final = 0.5
"""Of the searches: those whose query is judged."""
GOOD: Final = 0.05
"""Attraction from which an item is a good one."""
WEAK: Final = 0.6
"""Attraction in the countries that score lower, as a share of that in the others."""
RANKS: Final = np.arange(1, SHOWN + 1)
TOO_SMALL: Final = "too small to say"

Generator: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class Searches:
    """`candidates` (n, 20) are the attractions of all candidates in the order of the ranker, 0 for
    one that is not shown; `lengths` (n,) how many of a page are shown; `weak` (n,) whether the
    search comes from a country that scores lower."""

    candidates: Floats
    lengths: Integers
    weak: Booleans
    kept_clicks: float = 1.0
    """Probability that a click arrives."""
    silent: float = 0.0
    """Share of the searches of which no click arrives."""


Fault: TypeAlias = Callable[[Searches, Generator], Searches]


@cache
def attractions() -> tuple[Floats, Floats]:
    """((queries, 20) attractions of the candidates, (queries,) share of the searches)."""
    shares = {name: dict(values) for name, values in SHARES.items()}
    world = make_world(1, shares, EXPERIMENT, ("control", "treatment"))
    values = np.array([[value for _, value in query.candidates] for query in world.queries])
    weights = np.diff(np.array(world.query_weights), prepend=0.0)
    return values, weights / weights.sum()


def ranked(values: Floats, noise: float, random: Generator) -> Floats:
    """The attractions in the order of a ranker with this error."""
    order = np.argsort(-(values + random.normal(0, noise, values.shape)), axis=1)
    return np.take_along_axis(values, order, axis=1)


def usual(count: int, random: Generator, weak: float = 0.25) -> Searches:
    """Searches of the ordinary ranker; of which this share comes from countries that score
    lower."""
    values, weights = attractions()
    of = values[random.choice(len(values), count, p=weights)]
    lengths = np.where(random.random(count) < EMPTY, 0, SHOWN)
    is_weak = random.random(count) < weak
    return Searches(ranked(of, RANKER_NOISE, random), lengths, is_weak)


def clicked(searches: Searches, random: Generator) -> Booleans:
    """(n, SHOWN) the clicks that arrive: the cascade of `world.clicked_ranks`."""
    shown = searches.candidates[:, :SHOWN] * (RANKS <= searches.lengths[:, None])
    shown = shown * np.where(searches.weak, WEAK, 1.0)[:, None]
    clicks, stop = random.random(shown.shape) < shown, random.random(shown.shape)
    goes_on = np.where(clicks, stop >= SATISFIED, stop < PATIENCE)
    reached = np.cumprod(np.pad(goes_on[:, :-1], ((0, 0), (1, 0)), constant_values=True), axis=1)
    arrives = random.random(shown.shape) < searches.kept_clicks
    arrives &= (random.random(len(shown)) >= searches.silent)[:, None]
    found: Booleans = clicks & (reached > 0) & arrives
    return found


def side(searches: Searches, clicks: Booleans, periods: int = 1) -> Side:
    """What the searches of some periods say, as means over the periods."""
    count, success = len(clicks), clicks.any(axis=1)
    rr = (clicks / RANKS).max(axis=1, initial=0.0)

    shown = searches.candidates[:, :SHOWN] * (RANKS <= searches.lengths[:, None])
    gains = (shown >= GOOD) @ (1 / np.log2(RANKS + 1))

    def error(values: Floats | Integers | Booleans) -> float:
        return float(np.std(values.astype(np.float64), ddof=1) / np.sqrt(count))

    return Side(
        impressions=count / periods,
        with_feedback=success.sum() / periods,
        feedback=clicks.sum() / periods,
        zero_results=(searches.lengths == 0).sum() / periods,
        success=float(success.mean()),
        success_stderr=error(success),
        rr=float(rr.mean()),
        rr_stderr=error(rr),
        list_length=float(searches.lengths.mean()),
        list_length_stderr=error(searches.lengths),
        judged=((float(gains.mean()), error(gains)),),
        judged_best_case=((float(gains.mean()), error(gains)),),
        judged_impressions=JUDGED_SHARE * count / periods,
    )


def mix_share(recent: tuple[Searches, Booleans], before: tuple[Searches, Booleans]) -> float:
    """Of RR, over the countries that score lower and the others."""
    (now, clicks), (then, clicks_then) = recent, before
    rr, rr_then = ((each / RANKS).max(axis=1) for each in (clicks, clicks_then))
    within = mix = 0.0
    for weak in (False, True):
        here, there = now.weak == weak, then.weak == weak
        share, share_then = here.mean(), there.mean()
        mean, mean_then = rr[here].mean(), rr_then[there].mean()
        within += (share + share_then) / 2 * (mean - mean_then)
        mix += (share - share_then) * (mean + mean_then) / 2
    sampling = rr.var() / len(rr) + rr_then.var() / len(rr_then)
    drift = (NOISE.drift_ratio * rr_then.mean()) ** 2 * (1 + 1 / PERIODS)
    z = (rr.mean() - rr_then.mean()) / np.sqrt(NOISE.design_effect * sampling + drift)
    return largest_mix_share([(float(z), float(mix), float(within))])


def sides(fault: Fault, count: int, seed: int) -> tuple[Side, Side, float]:
    """(recent, baseline, mix share) of a fault in all of `count` recent searches."""
    random = np.random.default_rng(seed)
    then = usual(PERIODS * count, random)
    clicks_then = clicked(then, random)
    now = fault(usual(count, random), random)
    clicks = clicked(now, random)
    share = mix_share((now, clicks), (then, clicks_then))
    return side(now, clicks), side(then, clicks_then, PERIODS), share


def said(fault: Fault, count: int, seed: int, *, judged: bool = False) -> str:
    """The pattern that is said of a fault, by clicks alone or by judgements too."""
    recent, before, share = sides(fault, count, seed)
    if not judged:
        recent, before = (replace(one, judged=()) for one in (recent, before))
    found = pattern_of(evidence(recent, before, PERIODS, NOISE, mix_share=share))
    return TOO_SMALL if found is None else found.name


def shuffled(share: float) -> Fault:
    def play(searches: Searches, random: Generator) -> Searches:
        some = random.random(len(searches.lengths)) < share
        mixed = random.permuted(searches.candidates, axis=1)
        return replace(searches, candidates=np.where(some[:, None], mixed, searches.candidates))

    return play


def reversed_page(searches: Searches, random: Generator) -> Searches:
    page = searches.candidates[:, :SHOWN][:, ::-1]
    return replace(
        searches, candidates=np.concatenate([page, searches.candidates[:, SHOWN:]], axis=1)
    )


def noisier(searches: Searches, random: Generator) -> Searches:
    return replace(searches, candidates=ranked(searches.candidates, 0.42, random))


def empty(share: float) -> Fault:
    def play(searches: Searches, random: Generator) -> Searches:
        some = random.random(len(searches.lengths)) < share
        return replace(searches, lengths=np.where(some, 0, searches.lengths))

    return play


def without(gone: Booleans, searches: Searches, refill: bool) -> Searches:
    """Without these candidates, (n, 20); what follows moves up, from below the page too with
    `refill`."""
    stays = ~gone
    if not refill:
        stays[:, SHOWN:] = False
    order = np.argsort(gone, axis=1, kind="stable")
    candidates = np.take_along_axis(searches.candidates * stays, order, axis=1)
    lengths = np.minimum(searches.lengths, stays.sum(axis=1))
    return replace(searches, candidates=candidates, lengths=lengths)


def good_items_gone(share: float, refill: bool) -> Fault:
    def play(searches: Searches, random: Generator) -> Searches:
        some = random.random(len(searches.lengths)) < share
        gone = (searches.candidates >= GOOD) & some[:, None]
        return without(gone, searches, refill)

    return play


def items_gone(share: float) -> Fault:
    def play(searches: Searches, random: Generator) -> Searches:
        return without(random.random(searches.candidates.shape) < share, searches, True)

    return play


def clicks_lost(share: float) -> Fault:
    return lambda searches, random: replace(searches, kept_clicks=1 - share)


def banner(share: float) -> Fault:
    return lambda searches, random: replace(searches, silent=share)


def more_from_weak(searches: Searches, random: Generator) -> Searches:
    return replace(searches, weak=searches.weak | (random.random(len(searches.weak)) < 0.28))


def nothing(searches: Searches, random: Generator) -> Searches:
    return searches


_OR_TRACKING: Final = "TRACKING or RETRIEVAL"
_OR_RANKING: Final = "RANKING or RETRIEVAL"
FAULTS: Final[Mapping[str, tuple[Fault, str, frozenset[str]]]] = {
    "shuffled": (shuffled(1.0), "RANKING", frozenset()),
    "a third shuffled": (shuffled(1 / 3), "RANKING", frozenset({_OR_RANKING})),
    "page reversed": (reversed_page, "RANKING", frozenset()),
    "noisier ranker": (noisier, "RANKING", frozenset()),
    "10 % of searches empty": (empty(0.1), "RETRIEVAL", frozenset()),
    "10 % lose good items, shorter": (good_items_gone(0.1, False), "RETRIEVAL", frozenset()),
    "10 % lose good items, full": (
        good_items_gone(0.1, True),
        _OR_TRACKING,
        frozenset({_OR_RANKING, TOO_SMALL}),
    ),
    "every item gone with 20 %": (
        items_gone(0.2),
        _OR_TRACKING,
        frozenset({_OR_RANKING, "TRACKING", TOO_SMALL}),
    ),
    "20 % of clicks lost": (
        clicks_lost(0.2),
        "TRACKING",
        frozenset({_OR_TRACKING, _OR_RANKING}),
    ),
    "90 % of clicks lost": (clicks_lost(0.9), "TRACKING", frozenset()),
    "all clicks lost": (clicks_lost(1.0), "TRACKING", frozenset()),
    "banner, 40 % of users": (banner(0.4), _OR_TRACKING, frozenset()),
    "mix shift": (more_from_weak, "MIX", frozenset({TOO_SMALL, _OR_RANKING})),
    "nothing": (nothing, TOO_SMALL, frozenset()),
}
"""Name → (fault, what is said of many searches, what else may be said of few)."""
BY_JUDGEMENTS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    name: (
        {
            "10 % lose good items, full": _OR_RANKING,
            "every item gone with 20 %": _OR_RANKING,
            "banner, 40 % of users": "TRACKING",
        }.get(name, of_many),
        of_few,
    )
    for name, (_, of_many, of_few) in FAULTS.items()
}
"""The same where scores are judged, too: lost clicks and lost items do not look alike any more."""


def main() -> None:
    parser = argparse.ArgumentParser(description="How often each pattern is said of each fault.")
    parser.add_argument("--searches", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name, (fault, _, _) in FAULTS.items():
        counts = Counter(said(fault, given.searches, given.seed + run) for run in range(given.runs))
        shares = ", ".join(f"{pattern} {n / given.runs:.0%}" for pattern, n in counts.most_common())
        print(f"{name}: {shares}", flush=True)


if __name__ == "__main__":
    main()
