"""A backfill says what it looked at: hours that are kept no longer are not whole, and hours that
the lanes have were not filled."""

from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.backfill import (
    BackfillRefused,
    HoursToFill,
    Staging,
    filled_already,
    hours_asked_for,
    lacking_of,
)
from relevanced.daemon.recompute.backfill_report import Filled, lines
from relevanced.daemon.storage import Filling, InForce, StoredPast
from relevanced.daemon.views import HourSources, LaneView, Names
from tests.lane_views import NOW_MS, PLAN as SHORT_PLAN

PLAN: Final = replace(SHORT_PLAN, history_hours=24 * 35)
NOON: Final = NOW_MS // HOUR_MS * HOUR_MS
KEPT_MS: Final = NOON - 35 * 24 * HOUR_MS


def hour(number: float) -> int:
    return NOON + int(number * HOUR_MS)


def asked_for(first: float | None, until: float | None) -> range:
    asked = HoursToFill(
        None if first is None else hour(first), None if until is None else hour(until)
    )
    return hours_asked_for(asked, PLAN, KEPT_MS, hour(0.5))


def test_hours_asked_for_are_whole_over_and_kept() -> None:
    assert asked_for(None, None) == range(KEPT_MS, hour(0), HOUR_MS)
    assert asked_for(-3.5, -1) == range(hour(-3), hour(-1), HOUR_MS)
    assert asked_for(-60 * 24, -34 * 24) == range(KEPT_MS, hour(-34 * 24), HOUR_MS)


def test_hours_that_are_kept_no_longer_are_refused() -> None:
    with pytest.raises(BackfillRefused, match=r"are kept no longer \(history.days\)"):
        asked_for(-60 * 24, -40 * 24)
    with pytest.raises(BackfillRefused, match=r"are kept no longer \(history.days\)"):
        asked_for(None, -40 * 24)


@pytest.mark.parametrize(("first", "until"), [(-3.75, -3.25), (-3.5, -2.5), (0, None), (5, 9)])
def test_range_without_a_whole_hour_is_refused(first: float, until: float | None) -> None:
    with pytest.raises(BackfillRefused, match="no whole hour that is over"):
        asked_for(first, until)


def sources_of(*filled: range) -> HourSources:
    """A lane that has six hours and has lost the last but one, with these fillings."""
    hours = dict.fromkeys(range(hour(-6), hour(0), HOUR_MS), dict[int, bytes]())
    lost, events = frozenset({hour(-2)}), {"events": {"impression": 1}}
    view = LaneView(
        0, "t", 1, Names(), {}, {}, events, settled_before=NOON, hours=hours, lost_hours=lost
    )
    layout, groupings = InForce(PLAN, 1).stored(), PLAN.grouping_ids
    past = [Filling(f"{of}", layout, groupings, of.start, of.stop, "files", 0) for of in filled]
    return HourSources.of([view], [StoredPast(of, (), frozenset()) for of in past], PLAN)


def staged(first: int, until: int) -> Staging:
    found = Staging("f", PLAN, range(hour(-48), NOON, HOUR_MS))
    found.first_ms, found.seen_ms, found.settled_ms = hour(first), hour(first), hour(until)
    return found


def test_hours_that_the_lanes_have_were_not_filled() -> None:
    sources, staging = sources_of(), staged(-5, -3)
    missing = lacking_of(range(hour(-48), NOON, HOUR_MS), sources)
    assert missing == range(hour(-48), hour(-1), HOUR_MS)
    already = filled_already(staging, sources)
    found = Filled(PLAN, missing, "a.jsonl", staging.filled, already=already)
    _, said, *_ = lines(found)
    assert said == "Nothing was filled: a.jsonl has no whole hour of what is missing."
    assert not found.is_filled


def test_hours_that_earlier_runs_filled_are_told_from_those_of_the_lanes() -> None:
    sources, staging = sources_of(range(hour(-8), hour(-6), HOUR_MS)), staged(-8, -3)
    already = filled_already(staging, sources)
    assert already == [hour(-8), hour(-7)]
    found = Filled(PLAN, range(hour(-48), NOON, HOUR_MS), "a.jsonl", staging.filled, (), {})
    found = replace(found, already=already)
    _, said, *_ = lines(found)
    assert said.startswith("Filled already") and said.endswith("(2 hours).") and found.is_filled


def test_what_was_looked_at_is_said_where_nothing_is_missing() -> None:
    found = Filled(PLAN, range(0), "Kafka", asked=range(KEPT_MS, NOON, HOUR_MS))
    (said,) = lines(found)
    assert said.endswith("(840 hours).") and found.is_filled
    cut, _ = lines(replace(found, is_cut=True))
    assert cut.endswith(" are kept no longer (history.days).")
