"""What has stopped is said after some minutes, by what is usual; and no longer once it comes
again."""

from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import HOUR_MS, Silence, sentences, silence
from relevanced.daemon.exporter import Publisher, per_hour
from relevanced.daemon.http import changes
from relevanced.daemon.views import LaneView
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site
from tests.lane_views import pages_of

IMPRESSIONS, WITH_FEEDBACK, ITEMS = 0, 1, 3


class Stopping(Site):
    """Searches, or their feedback, stop at `from_ms` and come again at `until_ms`."""

    def __init__(self, begin_ms: int, what: str, from_ms: int, until_ms: int = NOW_MS * 2) -> None:
        super().__init__(begin_ms, NOW_MS * 2, 0.0)
        for start, rows in self.parts.items():
            if from_ms <= start < until_ms:
                if what == "searches":
                    rows[:] = 0
                else:
                    rows[:, [WITH_FEEDBACK, ITEMS]] = 0


def said(site: Site, publisher: Publisher, now_ms: int) -> tuple[Silence, ...]:
    published = publisher.publish([site.lane(now_ms)], now_ms, with_series=False)
    assert published.reading is not None
    return published.reading.silences


@pytest.mark.parametrize("minutes", [7, 60, 300, 24 * 60])
def test_searches_that_stopped_are_said_however_long_ago(minutes: int) -> None:
    stopped_ms = NOW_MS - minutes * MINUTE_MS
    site = Stopping(stopped_ms - 30 * HOUR_MS, "searches", stopped_ms)
    (found,) = said(site, Publisher(PLAN), NOW_MS)
    assert found.stream == "searches"
    assert abs(found.since_ms - stopped_ms) <= (HOUR_MS if minutes > 60 else 2 * MINUTE_MS)
    assert found.usual_per_hour == pytest.approx(7200, rel=0.1)


def test_two_minutes_are_no_silence_and_after_the_end_nothing_is_said() -> None:
    stopped_ms, again_ms = NOW_MS - 40 * MINUTE_MS, NOW_MS - 20 * MINUTE_MS
    site = Stopping(stopped_ms - 5 * HOUR_MS, "searches", stopped_ms, again_ms)
    publisher = Publisher(PLAN)
    told = {
        minutes: bool(said(site, publisher, stopped_ms + minutes * MINUTE_MS))
        for minutes in (-1, 2, 5, 19, 22, 40)
    }
    assert told == {-1: False, 2: False, 5: True, 19: True, 22: False, 40: False}


def test_feedback_that_stopped_is_said_once_it_cannot_be_late() -> None:
    stopped_ms = NOW_MS - 60 * MINUTE_MS
    site, publisher = Stopping(stopped_ms - 5 * HOUR_MS, "feedback", stopped_ms), Publisher(PLAN)
    for minute in range(-70, 0):
        assert said(site, publisher, stopped_ms + minute * MINUTE_MS) == ()
    told = {}
    for minute in range(0, 61):
        told[minute] = [s.stream for s in said(site, publisher, stopped_ms + minute * MINUTE_MS)]
    assert told[2] == [] and told[8] == told[30] == told[60] == ["feedback"]


def test_where_searches_stop_their_feedback_is_not_said_to_have_stopped() -> None:
    stopped_ms = NOW_MS - 30 * MINUTE_MS
    site = Stopping(stopped_ms - 5 * HOUR_MS, "searches", stopped_ms)
    assert [each.stream for each in said(site, Publisher(PLAN), NOW_MS)] == ["searches"]


def test_backlog_counts_at_its_own_time() -> None:
    """An outage of 12 minutes in which feedback stops: all that came is read at once after it."""
    stopped_ms, again_ms = NOW_MS - 30 * MINUTE_MS, NOW_MS - 20 * MINUTE_MS
    site = Stopping(NOW_MS - 5 * HOUR_MS, "feedback", stopped_ms)
    before = per_hour([site.lane(again_ms - 12 * MINUTE_MS)], PLAN, again_ms - 12 * MINUTE_MS)
    assert before["searches"] == pytest.approx(7200, rel=0.1)
    assert before["feedback"] == pytest.approx(0.7 * 7200, rel=0.1)
    after = per_hour([site.lane(again_ms)], PLAN, again_ms)
    assert after["searches"] == pytest.approx(7200, rel=0.1)
    assert after["feedback"] == pytest.approx(0.7 * 7200 / 3, rel=0.3), "of 5 minutes of 15"
    assert per_hour([site.lane(NOW_MS)], PLAN, NOW_MS)["feedback"] == 0


