"""What is usual in an hour is learned from the same hours of earlier weeks and days, without their
outages."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from relevanced.daemon.changes import HOUR_MS, Silence
from relevanced.daemon.exporter import Arrivals, MeasureScores, clicks_measure, per_hour
from relevanced.daemon.lane import Pages
from relevanced.daemon.panes import pane_start
from relevanced.daemon.storage import pack_page
from relevanced.daemon.views import WHOLE, HourHistory, LaneView, Names, evaluate
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN
from tests.lane_views import pages_of

IMPRESSIONS, WITH_FEEDBACK, ITEMS = 0, 1, 3

DAY_MS = 24 * HOUR_MS
ALONE = replace(PLAN, groupings=())
MONDAY_MS = NOW_MS // DAY_MS * DAY_MS - 4 * DAY_MS
assert datetime.fromtimestamp(MONDAY_MS / 1000, timezone.utc).strftime("%a %H:%M") == "Mon 00:00"


class Office:
    """A site with ten searches a minute from 06:00 to 20:00, local time, from Monday on, and none
    at night and on weekends."""

    def __init__(
        self,
        born_ms: int,
        zone: tzinfo = timezone.utc,
        days: int = 5,
        opens: tuple[float, float] = (6, 20),
    ) -> None:
        self.born_ms, self.zone, self.days, self.opens = born_ms, zone, days, opens
        self.lost = frozenset[int]()
        self.closed: tuple[range, ...] = ()
        """Outages, and days without searches."""

    def is_open(self, time_ms: int) -> bool:
        if any(time_ms in each for each in self.closed):
            return False
        local = datetime.fromtimestamp(time_ms / 1000, self.zone)
        opens, closes = self.opens
        return local.weekday() < self.days and opens <= local.hour + local.minute / 60 < closes

    def came(self, time_ms: int) -> tuple[int, int]:
        """(searches, those with feedback) of a minute."""
        return (10, 10) if self.is_open(time_ms) else (0, 0)

    @cache
    def _pages(self, start_ms: int, until_ms: int) -> Pages:
        """The rows of some minutes; none where nothing came."""
        came = [self.came(time_ms) for time_ms in range(start_ms, until_ms, MINUTE_MS)]
        searches, with_feedback = map(sum, zip((0, 0), *came, strict=True))
        row = np.zeros((1, ALONE.row_width), np.int64)
        row[:, IMPRESSIONS], row[:, [WITH_FEEDBACK, ITEMS]] = searches, with_feedback
        return pages_of(row) if searches else {}

    @cache
    def _packed(self, start_ms: int, until_ms: int) -> dict[int, bytes]:
        return {page: pack_page(rows) for page, rows in self._pages(start_ms, until_ms).items()}

    def lane(self, now_ms: int, stopped_ms: int) -> LaneView:
        settled_ms = now_ms - ALONE.timing.settle_ms
        until_ms = min(settled_ms, stopped_ms)
        hours = range(self.born_ms, until_ms, HOUR_MS)
        recent = range(
            now_ms // MINUTE_MS * MINUTE_MS - HOUR_MS, min(now_ms, stopped_ms), MINUTE_MS
        )
        return LaneView(
            lane=0,
            token="t",
            sequence=1,
            names=Names((WHOLE,)),
            panes={
                (window, pane_start(start, ALONE.timing.windows[window].pane_ms)): pages
                for start in recent
                for window in (0, 1)
                if (pages := self._pages(start, start + MINUTE_MS))
            },
            totals={},
            counts={"events": {"impression": 1}},
            watermark_ms=now_ms,
            settled_before=settled_ms // 1000 * 1000,
            hours={
                start: rows
                for start in hours
                if start not in self.lost
                and (rows := self._packed(start, min(start + HOUR_MS, until_ms)))
            },
            lost_hours=self.lost,
        )

    def rates(self, moments: range) -> Iterator[tuple[float, float]]:
        """(how many searches come in an hour, how many are usual) at each of some moments."""
        arrivals, history = Arrivals(self.zone), HourHistory(ALONE)
        for now_ms in moments:
            lane = self.lane(now_ms, NOW_MS * 2)
            history.take([lane])
            usual = arrivals.usual_per_hour(history, now_ms)
            # A pane of two minutes has the row of one of them.
            yield 2 * per_hour([lane], ALONE, now_ms)["searches"], usual["searches"]

    def told(
        self, moments: Sequence[int], stopped_ms: int = NOW_MS * 2
    ) -> Iterator[tuple[int, tuple[Silence, ...]]]:
        """(instant, what is said then) of each of some moments."""
        arrivals, history = Arrivals(self.zone), HourHistory(ALONE)
        for now_ms in moments:
            lane = self.lane(now_ms, stopped_ms)
            history.take([lane])
            scores = replace(
                MeasureScores.none(clicks_measure(ALONE)),
                views=[lane],
                snapshot=evaluate([lane], ALONE, (), now_ms),
            )
            yield now_ms, arrivals.of(scores, history)


def test_nights_and_weekends_without_searches_are_usual_where_earlier_weeks_are_known() -> None:
    site = Office(MONDAY_MS - 21 * DAY_MS)
    for now_ms, found in site.told(range(MONDAY_MS, MONDAY_MS + 14 * DAY_MS, 20 * MINUTE_MS)):
        assert found == (), now_ms


def test_without_earlier_weeks_nights_are_usual_from_the_second_on_and_weekends_likewise() -> None:
    """Of the first ones it is not known."""
    born_ms = MONDAY_MS + 6 * HOUR_MS
    told = {
        (now_ms - MONDAY_MS) // DAY_MS
        for now_ms, found in Office(born_ms).told(
            range(born_ms + HOUR_MS, born_ms + 14 * DAY_MS, 20 * MINUTE_MS)
        )
        if found
    }
    assert told == {0, 1, 5, 6, 7}, "the first night and the first weekend, until the morning"


@pytest.mark.parametrize("weeks", [0, 3])
@pytest.mark.parametrize(("day", "hour"), [(1, 7), (2, 12.5), (4, 18.5), (7, 7), (8, 12.5)])
def test_an_outage_at_times_of_traffic_is_told_after_five_minutes_and_until_it_ends(
    weeks: int, day: int, hour: float
) -> None:
    stopped_ms = MONDAY_MS + day * DAY_MS + round(hour * HOUR_MS)
    site = Office(MONDAY_MS + 6 * HOUR_MS - weeks * 7 * DAY_MS)
    first = range(stopped_ms, stopped_ms + 8 * MINUTE_MS, MINUTE_MS)
    told = {(at - stopped_ms) // MINUTE_MS for at, found in site.told(first, stopped_ms) if found}
    assert told == {5, 6, 7}
    through_the_night = range(stopped_ms + HOUR_MS, stopped_ms + DAY_MS, HOUR_MS)
    moments = (first[-1], *through_the_night)
    for now_ms, (found, *_) in site.told(moments, stopped_ms):
        assert (found.stream, found.usual_per_hour) == ("searches", 600), now_ms


def test_an_hour_that_is_lost_is_no_hour_without_searches() -> None:
    """That of the only week before: days tell."""
    stopped_ms = MONDAY_MS + 8 * DAY_MS + 12 * HOUR_MS
    site = Office(MONDAY_MS + 6 * HOUR_MS)
    site.lost = frozenset([stopped_ms - 7 * DAY_MS])
    (_, found), *_ = site.told(range(stopped_ms + 5 * MINUTE_MS, NOW_MS * 2)[:1], stopped_ms)
    assert [each.stream for each in found] == ["searches"]


ROUND_THE_CLOCK = (0.0, 24.0)


@pytest.mark.parametrize("opens", [(6, 20), ROUND_THE_CLOCK])
@pytest.mark.parametrize(("from_h", "until_h"), [(11, 14), (11.75, 13.5), (12, 13), (7, 18.5)])
def test_an_outage_in_the_only_week_known_is_not_usual_at_these_hours(
    opens: tuple[float, float], from_h: float, until_h: float
) -> None:
    """Nor in the hours within which it began and ended, of which most is missing."""
    site, tuesday_ms = Office(MONDAY_MS, opens=opens), MONDAY_MS + DAY_MS
    site.closed = (
        range(tuesday_ms + round(from_h * HOUR_MS), tuesday_ms + round(until_h * HOUR_MS)),
    )
    again_ms = tuesday_ms + 7 * DAY_MS
    for at_ms in range(again_ms + int(from_h) * HOUR_MS, again_ms + 15 * HOUR_MS, HOUR_MS):
        ((_, usual),) = site.rates(range(at_ms + 45 * MINUTE_MS, NOW_MS * 2)[:1])
        assert usual >= 300, (at_ms - again_ms) / HOUR_MS
        stopped_ms = at_ms + 10 * MINUTE_MS
        first = range(stopped_ms, stopped_ms + 8 * MINUTE_MS, MINUTE_MS)
        told = [
            (at - stopped_ms) // MINUTE_MS for at, found in site.told(first, stopped_ms) if found
        ]
        assert told == [5, 6, 7]


@pytest.mark.parametrize(
    ("opens", "from_h", "until_h"),
    [((6, 20), 13, 20), ((6, 20), 6, 12), (ROUND_THE_CLOCK, 0, 24), (ROUND_THE_CLOCK, 5, 18)],
)
def test_a_day_on_which_a_site_closes_early_opens_late_or_not_at_all_is_usual_a_week_later(
    opens: tuple[float, float], from_h: float, until_h: float
) -> None:
    site, wednesday_ms = Office(MONDAY_MS, days=7, opens=opens), MONDAY_MS + 2 * DAY_MS
    begins_ms = [wednesday_ms + week * 7 * DAY_MS + from_h * HOUR_MS for week in (0, 1)]
    site.closed = tuple(range(at, at + (until_h - from_h) * HOUR_MS) for at in begins_ms)
    again = range(begins_ms[1] - HOUR_MS, begins_ms[1] + DAY_MS, 20 * MINUTE_MS)
    assert not any(found for _, found in site.told(again))


def test_what_two_weeks_lack_is_usual() -> None:
    """Such as in hours of maintenance: told in the first week and the second."""
    site = Office(MONDAY_MS, days=7, opens=ROUND_THE_CLOCK)
    begins_ms = [MONDAY_MS + day * DAY_MS + 2 * HOUR_MS for day in (5, 12, 19)]
    site.closed = tuple(range(at, at + 2 * HOUR_MS) for at in begins_ms)
    told = [any(found for _, found in site.told([at + HOUR_MS])) for at in begins_ms]
    assert told == [True, True, False]


@pytest.mark.parametrize("days", [3, 21])
def test_nights_are_those_of_the_zone_after_a_change_of_clocks(days: int) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    changed_ms = round(datetime(2026, 10, 25, 3, tzinfo=berlin).timestamp() * 1000)
    site = Office(changed_ms - days * DAY_MS, berlin, days=7)
    moments = range(changed_ms + HOUR_MS, changed_ms + 2 * DAY_MS, 10 * MINUTE_MS)
    assert not any(found for _, found in site.told(moments))


def test_what_is_missing_over_a_gap_is_the_sum_of_its_parts_of_hours() -> None:
    """After a weekend, what some minutes usually bring, not two days of it; and within the hour
    that opens it is not known yet when it does."""
    opens_ms = MONDAY_MS + 6 * HOUR_MS
    site = Office(MONDAY_MS - 21 * DAY_MS)
    late = range(opens_ms - HOUR_MS, opens_ms + 64 * MINUTE_MS, MINUTE_MS)
    told = {
        (at - opens_ms) // MINUTE_MS: found
        for at, found in site.told(late, opens_ms - 58 * HOUR_MS)
        if found
    }
    assert [*told] == [60, 61, 62, 63]


@pytest.mark.parametrize("weeks", [1, 3])
def test_a_site_that_opens_and_closes_at_half_past_misses_no_searches(weeks: int) -> None:
    """Also on a day with fewer at the end."""
    site, tuesday_ms = Office(MONDAY_MS - weeks * 7 * DAY_MS, opens=(8.5, 18.5)), MONDAY_MS + DAY_MS
    day = range(tuesday_ms + 8 * HOUR_MS, tuesday_ms + 21 * HOUR_MS, 4 * MINUTE_MS)
    assert not any(found for _, found in site.told(day))
    assert all(now >= usual / 10 for now, usual in site.rates(day))
    early_ms = tuesday_ms + round(18.4 * HOUR_MS)
    assert not any(found for _, found in site.told(range(early_ms, day.stop, MINUTE_MS), early_ms))


def test_an_outage_until_a_site_closes_is_told_once_its_hour_has_settled() -> None:
    stopped_ms = MONDAY_MS + DAY_MS + 19 * HOUR_MS + 20 * MINUTE_MS
    site = Office(MONDAY_MS - 21 * DAY_MS)
    closes_ms = MONDAY_MS + DAY_MS + 20 * HOUR_MS
    moments = range(stopped_ms, closes_ms + HOUR_MS, MINUTE_MS)
    told = [at for at, found in site.told(moments, stopped_ms) if found]
    assert 0 <= told[0] - closes_ms - ALONE.timing.settle_ms < MINUTE_MS
    assert told == [*moments][-len(told) :]


def test_what_is_usual_now_is_that_of_the_hour_or_of_a_lower_one_beside_it() -> None:
    site = Office(MONDAY_MS - 21 * DAY_MS)
    usual = [found for _, found in site.rates(range(MONDAY_MS, MONDAY_MS + DAY_MS, HOUR_MS))]
    assert usual == [0] * 8 + [600] * 12 + [0] * 4


class Quiet(Office):
    """The same for three weeks, but where it is closed some few come by chance: searches with
    feedback, or feedback on searches that come as ever."""

    def __init__(
        self, per_hour: float, seed: int, opens: tuple[float, float], only_feedback: bool = False
    ) -> None:
        super().__init__(MONDAY_MS, opens=opens)
        minutes = np.random.default_rng(seed).random(21 * DAY_MS // MINUTE_MS)
        self._few, self._only_feedback = (minutes < per_hour / 60).tolist(), only_feedback

    def came(self, time_ms: int) -> tuple[int, int]:
        if self.is_open(time_ms):
            return 10, 10
        is_outage = any(time_ms in each for each in self.closed)
        few = int(self._few[(time_ms - self.born_ms) // MINUTE_MS] and not is_outage)
        return (10 if self._only_feedback else few), few


SATURDAY_MS = MONDAY_MS + 12 * DAY_MS
"""The second one."""


@pytest.mark.parametrize(
    ("opens", "per_hour", "seed"),
    [(ROUND_THE_CLOCK, 6, 15), (ROUND_THE_CLOCK, 1, 1), ((6, 20), 3, 1), ((9, 13), 1, 12)],
)
def test_hours_that_were_empty_by_chance_on_a_quiet_weekend_are_no_outage_a_week_later(
    opens: tuple[float, float], per_hour: float, seed: int
) -> None:
    """Though other days bring many at these hours."""
    site = Quiet(per_hour, seed, opens)
    weekend = range(SATURDAY_MS + HOUR_MS, SATURDAY_MS + 2 * DAY_MS, 30 * MINUTE_MS)
    assert [at for at, found in site.told(weekend) if found] == []
    rates = site.rates(range(weekend.start + HOUR_MS // 2, weekend.stop, HOUR_MS))
    assert max(usual for _, usual in rates) <= 20 * per_hour


def test_feedback_that_is_rare_on_weekends_has_not_stopped_on_the_second() -> None:
    site = Quiet(3, 1, ROUND_THE_CLOCK, only_feedback=True)
    weekend = range(SATURDAY_MS + HOUR_MS, SATURDAY_MS + 36 * HOUR_MS, 30 * MINUTE_MS)
    assert [at for at, found in site.told(weekend) if found] == []


@pytest.mark.parametrize(
    ("closed_h", "hours"),
    [
        ([(3.5, 9.5)], range(7, 10)),
        ([(17.5, 23.5)], range(17, 19)),
        ([(10.5, 13.25)], range(10, 14)),
        ([(10, 11.7), (12, 13)], range(10, 13)),
        ([(10, 12.6), (13, 13.6)], range(10, 13)),
    ],
    ids=["begins at night", "ends at night", "within hours", "comes back", "ends slowly"],
)
def test_an_outage_is_not_usual_a_week_later_however_it_begins_and_ends(
    closed_h: list[tuple[float, float]], hours: range
) -> None:
    site, tuesday_ms = Quiet(6, 1, (6, 20)), MONDAY_MS + DAY_MS
    site.closed = tuple(
        range(tuesday_ms + round(from_h * HOUR_MS), tuesday_ms + round(until_h * HOUR_MS))
        for from_h, until_h in closed_h
    )
    again_ms = tuesday_ms + 7 * DAY_MS
    for hour in hours:
        at_ms = again_ms + hour * HOUR_MS
        ((_, usual),) = site.rates(range(at_ms + 45 * MINUTE_MS, NOW_MS * 2)[:1])
        assert usual >= 300, hour


class CountedHistory(HourHistory):
    """It counts how often it is asked for an hour."""

    asked = 0

    def whole(self, start: int) -> Sequence[int]:
        self.asked += 1
        return super().whole(start)


@pytest.mark.parametrize(("now_h", "closed_h"), [(28, 20), (162, 140)])
def test_what_is_usual_is_looked_up_once_for_all_partitions_that_are_silent(
    now_h: int, closed_h: int
) -> None:
    """At night, and on a Sunday."""
    now_ms, closed_ms = (MONDAY_MS + hour * HOUR_MS for hour in (now_h, closed_h))
    row = pages_of(np.full((1, ALONE.row_width), 1_000, np.int64))
    day, asked = ALONE.timing.windows[2], dict[int, int]()
    view = replace(
        Office(MONDAY_MS - 21 * DAY_MS, days=6).lane(now_ms, NOW_MS * 2),
        panes={(2, closed_ms - day.pane_ms): row},
        totals=row,
    )
    for partitions in (2, 64):
        lanes = [replace(view, lane=number) for number in range(partitions)]
        history = CountedHistory(ALONE)
        history.take(lanes)
        scores = replace(
            MeasureScores.none(clicks_measure(ALONE)),
            views=lanes,
            snapshot=evaluate(lanes, ALONE, (), now_ms),
        )
        assert Arrivals().of(scores, history) == ()
        asked[partitions] = history.asked
    assert 100 < asked[2] and asked[64] <= asked[2] + 2 * 62
