"""Later pages extend a list, and blanks keep every item at its first rank; in a lane of all
partitions they wait for the pages before."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.attribution import PageMismatch, extended_list, join_rules, list_with_item
from relevanced.daemon.events import Feedback, Impression
from relevanced.daemon.lane import Lane
from relevanced.daemon.worker import batch
from tests.builders import PLAN, START_MS, clicked, feed, gains, items, lane_of, shown

ITEMS = ["a", "b", "c"]
PAGES: dict[str, tuple[int, str, list[str | None]]] = {
    "next": (4, "d e", ["a", "b", "c", "d", "e"]),
    "overlapping": (3, "c d", ["a", "b", "c", "d"]),
    "whole again and more": (1, "a b c d", ["a", "b", "c", "d"]),
    "nothing new": (2, "b c", ["a", "b", "c"]),
    "part of the list": (2, "b", ["a", "b", "c"]),
    "empty": (4, "", ["a", "b", "c"]),
    "repeats an item": (4, "d a e", ["a", "b", "c", "d", None, "e"]),
    "repeats itself": (4, "d d", ["a", "b", "c", "d", "d"]),
    "repeats the overlap": (3, "c c d", ["a", "b", "c", None, "d"]),
}
WRONG = {
    "leaves a gap": (5, "e"),
    "contradicts": (3, "x d"),
    "contradicts at its end": (2, "b x"),
    "repeats an item in the overlap": (3, "a d"),
}


@pytest.mark.parametrize(("first_rank", "items", "longer"), PAGES.values(), ids=PAGES)
def test_a_page_stands_at_its_ranks(first_rank: int, items: str, longer: list[str | None]) -> None:
    assert extended_list(ITEMS, shown(0, items, first_rank=first_rank)) == longer


@pytest.mark.parametrize(("first_rank", "items"), WRONG.values(), ids=WRONG)
def test_a_page_that_does_not_fit_is_an_error(first_rank: int, items: str) -> None:
    with pytest.raises(PageMismatch):
        extended_list(ITEMS, shown(0, items, first_rank=first_rank))


def test_a_repeated_page_repeats_its_blanks() -> None:
    page = shown(0, "d a e", first_rank=4)
    longer = extended_list(ITEMS, page)
    assert extended_list(longer, page) == longer
    assert extended_list(longer, shown(0, "a e f", first_rank=5)) == [*longer, "f"]


def test_the_first_page_of_an_empty_list_becomes_the_list() -> None:
    assert extended_list([], shown(0, "a b a")) == ["a", "b", "a"]
    with pytest.raises(PageMismatch):
        extended_list([], shown(0, "a", first_rank=2))


def one(item: str, rank: int) -> Impression:
    return shown(0, item, first_rank=rank, by_item=True)


@pytest.mark.parametrize(
    ("items", "item", "rank", "longer"),
    [
        ([], "a", 1, ["a"]),
        ([], "a", 3, [None, None, "a"]),
        (["a"], "b", 2, ["a", "b"]),
        (["a"], "b", 4, ["a", None, None, "b"]),
        (["a", None, "c"], "b", 2, ["a", "b", "c"]),
        (["a", None, "c"], "c", 3, ["a", None, "c"]),
        (["a"], "", 13, ["a"]),
    ],
)
def test_an_item_stands_at_its_rank_and_fills_a_blank(
    items: list[str | None], item: str, rank: int, longer: list[str | None]
) -> None:
    assert list_with_item(items, one(item, rank)) == longer


@pytest.mark.parametrize(("item", "rank"), [("b", 1), ("a", 2), ("a", 3), ("c", 1)])
def test_an_item_neither_moves_nor_is_replaced(item: str, rank: int) -> None:
    with pytest.raises(PageMismatch):
        list_with_item(["a", None, "c"], one(item, rank))


@given(st.permutations([("a", 1), ("b", 2), ("c", 3), ("e", 5)]))
def test_items_in_any_order_give_the_same_list(shuffled: list[tuple[str, int]]) -> None:
    items: list[str | None] = []
    for item, rank in shuffled:
        items = list_with_item(items, one(item, rank))
    assert items == ["a", "b", "c", None, "e"]


# In a lane of all partitions


def fed(lane: Lane, *events: tuple[int, Impression | Feedback]) -> list[str]:
    """Apply events of several logs, which are numbered; returns the outcomes of each."""
    return [feed(lane, event, topic=f"events/{log}")[0] for log, event in events]


def one_lane() -> Lane:
    return lane_of(*(f"events/{log}" for log in range(4)))


@given(
    st.permutations(
        [(0, shown(0, "a b")), (1, shown(1, "c", first_rank=3)), (2, shown(9, "d", first_rank=4))]
        + [(3, clicked(12, "d")), (3, clicked(13, "c"))]
    )
)
def test_pages_of_several_logs_make_the_same_list_in_any_order(
    events: list[tuple[int, Impression | Feedback]],
) -> None:
    lane = one_lane()
    outcomes = Counter(" ".join(fed(lane, *events)).split())
    assert (items(lane), gains(lane)) == (["a", "b", "c", "d"], [None, None, 1.0, 1.0])
    assert outcomes - Counter(waits=9) == Counter(accepted=1, extended=2, joined=2)
    assert not lane.waiting.by_serial and not lane.split_ids


def test_a_page_that_waits_is_no_waiting_feedback() -> None:
    lane = one_lane()
    fed(lane, (1, shown(1, "c", first_rank=3)), (3, clicked(12, "d")))
    assert (len(lane.waiting), len(lane.waiting.by_serial)) == (1, 2)
    fed(lane, (0, shown(0, "a b c d")))
    assert (len(lane.waiting), len(lane.waiting.by_serial)) == (0, 0)


def test_a_page_that_nothing_comes_before_dies_with_feedback_of_its_time() -> None:
    lane = one_lane()
    pages = (1, shown(0, "x", of="p", first_rank=3)), (1, shown(0, "d", first_rank=4))
    assert fed(lane, (0, shown(0, "a b")), *pages) == ["accepted", "waits", "waits"]
    expires_ms = PLAN.timing.expires_at(START_MS)
    for watermark_ms, dead in ((expires_ms - 1, {}), (expires_ms, {"later_page", "conflicting"})):
        lane.watermarks.update(dict.fromkeys(lane.watermarks, int(watermark_ms)))
        join_rules.advance(lane)
        assert lane.counts["impression_outcomes"] == Counter(["accepted", *dead])
    assert fed(lane, (1, shown(0, "d", first_rank=4))) == ["late"]


def test_a_page_is_of_the_impression_that_feedback_of_its_time_is_of() -> None:
    lane = one_lane()
    closed_ms = int(PLAN.timing.closes_at(START_MS)) - START_MS
    assert fed(lane, (1, shown(1, "c", first_rank=3))) == ["waits"]
    assert fed(lane, (0, shown(closed_ms, "a b"))) == ["accepted"]
    assert items(lane) == ["a", "b"], "it comes too long after the page"


def test_a_page_that_waits_for_another_is_of_no_later_impression_of_its_id() -> None:
    lane = one_lane()
    assert fed(lane, (0, shown(0, "a b")), (1, shown(9_000, "d", first_rank=4)))[1] == "waits"
    closed_ms = int(PLAN.timing.closes_at(START_MS))
    lane.watermarks.update(dict.fromkeys(lane.watermarks, closed_ms))
    batch.advance(lane)
    assert fed(lane, (0, shown(10_000, "a b c"))) == ["accepted"]
    assert items(lane) == ["a", "b", "c"]