def test_feedback_that_stopped_in_an_outage_is_said_as_soon_as_that_is_read() -> None:
    stopped_ms = NOW_MS - 30 * MINUTE_MS
    site, publisher = Stopping(NOW_MS - 5 * HOUR_MS, "feedback", stopped_ms), Publisher(PLAN)
    for minute in range(-90, -2):
        assert said(site, publisher, stopped_ms + minute * MINUTE_MS) == ()
    (found,) = said(site, publisher, stopped_ms + 10 * MINUTE_MS)
    assert found.stream == "feedback" and abs(found.since_ms - stopped_ms) <= MINUTE_MS


@pytest.mark.parametrize(
    ("per_hour", "minutes"), [(40_000, 3), (1_000, 3), (600, 5), (240, 5), (120, 10)]
)
def test_how_long_nothing_comes_until_it_is_silence(per_hour: int, minutes: int) -> None:
    """Three minutes where an hour has 1,000."""
    least_ms = minutes * MINUTE_MS
    assert silence("searches", 0, least_ms, per_hour * least_ms / HOUR_MS, per_hour) is not None
    shorter_ms = least_ms - 1
    assert silence("searches", 0, shorter_ms, per_hour * shorter_ms / HOUR_MS, per_hour) is None


@pytest.mark.parametrize("per_hour", [4, 40, 400, 1_000, 40_000])
def test_chance_gaps_are_no_silence(per_hour: int) -> None:
    rng = np.random.default_rng(20261126)
    gaps_ms = rng.exponential(HOUR_MS / per_hour, 200_000)
    found = [
        silence("searches", 0, int(gap), per_hour * gap / HOUR_MS, per_hour) for gap in gaps_ms
    ]
    assert not any(found)


def test_the_sentence_says_what_is_usual() -> None:
    found = Silence("searches", NOW_MS - HOUR_MS, 3_104.2)
    assert (
        sentences.silent(found, NOW_MS) == "No searches since 11:00; up to 3,100 an hour are usual."
    )
    rare = Silence("feedback", NOW_MS - HOUR_MS, 0.52)
    text = "No feedback since 11:00; up to 0.5 an hour are usual. Scores say nothing since then."
    assert sentences.silent(rare, NOW_MS) == text


def test_the_headline_says_it_above_all_else_and_takes_it_back() -> None:
    stopped_ms, again_ms = NOW_MS - 40 * MINUTE_MS, NOW_MS - 20 * MINUTE_MS
    site = Stopping(stopped_ms - 5 * HOUR_MS, "searches", stopped_ms, again_ms)
    publisher, told = Publisher(PLAN), {}
    for minutes in (-1, 15, 25, 40, 60):
        now_ms = stopped_ms + minutes * MINUTE_MS
        published = publisher.publish([site.lane(now_ms)], now_ms, with_series=False)
        assert published.reading is not None
        told[minutes] = changes(published.reading, "5m", "settled", {}).headline
    assert [each.tone for each in told.values()] == ["good", "worse", "good", "good", "good"]
    assert told[15].text.startswith("No searches since 11:2")
    parts = told[15].parts
    assert parts is not None and (parts.state, parts.stopped) == ("silent", "searches")
    assert parts.usual_per_hour == pytest.approx(7200, rel=0.1)


def test_a_lane_that_was_last_heard_of_years_ago_costs_no_more() -> None:
    site, years_ms = Site(NOW_MS - 5 * HOUR_MS, NOW_MS * 2, 0.0), 3 * 365 * 24 * HOUR_MS
    view = replace(site.lane(NOW_MS), idle_ms=NOW_MS + years_ms)
    published = Publisher(PLAN).publish([view], NOW_MS + years_ms, with_series=False)
    assert published.reading is not None
    assert [each.stream for each in published.reading.silences] == ["searches"]


