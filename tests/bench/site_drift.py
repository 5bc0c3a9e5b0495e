"""False alarms where scores drift more than `drift_ratio` says, before and after it is measured;
and in the week after a change of clocks, by the hours of UTC and by those of the place:

python -m tests.bench.site_drift                       # or fewer, of a seed:
python -m tests.bench.site_drift --series 160 --seed 7

Series are judged for a week by the three before; those of a site measure their drift together, from
the five before. Exits with 1 where they are called more often than MOST.
"""

import argparse
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from relevanced.daemon.changes import DRIFT_HOURS, HourSums, WeekSides, measured_drift
from tests.bench.poisson import per_thousand
from tests.deploy import alert_traffic
from tests.deploy.alert_screen import CHANGE_SETTINGS, NOISE, WEEKS, conditions, episodes, verdicts
from tests.deploy.alert_traffic import PANES_PER_HOUR, Floats, Traffic

SERIES_OF_A_SITE: Final = 8
WEEK_HOURS: Final = 168
MOST: Final = 20.0
"""Called per 1,000 series-weeks, once the drift is measured."""
USUAL: Final = Traffic(1_000)
SLOW: Final = replace(USUAL, drift=0.015, drift_hours=72.0)
SHAPED: Final = replace(USUAL, impressions_per_hour=10_000, shape=0.04)
"""The hours of a day differ."""
CASES: Final = {
    "drift 0.6 % over 12 hours": USUAL,
    "drift 0.9 % over 12 hours": replace(USUAL, drift=0.009),
    "drift 1.5 % over 72 hours": SLOW,
    "drift 1.5 % over 72 hours, 10,000 an hour": replace(SLOW, impressions_per_hour=10_000),
}


@dataclass(frozen=True)
class Site:
    """Some series that one site has."""

    gauges: Mapping[str, WeekSides]
    """Of the week that is judged."""
    hours: HourSums
    """Those before it."""


def simulated(
    traffic: Traffic, rng: np.random.Generator, *, clocks_h: int = 0, later_h: int = 0
) -> Site:
    """Five weeks, and one that is judged, in which all happens so many hours earlier; it is
    compared with so many hours later."""
    before = DRIFT_HOURS * PANES_PER_HOUR
    panes = before + WEEK_HOURS * PANES_PER_HOUR
    hour = np.arange(panes) / PANES_PER_HOUR + rng.uniform(0, WEEK_HOURS, (SERIES_OF_A_SITE, 1))
    hour[:, before:] += clocks_h
    counts = rng.poisson(alert_traffic.expected(traffic, hour)).astype(np.float64)
    drift = traffic.drift * alert_traffic.drifting(traffic, SERIES_OF_A_SITE, panes, rng)
    sums = alert_traffic.summed(
        traffic, counts, alert_traffic.season(traffic, hour) * (1 + drift), rng
    )
    scored, total = (
        each[:, :before].reshape(SERIES_OF_A_SITE, -1, PANES_PER_HOUR).sum(axis=2)
        for each in (counts, sums)
    )
    return Site(
        alert_traffic.gauges(traffic, counts, sums, before, later_h * PANES_PER_HOUR),
        HourSums(
            scored,
            total / np.maximum(scored, 1),
            np.full(scored.shape, traffic.deviation**2),
            CHANGE_SETTINGS.drift_ratio,
        ),
    )


def called(site: Site, drift_ratio: float) -> int:
    """How often the lane `weeks` calls the series."""
    noise = replace(NOISE, drift_ratio=drift_ratio)
    return episodes(verdicts(conditions(site.gauges, WEEKS, noise=noise)).any)


def counted(traffic: Traffic, series: int, rng: np.random.Generator) -> tuple[int, int, Floats]:
    """(calls by the setting, calls by what is measured, the drift that each site measured)."""
    before, after, drifts = 0, 0, []
    for _ in range(0, series, SERIES_OF_A_SITE):
        site = simulated(traffic, rng)
        measured = measured_drift([site.hours], NOISE.design_effect)
        drifts.append(CHANGE_SETTINGS.drift_ratio if measured is None else measured)
        before += called(site, CHANGE_SETTINGS.drift_ratio)
        after += called(site, max(CHANGE_SETTINGS.drift_ratio, drifts[-1]))
    return before, after, np.array(drifts)


def counted_after_clocks(
    traffic: Traffic, series: int, rng: np.random.Generator
) -> tuple[int, int]:
    """(calls by the hours of UTC, calls by local hours)."""
    by_utc, by_local = (
        sum(
            called(simulated(traffic, rng, clocks_h=1, later_h=later_h), NOISE.drift_ratio)
            for _ in range(0, series, SERIES_OF_A_SITE)
        )
        for later_h in (0, 1)
    )
    return by_utc, by_local


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--series", type=int, default=800, help="of each case")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    print(f"seed {given.seed}, false alarms per 1,000 series-weeks (95 %)", flush=True)
    rng, failed = np.random.default_rng(given.seed), False
    for name, traffic in CASES.items():
        before, after, drifts = counted(traffic, given.series, rng)
        low, middle, high = np.quantile(drifts, (0.05, 0.5, 0.95))
        rates = [per_thousand(each, given.series) for each in (before, after)]
        print(f"{name}: {rates[0]}; measured {middle:.2%} ({low:.2%} to {high:.2%}): {rates[1]}")
        failed |= after > MOST * given.series / 1_000 + 3
    by_utc, by_local = counted_after_clocks(SHAPED, given.series, rng)
    rates = [per_thousand(each, given.series) for each in (by_utc, by_local)]
    print(f"after a change of clocks: by UTC {rates[0]}, by local hours {rates[1]}")
    return int(failed or by_local > MOST * given.series / 1_000 + 3)


if __name__ == "__main__":
    sys.exit(main())
