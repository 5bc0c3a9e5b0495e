"""Which values of the version attribute are marked as releases, and when they were first seen."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import Marker
from relevanced.daemon.exporter import (
    LEAST_IMPRESSIONS,
    LEAST_KNOWN_MS,
    MOST_NEW,
    REACH_MS,
    FirstSights,
    Publisher,
)
from relevanced.daemon.lane import Rows
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import NONE, OTHER
from relevanced.daemon.storage import pack_page
from relevanced.daemon.views import WHOLE, LaneView, Names
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN
from tests.lane_views import pages_of

VERSIONED = replace(PLAN, groupings=(("ranker",),))
Traffic = dict[str, Sequence[int]]
"""Value → the instants of its impressions."""
LONG_AGO = NOW_MS - 5 * REACH_MS


def every_minute(from_ms: int, until_ms: int = NOW_MS) -> range:
    return range(pane_start(from_ms, MINUTE_MS), until_ms, MINUTE_MS)


def lane(traffic: Traffic, number: int = 0, as_of_ms: int = NOW_MS) -> LaneView:
    """A lane with the impressions before an instant, and panes and hours as a worker keeps them."""
    names = Names([WHOLE, *(("ranker", value) for value in traffic)])
    cells: dict[tuple[int, int], Rows] = {}
    hours: dict[int, Rows] = {}
    empty = np.zeros((len(names), VERSIONED.row_width), np.int64)
    for row, instants in enumerate(traffic.values(), 1):
        for at_ms in (at_ms for at_ms in instants if at_ms < as_of_ms):
            for index, window in enumerate(VERSIONED.timing.windows):
                start = pane_start(at_ms, window.pane_ms)
                if start >= VERSIONED.timing.dropped_before(window, as_of_ms):
                    cells.setdefault((index, start), empty.copy())[[0, row], 0] += 1
            if at_ms < as_of_ms - VERSIONED.timing.settle_ms:
                hours.setdefault(pane_start(at_ms, HOUR_MS), empty.copy())[[0, row], 0] += 1
    return LaneView(
        lane=number,
        token="t",
        sequence=1,
        names=names,
        panes={key: pages_of(rows) for key, rows in cells.items()},
        totals={},
        counts={"events": {"impression": 1}},
        watermark_ms=as_of_ms,
        hours={h: {p: pack_page(r) for p, r in pages_of(c).items()} for h, c in hours.items()},
    )


def marked(*lanes: LaneView, known: Sequence[Marker] = ()) -> list[tuple[str, int]]:
    """(text, minutes ago) of the first sights."""
    found = FirstSights(VERSIONED, "ranker").of(lanes, NOW_MS, known)
    assert all(marker.kind == "release" for marker in found)
    return [(marker.text, (NOW_MS - marker.at_ms) // MINUTE_MS) for marker in found]


@pytest.mark.parametrize("minutes", [30, 90, 300, 1200])
def test_a_new_value_is_a_release_at_its_first_sight(minutes: int) -> None:
    seen_ms = pane_start(NOW_MS - minutes * MINUTE_MS, MINUTE_MS)
    old = {"v7": every_minute(LONG_AGO)}
    both = lane({**old, "v8": every_minute(seen_ms)})
    ((text, ago),) = marked(both, lane(old, 1))
    known_to_min = 0 if minutes < 100 else 48  # the panes of a day
    assert text == "ranker v8" and minutes <= ago <= minutes + known_to_min


def test_what_was_there_from_the_first_hour_on_is_no_release() -> None:
    begin = NOW_MS - 6 * HOUR_MS
    later = begin + LEAST_KNOWN_MS
    assert marked(lane({"v7": every_minute(begin), "v8": every_minute(later - HOUR_MS // 2)})) == []
    panes_later = later + 50 * MINUTE_MS  # the day's panes do not tell more
    assert marked(lane({"v7": every_minute(begin), "v8": every_minute(panes_later)}))


def test_a_value_that_was_there_within_the_day_before_is_not_new() -> None:
    yesterday = every_minute(NOW_MS - REACH_MS - 2 * HOUR_MS, NOW_MS - REACH_MS)
    now = every_minute(NOW_MS - HOUR_MS)
    assert marked(lane({"v7": every_minute(LONG_AGO), "v6": [*yesterday, *now]})) == []
    assert marked(lane({"v7": every_minute(LONG_AGO)}), lane({"v6": [*yesterday, *now]}, 1)) == []


def test_a_single_impression_and_a_missing_value_are_no_versions() -> None:
    few = every_minute(NOW_MS - HOUR_MS)[: LEAST_IMPRESSIONS - 1]
    new = every_minute(NOW_MS - HOUR_MS)
    traffic = {"v7": every_minute(LONG_AGO), "x": few, NONE: new, OTHER: new}
    assert marked(lane(traffic)) == []


def test_an_attribute_of_very_many_values_is_no_version() -> None:
    new = every_minute(NOW_MS - HOUR_MS)
    for count, expected in ((MOST_NEW, MOST_NEW), (MOST_NEW + 1, 0)):
        values = {f"v{number}": new for number in range(count)}
        assert len(marked(lane({"old": every_minute(LONG_AGO), **values}))) == expected


def test_a_release_that_somebody_marked_is_not_marked_again() -> None:
    traffic = lane({"v7": every_minute(LONG_AGO), "v8": every_minute(NOW_MS - HOUR_MS)})
    by_hand = Marker("m-1", NOW_MS - HOUR_MS, "release", "deployed ranker v8")
    assert marked(traffic, known=[by_hand]) == []
    assert marked(traffic, known=[replace(by_hand, text="new index")])
    assert marked(traffic, known=[replace(by_hand, at_ms=NOW_MS - REACH_MS)])


def test_one_that_is_stored_is_not_found_again_even_after_it_was_removed() -> None:
    traffic = [lane({"v7": every_minute(LONG_AGO), "v8": every_minute(NOW_MS - HOUR_MS)})]
    sights = FirstSights(VERSIONED, "ranker")
    (found,) = sights.of(traffic, NOW_MS, ())
    assert sights.of(traffic, NOW_MS, [found]) == ()
    assert sights.of(traffic, NOW_MS, ()) == ()
    assert FirstSights(VERSIONED, "ranker").of(traffic, NOW_MS, [found]) == ()


def test_without_the_setting_there_are_none() -> None:
    traffic = lane({"v7": every_minute(LONG_AGO), "v8": every_minute(NOW_MS - HOUR_MS)})
    assert FirstSights(VERSIONED, None).of([traffic], NOW_MS, ()) == ()


def test_a_first_sight_is_served_before_it_is_stored() -> None:
    publisher = Publisher(VERSIONED, version_attribute="ranker")
    traffic = lane({"v7": every_minute(LONG_AGO), "v8": every_minute(NOW_MS - HOUR_MS)})
    published = publisher.publish([traffic], NOW_MS)
    assert published.reading is not None
    assert [marker.text for marker in published.reading.markers] == ["ranker v8"]
    assert b"ranker v8" in b"".join(published.text.plain)
    publisher.markers = publisher.first_sights
    again = publisher.publish([traffic], NOW_MS).reading
    assert again is not None and again.markers == published.reading.markers
