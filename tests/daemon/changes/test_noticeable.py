"""What would be noticed: computed from the thresholds, and true of simulated falls."""

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    Least,
    ScoreNoise,
    Site,
    by_earlier,
    by_scan,
    earlier_lane,
    hour_lane,
    noticed,
    scan,
    sides,
)
from tests.daemon.changes.sites import Kept, simulated

NOISE = ScoreNoise()
SEED = 20261123
THIN, BUSY = Site(1_000), Site(20_000)


@pytest.mark.parametrize(
    ("thin", "busy", "of_site"),
    [
        (inf, 0.22, lambda site: hour_lane(site, 5 / 60, 5 / 60, NOISE)),
        (0.43, 0.11, lambda site: hour_lane(site, 1 / 3, 2 / 3, NOISE)),
        (0.26, 0.14, lambda site: hour_lane(site, 1, 3, NOISE)),
        (0.31, 0.24, lambda site: earlier_lane(site, 1, 1, "day", NOISE)),
        (0.16, 0.13, lambda site: earlier_lane(site, 3, 6, "day", NOISE)),
        (0.14, 0.06, lambda site: earlier_lane(site, 3, 1, "week", NOISE)),
        (0.11, 0.05, lambda site: earlier_lane(site, 3, 3, "week", NOISE)),
        (0.05, 0.035, lambda site: earlier_lane(site, 24, 3, "week", NOISE)),
    ],
)
def test_the_smallest_fall_follows_from_the_thresholds(
    thin: float, busy: float, of_site: Callable[[Site], float]
) -> None:
    assert of_site(THIN) == pytest.approx(thin, abs=0.006)
    assert of_site(BUSY) == pytest.approx(busy, abs=0.006)


@pytest.mark.parametrize(("per_hour", "known_min"), [(20_000, 20), (1_000, 60), (5_000, 240)])
def test_falls_of_this_size_are_found_in_nine_of_ten(per_hour: float, known_min: int) -> None:
    rng = np.random.default_rng(SEED)
    kept = Kept(known_min * MINUTE_MS)
    quiet = simulated(kept, per_hour, 1, rng, drift_ratio=0)
    least = float(by_scan(sides(quiet, np.ones(1), NOISE), 400)[0])
    at = sides(quiet, np.ones(1), NOISE)
    errors = np.where(at.scored[:, 0] >= 100, at.error[:, 0], inf)
    start = int(quiet.starts[at.instants[errors.argmin()]])
    broken_ms = int(quiet.ends[-1]) - start

    def found(drop: float) -> float:
        timeline = simulated(kept, per_hour, 400, rng, broken_ms=broken_ms, drop=drop)
        return float(scan(timeline, np.ones(400), NOISE).called.mean())

    assert found(least) >= 0.85, f"seed {SEED}: {least}"
    assert found(0.6 * least) <= 0.5, f"seed {SEED}: {least}"


def test_nothing_is_noticeable_without_a_baseline() -> None:
    short = simulated(Kept(4 * MINUTE_MS), 20_000, 3, np.random.default_rng(SEED))
    assert np.isinf(by_scan(sides(short, np.ones(3), NOISE), 3)).all()
    assert np.isinf(by_earlier(6, np.ones(3), 1, "week", NOISE)).all()


def told(*leasts: tuple[str, float, float]) -> list[tuple[str, float]]:
    """(lane, drop) of what is told; of each comparison its lane, drop, and age in hours."""
    now = 1000 * HOUR_MS
    of = [
        Least(lane, np.array([drop]), np.array([now - age * HOUR_MS])) for lane, drop, age in leasts
    ]
    return [(each.lane, each.drop) for each in noticed(of, 0, now)]


def test_what_is_noticed_soon_is_told_beside_what_takes_a_day() -> None:
    day, three, hour = ("weeks", 0.05, 24.0), ("weeks", 0.11, 3.0), ("hour", 0.13, 2.0)
    assert told(hour, three, day) == [("weeks", 0.05), ("weeks", 0.11)]
    assert told(hour, ("weeks", inf, 24.0)) == [("hour", 0.13)]
    assert told(("weeks", 0.12, 24.0), hour) == [("weeks", 0.12)], "about as large"
    assert told(("hour", inf, 2.0), ("hour", 1.2, 3.0)) == []
