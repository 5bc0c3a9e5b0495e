"""Lists for which a metric is undefined, in experiments."""

import numpy as np
import pytest

from relevanced.metrics import (
    BUCKETS,
    CATALOG,
    Design,
    UserBuckets,
    compare_defined,
    mean,
    over_all,
    parse,
    worst_value,
)
from tests.metrics.batches import family_names


def test_undefined_lists_count_as_the_worst_value_to_the_integer(rng: np.random.Generator) -> None:
    values = np.where(rng.random(2_000) < 0.4, np.nan, rng.random(2_000))
    users = rng.integers(0, BUCKETS, 2_000)
    counts = np.bincount(users, minlength=BUCKETS)
    for worst in (0.0, 1.0):
        found = over_all(UserBuckets.of(values, users), counts, worst)
        filled = UserBuckets.of(np.where(np.isnan(values), worst, values), users)
        for tally in ("counts", "sums", "squares"):
            assert np.array_equal(getattr(found, tally), getattr(filled, tally))


def test_no_metric_gets_its_best_value_where_it_is_undefined() -> None:
    for family, entry in CATALOG.items():
        metric = parse(family_names(family, entry)[0])
        worst, (lowest, highest) = worst_value(metric), entry.range
        if entry.undefined == "never" or metric.direction == "none":
            continue
        assert worst == (lowest if metric.direction == "up" else None if highest > 1 else highest)


@pytest.mark.parametrize("more", [0.0, 0.2])
def test_shares_of_defined_lists_are_compared(more: float, rng: np.random.Generator) -> None:
    """The treatment gets more lists defined, with low values: their average falls, and the shares
    tell why."""
    users = rng.integers(0, BUCKETS, 20_000)
    counts = np.bincount(users, minlength=BUCKETS)
    draws = rng.random(20_000)
    control = np.where(draws < 0.5, 0.8, np.nan)
    treatment = np.where((draws > 0.5) & (draws < 0.5 + more), 0.3, control)
    arms = [
        UserBuckets.of(values + 0.1 * rng.random(20_000), users) for values in (control, treatment)
    ]
    found = compare_defined(
        arms[0][None], arms[1][None], (counts[None], counts[None]), Design(40_000)
    )
    assert found.shares_differ == (more > 0)
    assert found.shares.treatment.value == pytest.approx(0.5 + more, abs=0.02)
    if more:
        every = [over_all(arm, counts) for arm in arms]
        assert (
            found.comparison.absolute.interval.upper < 0.0 < float(mean(every[1]) - mean(every[0]))
        )
