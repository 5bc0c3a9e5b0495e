"""The lanes `weeks` and `day` call what the alert rules do, for as long as these demand."""

from dataclasses import replace

import numpy as np

from relevanced.daemon.changes import HOUR_MS, MINUTE_MS, ChangeSettings
from relevanced.daemon.exporter import BaselineComparison, MeasuredNoise, UsualCalls, made_of
from relevanced.metrics import Floats
from tests.daemon.exporter.two_countries import NAMES, NOW_MS, PLAN

PER_HOUR = 20_000


def rows(level: float, hours: int) -> Floats:
    """All segments have this Success, and RR half of it."""
    found = np.zeros((len(NAMES), PLAN.row_width))
    searches = PER_HOUR * hours
    found[:, 0] = searches
    for index, mean in enumerate((level, level / 2, 1 - level)):
        column, unit = PLAN.metric_column(index), PLAN.metrics[index].unit
        found[:, column : column + 3] = (searches, searches * mean * unit, searches * mean * unit)
    return found


def comparisons(level: float, unit: str = "week", broken_h: float = 24) -> list[BaselineComparison]:
    """The last hours, low for so long, against three periods at 0.6."""
    return [
        BaselineComparison(
            f"{hours}h",
            0,
            hours * HOUR_MS,
            rows(level * min(broken_h / hours, 1) + 0.6 * (1 - min(broken_h / hours, 1)), hours),
            unit,
            {back: rows(0.6, hours) for back in (1, 2, 3)},
            None,
        )
        for hours in (1, 6, 24)
    ]


def looks(
    calls: UsualCalls, minutes: range, level: float, unit: str = "week", broken_h: float = 24
) -> list[bool]:
    """Whether Success of the whole is called at each of these minutes."""
    found = []
    for minute in minutes:
        compared = comparisons(level, unit, broken_h)
        result = calls.take(NOW_MS + minute * MINUTE_MS, compared, NAMES, ChangeSettings())
        assert result is not None and result.lane == {"week": "weeks", "day": "day"}[unit]
        found.append(bool(result.called[0, 0]))
    return found


def test_a_fall_is_called_after_it_has_held_for_a_quarter_of_an_hour() -> None:
    called = looks(UsualCalls(PLAN), range(0, 21), 0.54)
    assert called == [False] * 15 + [True] * 6


def test_a_large_fall_is_called_after_five_minutes() -> None:
    called = looks(UsualCalls(PLAN), range(0, 8), 0.4, broken_h=1)
    assert called == [False] * 5 + [True] * 3


def test_a_gap_in_the_condition_begins_the_time_anew() -> None:
    calls = UsualCalls(PLAN)
    looks(calls, range(0, 11), 0.54)
    looks(calls, range(11, 22), 0.6)
    assert not any(looks(calls, range(22, 35), 0.54))


def test_an_ordinary_saturday_is_called_against_weeks_only() -> None:
    """-4 % against four other days is what a weekend does."""
    assert looks(UsualCalls(PLAN), range(0, 20), 0.576)[-1]
    assert not any(looks(UsualCalls(PLAN), range(0, 60), 0.576, "day"))


def test_a_score_that_is_known_to_drift_more_must_fall_deeper() -> None:
    noise = MeasuredNoise(1.2, None, {PLAN.metrics[0].name: 0.03, PLAN.metrics[1].name: 0.001})
    change_settings, calls = noise.applied(ChangeSettings()), UsualCalls(PLAN)
    assert change_settings.drift_of(PLAN.metrics[1].name) == ChangeSettings().drift_ratio
    for minute in range(20):
        result = calls.take(NOW_MS + minute * MINUTE_MS, comparisons(0.56), NAMES, change_settings)
    assert result is not None and result.called[0].tolist()[:2] == [False, True]


def test_nothing_is_called_while_the_score_is_usual_or_better() -> None:
    for level in (0.6, 0.66):
        assert not any(looks(UsualCalls(PLAN), range(0, 60, 5), level))


def test_a_process_that_starts_knows_the_hours_before() -> None:
    """Three hours are lower than usual by enough together, and by too little each."""

    def called(knows: bool) -> bool:
        calls = UsualCalls(PLAN)
        for minute in range(0, 20):
            hour = comparisons(0.576, broken_h=3)
            result = calls.take(
                NOW_MS + minute * MINUTE_MS,
                hour,
                NAMES,
                ChangeSettings(),
                lambda end_ms: hour[0] if knows else None,  # noqa: B023
            )
        assert result is not None
        return bool(result.called[0, 0])

    assert called(True) and not called(False)


def test_what_gets_worse_by_rising_is_called_too() -> None:
    calls = UsualCalls(PLAN)
    for minute in range(0, 20):
        result = calls.take(NOW_MS + minute * MINUTE_MS, comparisons(0.54), NAMES, ChangeSettings())
    assert result is not None and result.called[0].tolist() == [True, True, True]


def test_segments_that_come_and_go_leave_what_is_known_of_the_others() -> None:
    """Where a grouping has many rare segments, some do at every look."""
    calls = UsualCalls(PLAN)

    def called(minute: int, segments: int) -> list[bool]:
        compared = [
            replace(
                each,
                recent=each.recent[:segments],
                periods={back: rows[:segments] for back, rows in each.periods.items()},
            )
            for each in comparisons(0.54)
        ]
        now_ms = NOW_MS + minute * MINUTE_MS
        result = calls.take(now_ms, compared, NAMES[:segments], ChangeSettings())
        assert result is not None
        return [bool(each[0]) for each in result.called]

    assert [called(minute, 2 if minute % 2 else 3) for minute in range(18)][-1] == [True, True]
    assert called(18, 3) == [True, True, False], "the last one was away for a while"
    assert calls.take(NOW_MS + HOUR_MS, [], NAMES, ChangeSettings()) is None


def test_what_fewer_weeks_have_drifts_further_from_them() -> None:
    """DE has Success since a week, US for three: the same loss is within the drift of DE."""
    de, column = NAMES.index(("country", "DE")), PLAN.metric_column(0)
    compared = comparisons(0.582)
    for back in (2, 3):
        for each in compared:
            each.periods[back][de, column : column + 3] = np.nan
    calls = UsualCalls(PLAN)
    for minute in range(0, 21, 5):
        found = calls.take(NOW_MS + minute * MINUTE_MS, compared, NAMES, ChangeSettings())
        assert found is not None
    assert dict(zip(NAMES, found.called[:, 0].tolist(), strict=True)) == {
        ("all", "all"): True,
        ("country", "DE"): False,
        ("country", "US"): True,
    }
    counted = made_of([*compared[0].periods.values()], PLAN, of_days=False)
    assert np.asarray(counted.periods)[:, 0].tolist() == [3, 1, 3]
