"""Pauses double, stay below ten seconds, and spread."""

import pytest

from relevanced.daemon.backoff import LONGEST_PAUSE_S, pause_s


def test_pauses_double_up_to_the_longest() -> None:
    pauses = [pause_s(failures, 1.0) for failures in range(1, 10)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0])


@pytest.mark.parametrize("failures", [1, 5, 8, 1000, 10**9])
def test_pauses_spread_between_half_and_all(failures: int) -> None:
    longest = pause_s(failures, 1.0)
    assert pause_s(failures, 0.0) == longest / 2
    assert pause_s(failures, 0.5) == longest * 0.75
    assert longest <= LONGEST_PAUSE_S
