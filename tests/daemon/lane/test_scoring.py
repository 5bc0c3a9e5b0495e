"""What a batch adds to the rows of its panes."""

import numpy as np
import pytest

from relevanced.daemon.events import Event
from relevanced.daemon.lane import LARGEST_SUM, PAGE_ROWS, scoring
from relevanced.metrics import parse
from tests.builders import (
    BASE_MS,
    START_MS,
    clicked,
    judged,
    lane_of,
    plan_with,
    row,
    settled,
    shown,
)

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


def test_a_gain_that_returns_to_0_leaves_only_its_feedback() -> None:
    lane = lane_of()
    settled(lane, shown(0))
    bare = row(lane, 0)
    settled(lane, judged(1, "a", 3))
    settled(lane, judged(2, "a", 0))
    assert row(lane, 0) == bare | {"impressions_with_feedback": 1, "items_with_feedback": 1}


def test_a_filled_list_is_no_longer_a_zero_result() -> None:
    lane = lane_of()
    settled(lane, shown(0, ""))
    assert row(lane, 0)["zero_result_impressions"] == 1
    settled(lane, shown(1, "a"))
    assert row(lane, 0)["zero_result_impressions"] == 0


def test_everything_counts_in_the_panes_of_the_impressions_own_time() -> None:
    lane = lane_of()
    settled(lane, shown(BASE_MS - 1))
    settled(lane, clicked(3 * BASE_MS, "a"), shown(BASE_MS, of="p"))
    assert row(lane, 0)["RR:sum"] == 1_000_000
    assert row(lane, BASE_MS)["impressions"] == 1
    assert row(lane, 0, window_s=3600)["impressions"] == 2


def test_an_impression_counts_in_one_segment_per_grouping() -> None:
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


def test_rows_of_many_segments_take_several_pages() -> None:
    lane = lane_of(plan=plan_with(max_segments=100))
    for number in range(PAGE_ROWS + 1):
        settled(lane, shown(0, of=f"q{number}", attributes={"country": f"c{number}"}))
    assert row(lane, 0)["impressions"] == PAGE_ROWS + 1
    assert row(lane, 0, segment=f"c{PAGE_ROWS}")["impressions"] == 1
    assert lane.pages == {((w, START_MS), page) for w in (0, 1) for page in (0, 1)}


def test_only_the_pages_that_changed_are_noted() -> None:
    lane = lane_of(plan=plan_with(max_segments=100))
    many = [shown(0, of=f"q{n}", attributes={"country": f"c{n}"}) for n in range(2 * PAGE_ROWS)]
    settled(lane, *many)
    settled(lane, shown(0, of="again", attributes={"country": "c3"}))
    assert {page for _, page in lane.pages} == {0}


# Overflow


def test_a_row_that_reaches_the_limit_is_an_error() -> None:
    lane = lane_of()
    settled(lane, shown(0))
    lane.panes[0, START_MS].page(0)[0, 0] = LARGEST_SUM - 1
    with pytest.raises(OverflowError, match=f"a counter of {LARGEST_SUM}: must stay below"):
        settled(lane, shown(0, of="p"))


def test_a_batch_whose_sum_would_wrap_is_an_error() -> None:
    """4096 of the largest exact values sum to 2^64, which wraps to 0."""
    lane = lane_of()
    combination, state = lane.segments.combination_id((0, 0)), lane.states.id_of((1, ()))
    lane.states.rows()[state, 4:] = 2**52
    for _ in range(4096):
        lane.changes.add(START_MS, combination, 0, state)
    with pytest.raises(OverflowError, match=f"4096 changes of up to {2**52}: must sum to less"):
        scoring.apply_changes(lane)
