"""`against=day` and `against=weeks`: the last settled hours beside the same hours before."""

from datetime import datetime, timedelta
from math import hypot, sqrt
from zoneinfo import ZoneInfo

import pytest

from relevanced.daemon.changes import DEFAULTS, ChangeSettings
from relevanced.daemon.events import instant_ms, timestamp_text
from relevanced.daemon.exporter import Publisher, Reading, shares
from relevanced.daemon.http import BadRequest, Change, Changes, Stretch, changes, hours
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter import two_countries
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site
from tests.daemon.views.test_coverage import since

DAY_MS = 24 * HOUR_MS
SETTLED_MS = NOW_MS // HOUR_MS * HOUR_MS
"""So that the last settled hours are hours of the clock, which have no shares."""
PERIODS = {"day": [DAY_MS], "weeks": [7 * DAY_MS, 14 * DAY_MS]}


def reading(days: float, break_ms: int = 2 * NOW_MS, per_minute: float = 20) -> Reading:
    """A site that counts for so long, when exactly a whole hour has settled."""
    site = Site(SETTLED_MS - round(days * DAY_MS), break_ms, 0.3, per_minute)
    as_of_ms = SETTLED_MS + PLAN.timing.settle_ms
    published = Publisher(PLAN).publish([site.lane(as_of_ms)], as_of_ms).reading
    assert published is not None
    return published


@pytest.fixture(scope="module")
def broken() -> Reading:
    """Sixteen days, of which the last two hours are broken in DE."""
    return reading(16, SETTLED_MS - 2 * HOUR_MS, per_minute=60)


def row_of(found: Changes, segment: str, metric: str = "Success@10") -> Change:
    (row,) = (row for row in found.changes if (row.segment, row.metric) == (segment, metric))
    return row


def hourly(read: Reading, stretch: Stretch, metric: str, segment: str) -> tuple[float, float]:
    """(scored, mean) of the hours, each with the share of it that lies in the stretch."""
    scored = total = 0.0
    for start, share in shares(instant_ms(stretch.start), instant_ms(stretch.end), HOUR_MS).items():
        span = timestamp_text(start), timestamp_text(start + HOUR_MS)
        (hour,) = hours(read, {"metric": [metric], "segment": [segment]}, *span).rows
        scored += share * hour.scored
        total += share * hour.scored * (hour.mean or 0)
    return scored, total / scored


@pytest.mark.parametrize("against", PERIODS)
@pytest.mark.parametrize(("window", "hour_count"), [("5m", 1), ("1h", 1), ("24h", 24)])
def test_the_means_are_those_of_the_hours(
    broken: Reading, against: str, window: str, hour_count: int
) -> None:
    found = changes(broken, window, "settled", {}, against)  # type: ignore[arg-type]
    assert found.remark is None and found.now is not None
    length_ms = instant_ms(found.now.end) - instant_ms(found.now.start)
    pane_ms = PLAN.timing.windows[1].pane_ms
    assert 0 <= hour_count * HOUR_MS - length_ms <= pane_ms, "at most a pane is not whole"
    assert found.before == found.periods[0] and len(found.periods) == len(PERIODS[against])
    for segment in ("DE", "US"):
        each = [hourly(broken, one, "RR@10", segment) for one in found.periods]
        before = row_of(found, segment, "RR@10").before
        assert before.mean == pytest.approx(sum(mean for _, mean in each) / len(each), rel=1e-9)
        assert before.scored == round(sum(scored for scored, _ in each))


