"""A change from its onset to its end in simulated shops: named by what broke, and by nothing else,
until soon behind its repair. `make bench-alerts` has all kinds."""

import pytest

from tests.bench.repairs import KINDS, run

SEED = 35


@pytest.mark.parametrize(
    ("fault", "per_hour", "broken_min"),
    [
        ("ranking DE", 5_000, 30),
        ("tracker all", 5_000, 120),
        ("DE deeper within the whole, which is repaired", 20_000, 120),
        ("FR breaks before DE is repaired", 5_000, 120),
    ],
)
def test_only_what_broke_is_named_and_all_is_over_soon_behind_the_repair(
    fault: str, per_hour: float, broken_min: float
) -> None:
    made = run(KINDS[fault], per_hour, broken_min, SEED, hours_after=4.0)
    assert made.named_h is not None, "it was not seen"
    assert made.is_good, (SEED, made)
