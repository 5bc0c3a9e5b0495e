"""Totals take every pane exactly once and never fall; panes that no view needs are dropped."""

import random

import pytest

from relevanced.daemon.lane import LARGEST_SUM, PAGE_ROWS, Lane
from relevanced.daemon.recompute.buckets import view_of
from relevanced.daemon.timing import timing
from relevanced.daemon.views import evaluate, with_everything
from tests.builders import (
    BASE_MS,
    PLAN,
    SETTLE_MS,
    START_MS,
    clicked,
    lane_of,
    leaping,
    passing,
    plan_with,
    record,
    settled,
    shown,
    totals,
)
from tests.replica import decoder_of, plan_of, row_dicts
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, random_records
from tests.whole_batch import process_batch

SETTLES_MS = BASE_MS + SETTLE_MS
"""The watermark at which the pane of time 0 is settled."""


@pytest.mark.parametrize(("watermark_ms", "impressions"), [(-1, None), (0, 1)])
def test_a_pane_settles_at_its_end_plus_window_and_lateness(
    watermark_ms: int, impressions: int | None
) -> None:
    lane = lane_of()
    settled(lane, shown(BASE_MS - 1), passing(SETTLES_MS + watermark_ms))
    assert totals(lane).get("impressions") == impressions
    assert len(lane.open) == (0 if impressions else 1)


def test_the_next_pane_is_not_settled_with_it() -> None:
    lane = lane_of()
    settled(lane, shown(BASE_MS - 1), shown(BASE_MS, of="p"), passing(SETTLES_MS + BASE_MS - 1))
    assert totals(lane)["impressions"] == 1
    assert lane.open.slots_of("p")


def test_a_pane_settles_exactly_once() -> None:
    lane = lane_of()
    settled(lane, shown(0), clicked(1, "a"))
    for later in (0, 0, 1, BASE_MS, 9 * BASE_MS):
        settled(lane, passing(SETTLES_MS + later))
    assert (totals(lane)["impressions"], totals(lane)["RR:sum"]) == (1, 1_000_000)


def test_panes_settle_with_events_that_came_out_of_order() -> None:
    lane = lane_of()
    settled(lane, shown(3 * BASE_MS, of="late"), shown(0), shown(2 * BASE_MS, of="p"))
    settled(lane, passing(SETTLES_MS))
    settled(lane, clicked(2 * BASE_MS, "a", of="p"), shown(BASE_MS, of="between"))
    settled(lane, passing(SETTLES_MS + 3 * BASE_MS))
    assert (totals(lane)["impressions"], totals(lane)["RR:sum"]) == (4, 1_000_000)


def test_a_silent_topic_delays_settling() -> None:
    lane = lane_of("searches", "clicks")
    settled(lane, shown(0), passing(2 * SETTLES_MS), topic="searches")
    assert (totals(lane), lane.settled_before) == ({}, None)
    settled(lane, passing(SETTLES_MS), topic="clicks")
    assert totals(lane)["impressions"] == 1


def test_a_leap_of_the_watermark_settles_panes_before_it_drops_them() -> None:
    lane = lane_of()
    settled(lane, shown(0), clicked(1, "a"))
    settled(lane, *leaping(10**9))
    assert totals(lane)["RR:sum"] == 1_000_000
    assert not lane.panes


def test_settling_notes_the_pages_of_totals() -> None:
    lane = lane_of()
    settled(lane, shown(0))
    assert not lane.changes.total_pages
    settled(lane, passing(SETTLES_MS))
    assert lane.changes.total_pages == {0}
    settled(lane, passing(2 * SETTLES_MS))
    assert not lane.changes.total_pages


