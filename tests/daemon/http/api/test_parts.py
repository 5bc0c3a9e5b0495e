"""The parts of the headline say what is true at the moment of which they speak."""

from typing import Final

import pytest

from relevanced.daemon.changes import Marker
from relevanced.daemon.events import instant_ms
from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.http import HeadlineParts, changes, headline
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.test_open_changes import Recovering, reading
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site

AGO_MS: Final = 3 * HOUR_MS


def parts(read: Reading) -> HeadlineParts:
    """Those of the headline."""
    found = headline(read).parts
    assert found is not None
    return found


def test_an_open_change_has_its_subject_onset_levels_share_and_marker() -> None:
    broke_ms = NOW_MS - 75 * MINUTE_MS
    site, publisher = Site(NOW_MS - 5 * HOUR_MS, broke_ms, 0.65, 300), Publisher(PLAN)
    publisher.markers = (Marker("r8", broke_ms - 2 * MINUTE_MS, "release", "ranker v8"),)
    found = parts(reading(site, NOW_MS, publisher))
    assert (found.state, found.grouping, found.segments) == ("open", "country", ("DE",))
    assert found.metric == "Success@10", "what anybody understands, though RR@10 tells it"
    assert found.before == pytest.approx(0.7, abs=0.02)
    assert found.now == pytest.approx(0.7 * 0.35, abs=0.02)
    assert found.traffic_share == pytest.approx(0.5, abs=0.02)
    assert found.onset is not None and found.onset.at is not None
    assert (found.better, found.ended, found.final) == (None, None, None)
    assert found.pattern is not None and found.marker is not None
    assert found.marker.text == "ranker v8"
    assert found.marker.before_seconds == pytest.approx(120, abs=180)


@pytest.mark.parametrize(("later_ms", "state"), [(HOUR_MS, "repaired"), (7 * HOUR_MS, "good")])
def test_a_recovery_is_told_for_six_hours(later_ms: int, state: str) -> None:
    over_ms = NOW_MS - later_ms
    site = Recovering(over_ms - 4 * HOUR_MS, over_ms - HOUR_MS, over_ms, 0.65)
    publisher = Publisher(PLAN)
    for until_ms in (over_ms - 30 * MINUTE_MS, over_ms - MINUTE_MS, over_ms + 30 * MINUTE_MS):
        reading(site, until_ms, publisher)
    said = headline(reading(site, NOW_MS, publisher))
    assert said.tone == "good" and said.parts is not None and said.parts.state == state
    if state == "repaired":
        assert said.parts.segments == ("DE",) and said.parts.ended is not None
        assert said.parts.now == pytest.approx(0.7 * 0.35, abs=0.02), "while it lasted"
    else:
        assert said.parts.noticed and said.parts.metric is None


def test_at_first_there_is_nothing_to_compare_with() -> None:
    found = parts(reading(Site(NOW_MS - 2 * MINUTE_MS, NOW_MS, 0.0), NOW_MS))
    assert found.state == "first" and not found.noticed and found.watching_since is not None


def test_what_was_low_until_a_repair_is_not_worse_in_a_window_that_contains_it() -> None:
    over_ms = NOW_MS - 25 * MINUTE_MS
    site = Recovering(over_ms - 4 * HOUR_MS, over_ms - 40 * MINUTE_MS, over_ms, 0.65)
    publisher = Publisher(PLAN)
    for until_ms in (over_ms - 20 * MINUTE_MS, over_ms - MINUTE_MS, over_ms + 20 * MINUTE_MS):
        reading(site, until_ms, publisher)
    found = changes(reading(site, NOW_MS, publisher), "1h", "settled", {})
    assert found.headline.tone == "good" and not found.open
    verdicts = {(row.metric, row.segment): row.verdict for row in found.changes}
    assert verdicts["RR@10", "DE"] == verdicts["RR@10", "all"] == "recovered"
    assert "worse" not in verdicts.values() and verdicts["RR@10", "US"] == "level"


def test_what_live_traffic_shows_to_be_back_is_said_of_the_change_until_that_has_settled() -> None:
    over_ms = NOW_MS - 50 * MINUTE_MS
    site = Recovering(over_ms - 4 * HOUR_MS, over_ms - 45 * MINUTE_MS, over_ms, 0.65)
    publisher = Publisher(PLAN)
    found = changes(reading(site, over_ms - 5 * MINUTE_MS, publisher), "1h", "settled", {})
    (change,) = found.open
    assert change.back_live is None and change.text.endswith(", not recovered.")
    found = changes(reading(site, over_ms, publisher), "1h", "settled", {})
    (change,) = found.open
    assert found.headline.tone == "good" and change.back_live is not None
    assert instant_ms(change.back_live.since) == pytest.approx(over_ms, abs=3 * MINUTE_MS)
    assert change.level_now.mean is not None
    assert change.back_live.mean > 2 * change.level_now.mean
    assert "; live it is back at" in change.text
    found = changes(reading(site, NOW_MS, publisher), "1h", "settled", {})
    (over,) = (one for one in found.closed if one.segment == "DE")
    assert not found.open and over.back_live is None and over.recovered is not None
