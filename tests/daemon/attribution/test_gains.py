"""The gain of an item in the end, in whatever order its feedback came."""

from itertools import permutations

import msgspec
import pytest

from relevanced.daemon.events import Feedback, Impression
from tests.builders import (
    START_MS,
    clicked,
    feed,
    gains,
    items,
    judged,
    lane_of,
    plan_with,
    settled,
    shown,
)


@pytest.mark.parametrize(
    ("feedback", "gain"),
    [
        ([clicked(1, "a"), clicked(2, "a")], 1.0),
        ([clicked(1, "a"), clicked(2, "a", kind="purchase"), clicked(3, "a")], 3.0),
        ([clicked(1, "a", kind="purchase"), judged(2, "a", 0.5)], 0.5),
        ([judged(1, "a", 0.5), clicked(2, "a", kind="purchase")], 0.5),
        ([judged(1, "a", 3.0), judged(2, "a", 0.5)], 0.5),
        ([judged(2, "a", 0.5), judged(2, "a", 2.5)], 2.5),
        ([judged(1, "a", 0.5, kind="purchase"), clicked(2, "a")], 0.5),
        ([judged(1, "a", 2.0), judged(2, "a", 0.0), clicked(3, "a")], 0.0),
        ([judged(1, "a", 1.5), judged(1, "a", 1.5)], 1.5),
    ],
)
def test_the_latest_grade_counts_or_else_the_highest_kind(
    feedback: list[Feedback], gain: float
) -> None:
    for order in permutations(feedback):
        lane = lane_of()
        feed(lane, shown(0), *order)
        assert gains(lane) == [gain, None, None]


def test_a_kind_worth_0_is_feedback_with_gain_0() -> None:
    lane = lane_of(plan=plan_with(grades={"skip": 0.0, "click": 1.0}))
    assert feed(lane, shown(0), clicked(1, "a", kind="skip")) == ["accepted", "joined"]
    assert gains(lane) == [0.0, None, None]


def test_grades_known_at_impression_time_have_its_time() -> None:
    lane = lane_of()
    feed(lane, shown(5, grades={"a": 2.0, "c": 0.0, "x": 3.0}))
    assert gains(lane) == [2.0, None, 0.0]
    feed(lane, judged(4, "a", 3.0), judged(5, "c", 1.0))
    assert gains(lane) == [2.0, None, 1.0]


def test_a_page_judges_only_the_items_that_it_adds() -> None:
    lane = lane_of()
    feed(lane, shown(0, "a b"), shown(1, "b c a c", first_rank=2, grades={"a": 3, "b": 3, "c": 2}))
    assert items(lane) == ["a", "b", "c", None, "c"]
    assert gains(lane) == [None, None, 2, None, None]


@pytest.mark.parametrize("again", [shown(1), shown(1, "x a")])
def test_a_record_that_adds_no_item_judges_nothing(again: Impression) -> None:
    lane = lane_of()
    feed(lane, shown(0), msgspec.structs.replace(again, grades={"a": 3}))
    assert gains(lane) == [None, None, None]


def test_feedback_that_changes_nothing_is_not_a_change() -> None:
    lane = lane_of()
    settled(lane, shown(0), clicked(1, "a", kind="purchase"), judged(1, "b", 2))
    settled(
        lane,
        clicked(2, "a"),
        clicked(2, "a", kind="purchase"),
        judged(1, "b", 2),
        judged(0, "b", 3),
        shown(0),
    )
    assert not lane.changes.slots
    assert not len(lane.changes.panes)


def test_a_newer_grade_of_the_same_height_is_remembered() -> None:
    lane = lane_of()
    feed(lane, shown(0), judged(1, "a", 2), judged(3, "a", 2), judged(2, "a", 1))
    assert gains(lane) == [2, None, None]
    assert lane.open.grades == {0: {0: (START_MS + 3, 2)}}