def test_totals_grow_with_segments_that_come_later() -> None:
    lane = lane_of(plan=plan_with(max_segments=100))
    settled(lane, shown(0), passing(SETTLES_MS))
    later_ms = 2 * SETTLES_MS
    settled(
        lane,
        *(shown(later_ms, of=f"q{n}", attributes={"country": f"c{n}"}) for n in range(PAGE_ROWS)),
    )
    settled(lane, passing(later_ms + SETTLES_MS))
    assert totals(lane)["impressions"] == PAGE_ROWS + 1
    assert totals(lane, f"c{PAGE_ROWS - 1}")["impressions"] == 1
    assert lane.changes.total_pages == {0, 1}


def test_settling_releases_memory() -> None:
    lane = lane_of()
    settled(lane, *(shown(0, of=f"q{number}") for number in range(5000)))
    settled(lane, passing(SETTLES_MS))
    assert (len(lane.open), len(lane.open.ids), lane.open.next_slot) == (0, 0, 5000)


def test_totals_and_what_is_unsettled_are_the_whole() -> None:
    lane = lane_of()
    settled(lane, shown(0), shown(5 * BASE_MS, of="p"))
    assert (totals(lane), everything(lane)) == ({}, 2)
    settled(lane, passing(SETTLES_MS))
    assert (totals(lane)["impressions"], everything(lane)) == (1, 2)


def everything(lane: Lane) -> int:
    """Impressions of the lane, settled or not, as a replay reports them."""
    views = [view_of(lane)]
    return int(with_everything(evaluate(views, PLAN), views, PLAN).windows[-1].rows[0, 0])


@pytest.mark.parametrize("seed", seeds(4))
def test_totals_never_fall(seed: int) -> None:
    rng = random.Random(seed)
    logs = random_records(rng, topics=1, partitions=1, events=300)
    lane = lane_of("search-events", plan=plan_of(SMALL_CONFIG))
    decode, before = decoder_of(SMALL_CONFIG), dict[tuple[str, str], dict[str, int]]()
    for line in logs:
        process_batch(lane, {"search-events": [record(line.value)]}, {}, decode)
        lane.start_batch()
        now = row_dicts(lane.totals.pages, lane.segments.names, lane.plan)
        assert all(
            now[key][name] >= value for key, r in before.items() for name, value in r.items()
        )
        before = now
    assert before["all", "all"]["impressions"] > 50


# Panes that are dropped


def test_panes_are_dropped_when_no_view_needs_them() -> None:
    lane = lane_of()
    kept_ms = PLAN.timing.kept_ms(PLAN.timing.windows[0])
    settled(lane, shown(0), *leaping(BASE_MS + kept_ms - 1))
    assert (0, START_MS) in lane.panes
    settled(lane, passing(BASE_MS + kept_ms))
    assert lane.panes.keys() == {(1, START_MS)}
    assert lane.dropped == [((0, START_MS), 0)]


def test_a_dropped_pane_has_no_pages_to_write() -> None:
    lane = lane_of()
    settled(lane, shown(0))
    settled(lane, *leaping(10**9))
    assert not lane.pages
    assert sorted(lane.dropped) == [((0, START_MS), 0), ((1, START_MS), 0)]


def test_an_impression_may_be_older_than_the_epoch_of_its_panes() -> None:
    lane = lane_of()
    settled(lane, shown(1 - START_MS), *leaping(0))
    assert totals(lane)["impressions"] == 1


def test_totals_that_reach_the_limit_are_an_error() -> None:
    lane = lane_of()
    settled(lane, shown(0), passing(SETTLES_MS), shown(SETTLES_MS, of="p"))
    lane.totals.page(0)[0, 0] = LARGEST_SUM - 1
    with pytest.raises(OverflowError, match="must stay below 2\\^62"):
        settled(lane, passing(2 * SETTLES_MS))


def test_the_only_window_is_its_own_longest() -> None:
    lane = lane_of(plan=plan_with(timing=timing([("5m", 300)], 60, 5)))
    settled(lane, shown(0), passing(SETTLES_MS))
    assert (totals(lane)["impressions"], len(lane.panes)) == (1, 1)
