"""Which impression feedback without an id joins, to the millisecond."""

from typing import Any

import pytest

from relevanced.daemon.events import Decoded, Feedback, Impression
from relevanced.daemon.lane import Lane
from relevanced.daemon.worker import batch
from tests.builders import (
    ATTRIBUTION_MS,
    START_MS,
    feed,
    gains,
    lane_of,
    passing,
    plan_with,
    shown,
)

WAIT_MS = 5_000
NO_GAIN = [None, None, None]


def touched_lane(*topics: str, **changes: Any) -> Lane:
    return lane_of(*topics, plan=plan_with(touch_ms=WAIT_MS, **changes))


def seen(at_ms: int, of: str, items: str = "a b c", visitor: str | None = "v") -> Impression:
    return shown(at_ms, items, of=of, visitor=visitor)


def reacted(at_ms: int, item: str = "a", visitor: str = "v", rank: int | None = None) -> Feedback:
    return Feedback("", START_MS + at_ms, "click", item, rank, visitor=visitor)


def outcomes(lane: Lane, *events: Decoded, until_ms: int | None = None) -> dict[str, int]:
    """What becomes of feedback once the watermark is late enough, or is at an instant."""
    feed(lane, *events)
    latest_ms = max(event.time_ms for event in events if not hasattr(event, "reason")) - START_MS
    feed(lane, passing(latest_ms + WAIT_MS if until_ms is None else until_ms))
    batch.advance(lane)
    found = dict(lane.counts["feedback_outcomes"])
    found.pop("ignored_kind", None)
    return found


JOINED = {"joined": 1, "joined_last_touch": 1}


def test_feedback_joins_the_latest_list_of_its_visitor_that_has_the_item() -> None:
    lane = touched_lane()
    lists = [seen(0, "p"), seen(1_000, "q"), seen(1_500, "other", visitor="w")]
    assert outcomes(lane, *lists, seen(2_000, "r", "x y"), reacted(9_000)) == JOINED
    assert gains(lane, "q") == [1.0, None, None]
    assert [gains(lane, of) for of in ("p", "other")] == [NO_GAIN, NO_GAIN]


def test_it_waits_for_lists_that_come_after_it() -> None:
    lane = touched_lane()
    feed(lane, seen(0, "p"), reacted(9_000))
    assert outcomes(lane, seen(8_000, "q"), until_ms=13_999) == {}
    assert outcomes(lane, passing(14_000)) == JOINED
    assert gains(lane, "q") == [1.0, None, None]


def test_a_list_that_met_a_watermark_beyond_the_wait_is_not_asked() -> None:
    lane = touched_lane()
    feed(lane, seen(0, "p"), reacted(9_000), passing(14_000))
    assert outcomes(lane, seen(8_000, "q")) == JOINED
    assert gains(lane, "p") == [1.0, None, None]


def test_nor_is_an_item_of_a_page_that_did() -> None:
    lane = touched_lane()
    feed(lane, seen(0, "p", "a d"), seen(1_000, "q", "x y"), reacted(9_000, "d"), passing(14_000))
    page = shown(2_000, "d", of="q", first_rank=3)
    assert outcomes(lane, page) == JOINED
    assert (gains(lane, "p"), gains(lane, "q")) == ([None, 1.0], NO_GAIN)


@pytest.mark.parametrize(
    ("shown_ms", "joins"),
    [(0, True), (-1, False), (ATTRIBUTION_MS + 5_000, True), (ATTRIBUTION_MS + 5_001, False)],
)
def test_a_list_is_shown_within_the_window_before_or_the_grace_after(
    shown_ms: int, joins: bool
) -> None:
    both = sorted((seen(shown_ms, "q"), reacted(ATTRIBUTION_MS)), key=lambda one: one.time_ms)
    found = outcomes(touched_lane(), *both)
    assert found == (JOINED if joins else {"unjoined": 1, "unknown_visitor": 1})


def test_a_list_before_the_feedback_wins_over_one_after_it() -> None:
    lane = touched_lane()
    assert outcomes(lane, seen(0, "p"), reacted(9_000), seen(9_001, "q")) == JOINED
    assert gains(lane, "q") == NO_GAIN


def test_of_one_time_the_greatest_id_wins() -> None:
    lane = touched_lane()
    assert outcomes(lane, seen(0, "q9"), seen(0, "q8"), seen(0, "q1"), reacted(1_000)) == JOINED
    assert gains(lane, "q9") == [1.0, None, None]


def test_the_rank_that_is_stated_counts_where_the_item_is_there() -> None:
    lane = touched_lane()
    assert outcomes(lane, seen(0, "q", "a b a"), reacted(1_000, rank=3)) == JOINED
    assert gains(lane) == [None, None, 1.0]
    mismatched = outcomes(touched_lane(), seen(0, "q"), reacted(1_000, rank=2))
    assert mismatched == JOINED | {"rank_mismatch": 1}


def test_an_item_that_the_visitor_was_not_shown_is_unjoined() -> None:
    assert outcomes(touched_lane(), seen(0, "q"), reacted(1_000, "z")) == {"unjoined": 1}


@pytest.mark.parametrize("whose", [None, "w"])
def test_the_lists_of_others_are_not_asked(whose: str | None) -> None:
    found = outcomes(touched_lane(), seen(0, "q", visitor=whose), reacted(1_000))
    assert found == {"unjoined": 1, "unknown_visitor": 1}


@pytest.mark.parametrize(("behind", "outcome"), [(3, JOINED), (4, None)])
def test_of_a_kiosk_the_latest_lists_are_asked(behind: int, outcome: dict[str, int] | None) -> None:
    lane = touched_lane(most_touched=3)
    lists = [seen(n, f"q{n}", "z" if n else "a") for n in range(behind)]
    found = outcomes(lane, *lists, reacted(1_000))
    assert found == (outcome or {"unjoined": 1, "crowded_visitor": 1})


def test_nothing_is_decided_until_every_topic_has_passed() -> None:
    lane = touched_lane("lists", "clicks")
    feed(lane, seen(0, "q"), topic="lists")
    feed(lane, reacted(1_000), passing(50_000), topic="clicks")
    batch.advance(lane)
    assert len(lane.waiting) == 1
    feed(lane, passing(6_000), topic="lists")
    batch.advance(lane)
    assert gains(lane) == [1.0, None, None] and not len(lane.waiting)


def test_a_visitor_costs_at_most_16_bytes_an_open_impression() -> None:
    touches = touched_lane().open.touches
    assert touches is not None
    each = [column._dtype.itemsize for column in (touches._visitors, touches._after_ms)]
    assert sum(each) <= 16
    assert lane_of().open.touches is None
