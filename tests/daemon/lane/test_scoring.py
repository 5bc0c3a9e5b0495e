"""What a change adds to the rows of its panes; totals that take every pane once and never fall."""

import random

import numpy as np
import pytest

from relevanced.daemon.commands.replay import view_of
from relevanced.daemon.events.types import Event
from relevanced.daemon.exporter.snapshot import evaluate, with_everything
from relevanced.daemon.lane import scoring
from relevanced.daemon.lane.lane import Lane
from relevanced.daemon.lane.paged_rows import LARGEST_SUM, PAGE_ROWS
from relevanced.daemon.panes import timing
from relevanced.daemon.worker import batch
from relevanced.metrics.catalog import parse
from tests.builders import (
    BASE_MS,
    PLAN,
    SETTLE_MS,
    START_MS,
    clicked,
    judged,
    lane_of,
    passing,
    plan_with,
    record,
    row,
    settled,
    shown,
    totals,
)
from tests.replica import decoder_of, plan_of, row_dicts
from tests.streams import SMALL_CONFIG, random_records

SETTLES_MS = BASE_MS + SETTLE_MS
"""The watermark at which the pane of time 0 is settled."""
US = {"country": "US"}


# Rows


def test_an_impression_counts_from_its_arrival_with_gains_of_0() -> None:
    lane = lane_of()
    settled(lane, shown(0))
    assert row(lane, 0) | {"P@2:sum": 0, "RR:sum": 0} == row(lane, 0)
    assert [row(lane, 0)[f"{name}:scored"] for name in ("P@2", "RR", "nDCG@5")] == [1, 1, 0]
    assert row(lane, 0)["impressions"] == 1


def test_a_change_of_gain_adds_the_difference() -> None:
    lane = lane_of()
    settled(lane, shown(0), clicked(1, "b"))
    before = row(lane, 0)
    settled(lane, clicked(2, "a"))
    assert (before["P@2:sum"], before["RR:sum"], before["nDCG@5:scored"]) == (500_000, 500_000, 1)
    assert (row(lane, 0)["P@2:sum"], row(lane, 0)["RR:squares"]) == (1_000_000, 1_000_000)
    assert row(lane, 0)["items_with_feedback"] == 2


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_the_first_feedback_counts_for_any_cut(cut: int) -> None:
    """The last event changes nothing but the delay of the first feedback."""
    lane = lane_of(plan=plan_with(metrics=(parse("FirstFeedbackSeconds"),)))
    events = [shown(0), clicked(10_000, "a"), clicked(5_000, "a")]
    for first in range(0, len(events), cut):
        settled(lane, *events[first : first + cut])
        lane.start_batch()
    found = row(lane, 0)
    assert found["FirstFeedbackSeconds:scored"] == 1
    assert found["FirstFeedbackSeconds:sum"] == 5_000


def test_the_first_feedback_counts_on_an_item_that_came_judged() -> None:
    lane = lane_of(plan=plan_with(metrics=(parse("FirstFeedbackSeconds"),)))
    settled(lane, shown(0, grades={"a": 3.0}))
    lane.start_batch()
    assert row(lane, 0)["FirstFeedbackSeconds:scored"] == 0
    settled(lane, clicked(2_000, "a"))
    assert row(lane, 0)["FirstFeedbackSeconds:sum"] == 2_000


def test_a_gain_taken_back_leaves_nothing_but_its_feedback() -> None:
    lane = lane_of()
    settled(lane, shown(0))
    bare = row(lane, 0)
    settled(lane, judged(1, "a", 3))
    settled(lane, judged(2, "a", 0))
    assert row(lane, 0) == bare | {"impressions_with_feedback": 1, "items_with_feedback": 1}


def test_a_filled_list_is_no_zero_result_any_more() -> None:
    lane = lane_of()
    settled(lane, shown(0, ""))
    assert row(lane, 0)["zero_result_impressions"] == 1
    settled(lane, shown(1, "a"))
    assert row(lane, 0)["zero_result_impressions"] == 0


def test_everything_lands_in_the_panes_of_the_impressions_own_time() -> None:
    lane = lane_of()
    settled(lane, shown(BASE_MS - 1))
    settled(lane, clicked(3 * BASE_MS, "a"), shown(BASE_MS, of="p"))
    assert row(lane, 0)["RR:sum"] == 1_000_000
    assert row(lane, BASE_MS)["impressions"] == 1
    assert row(lane, 0, window_s=3600)["impressions"] == 2


def test_one_segment_per_grouping_gets_the_impression() -> None:
    lane = lane_of()
    settled(lane, shown(0, attributes=US), shown(0, of="p"), clicked(1, "a", of="p"))
    assert [row(lane, 0, segment=name)["impressions"] for name in ("all", "US")] == [2, 1]
    assert row(lane, 0, segment="US")["RR:sum"] == 0
    assert row(lane, 0, segment="(none)")["RR:sum"] == 1_000_000


def test_a_cut_into_batches_changes_no_row() -> None:
    events: list[Event] = []
    for number in range(9):
        events.append(shown(0, of=f"q{number}", attributes={"country": f"c{number % 3}"}))
        events.append(clicked(number, "b", of=f"q{number // 2}"))
    whole, cut = lane_of(), lane_of()
    settled(whole, *events)
    for event in events:
        settled(cut, event)
    assert all(
        np.array_equal(rows.page(0), cut.panes[key].page(0)) for key, rows in whole.panes.items()
    )
    assert whole.panes.keys() == cut.panes.keys()