def test_producers_that_send_every_quarter_of_an_hour_are_not_silent_in_between() -> None:
    """In the first hour that is not known; then a stop is said when two batches are missing."""
    begin_ms, quarter_ms = NOW_MS - 4 * HOUR_MS, 15 * MINUTE_MS
    site, publisher, told = Site(begin_ms - 2 * HOUR_MS, NOW_MS * 2, 0.0), Publisher(PLAN), {}
    stops_ms = NOW_MS - HOUR_MS
    for now_ms in range(begin_ms, NOW_MS, MINUTE_MS):
        sent_ms = min(now_ms, stops_ms) // quarter_ms * quarter_ms
        view = replace(site.lane(sent_ms), idle_ms=now_ms)
        reading = publisher.publish([view], now_ms, with_series=False).reading
        assert reading is not None
        told[(now_ms - stops_ms) // MINUTE_MS] = bool(reading.silences)
    assert not any(said for minute, said in told.items() if -115 < minute < 16)
    assert all(said for minute, said in told.items() if minute > 30)


def partitions(sites: list[Site], now_ms: int, rejected: int = 0) -> list[LaneView]:
    totals = pages_of(next(iter(sites[0].parts.values())))
    lanes = [
        replace(site.lane(now_ms), lane=number, totals=totals) for number, site in enumerate(sites)
    ]
    counts = {"rejected": {"invalid_json": rejected}}
    return [replace(lane, counts={**lane.counts, **counts}) for lane in lanes]


def of_partitions(
    sites: list[Site], publisher: Publisher, now_ms: int, rejected: int = 0
) -> tuple[Silence, ...]:
    lanes = partitions(sites, now_ms, rejected)
    published = publisher.publish(lanes, now_ms, with_series=False)
    assert published.reading is not None
    return published.reading.silences


def test_a_partition_that_stops_is_named_until_it_comes_again() -> None:
    begin_ms, stopped_ms = NOW_MS - 8 * HOUR_MS, NOW_MS - 90 * MINUTE_MS
    again_ms = NOW_MS - 30 * MINUTE_MS
    sites = [
        Site(begin_ms, NOW_MS * 2, 0.0),
        Stopping(begin_ms, "searches", stopped_ms, again_ms),
        Site(begin_ms, NOW_MS * 2, 0.0),
    ]
    publisher = Publisher(PLAN)
    told = {
        minutes: of_partitions(sites, publisher, stopped_ms + minutes * MINUTE_MS)
        for minutes in (-2, 2, 8, 55, 62, 85)
    }
    assert {minutes for minutes, found in told.items() if found} == {8, 55}
    (found,) = told[55]
    assert found.partitions == (1,) and abs(found.since_ms - stopped_ms) <= 2 * MINUTE_MS
    assert found.usual_per_hour == pytest.approx(7200, rel=0.15)
    said = sentences.silent(found, stopped_ms + 55 * MINUTE_MS)
    assert said.startswith("No searches in partition 1 since ") and "rejected" not in said


@pytest.mark.parametrize(("hours", "is_told"), [(1, True), (20, True), (60, True), (170, False)])
def test_a_partition_is_not_forgotten_within_a_week(hours: int, is_told: bool) -> None:
    """Of two equal ones; after a week one alone is usual."""
    stopped_ms = NOW_MS - hours * HOUR_MS
    sites = [Site(stopped_ms - 8 * HOUR_MS, NOW_MS * 2, 0.0)]
    sites += [Stopping(stopped_ms - 8 * HOUR_MS, "searches", stopped_ms)]
    going, gone = partitions(sites, NOW_MS)
    lanes = [going, replace(gone, watermark_ms=stopped_ms, idle_ms=NOW_MS)]
    published = Publisher(PLAN).publish(lanes, NOW_MS, with_series=False)
    assert published.reading is not None
    found = published.reading.silences
    assert [each.partitions for each in found] == [(1,)] * is_told
    if is_told:
        assert 3_000 < found[0].usual_per_hour < 8_000 and found[0].since_ms <= stopped_ms + HOUR_MS


def test_records_that_are_rejected_in_place_of_searches_are_said() -> None:
    stopped_ms = NOW_MS - 30 * MINUTE_MS
    sites: list[Site] = [Stopping(stopped_ms - 8 * HOUR_MS, "searches", stopped_ms)] * 2
    publisher = Publisher(PLAN)
    assert of_partitions(sites, publisher, stopped_ms - MINUTE_MS, rejected=7) == ()
    (found,) = of_partitions(sites, publisher, NOW_MS, rejected=1807)
    assert (found.partitions, found.rejected) == ((), 3600)
    assert " 3,600 records were rejected since." in sentences.silent(found, NOW_MS)


@pytest.mark.parametrize("per_minute", [0.2, 3])
def test_thin_partitions_are_not_silent_by_chance(per_minute: float) -> None:
    """Eight hours of 12 or 180 searches an hour, in two partitions."""
    sites = [Site(NOW_MS - 30 * HOUR_MS, NOW_MS * 2, 0.0, per_minute) for _ in range(2)]
    publisher = Publisher(PLAN)
    for minute in range(-480, 0, 5):
        assert of_partitions(sites, publisher, NOW_MS + minute * MINUTE_MS) == ()


def test_where_no_feedback_ever_joins_that_is_said_once_it_cannot_be_late() -> None:
    begin_ms = NOW_MS - 60 * MINUTE_MS
    site, publisher = Stopping(begin_ms, "feedback", begin_ms - HOUR_MS), Publisher(PLAN)
    assert said(site, publisher, begin_ms + 4 * MINUTE_MS) == ()
    (found,) = said(site, publisher, NOW_MS)
    assert (found.stream, found.usual_per_hour) == ("feedback", 0.0)
    assert sentences.silent(found, NOW_MS).startswith("No feedback has joined any search since")
