"""A drift that is larger than the setting is measured, and raises no alarms then."""

from dataclasses import replace

import numpy as np
import pytest

from tests.bench.site_drift import SHAPED, SLOW, USUAL, counted, counted_after_clocks


def test_scores_that_drift_more_are_not_called_once_it_is_known(rng: np.random.Generator) -> None:
    before, after, drifts = counted(SLOW, 80, rng)
    assert before >= 10 and after <= before / 5
    assert np.median(drifts) == pytest.approx(SLOW.drift, rel=0.25)


def test_drift_that_is_as_usual_is_no_larger(rng: np.random.Generator) -> None:
    _, _, drifts = counted(USUAL, 40, rng)
    assert np.median(drifts) <= 1.2 * USUAL.drift


def test_a_change_of_clocks_is_no_fall_by_local_hours(rng: np.random.Generator) -> None:
    by_utc, by_local = counted_after_clocks(replace(SHAPED, shape=0.08), 40, rng)
    assert by_utc >= 8 and by_local <= 2
