"""False alarms and detection times of the alerts on scores, as the table of deploy/runbook.md.

make bench-alerts                                  # minutes; SEED and sizes can be given:
make bench-alerts ARGS="--series-weeks 2000 --trials 50 --seed 7"
"""

import argparse
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.deploy.alert_power import Chance, chance_of_a_tenth
from tests.deploy.alert_proof import fired, first_firing_hours, load
from tests.deploy.alert_screen import LEAD_HOURS, episodes_of_days, suspicious_days, together
from tests.deploy.alert_traffic import Traffic, simulate

WEEKS: Final = 8
CHUNK: Final = 25
"""Trials that are simulated at once."""
DROP_AT_HOUR: Final = 6
HOURS_AFTER: Final = 26
DROPS: Final = (0.05, 0.10)


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    traffic: Traffic
    drops: tuple[float, ...] = DROPS
    share: float = 1.0
    """Of the series-weeks that are simulated: where alarms are many, a tenth of them says it."""


THIN: Final = Traffic(1_000)
FLAT: Final = Traffic(1_000, night=1.0)
CASES: Final = (
    Case("100 an hour, day and night", Traffic(100)),
    Case("1,000 an hour, day and night", THIN),
    Case("1,000 an hour at all hours", FLAT),
    Case("10,000 an hour, day and night", Traffic(10_000)),
    Case("1,000 an hour, drift 0.9 %, not 0.6 %", replace(THIN, drift=0.009), (), 0.1),
    Case("1,000 an hour, design effect 2, not 1.2", replace(THIN, design_effect=2.0), (), 0.1),
)


def any_of(firing: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    union: NDArray[np.bool_] = np.logical_or.reduce(list(firing.values()))
    return union


def false_alarms(traffic: Traffic, series_weeks: int, rng: np.random.Generator, at: Path) -> str:
    """Times somebody is called for nothing, per 1,000 series-weeks, with its 95 % interval."""
    settings = load("settings.yml")
    suspects = []
    weeks = 0
    while weeks < series_weeks:
        shown = simulate(traffic, CHUNK, WEEKS * 7 * 24 + LEAD_HOURS, rng)
        suspects.append(suspicious_days(shown, settings))
        weeks += CHUNK * WEEKS
    count = episodes_of_days(any_of(fired(at, together(suspects))))
    low = stats.chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    high = stats.chi2.ppf(0.975, 2 * count + 2) / 2
    scale = 1_000 / weeks
    return f"{count * scale:.2f} ({low * scale:.2f}–{high * scale:.2f}) | {weeks:,}"


def detection(
    traffic: Traffic, drop: float, trials: int, rng: np.random.Generator, at: Path
) -> str:
    """Share of drops found in 4 and in 24 hours, and hours until half and until all but one in
    twenty are found."""
    hours = DROP_AT_HOUR + HOURS_AFTER
    shown = simulate(traffic, trials, hours, rng, drop=drop, drop_at_hour=DROP_AT_HOUR)
    after = first_firing_hours(any_of(fired(at, shown)), DROP_AT_HOUR)
    half, most = (
        f"{value:.1f}" if np.isfinite(value) else f"> {HOURS_AFTER}"
        for value in np.quantile(after, (0.5, 0.95), method="higher")
    )
    within = [f"{np.mean(after <= limit):.1%}" for limit in (4, 24)]
    return " | ".join([*within, half, most])


def chances() -> Iterator[str]:
    """By the hour at which a drop of a tenth begins: the chance that three hours find it in four,
    by arithmetic alone."""
    for hour in range(-12, 12, 3):
        yield f"| {hour:+} h | {_row(chance_of_a_tenth(THIN, hour))} |"
    quarters = [chance_of_a_tenth(THIN, hour / 4).chance for hour in range(96)]
    yield f"| mean over the day | | | | {np.mean(quarters):.0%} |"
    yield f"| at 1,000 an hour at all hours | {_row(chance_of_a_tenth(FLAT, 0))} |"


def _row(found: Chance) -> str:
    return (
        f"{found.impressions:,.0f} | {found.to_a_tenth:.1f} | {found.needed:.1f}"
        f" | {found.chance:.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series-weeks", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.series_weeks} series-weeks, {options.trials} drops each\n")
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as directory:
        at = Path(directory) / "prometheus"
        print("| drop begins, from the quietest hour | scored | a tenth is | needed | chance |")
        print("|---|---|---|---|---|", *chances(), sep="\n")
        print("\n| scored impressions | false alarms per 1,000 series-weeks (95 %) | simulated |")
        print("|---|---|---|")
        for case in CASES:
            weeks = int(options.series_weeks * case.share)
            counted = false_alarms(case.traffic, weeks, rng, at)
            print(f"| {case.name} | {counted} |", flush=True)
        print("\n| scored impressions | drop | in 4 h | in 24 h | half after | 95 % after |")
        print("|---|---|---|---|---|---|")
        for case in CASES:
            for drop in case.drops:
                found = detection(case.traffic, drop, options.trials, rng, at)
                print(f"| {case.name} | −{drop:.0%} | {found} |", flush=True)


if __name__ == "__main__":
    main()
