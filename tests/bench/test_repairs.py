"""From the onset of a fault to its repair and behind it, by the judge of the product: small runs of
`tests/bench/repairs.py`."""

import secrets
from collections.abc import Callable

import pytest

from tests.bench.repairs import KINDS, Run, run

SEED = secrets.randbits(20)
MORE_RUNS = 6


def mostly(play: Callable[[int], Run], is_good: Callable[[Run], bool]) -> None:
    """At least 95 of 100 runs are good: of those, this fails once in 9,000 times."""
    runs = [play(SEED)]
    if not is_good(runs[0]):
        runs += [play(SEED + 1 + more) for more in range(MORE_RUNS)]
    assert sum(map(is_good, runs)) * 2 > len(runs), (SEED, runs)


@pytest.mark.parametrize(
    ("name", "broken_min"),
    [
        ("ranking DE", 60),
        ("tracker all", 60),
        ("ranking all", 600),
        ("DE and FR at once, DE repaired", 120),
        ("half repaired", 120),
    ],
)
def test_a_repaired_fault_is_over_and_no_innocent_is_named(name: str, broken_min: float) -> None:
    mostly(
        lambda seed: run(KINDS[name], 20_000, broken_min, seed, hours_after=6.0),
        lambda made: made.is_good and made.named_h is not None and made.named_h < 2,
    )


def test_of_two_faults_the_one_that_is_repaired_is_not_named_any_more() -> None:
    """DE is repaired six hours before FR."""

    def is_good(made: Run) -> bool:
        later = [subject for hour, subject in made.path if hour > -4]
        return bool(made.path) and not any("DE" in subject for subject in later)

    mostly(
        lambda seed: run(KINDS["DE and FR at once, DE repaired"], 20_000, 120, seed, 4.0), is_good
    )
