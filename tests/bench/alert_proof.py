"""False alarms and detection times of the alerts on scores: the tables in daemon/http/runbook.md.

make bench-alerts                                  # takes minutes; seed and sizes can be given:
make bench-alerts ARGS="--series-weeks 2000 --trials 50 --seed 7"
"""

import argparse
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tests.bench import alert_start
from tests.bench.poisson import per_thousand
from tests.deploy.alert_power import Detection, detection_of_a_drop
from tests.deploy.alert_proof import firing, first_firing_hours
from tests.deploy.alert_screen import (
    LEAD_HOURS,
    episodes_of_days,
    judged_with,
    suspicious_days,
    together,
)
from tests.deploy.alert_traffic import Traffic, simulate

WEEKS: Final = 8
CHUNK: Final = 25
"""Number of trials simulated at once."""
DROP_AT_HOUR: Final = 6
HOURS_AFTER: Final = 26
DROPS: Final = (0.05, 0.10)


@dataclass(frozen=True)
class Case:
    """One row of the tables."""

    name: str
    traffic: Traffic
    drops: tuple[float, ...] = DROPS
    share: float = 1.0
    """Share of the series-weeks that are simulated: a tenth is enough where alarms are frequent."""
    measured: float | None = None
    """The design effect that the exporter has measured; None: the setting decides."""


THIN: Final = Traffic(1_000)
FLAT: Final = Traffic(1_000, night=1.0)
SUCCESS: Final = Traffic(1_000, mean=0.6, deviation=0.49)
RR: Final = Traffic(1_000, mean=0.4, deviation=0.42)
"""Scores that lead headlines."""
CASES: Final = (
    Case("100 an hour, day and night", Traffic(100)),
    Case("1,000 an hour, day and night", THIN),
    Case("1,000 an hour at all hours", FLAT),
    Case("10,000 an hour, day and night", Traffic(10_000)),
    Case("Success@10 of 0.6, 1,000 an hour", SUCCESS),
    Case("Success@10 of 0.6, 10,000 an hour", replace(SUCCESS, impressions_per_hour=10_000)),
    Case("RR@10 of 0.4, 1,000 an hour", RR),
    Case("RR@10 of 0.4, 10,000 an hour", replace(RR, impressions_per_hour=10_000)),
    Case("1,000 an hour, drift 0.9 %, not 0.6 %", replace(THIN, drift=0.009), (), 0.1),
    Case("1,000 an hour, design effect 2, not 1.2", replace(THIN, design_effect=2.0), (), 0.1),
    Case(
        "1,000 an hour, design effect 2, measured 1.9",
        replace(THIN, design_effect=2.0),
        (),
        0.2,
        1.9,
    ),
)


def false_alarms(case: Case, series_weeks: int, rng: np.random.Generator) -> str:
    """Cells of a row: false alarms per 1,000 series-weeks with their 95 % interval,
    series-weeks."""
    days = []
    weeks = 0
    while weeks < series_weeks:
        gauges = simulate(case.traffic, CHUNK, WEEKS * 7 * 24 + LEAD_HOURS, rng)
        days.append(suspicious_days(judged_with(gauges, case.measured)))
        weeks += CHUNK * WEEKS
    count = episodes_of_days(firing(together(days)))
    return f"{per_thousand(count, weeks)} | {weeks:,}"


def detection(traffic: Traffic, drop: float, trials: int, rng: np.random.Generator) -> str:
    """Cells of a row: shares of the drops detected within 4 and 24 hours, and hours until 50 % and
    95 % are detected."""
    hours = DROP_AT_HOUR + HOURS_AFTER
    gauges = simulate(traffic, trials, hours, rng, drop=drop, drop_at_hour=DROP_AT_HOUR)
    after = first_firing_hours(firing(gauges), DROP_AT_HOUR)
    half, most = (
        f"{value:.1f}" if np.isfinite(value) else f"> {HOURS_AFTER}"
        for value in np.quantile(after, (0.5, 0.95), method="higher")
    )
    within = [f"{np.mean(after <= limit):.1%}" for limit in (4, 24)]
    return " | ".join([*within, half, most])


def chances() -> Iterator[str]:
    """Rows by the hour at which a drop of 10 % begins: the computed chance that it is detected
    within four hours."""
    for hour in range(-12, 12, 3):
        yield f"| {hour:+} h | {_row(detection_of_a_drop(THIN, hour))} |"
    quarters = [detection_of_a_drop(THIN, hour / 4).chance for hour in range(96)]
    yield f"| mean over the day | | | | {np.mean(quarters):.0%} |"
    yield f"| at 1,000 an hour at all hours | {_row(detection_of_a_drop(FLAT, 0))} |"


def _row(drop: Detection) -> str:
    return (
        f"{drop.impressions:,.0f} | {drop.drop_z:.1f} | {drop.threshold_z:.1f}"
        f" | {drop.chance:.0%}"
    )


def first_weeks(series: int, trials: int, rng: np.random.Generator) -> None:
    """Print the tables of a new installation."""
    print(
        "| scored impressions, first two weeks | false alarms per 1,000 series-weeks (95 %)"
        " | without `weekday_drift_ratio` | series |"
    )
    print("|---|---|---|---|")
    for row in alert_start.false_alarms(series, rng):
        print(row, flush=True)
    print("\n| age at the drop | drop | within 4 h | within 24 h |")
    print("|---|---|---|---|")
    for row in alert_start.detections(trials, rng):
        print(row, flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series-weeks", type=int, default=10_000)
    parser.add_argument("--start-series", type=int, default=2_000)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.series_weeks} series-weeks, {options.trials} drops each\n")
    rng = np.random.default_rng(seed)
    first_weeks(options.start_series, options.trials, rng)
    if not options.series_weeks:
        return
    print(
        "| start of the drop, relative to the quietest hour | scored in three hours"
        " | size of 10 % | alert fires at | chance |"
    )
    print("|---|---|---|---|---|", *chances(), sep="\n")
    print("\n| scored impressions | false alarms per 1,000 series-weeks (95 %) | simulated |")
    print("|---|---|---|")
    for case in CASES:
        weeks = int(options.series_weeks * case.share)
        counted = false_alarms(case, weeks, rng)
        print(f"| {case.name} | {counted} |", flush=True)
    print(
        "\n| scored impressions | drop | within 4 h | within 24 h"
        " | half after (h) | 95 % after (h) |"
    )
    print("|---|---|---|---|---|---|")
    for case in CASES:
        for drop in case.drops:
            found = detection(case.traffic, drop, options.trials, rng)
            print(f"| {case.name} | −{drop:.0%} | {found} |", flush=True)


if __name__ == "__main__":
    main()
