"""What a quiet headline says would have been noticed is noticed: small runs of `noticed.py`."""

import pytest

from tests.bench.noticed import LEAST, run

SEED = 20261127


@pytest.mark.parametrize("days", [0.25, 8.5])
def test_a_fall_of_the_size_and_begin_that_are_told_is_noticed(days: float) -> None:
    told = [fall for each in range(4) for fall in run(days, 5_000, SEED + each)]
    assert sum(fall.is_noticed for fall in told) >= LEAST * len(told), (SEED, told)
    ages = sorted({round(fall.age_h) for fall in told})
    assert ages[0] <= 4 and (days < 1 or ages[-1] == 24), (SEED, told)