@pytest.mark.parametrize("noon", ["2026-10-25T12:00:00Z", "2027-03-28T12:00:00Z"])
def test_the_day_before_is_named_by_local_hours(noon: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies 25 or 23 hours before on the day of a change of clocks."""
    now_ms, zone = instant_ms(noon), ZoneInfo("Europe/Berlin")
    monkeypatch.setattr(two_countries, "NOW_MS", now_ms + HOUR_MS)
    by_turns = Site(
        *(now_ms - 3 * DAY_MS, 2 * now_ms, 0, 20),
        shape=lambda time_ms: 1 if time_ms // HOUR_MS % 2 else 0.5,
    )
    as_of_ms = now_ms + PLAN.timing.settle_ms
    publisher = Publisher(PLAN, ChangeSettings(time_zone=zone))
    read = publisher.publish([by_turns.lane(as_of_ms)], as_of_ms).reading
    assert read is not None
    found = changes(read, "1h", "settled", {}, "day")
    assert found.now is not None and found.before is not None
    now, before = (
        datetime.fromisoformat(one.end).astimezone(zone) for one in (found.now, found.before)
    )
    assert now.replace(tzinfo=None) - before.replace(tzinfo=None) == timedelta(days=1)
    scored, mean = hourly(read, found.before, "RR@10", "US")
    row = row_of(found, "US", "RR@10").before
    assert (row.scored, row.mean) == (round(scored), pytest.approx(mean, rel=1e-9))


def test_the_last_day_is_its_hours(broken: Reading) -> None:
    found = changes(broken, "24h", "settled", {}, "weeks")
    assert found.now is not None
    scored, mean = hourly(broken, found.now, "RR@10", "DE")
    now = row_of(found, "DE", "RR@10").now
    assert (now.scored, now.mean) == (scored, pytest.approx(mean, rel=1e-9))


@pytest.mark.parametrize("against", PERIODS)
def test_a_break_is_called_and_the_rest_is_level(broken: Reading, against: str) -> None:
    found = changes(broken, "1h", "settled", {}, against)  # type: ignore[arg-type]
    assert row_of(found, "DE").verdict == "worse"
    assert row_of(found, "DE", "Abandonment").verdict == "worse"
    assert row_of(found, "US").verdict == "level"
    assert row_of(found, "all").verdict == "diluted", "it is low only through DE"


def test_the_noise_is_that_of_the_rules(broken: Reading) -> None:
    """Design effect on the sampling of both sides; drift between days of the week on one day."""
    row = row_of(changes(broken, "1h", "settled", {}, "day"), "US")
    used = broken.change_settings.design_effect
    assert row.before.mean and row.now.stderr and row.before.stderr
    sampling = sqrt(used) * hypot(row.now.stderr, row.before.stderr)
    drift = hypot(DEFAULTS.drift_ratio, DEFAULTS.weekday_drift_ratio) * sqrt(2) * row.before.mean
    assert row.noise == pytest.approx(hypot(sampling, drift))


@pytest.mark.parametrize(("days", "against"), [(0.5, "day"), (3, "weeks"), (6.5, "weeks")])
def test_too_little_history_is_said_with_when_there_is_enough(days: float, against: str) -> None:
    read = reading(days)
    found = changes(read, "5m", "settled", {}, against)  # type: ignore[arg-type]
    assert (found.changes, found.now, found.before, found.periods) == ((), None, None, ())
    assert found.remark is not None and "there is something to compare with by" in found.remark
    needed = PERIODS[against][0] / DAY_MS + 2 / 24
    enough = changes(reading(needed), "5m", "settled", {}, against)  # type: ignore[arg-type]
    assert enough.remark is None and len(enough.changes) == 9


def test_whole_hours_have_no_live_view(broken: Reading) -> None:
    with pytest.raises(BadRequest, match="view=live: must be settled with against=weeks"):
        changes(broken, "1h", "live", {}, "weeks")


def test_the_filters_hold(broken: Reading) -> None:
    wanted = {"metric": ["RR@10"], "segment": ["DE"], "grouping": ["country"]}
    (row,) = changes(broken, "1h", "settled", wanted, "weeks").changes
    assert (row.metric, row.grouping, row.segment) == ("RR@10", "country", "DE")


def test_the_headline_is_the_same_against_whatever_is_compared(broken: Reading) -> None:
    told = {changes(broken, "1h", "settled", {}, each).headline for each in ("worst", "hour")}
    told |= {changes(broken, "1h", "settled", {}, each).headline for each in ("day", "weeks")}
    assert len(told) == 1


def test_a_minute_more_takes_its_share_of_the_hours() -> None:
    """The last hour need not be an hour of the clock."""
    site = Site(SETTLED_MS - 2 * DAY_MS, 2 * NOW_MS, 0.3, per_minute=20)
    as_of_ms = SETTLED_MS + PLAN.timing.settle_ms + 15 * MINUTE_MS
    published = Publisher(PLAN).publish([site.lane(as_of_ms)], as_of_ms).reading
    assert published is not None
    found = changes(published, "1h", "settled", {}, "day")
    assert found.now is not None and ":16:00" in found.now.start
    assert row_of(found, "US").verdict == "level"


@pytest.mark.parametrize("against", ["hour", "day"])
def test_what_is_not_counted_in_all_of_the_periods_is_not_known_and_no_lack_of_traffic(
    against: str,
) -> None:
    """Of a grouping that was added twenty minutes ago."""
    as_of_ms = SETTLED_MS + PLAN.timing.settle_ms
    begins_ms = as_of_ms - 20 * MINUTE_MS
    groupings = {**dict.fromkeys(PLAN.grouping_ids), "country": begins_ms}
    site = Site(SETTLED_MS - 3 * DAY_MS, 2 * NOW_MS, 0.3, 20)
    lane = since(site.lane(as_of_ms), PLAN, groupings=groupings)
    read = Publisher(PLAN).publish([lane], as_of_ms, with_series=False).reading
    assert read is not None
    found = changes(read, "1h", "settled", {}, against)  # type: ignore[arg-type]
    whole, of_us = row_of(found, "all"), row_of(found, "US")
    assert whole.counts_from is None and whole.now.impressions and whole.before.impressions
    assert of_us.counts_from == timestamp_text(begins_ms) and of_us.verdict == "undefined"
    assert (of_us.before.mean, of_us.before.scored, of_us.before.impressions) == (None, None, None)


@pytest.mark.parametrize("against", ["hour", "day"])
def test_what_is_counted_in_all_of_the_last_hour_is_known_there_also_where_it_is_nothing(
    against: str,
) -> None:
    """US has no traffic in the hour since which a metric is counted."""
    as_of_ms = SETTLED_MS + PLAN.timing.settle_ms
    begins_ms, metric = SETTLED_MS - HOUR_MS, PLAN.metrics[0].name
    site = Site(SETTLED_MS - 3 * DAY_MS, 2 * NOW_MS, 0.3, 20)
    for start, rows in site.parts.items():
        rows[2] *= start < begins_ms
    columns = {**dict.fromkeys(PLAN.column_ids), PLAN.column_ids[0]: begins_ms}
    lane = since(site.lane(as_of_ms), PLAN, columns=columns)
    read = Publisher(PLAN).publish([lane], as_of_ms, with_series=False).reading
    assert read is not None
    found = changes(read, "1h", "settled", {}, against)  # type: ignore[arg-type]
    of_us = row_of(found, "US", metric)
    now, before = of_us.now, of_us.before
    assert (now.mean, now.scored, now.impressions) == (None, 0, 0)
    assert (before.mean, before.scored, of_us.verdict) == (None, None, "no_traffic")
    assert before.impressions and of_us.counts_from == timestamp_text(begins_ms)
