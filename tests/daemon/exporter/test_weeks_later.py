"""What is usual: no fall that is over is part of it, neither a new process nor a new segment makes
less of it, and what has not settled is measured by it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timezone
from itertools import product
from math import isnan, nan

import numpy as np
import pytest

from relevanced.daemon.changes import Fall, FallOnset
from relevanced.daemon.events import timestamp_text
from relevanced.daemon.exporter import RESELECT_MS, Publisher, Timelines
from relevanced.daemon.http import Changes
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import WHOLE, HourHistory, busiest, evaluate, select
from tests.daemon.exporter.test_open_changes import Recovering, answer, reading
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Shape, Site, nights, wave
from tests.daemon.views.test_coverage import since

DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
BROKE_MS = NOW_MS - WEEK_MS - 3 * HOUR_MS
OVER_MS = BROKE_MS + 2 * HOUR_MS
GONE = (
    r"RR@10 of country DE fell from 0\.4\d to 0\.1\d at .*\d\d:\d\d; ended at .*\d\d:\d\d: nothing"
    " comparable is scored since, so whether it recovered is not known."
)
RR_OF_FOUND = (1 + 1 / 2 + 1 / 3) / 3


def test_nothing_falls_a_week_after_a_fall_that_is_over() -> None:
    """Scores are as ever then; a week before, at the same hours, they had fallen."""
    site = Recovering(NOW_MS - 10 * DAY_MS, BROKE_MS, OVER_MS, 0.4)
    publisher, seen = Publisher(PLAN), []
    for now_ms in range(BROKE_MS - HOUR_MS, OVER_MS + HOUR_MS, 10 * MINUTE_MS):
        seen.append(bool(reading(site, now_ms, publisher).clicks.changes.open))
    assert any(seen) and not seen[0] and not seen[-1]
    for now_ms in range(BROKE_MS + WEEK_MS - HOUR_MS, NOW_MS + HOUR_MS, 10 * MINUTE_MS):
        assert not reading(site, now_ms, publisher).clicks.changes.open, now_ms


def test_no_baseline_has_hours_of_a_fall_that_is_over() -> None:
    """DE fell for 10 of the 24 hours of a week ago, for which the others stand; nothing stands for
    those of shorter windows, which the fall fills."""
    broke_ms = NOW_MS - WEEK_MS - 10 * HOUR_MS
    site = Recovering(NOW_MS - 9 * DAY_MS, broke_ms, NOW_MS - WEEK_MS, 0.65)
    publisher = Publisher(PLAN)
    for now_ms in (broke_ms + HOUR_MS, NOW_MS - WEEK_MS + HOUR_MS, NOW_MS):
        read = reading(site, now_ms, publisher)
    row, column = read.clicks.segments.index(("country", "DE")), PLAN.metric_column(0)
    of_window = {each.window: each.periods[WEEK_MS][row] for each in read.clicks.comparisons}
    assert {each.unit for each in read.clicks.comparisons} == {"week"}
    for window, counts in (("1h", nan), ("6h", nan), ("24h", 24 * 60 * 190)):
        scored, total = of_window[window][column : column + 2].tolist()
        assert scored == pytest.approx(counts, rel=0.02, nan_ok=True), window
        mean = counts if isnan(counts) else 0.7
        unit = PLAN.metrics[0].unit
        assert total / scored / unit == pytest.approx(mean, abs=0.01, nan_ok=True)
        assert of_window[window][0] > 0, "searches are no score"


def test_the_night_of_another_day_stands_for_a_night_that_had_fallen() -> None:
    """The hours of the day would make the usual score of a whole day as high as they are."""
    begin_ms = NOW_MS - 9 * DAY_MS
    view, history = Site(begin_ms, NOW_MS * 2, 0, 60, shape=nights(0.5)).lane(NOW_MS), HourHistory(
        PLAN
    )
    history.take([view])
    selection, series = busiest(evaluate([view], PLAN), PLAN), (("country", "DE"), 1)
    day = range(NOW_MS - 8 * DAY_MS, NOW_MS - WEEK_MS, HOUR_MS)
    night = {hour for hour in day if 1 <= hour / HOUR_MS % 24 < 8}
    row, column = selection.segments.index(series[0]), PLAN.metric_column(1)

    def mean(telling: range, fell: set[int]) -> float:
        history.fallen = {series: fell}
        rows = history.usual(dict.fromkeys(day, 1.0), selection, telling, timezone.utc)
        return float(rows[row, column + 1] / rows[row, column] / PLAN.metrics[1].unit)

    hours = range(begin_ms, NOW_MS, HOUR_MS)
    whole, by_day = mean(hours, set()), mean(day, night)
    assert mean(hours, night) == pytest.approx(whole, rel=0.02)
    assert by_day == pytest.approx(whole * 24 / (17 + 7 / 2), rel=0.02), "no other night is known"
    assert isnan(mean(hours, {*day[:13]})), "most of the day had fallen"


def test_all_that_is_known_is_usual_at_the_first_look_and_while_segments_change() -> None:
    view, history = Site(NOW_MS - 10 * DAY_MS, NOW_MS * 2, 0, 20).lane(NOW_MS), HourHistory(PLAN)
    history.take([view])
    snapshot = evaluate([view], PLAN)
    few = select(snapshot, PLAN, {("country", "DE")}, empty_other=False)
    all_of_them, timelines, shown = busiest(snapshot, PLAN), Timelines(PLAN), []
    assert few.segments != all_of_them.segments
    for minute in range(RESELECT_MS // MINUTE_MS + 10):
        selection = all_of_them if minute else few
        end_ms = NOW_MS - PLAN.timing.settle_ms + minute * MINUTE_MS
        timeline = timelines.of([view], history, selection, end_ms)
        assert timeline is not None and timeline.usual is not None, minute
        assert not np.isnan(timeline.usual[-60:]).any(), minute
        shown.append(timelines.segments)
    assert {shown[0], shown[-1]} == {few.segments, all_of_them.segments} == {*shown}


@pytest.mark.parametrize("days", [1, 9])
def test_the_fall_of_a_night_is_not_back_live_because_it_is_noon(days: int) -> None:
    """Searches find 15 % more by day, and less by night."""
    broke_ms, over_ms = NOW_MS - 20 * HOUR_MS, NOW_MS
    site = Recovering(broke_ms - days * DAY_MS, broke_ms, over_ms, 0.12, wave(0.15))
    publisher = Publisher(PLAN)
    for until_ms in range(broke_ms + HOUR_MS, over_ms, 30 * MINUTE_MS):
        found = reading(site, until_ms, publisher).clicks.changes.open
        assert found or days < 7
        assert all(story.live is None for story in found), until_ms
    if days > 7:
        (story,) = reading(site, over_ms + 5 * MINUTE_MS, publisher).clicks.changes.open
        assert story.live is not None
        assert story.live.since_ms == pytest.approx(over_ms, abs=3 * MINUTE_MS)
        assert story.live.mean == pytest.approx(0.7 * 1.13 * RR_OF_FOUND, abs=0.03)


def test_the_fall_of_what_was_withdrawn_is_over_and_never_told_without_its_levels() -> None:
    """DE has no searches any more an hour after it broke: such as a version that is rolled back."""
    broke_ms, gone_ms = NOW_MS - 3 * DAY_MS, NOW_MS - 3 * DAY_MS + HOUR_MS
    site, publisher = Site(broke_ms - DAY_MS, broke_ms, 0.65, 380), Publisher(PLAN)
    for start, rows in site.parts.items():
        if start >= gone_ms:
            rows[0] -= rows[1]
            rows[1] = 0
    assert answer(reading(site, gone_ms, publisher)).open[0].segment == "DE"
    for after_ms in (35 * MINUTE_MS, 2 * HOUR_MS, 23 * HOUR_MS):
        found = answer(reading(site, gone_ms + after_ms, publisher))
        (over,) = (one for one in found.closed if one.segment == "DE")
        assert not found.open and over.state == "unscored" and over.recovered is None
        assert over.unscored_since == timestamp_text(gone_ms)
        assert re.fullmatch(GONE, over.text), over.text
        assert found.headline.tone == "good" and over.text in found.headline.detail
    day = answer(reading(site, gone_ms + 2 * HOUR_MS, publisher), "24h").changes
    verdicts = {(row.segment, row.metric): row.verdict for row in day}
    assert verdicts["DE", "RR@10"] == "worse", "it did not recover"
    for after_ms in range(26 * HOUR_MS, NOW_MS - gone_ms, 6 * HOUR_MS):
        found = answer(reading(site, gone_ms + after_ms, publisher))
        assert not (found.open or found.closed or found.standing), after_ms


def test_where_all_weeks_that_are_known_had_fallen_other_days_tell_what_is_usual() -> None:
    begin_ms, broke_ms = NOW_MS - 10 * DAY_MS, NOW_MS - WEEK_MS - 3 * HOUR_MS
    view, history = Site(begin_ms, broke_ms, 0.65, 60).lane(NOW_MS), HourHistory(PLAN)
    history.take([view])
    segment, series = ("country", "DE"), ("country", "DE", "RR@10")
    onset = FallOnset(float(broke_ms), float(broke_ms), float(broke_ms), by_panes=True)
    fall = Fall(series, broke_ms, onset, ("hour",), broke_ms, onset.likely, float(NOW_MS))
    selection, timelines = busiest(evaluate([view], PLAN), PLAN), Timelines(PLAN)
    starts = np.array([NOW_MS - 4 * HOUR_MS, NOW_MS - 2 * HOUR_MS])
    for falls, means in (((), (0.7, 0.245)), ((fall,), (0.7, np.nan))):
        timelines.of([view], history, selection, NOW_MS - PLAN.timing.settle_ms, falls)
        usual = timelines.usual_at(segment, 1, starts, starts + HOUR_MS)
        expected = [mean * RR_OF_FOUND for mean in means]
        assert usual.tolist() == pytest.approx(expected, abs=0.04, nan_ok=True)
    short = replace(fall, recovered_ms=float(broke_ms + 4 * HOUR_MS))
    timelines.of([view], history, selection, NOW_MS - PLAN.timing.settle_ms, (short,))
    (usual,) = timelines.usual_at(segment, 1, starts[1:], starts[1:] + HOUR_MS)
    assert usual == pytest.approx(0.245 * RR_OF_FOUND, abs=0.04), "of the days since then"


@pytest.mark.parametrize(
    ("begins", "days", "looks"),
    [(1, range(16), (2, 6, 10, 20)), (1.5, (0, 1, 2, 7, 8, 9, 14), (1.75, 2.5, 10))],
)
def test_what_happens_every_night_is_called_in_the_first_one_alone(
    begins: float, days: Iterable[int], looks: Iterable[float]
) -> None:
    """In a new installation; also where it begins within an hour, of which earlier days know the
    mean alone."""
    begin_ms = NOW_MS - 16 * DAY_MS
    site = Site(begin_ms, NOW_MS * 2, 0.0, 60, shape=nights(0.33, begins))
    publisher, called = Publisher(PLAN), set()
    for day, hour in product(days, looks):
        now_ms = begin_ms + round((24 * day + 12 + hour) * HOUR_MS)
        if reading(site, now_ms, publisher).clicks.changes.open:
            called.add(day)
    assert called == {0}


def test_a_fall_in_an_hour_in_which_each_night_changes_is_called_once_the_hour_is_over() -> None:
    broke_ms = NOW_MS - 10 * HOUR_MS - 20 * MINUTE_MS  # at 01:40
    site = Site(broke_ms - 9 * DAY_MS, broke_ms, 0.3, 120, shape=nights(0.2, 1.5))
    publisher = Publisher(PLAN)
    found = [
        bool(reading(site, broke_ms + minutes * MINUTE_MS, publisher).clicks.changes.open)
        for minutes in (-60, -5, 10, 30)
    ]
    assert found == [False, False, False, True]


def levels_of(*changes: tuple[int, float]) -> Shape:
    """By these factors from these times on."""
    return lambda time_ms: next((by for at, by in reversed(changes) if time_ms >= at), 1.0)


def told_at(site: Site, times: Iterable[int]) -> list[set[str]]:
    """The urgencies of what is told of the whole at some times."""
    publisher, found = Publisher(PLAN), []
    for now_ms in times:
        changes = reading(site, now_ms, publisher).clicks.changes
        found.append({each.urgency for each in changes.told if each.series[:2] == WHOLE})
    return found


@pytest.mark.parametrize("weeks", [1, 2])
def test_nothing_falls_a_week_after_scores_rose_for_good(weeks: int) -> None:
    """The weeks before had been lower; or no week had been known yet when they rose."""
    rose_ms = NOW_MS - 8 * DAY_MS
    site = Site(rose_ms - weeks * 5 * DAY_MS, NOW_MS * 2, 0.0, 60, shape=levels_of((rose_ms, 1.3)))
    told = told_at(site, range(rose_ms - HOUR_MS, NOW_MS + HOUR_MS, 6 * HOUR_MS))
    assert not any(told), [at for at, each in enumerate(told) if each]


def test_nothing_falls_where_a_rise_ends_nor_a_week_after_it() -> None:
    """One week is known: these hours are the only ones that tell what is usual then."""
    rose_ms = NOW_MS - 8 * DAY_MS
    end_ms = rose_ms + 3 * HOUR_MS
    rises = levels_of((rose_ms, 1.3), (end_ms, 1.0))
    site = Site(rose_ms - 8 * DAY_MS, NOW_MS * 2, 0.0, 40, shape=rises)
    times = [end_ms + minutes * MINUTE_MS for minutes in (-10, 10, 20, 60)]
    week = range(rose_ms + WEEK_MS + HOUR_MS, rose_ms + WEEK_MS + 2 * HOUR_MS, 5 * MINUTE_MS)
    assert not any(told_at(site, [*times, *week]))


def test_what_has_fallen_for_good_is_usual_in_the_end_and_can_fall_again() -> None:
    """Neither its end nor the week in which earlier weeks learn of it is news; the next fall is,
    until its repair."""
    broke_ms, again_ms = NOW_MS - 16 * DAY_MS, NOW_MS - 8 * HOUR_MS
    fell = levels_of((broke_ms, 0.6), (again_ms, 0.4), (again_ms + 3 * HOUR_MS, 0.6))
    site = Site(broke_ms - 9 * DAY_MS, NOW_MS * 2, 0.0, 40, shape=fell)
    days = (0.5, 8, 12.5, 13.5, 14, 14.5, 15.5)
    times = [broke_ms + round(day * DAY_MS) for day in days]
    later = [again_ms + hours * HOUR_MS for hours in (-1, 1, 2, 5, 8)]
    told = told_at(site, [*times, *later])
    assert told[:-5] == [{"page"}, {"ticket"}, {"ticket"}, *[set()] * 4]
    assert told[-5:] == [set(), {"page"}, {"page"}, set(), set()]


@pytest.mark.parametrize("levels", [(0.6, 0.4), (0.9, 0.5)])
def test_what_has_been_low_for_a_week_pages_where_it_falls_again(
    levels: tuple[float, float],
) -> None:
    broke_ms, again_ms = NOW_MS - 9 * DAY_MS, NOW_MS - 3 * HOUR_MS
    fell = levels_of((broke_ms, levels[0]), (again_ms, levels[1]))
    site = Site(broke_ms - 9 * DAY_MS, NOW_MS * 2, 0.0, 40, shape=fell)
    times = (broke_ms + 8 * HOUR_MS, again_ms - HOUR_MS, again_ms + HOUR_MS, NOW_MS)
    assert told_at(site, times) == [{"page"}, {"ticket"}, {"page"}, {"page"}]


def test_the_fall_of_what_is_measured_anew_is_over_and_hides_no_later_one() -> None:
    """Such as that of a class of queries whose rule is edited while it is low."""
    broke_ms, anew_ms, again_ms = (NOW_MS - hours * HOUR_MS for hours in (16, 13, 4))
    begin_ms, publisher = broke_ms - 9 * DAY_MS, Publisher(PLAN)
    low, well = (Site(begin_ms, at_ms, 0.65, 380) for at_ms in (broke_ms, again_ms))

    def seen(site: Site, at_ms: int) -> Changes:
        groupings = dict.fromkeys(PLAN.grouping_ids[1:], anew_ms if at_ms > anew_ms else None)
        view = since(site.lane(at_ms), PLAN, groupings=groupings)
        published = publisher.publish([view], at_ms, with_series=False)
        assert published.reading is not None
        return answer(published.reading)

    (before,) = seen(low, anew_ms).open
    after = seen(well, anew_ms + 2 * HOUR_MS)
    (over,) = (one for one in after.closed if one.id == before.id)
    assert not after.open and over.unscored_since == timestamp_text(anew_ms)
    assert over.state == "unscored" and "nothing comparable is scored since" in over.text
    assert not seen(well, again_ms).open
    assert seen(well, again_ms + 2 * HOUR_MS).open
    of_de = [fall for fall in publisher.told.falls if fall.series == ("country", "DE", "RR@10")]
    (fell,) = (fall for fall in of_de if fall.ended_ms is None)
    assert abs(fell.onset.latest - again_ms) <= 10 * MINUTE_MS, "the whole fell within a day before"
