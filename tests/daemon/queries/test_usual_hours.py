"""The usual hours of a window: the same hours of each of the 7 days before it."""

from typing import Final

import numpy as np
import pytest

from relevanced.daemon.queries import USUAL_DAYS, days_to_keep, usual_hours

HOUR: Final = 3_600_000
NOW: Final = 500


def hours(start: int, end: int) -> range:
    return range(start * HOUR, end * HOUR, HOUR)


def found(window: range, covered: range, left_out: tuple[int, ...] = ()) -> list[list[int]]:
    """The same in hours."""
    days = usual_hours(window, covered, frozenset(hour * HOUR for hour in left_out))
    return [[start // HOUR for start in day] for day in days]


@pytest.mark.parametrize("length", [1, 6, 24])
def test_window_of_up_to_a_day_has_its_hours_on_each_day_before(length: int) -> None:
    window = hours(NOW - length, NOW)
    expected = [
        [start // HOUR - 24 * back for start in window] for back in range(1, USUAL_DAYS + 1)
    ]
    assert found(window, hours(0, NOW)) == expected


def test_window_of_a_week_has_the_seven_days_before_it() -> None:
    days = found(hours(NOW - 168, NOW), hours(0, NOW))
    assert sorted(sum(days, [])) == [*range(NOW - 336, NOW - 168)]
    assert [len(day) for day in days] == [24] * 7


def test_open_hour_has_the_whole_hours_of_the_days_before() -> None:
    assert found(hours(NOW, NOW + 1), hours(0, NOW)) == [[NOW - 24 * back] for back in range(1, 8)]


def test_outages_and_hours_that_are_not_stored_are_left_out() -> None:
    days = found(hours(NOW - 1, NOW), hours(NOW - 80, NOW), (NOW - 49,))
    assert days == [[NOW - 25], [NOW - 73]]


def test_day_counts_while_half_of_its_hours_do() -> None:
    window = hours(NOW - 6, NOW)
    lost = (NOW - 30, NOW - 29, NOW - 28)
    assert found(window, hours(NOW - 40, NOW), lost) == [[NOW - 27, NOW - 26, NOW - 25]]
    assert found(window, hours(NOW - 40, NOW), (*lost, NOW - 27)) == []


def test_no_hour_of_the_window_is_its_own_usual(rng: np.random.Generator) -> None:
    for _ in range(200):
        length, covered = int(rng.integers(1, 200)), int(rng.integers(0, NOW))
        left_out = tuple(rng.integers(0, NOW, 50).tolist())
        days = found(hours(NOW - length, NOW), hours(covered, NOW), left_out)
        every = sum(days, [])
        assert len(set(every)) == len(every) and len(days) <= USUAL_DAYS
        assert all(covered <= hour < NOW - length and hour not in left_out for hour in every)
        assert {hour % 24 for hour in every} <= {hour % 24 for hour in range(NOW - length, NOW)}


@pytest.mark.parametrize(("length", "days"), [(1, 8), (6, 8), (24, 8), (168, 14)])
def test_days_to_keep_hold_the_whole_usual(length: int, days: int) -> None:
    assert days_to_keep(length) == days
    stored = hours(NOW - 24 * days, NOW)
    assert len(found(hours(NOW - length, NOW), stored)) == USUAL_DAYS
    assert len(found(hours(NOW - length, NOW), hours(NOW - 24 * (days - 1), NOW))) < USUAL_DAYS
