"""The first two weeks of a new installation: the last two tables of `make bench-alerts`.

With the verdicts of `daemon.changes.weeks`: a test compares them with those of the rules in a real
Prometheus, which would take hours for as many series.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from relevanced.daemon.changes import MadeOf
from tests.bench.poisson import per_thousand
from tests.deploy.alert_proof import first_firing_hours
from tests.deploy.alert_screen import conditions, episodes, verdicts
from tests.deploy.alert_start import Started, simulate_start
from tests.deploy.alert_traffic import Traffic

DAYS: Final = 14
CHUNK: Final = 200
HOURS_AFTER: Final = 26
ALIKE: Final = Traffic(1_000)
CASES: Final = (
    ("1,000 an hour, every day of the week alike", ALIKE),
    ("1,000 an hour, days of the week differ by 2 %", replace(ALIKE, weekday_drift=0.02)),
    ("1,000 an hour, weekends 4 % lower", replace(ALIKE, weekend=-0.04)),
    (
        "10,000 an hour, weekends 4 % lower",
        replace(ALIKE, weekend=-0.04, impressions_per_hour=10_000),
    ),
)
DROPS: Final = ((12, 0.1), (12, 0.2), (48, 0.1), (48, 0.2), (120, 0.1), (120, 0.2), (216, 0.1))
"""(hours after the start, share that is lost)"""


def false_alarms(series: int, rng: np.random.Generator) -> Iterator[str]:
    """Rows: false alarms per 1,000 series-weeks with their 95 % interval, with the drift between
    days of the week and without it; series."""
    for name, traffic in CASES:
        known = unknown = simulated = 0
        while simulated < series:
            started = simulate_start(traffic, CHUNK, DAYS, rng)
            known += episodes(verdicts(conditions(started.gauges, started.made_of)).any)
            unknown += episodes(verdicts(conditions(started.gauges, as_weeks(started))).any)
            simulated += CHUNK
        weeks = simulated * DAYS / 7
        yield (
            f"| {name} | {per_thousand(known, weeks)} | {per_thousand(unknown, weeks)}"
            f" | {simulated:,} |"
        )


def as_weeks(started: Started) -> dict[str, MadeOf]:
    """What baselines were made of, as if days were weeks."""
    return {window: replace(of, of_days=False) for window, of in started.made_of.items()}


def detections(trials: int, rng: np.random.Generator) -> Iterator[str]:
    """Rows: shares of the drops detected within 4 and 24 hours."""
    traffic = replace(ALIKE, weekday_drift=0.02)
    for at_hour, drop in DROPS:
        days = -(-(at_hour + HOURS_AFTER) // 24)
        started = simulate_start(traffic, trials, days, rng, drop=drop, drop_at_hour=at_hour)
        found = verdicts(conditions(started.gauges, started.made_of)).any
        after = first_firing_hours(found, at_hour)
        within = " | ".join(f"{np.mean(after <= limit):.0%}" for limit in (4, 24))
        yield f"| {_age(at_hour)} | −{drop:.0%} | {within} |"


def _age(hours: int) -> str:
    return f"{hours} h" if hours < 24 else f"{hours / 24:g} d"
