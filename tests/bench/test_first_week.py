"""The shape of a day is no fall once the hours of yesterday are known: a small `first_week.py`."""

from tests.bench.first_week import SECOND_DAY_H, looks


def test_a_day_that_is_shaped_is_no_fall_from_the_second_day_on() -> None:
    assert not any(looks(20_000, 3, range(SECOND_DAY_H, 64, 2)))
