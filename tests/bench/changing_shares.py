"""A/A runs whose shares of traffic change while the level changes too: ramps, incidents, weekends,
trends. And how soon a true change is found.

    python -m tests.bench.changing_shares [--runs N] [--seed N]

A run is two weeks of users who come again on many days. Each has a tendency of its own, and an
activity that is log-normal. A user is assigned by a number drawn once: a ramp moves the limit, so
that users cross over from the control to the treatment, as in the common ways of assignment.
Impressions are distributed over the hours of a day. A look follows every six hours; every statement
is that of the report, from the tallies of days.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.experiments import DAY_MS, Arm, Spec, Tallies, compare_variant, divided
from relevanced.metrics import BUCKETS, Metric, Statement, parse
from tests.bench.looks import kept

SEED: Final = 20_261_127
DAYS: Final = 14
LOOK_HOURS: Final = 6
HOUR_MS: Final = DAY_MS // 24
FIRST_MS: Final = 20_000 * DAY_MS
METRIC: Final[Metric] = parse("RR@10")
ACTIVITY_SIGMA: Final = 1.0
NIGHT: Final = 0.6
"""Amplitude of the traffic over a day."""
EFFECT: Final = 0.05
"""Relative change of all scores in a treatment with an effect."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """Shares and levels, by hour since the beginning: (hours,) -> (hours,)."""

    share: Callable[[Floats], Floats]
    """Share of the treatment."""
    level: Callable[[Floats], Floats] = np.ones_like
    """Factor on all scores of both arms."""
    weight: float = 0.5
    """Planned share of the treatment."""


def steps(*changes: tuple[float, float]) -> Callable[[Floats], Floats]:
    """Shares from an hour on: (hour, share) …"""
    return lambda hours: np.select(
        [hours >= hour for hour, _ in reversed(changes)], [share for _, share in reversed(changes)]
    )


def always(share: float) -> Callable[[Floats], Floats]:
    return steps((0.0, share))


def weekend(hours: Floats) -> Floats:
    """15 % less on two days of seven, and 10 % less at night."""
    days = hours // 24 % 7
    return np.where((days == 3) | (days == 4), 0.85, 1.0) * (1.0 + 0.1 * np.sin(hours * np.pi / 12))


def incident(hours: Floats) -> Floats:
    return np.where((hours >= 30) & (hours < 48), 0.4, 1.0)


def trend(hours: Floats) -> Floats:
    return np.asarray(0.8 + 0.3 * hours / (24 * DAYS))


RAMP: Final = steps((0, 0.05), (48, 0.5))
NOON: Final = steps((0, 0.05), (60, 0.5))
ONE: Final = steps((0, 0.01), (72, 0.5))
LADDER: Final = steps((0, 0.01), (24, 0.05), (48, 0.1), (72, 0.25), (96, 0.5))
WORLDS: Final[Mapping[str, World]] = {
    "halves": World(always(0.5)),
    "halves, weekends": World(always(0.5), weekend),
    "a tenth, a trend": World(always(0.1), trend, weight=0.1),
    "5 % for 2 days, then halves": World(RAMP),
    "5 % for 2 days, then halves; a trend": World(RAMP, trend),
    "5 % for 2 days, then halves; weekends": World(RAMP, weekend),
    "5 % for 2 days, then halves; an incident at 5 %": World(RAMP, incident),
    "1 % for 3 days, then halves; an incident at 1 %": World(ONE, incident),
    "1 % for 3 days, then halves; a trend": World(ONE, trend),
    "1, 5, 10, 25, 50 % from day to day; weekends": World(LADDER, weekend),
    "5 % till noon, then halves; a trend": World(NOON, trend),
    "5 % till noon, then halves; an incident at 5 %": World(NOON, incident),
    "halves, 5 % on a weekend, halves": World(steps((0, 0.5), (72, 0.05), (120, 0.5)), weekend),
    "halves, then nine tenths; a trend": World(steps((0, 0.5), (168, 0.9)), trend),
}
POWERS: Final = ("halves", "a tenth, a trend", "5 % for 2 days, then halves")


def hours_of(world: World, impressions: int, effect: float, seed: int) -> Integers:
    """What each hour of one run adds to the tallies: (hours, arms, buckets, columns)."""
    random = np.random.default_rng(seed)
    hours = np.arange(24.0 * DAYS)
    traffic = 1.0 + NIGHT * np.sin(hours * np.pi / 12)
    shown = random.choice(len(hours), impressions, p=traffic / traffic.sum())
    users = impressions // 10
    activity = np.exp(ACTIVITY_SIGMA * random.standard_normal(users))
    user = random.choice(users, impressions, p=activity / activity.sum())
    treated = random.random(users)[user] < world.share(hours)[shown]
    chance = random.beta(3.0, 3.0, users)[user] * world.level(hours)[shown]
    clicked = random.random(impressions) < chance * (1.0 + effect * treated)
    score = clicked / random.integers(1, 4, impressions)
    cells = (shown * 2 + treated) * BUCKETS + random.integers(0, BUCKETS, users)[user]
    size = len(hours) * 2 * BUCKETS
    counts = np.bincount(cells, minlength=size)
    sums = (np.bincount(cells, METRIC.unit * power, size) for power in (score, score * score))
    columns = np.stack((counts, counts, *sums), axis=-1)
    return np.rint(columns).astype(np.int64).reshape(len(hours), 2, BUCKETS, 4)


def spec_of(world: World, impressions: int) -> Spec:
    """The experiment whose planned total is that of the run."""
    weights = (("control", 1.0 - world.weight), ("treatment", world.weight))
    return Spec("x", "control", impressions, (METRIC.name,), weights=weights)


def counted(spec: Spec, by_hour: Integers, hours: int) -> Tallies:
    """What a lane has counted after so many hours."""
    until, last_day = by_hour[:hours].cumsum(axis=0), (hours - 1) // 24

    def arms(day: int) -> dict[str, Arm]:
        end = min(hours, 24 * (day + 1))
        of_day = np.zeros((24, 2), np.int64)
        of_day[: end - 24 * day] = by_hour[24 * day : end, :, :, 0].sum(axis=-1)
        return {
            name: Arm(until[end - 1, side], hours=of_day[:, side])
            for side, name in enumerate(("control", "treatment"))
        }

    ends = {FIRST_MS + day * DAY_MS: arms(day) for day in range(last_day)}
    last_ms = FIRST_MS + (hours - 1) * HOUR_MS
    return Tallies(spec.digest, arms(last_day), last_ms or 1, ends, FIRST_MS + 1)


def statements(spec: Spec, by_hour: Integers, *, pooled: bool = False) -> list[Statement]:
    """Of each look; `pooled` are those over all days in one, whatever the shares."""
    found = []
    for hours in range(LOOK_HOURS, len(by_hour) + 1, LOOK_HOURS):
        experiment = divided(spec, [counted(spec, by_hour, hours)])
        if pooled:
            experiment = replace(experiment, periods={})
        compared = compare_variant(experiment, "treatment", [METRIC])
        found.append(compared[METRIC.name].all_lists.absolute)
    return found


def hours_until_verdict(of_looks: Sequence[Statement]) -> float:
    """Of the first look with a verdict; infinite without one."""
    looks = (look for look, one in enumerate(of_looks, 1) if one.verdict != "undecided")
    return LOOK_HOURS * next(looks, math.inf)


def print_world(name: str, runs: int, impressions: int, seed: int) -> bool:
    """Print how often the runs of a world mislead; returns whether that is seldom enough."""
    world, misled = WORLDS[name], {True: list[bool](), False: list[bool]()}
    spec = spec_of(world, impressions)
    for number in range(runs):
        by_hour = hours_of(world, impressions, 0.0, seed + number)
        for pooled, of_kind in misled.items():
            of_looks = statements(spec, by_hour, pooled=pooled)
            of_kind.append(hours_until_verdict(of_looks) < math.inf)
    return kept(f"{name} (days pooled: {np.mean(misled[True]):.0%})", misled[False])


def print_power(name: str, runs: int, impressions: int, effect: float, seed: int) -> None:
    """Print how soon a true change is found."""
    world, found = WORLDS[name], {True: list[float](), False: list[float]()}
    spec = spec_of(world, impressions)
    for number in range(runs):
        by_hour = hours_of(world, impressions, effect, seed + number)
        for pooled, of_kind in found.items():
            of_kind.append(hours_until_verdict(statements(spec, by_hour, pooled=pooled)))
    texts = [
        f"{median(hours) / 24:.1f} days in half of the runs, {np.mean(np.isfinite(hours)):.0%} ever"
        for hours in (found[False], found[True])
    ]
    print(f"  {name}: {texts[0]} (days pooled: {texts[1]})", flush=True)


def print_changing_shares(runs: int, seed: int, impressions: int = 100_000) -> bool:
    """Print the tables; returns whether the error rates are within the limits."""
    print(f"\nchanging shares, no effect: {runs:,} runs, {24 * DAYS // LOOK_HOURS} looks")
    holds = [print_world(name, runs, impressions, seed) for name in WORLDS]
    print(f"\n{EFFECT:.0%} more in the treatment: {runs // 2:,} runs")
    for name in POWERS:
        print_power(name, runs // 2, impressions, EFFECT, seed)
    return all(holds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--impressions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--world", choices=list(WORLDS), help="by default all of them, and powers")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    given = options.runs, options.impressions, options.seed
    if options.world:
        held = print_world(options.world, *given)
    else:
        held = print_changing_shares(options.runs, options.seed, options.impressions)
    if not held:
        raise SystemExit("misleads more often than it may")


if __name__ == "__main__":
    main()
