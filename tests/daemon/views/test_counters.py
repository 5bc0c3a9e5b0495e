"""Counters never go down: not by a roll-back, and not when a segment gets a series of its own."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.plan import OTHER
from relevanced.daemon.views import (
    Counters,
    HighestTotals,
    LaneView,
    PreviousSelection,
    Segment,
    busiest,
    counters_of,
    evaluate,
)
from tests.lane_views import NOW_MS, PLAN, Shown, lane_view

LATER_MS = NOW_MS + 500_000
"""Everything up to now has settled by then, and is still in the longest window."""


def lane(shown: list[Shown], number: int = 0) -> LaneView:
    """A lane whose sequence is lower the fewer impressions it has."""
    view = lane_view(shown, lane=number, watermark_ms=LATER_MS)
    return replace(view, sequence=len(shown))


def counters(
    views: list[LaneView], before: PreviousSelection
) -> tuple[Counters, PreviousSelection]:
    snapshot = evaluate(views, PLAN, before.segments)
    return counters_of(snapshot, busiest(snapshot, PLAN), PLAN, before)


def by_segment(result: Counters) -> dict[Segment, list[int]]:
    return dict(zip(result.segments, result.rows.tolist(), strict=True))


def totals_by_name(view: LaneView) -> dict[Segment, int]:
    return {
        name: int(row[0]) for name, row in zip(view.names.segments, view.totals[0], strict=False)
    }


def test_a_lane_rolled_back_keeps_its_highest_totals() -> None:
    highest = HighestTotals()
    before = lane([Shown(country="US"), Shown(country="DE"), Shown(country="DE")])
    back = lane([Shown(country="DE")])
    highest.raised([before])
    [raised] = highest.raised([back])
    assert totals_by_name(raised) == totals_by_name(before)
    assert raised.counts["events"]["impression"] == 3
    assert (
        raised.panes is back.panes
        and raised.names.segments[: len(back.names)] == back.names.segments
    )


def test_a_lane_that_caught_up_goes_on_from_there() -> None:
    highest = HighestTotals()
    highest.raised([lane([Shown()] * 3)])
    highest.raised([lane([])])
    [raised] = highest.raised([lane([Shown()] * 4)])
    assert raised.totals[0][0, 0] == 4


def test_a_lane_that_disappeared_starts_anew() -> None:
    highest = HighestTotals()
    highest.raised([lane([Shown()] * 3, 0), lane([Shown()], 1)])
    highest.raised([lane([Shown()], 1)])
    first, _ = highest.raised([lane([Shown()], 0), lane([Shown()], 1)])
    assert first.totals[0][0, 0] == 1


def read_to(offset: int, shown: int) -> LaneView:
    return replace(lane([Shown()] * shown), offsets={"t": offset})


@pytest.mark.parametrize("offset", [100, 107])
def test_a_lane_that_began_again_behind_what_was_read_starts_anew(offset: int) -> None:
    highest = HighestTotals()
    highest.raised([read_to(100, 5)])
    [raised] = highest.raised([read_to(offset, 2)])
    assert (raised.totals[0][0, 0], raised.counts["events"]["impression"]) == (2, 2)
    [raised] = highest.raised([read_to(offset + 1, 3)])
    assert (raised.totals[0][0, 0], raised.counts["events"]["impression"]) == (3, 3)


def test_a_lane_that_is_not_as_far_as_it_was_keeps_what_it_had() -> None:
    highest = HighestTotals()
    highest.raised([read_to(100, 5)])
    for offset in (50, 99):
        [raised] = highest.raised([read_to(offset, 2)])
        assert (raised.totals[0][0, 0], raised.counts["events"]["impression"]) == (5, 5)


def test_a_lane_that_began_again_in_a_recreated_topic_starts_anew() -> None:
    """Offsets of the old log say nothing of how far the new one was read."""
    highest = HighestTotals()
    highest.raised([replace(read_to(100, 5), topic_ids={"t": "old"})])
    [raised] = highest.raised([replace(read_to(2, 2), topic_ids={"t": "new"})])
    assert raised.counts["events"]["impression"] == 2 and raised.offsets == {"t": 2}


def test_a_lane_that_goes_on_in_a_recreated_topic_keeps_what_it_had() -> None:
    highest = HighestTotals()
    highest.raised([replace(read_to(100, 5), topic_ids={"t": "old"})])
    [raised] = highest.raised([replace(read_to(1, 6), topic_ids={"t": "new"})])
    assert raised.counts["events"]["impression"] == 6 and raised.offsets == {"t": 1}


def test_a_count_that_a_roll_back_lost_is_kept() -> None:
    highest = HighestTotals()
    view = replace(lane([]), counts={"rejected": {"not_json": 2}, "events": {"feedback": 1}})
    highest.raised([view])
    [raised] = highest.raised([replace(view, counts={"events": {"feedback": 5}})])
    assert raised.counts == {"rejected": {"not_json": 2}, "events": {"feedback": 5}}


def test_a_newly_shown_segment_leaves_its_history_in_other() -> None:
    quiet = [Shown(country="US")] * 4 + [Shown(country="DE")] * 3 + [Shown(country="FR")]
    first, previous = counters([lane(quiet)], PreviousSelection())
    second, _ = counters([lane(quiet + [Shown(country="FR")] * 9)], previous)
    assert by_segment(first)["country", "other"][0] == 1
    assert ("country", "FR") not in first.segments
    assert by_segment(second)["country", "FR"][0] == 0
    assert by_segment(second)["country", "other"][0] == 10
    assert by_segment(second)["country", "DE"][0] == 3


def test_what_is_over_stays_in_other_and_costs_no_row() -> None:
    over = replace(lane([Shown(country=name) for name in "AABBC"]), panes={})
    snapshot = evaluate([over, lane([Shown(country="D")], 1)], PLAN)
    assert {segment for grouping, segment in snapshot.segments if grouping == "country"} == {"D"}
    result, _ = counters([over, lane([Shown(country="D")], 1)], PreviousSelection())
    assert by_segment(result)["country", OTHER][0] == 5
    assert by_segment(result)["country", "D"][0] == 1


def test_what_was_shown_stays_shown() -> None:
    _, previous = counters([lane([Shown(country="US"), Shown(country="DE")])], PreviousSelection())
    busier = [Shown(country=name) for name in ("US", "DE", *"JJJBBB")]
    after, _ = counters([lane(busier)], previous)
    assert {("country", name) for name in ("US", "DE", "J", "B", "other")} <= set(after.segments)


def test_the_set_of_shown_segments_is_bounded() -> None:
    previous = PreviousSelection()
    shown: list[Shown] = []
    for number in range(30):
        shown += [Shown(country=f"c{number}")] * (number + 1)
        result, previous = counters([lane(shown)], previous)
    named = [segment for segment in result.segments if segment[0] == "country"]
    assert len(named) == PLAN.admitted_values + 1
    assert sum(by_segment(result)[segment][0] for segment in named) == len(shown)


def test_the_selection_survives_being_stored() -> None:
    _, previous = counters([lane([Shown(), Shown(country='"\\,\n')])], PreviousSelection())
    stored = msgspec.json.encode(previous)
    assert msgspec.json.decode(stored, type=PreviousSelection) == previous


def test_the_end_of_a_lane_leaves_no_counter_below_zero() -> None:
    many = [Shown(country=name) for name in "AABBC"]
    _, previous = counters([lane(many)], PreviousSelection())
    _, previous = counters([lane([*many, *[Shown(country="C")] * 9])], previous)
    after, _ = counters([lane([Shown(country="C")])], previous)
    assert (after.rows >= 0).all()
    assert by_segment(after)["country", "C"][0] + by_segment(after)["country", OTHER][0] == 1


@given(
    steps=st.lists(st.lists(st.sampled_from("ABCDEFGH"), max_size=8), min_size=2, max_size=6),
    rollback=st.integers(0, 5),
    silent=st.sets(st.integers(0, 5)),
)
def test_counters_only_grow_and_lose_nothing(
    steps: list[list[str]], rollback: int, silent: set[int]
) -> None:
    """In silence no pane is kept, and what has settled stays counted."""
    previous, highest = PreviousSelection(), HighestTotals()
    seen: list[Shown] = []
    last: dict[Segment, list[int]] = {}
    for number, step in enumerate(steps):
        seen += [Shown(country=country) for country in step]
        read = seen[:-3] if number == rollback else seen
        (view,) = highest.raised([lane(read)])
        view = replace(view, panes={}) if number in silent else view
        result, previous = counters([view], previous)
        now = by_segment(result)
        assert all(np.greater_equal(now[segment], row).all() for segment, row in last.items())
        for grouping in PLAN.grouping_names[1:]:
            parts = [row for (name, _), row in now.items() if name == grouping]
            np.testing.assert_array_equal(np.sum(parts, axis=0), now["all", "all"])
        last = now
