"""From lanes to open changes: named soon, named as long as it lasts, over when it is over."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from relevanced.daemon.changes import Kind, Marker, MarkerReach
from relevanced.daemon.exporter import Publisher, Reading, Told, packed, restored
from relevanced.daemon.http import Changes, changes
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Shape, Site, wave
from tests.lane_views import reading_at

SETTLED_MS = PLAN.timing.settle_ms
PER_MINUTE = 380
"""Both countries together: a country has 11,400 an hour."""
BREAKS = {"3 min": 3, "10 min": 10, "75 min": 75, "200 min": 200, "a day": 1440, "4 days": 5760}


def reading(site: Site, settled_until_ms: int, publisher: Publisher | None = None) -> Reading:
    """What is published when so much has settled."""
    as_of_ms = settled_until_ms + SETTLED_MS
    published = (publisher or Publisher(PLAN)).publish([site.lane(as_of_ms)], as_of_ms)
    assert published.reading is not None
    return published.reading


def answer(read: Reading, window: str = "5m", view: str = "settled") -> Changes:
    return changes(read, window, view, {})


class Recovering(Site):
    """A site whose break is over at `over_ms`."""

    def __init__(
        self, begin_ms: int, break_ms: int, over_ms: int, drop: float, shape: Shape = wave(0)
    ) -> None:
        super().__init__(begin_ms, break_ms, drop, PER_MINUTE, shape=shape)
        healthy = Site(begin_ms, NOW_MS * 2, drop, PER_MINUTE, shape=shape)
        self.parts.update((at, rows) for at, rows in healthy.parts.items() if at >= over_ms)


@pytest.fixture(scope="module", params=BREAKS)
def broken(request: pytest.FixtureRequest) -> Iterator[tuple[int, Reading]]:
    """(the instant of the break, what is published so long after it)."""
    ago_ms = BREAKS[request.param] * MINUTE_MS
    break_ms = NOW_MS - ago_ms
    site = Site(break_ms - max(ago_ms // 5, HOUR_MS), break_ms, 0.65, PER_MINUTE)
    publisher = Publisher(PLAN)
    yield break_ms, reading(site, NOW_MS, publisher)


def test_a_break_is_named_however_long_it_lasts(broken: tuple[int, Reading]) -> None:
    break_ms, read = broken
    (story,) = read.clicks.changes.open
    assert story.segments == ("DE",) and story.fall.series[0] == "country"
    assert abs(story.fall.onset.likely - break_ms) <= 3 * MINUTE_MS
    assert story.own.change_ratio == pytest.approx(-0.65, abs=0.04)


@pytest.mark.parametrize("view", ["settled", "live"])
@pytest.mark.parametrize("window", ["5m", "1h", "24h"])
def test_every_window_and_view_says_the_same(
    broken: tuple[int, Reading], window: str, view: str
) -> None:
    found = answer(broken[1], window, view)
    assert found.headline.tone == "worse"
    assert "of country DE fell from 0.43 to 0.1" in found.headline.text
    assert found.headline.change == found.open[0].id
    rows = {(row.segment, row.metric): row.verdict for row in found.changes}
    assert all(rows["DE", metric.name] == "worse" for metric in PLAN.metrics)
    (told,) = (row for row in found.changes if (row.segment, row.metric) == ("DE", "RR@10"))
    assert (told.now.mean, told.before.mean) == (
        found.open[0].level_now.mean,
        found.open[0].level_before.mean,
    )
    (whole,) = (row for row in found.changes if (row.segment, row.metric) == ("all", "RR@10"))
    assert whole.verdict == "diluted", "its fall is that of DE, and no second one"
    assert whole.since == told.since and whole.difference and whole.difference < -0.1
    assert all(rows["US", metric.name] not in ("worse", "diluted") for metric in PLAN.metrics)


def test_the_comparison_with_an_hour_ago_can_be_asked_for(broken: tuple[int, Reading]) -> None:
    plain = changes(broken[1], "5m", "settled", {}, "hour")
    assert plain.against == "hour" and plain.headline == answer(broken[1]).headline


def test_a_break_is_over_when_it_is_over_and_not_before() -> None:
    break_ms, over_ms = NOW_MS - 200 * MINUTE_MS, NOW_MS - 60 * MINUTE_MS
    site, publisher = Recovering(NOW_MS - 8 * HOUR_MS, break_ms, over_ms, 0.65), Publisher(PLAN)
    told = {}
    for minutes in (-201, -190, -130, -90, -61, -50, -20, 0):
        told[minutes] = answer(reading(site, NOW_MS + minutes * MINUTE_MS, publisher))
    assert [each.headline.tone for each in told.values()] == [
        "good",
        *["worse"] * 4,
        *["good"] * 3,
    ]
    assert len({each.open[0].id for each in told.values() if each.open}) == 1
    levels = [each.open[0].level_now.mean or 0 for each in told.values() if each.open]
    assert max(levels) < 0.17, "the level never seems to recover while the fault lasts"
    (closed,) = told[0].closed
    assert closed.state == "recovered" and closed.recovered is not None
    assert " recovered at 11:00: for 2 h 2" in closed.text
    assert closed.text == told[0].headline.text


def test_a_standby_says_the_same_as_the_leader() -> None:
    site = Site(NOW_MS - 4 * HOUR_MS, NOW_MS - 75 * MINUTE_MS, 0.65, PER_MINUTE)
    as_of_ms = NOW_MS + SETTLED_MS
    views = [site.lane(as_of_ms)]
    leader, standby = (
        Publisher(PLAN).publish(views, as_of_ms, with_series=leads).reading
        for leads in (True, False)
    )
    assert leader is not None and standby is not None
    assert answer(leader) == answer(standby)


def test_a_quiet_site_is_good_and_says_what_would_be_noticed() -> None:
    found = answer(reading(Site(NOW_MS - 4 * HOUR_MS, NOW_MS * 2, 0, PER_MINUTE), NOW_MS))
    assert found.headline.tone == "good" and not found.open and not found.closed
    assert found.headline.text.startswith(
        "Up to 12:00 search was as good as before. A fall of RR@10 "
    )
    assert {each.metric for each in found.noticeable} == {metric.name for metric in PLAN.metrics}


def test_a_start_says_that_nothing_can_be_compared_yet() -> None:
    found = answer(reading(Site(NOW_MS - 2 * MINUTE_MS, NOW_MS * 2, 0, PER_MINUTE), NOW_MS))
    assert (found.headline.tone, found.headline.change) == ("", None)
    assert found.headline.text.endswith("Nothing to compare with yet.")


def test_before_the_first_look_nothing_is_claimed() -> None:
    read = reading(Site(NOW_MS - HOUR_MS, NOW_MS * 2, 0, PER_MINUTE), NOW_MS)
    unjudged = reading_at(read.views, read.snapshot, read.plan)
    assert unjudged.clicks.changes.end_ms is None
    assert answer(unjudged).headline.tone == "" and answer(unjudged).settled_until is None


def test_another_process_tells_the_same_change_under_the_same_name() -> None:
    """By what is stored: alone it would know the onset less well by now."""
    site = Site(NOW_MS - 8 * HOUR_MS, NOW_MS - 300 * MINUTE_MS, 0.3, PER_MINUTE)
    first, second = Publisher(PLAN), Publisher(PLAN)
    told = answer(reading(site, NOW_MS - 280 * MINUTE_MS, first))
    second.told = restored(packed(first.told), Told())
    taken_over = answer(reading(site, NOW_MS, second))
    assert taken_over.open[0].id == told.open[0].id
    assert taken_over.open[0].onset == told.open[0].onset
    assert taken_over.open[0].called_at == told.open[0].called_at


def test_another_process_tells_an_open_change_as_what_it_was_told() -> None:
    """By a metric that it would not choose itself."""
    site = Site(NOW_MS - 8 * HOUR_MS, NOW_MS - 300 * MINUTE_MS, 0.3, PER_MINUTE)
    first, second = Publisher(PLAN), Publisher(PLAN)
    (change,) = reading(site, NOW_MS - 280 * MINUTE_MS, first).clicks.changes.told
    assert first.told.names == (change.told_as,)
    *where, metric = change.series
    series = (*where, next(name for name in ("Success@10", "RR@10") if name != metric))
    other = replace(change.told_as, series=series)
    second.told = restored(packed(structs.replace(first.told, names=(other,))), Told())
    (taken_over,) = reading(site, NOW_MS, second).clicks.changes.told
    assert taken_over.told_as == other and second.told.names == (other,)


def test_stored_changes_that_cannot_be_read_are_none() -> None:
    for stored in (None, b"rubbish", b'[{"series":1}]'):
        assert restored(stored, Told()) == Told()


@pytest.mark.parametrize(
    ("kind", "segment", "tone", "state", "text"),
    [
        ("release", "DE", "worse", "open", ' min after "v8", not recovered.'),
        ("planned", "DE", "", "planned", ', as planned ("v8").'),
        ("planned", "US", "worse", "open", ", not recovered."),
    ],
)
def test_a_marker_at_the_onset_is_told(
    kind: Kind, segment: str, tone: str, state: str, text: str
) -> None:
    break_ms = NOW_MS - 75 * MINUTE_MS
    site, publisher = Site(NOW_MS - 4 * HOUR_MS, break_ms, 0.65, PER_MINUTE), Publisher(PLAN)
    scope = MarkerReach(None, "country", segment)
    publisher.markers = (Marker("m", break_ms - 5 * MINUTE_MS, kind, "v8", scope=scope),)
    found = answer(reading(site, NOW_MS, publisher))
    assert (found.headline.tone, found.open[0].state) == (tone, state)
    assert found.headline.text == found.open[0].text and found.open[0].text.endswith(text)
    assert [marker.id for marker in found.open[0].markers] == ["m"] * (segment == "DE")


def test_what_is_open_is_served_as_alerts_compare_it() -> None:
    site = Site(NOW_MS - 4 * HOUR_MS, NOW_MS - 75 * MINUTE_MS, 0.65, PER_MINUTE)
    as_of_ms = NOW_MS + SETTLED_MS
    published = Publisher(PLAN).publish([site.lane(as_of_ms)], as_of_ms)
    served = {
        sample.name.removeprefix("relevanced_change_open"): sample
        for family in text_string_to_metric_families(b"".join(published.text.plain).decode())
        for sample in family.samples
        if sample.name.startswith("relevanced_change_open")
    }
    change = served[""].labels
    assert (change["segment"], change["country"], change["metric"]) == ("DE", "DE", "RR@10")
    assert (change["urgency"], change["against"], change["measure"]) == ("page", "hour", "feedback")
    assert served["_loss_ratio"].value == pytest.approx(0.65, abs=0.04)
    assert served["_text"].labels["named"] == "country DE"
    assert set(served) == {
        *("", "_since_timestamp_seconds", "_score", "_loss_ratio", "_z", "_scored_impressions"),
        *("_carried_ratio", "_text"),
    }


def test_hours_after_a_repair_nobody_is_told_of_what_fell_with_it() -> None:
    break_ms, over_ms = NOW_MS - 400 * MINUTE_MS, NOW_MS - 120 * MINUTE_MS
    site, publisher = Recovering(NOW_MS - 12 * HOUR_MS, break_ms, over_ms, 0.3), Publisher(PLAN)
    told = {}
    for minutes in (-410, -300, -125, -60, 0):
        read = reading(site, NOW_MS + minutes * MINUTE_MS, publisher)
        told[minutes] = [(each.series[1], each.urgency) for each in read.clicks.changes.told]
    assert told == {-410: [], -300: [("DE", "page")], -125: [("DE", "page")], -60: [], 0: []}