def test_rows_have_room_for_many_segments() -> None:
    lane = lane_of(plan=plan_with(max_segments=100))
    for number in range(PAGE_ROWS + 1):
        settled(lane, shown(0, of=f"q{number}", attributes={"country": f"c{number}"}))
    assert row(lane, 0)["impressions"] == PAGE_ROWS + 1
    assert row(lane, 0, segment=f"c{PAGE_ROWS}")["impressions"] == 1
    assert lane.changes.pages == {((w, START_MS), page) for w in (0, 1) for page in (0, 1)}


def test_only_the_pages_that_changed_are_noted() -> None:
    lane = lane_of(plan=plan_with(max_segments=100))
    many = [shown(0, of=f"q{n}", attributes={"country": f"c{n}"}) for n in range(2 * PAGE_ROWS)]
    settled(lane, *many)
    settled(lane, shown(0, of="again", attributes={"country": "c3"}))
    assert {page for _, page in lane.changes.pages} == {0}


# Settling


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


def test_panes_settle_with_what_came_out_of_order() -> None:
    lane = lane_of()
    settled(lane, shown(3 * BASE_MS, of="late"), shown(0), shown(2 * BASE_MS, of="p"))
    settled(lane, passing(SETTLES_MS))
    settled(lane, clicked(2 * BASE_MS, "a", of="p"), shown(BASE_MS, of="between"))
    settled(lane, passing(SETTLES_MS + 3 * BASE_MS))
    assert (totals(lane)["impressions"], totals(lane)["RR:sum"]) == (4, 1_000_000)


def test_a_silent_topic_holds_settling_back() -> None:
    lane = lane_of("searches", "clicks")
    settled(lane, shown(0), passing(2 * SETTLES_MS), topic="searches")
    assert (totals(lane), lane.settled_before) == ({}, None)
    settled(lane, passing(SETTLES_MS), topic="clicks")
    assert totals(lane)["impressions"] == 1


def test_a_leap_of_the_watermark_settles_before_it_drops() -> None:
    lane = lane_of()
    settled(lane, shown(0), clicked(1, "a"))
    settled(lane, passing(10**9))
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


def test_totals_have_room_for_segments_that_came_later() -> None:
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


def test_settling_gives_memory_back() -> None:
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
    """Impressions of the lane, settled or not, as a replay tells them."""
    views = [view_of(lane)]
    return int(with_everything(evaluate(views, PLAN), views, PLAN).windows[-1].rows[0, 0])


@pytest.mark.parametrize("seed", range(4))
def test_totals_never_fall(seed: int) -> None:
    rng = random.Random(seed)
    logs = random_records(rng, topics=1, partitions=1, events=300)
    lane = lane_of("search-events", plan=plan_of(SMALL_CONFIG))
    decode, before = decoder_of(SMALL_CONFIG), dict[tuple[str, str], dict[str, int]]()
    for one in logs:
        batch.process(lane, {"search-events": [record(one.value)]}, {}, decode)
        lane.start_batch()
        now = row_dicts(lane.totals.pages, lane.segments.names, lane.plan)
        assert all(
            now[key][name] >= value for key, r in before.items() for name, value in r.items()
        )
        before = now
    assert before["all", "all"]["impressions"] > 50


# Panes that are over


def test_panes_are_dropped_when_no_view_needs_them() -> None:
    lane = lane_of()
    kept_ms = PLAN.timing.kept_ms(PLAN.timing.windows[0])
    settled(lane, shown(0), passing(BASE_MS + kept_ms - 1))
    assert (0, START_MS) in lane.panes
    settled(lane, passing(BASE_MS + kept_ms))
    assert lane.panes.keys() == {(1, START_MS)}
    assert lane.changes.dropped == [((0, START_MS), 0)]


def test_a_dropped_pane_has_no_pages_to_write() -> None:
    lane = lane_of()
    settled(lane, shown(0), passing(10**9))
    assert not lane.changes.pages
    assert sorted(lane.changes.dropped) == [((0, START_MS), 0), ((1, START_MS), 0)]


def test_an_impression_may_be_older_than_the_epoch_of_its_panes() -> None:
    lane = lane_of()
    settled(lane, shown(1 - START_MS), passing(0))
    assert totals(lane)["impressions"] == 1


# Overflow


def test_a_row_that_would_pass_the_limit_is_an_error() -> None:
    lane = lane_of()
    settled(lane, shown(0))
    lane.panes[0, START_MS].page(0)[0, 0] = LARGEST_SUM - 1
    with pytest.raises(OverflowError, match=f"a counter of {LARGEST_SUM}: must stay below"):
        settled(lane, shown(0, of="p"))


def test_totals_that_would_pass_the_limit_are_an_error() -> None:
    lane = lane_of()
    settled(lane, shown(0), passing(SETTLES_MS), shown(SETTLES_MS, of="p"))
    lane.totals.page(0)[0, 0] = LARGEST_SUM - 1
    with pytest.raises(OverflowError, match="must stay below 2\\^62"):
        settled(lane, passing(2 * SETTLES_MS))


def test_a_batch_whose_sum_would_wrap_is_an_error() -> None:
    """4096 of the largest exact values sum to 2^64, which wraps to 0."""
    lane = lane_of()
    combination, state = lane.segments.combination_id((0, 0)), lane.states.id_of((1, ()))
    lane.states.rows()[state, 4:] = 2**52
    for _ in range(4096):
        lane.changes.add(START_MS, combination, 0, state)
    with pytest.raises(OverflowError, match=f"4096 changes of up to {2**52}: must sum to less"):
        scoring.apply_changes(lane)


def test_one_window_may_be_its_own_longest() -> None:
    lane = lane_of(plan=plan_with(timing=timing([("5m", 300)], 60, 5)))
    settled(lane, shown(0), passing(SETTLES_MS))
    assert (totals(lane)["impressions"], len(lane.panes)) == (1, 1)
