"""Which segments are shown by name, and that nothing is lost beside them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.storage import InForce, first_layouts
from relevanced.daemon.views import Names, Selection, busiest, evaluate
from tests.daemon.views.test_coverage import since
from tests.lane_views import NOW_MS, PLAN, Shown, lane_view


def countries(selection: Selection) -> list[str]:
    return [segment for grouping, segment in selection.segments if grouping == "country"]


def traffic(**impressions: int) -> list[Shown]:
    return [Shown(country=country) for country, n in impressions.items() for _ in range(n)]


def test_the_busiest_are_shown_and_the_rest_is_other() -> None:
    snapshot = evaluate([lane_view(traffic(US=3, DE=1, FR=2, JP=1))], PLAN)
    selection = busiest(snapshot, PLAN)
    rows = selection.fold(snapshot.windows[0].rows)
    assert countries(selection) == ["FR", "US", "other"]
    assert rows[:4, 0].tolist() == [7, 2, 3, 2]


def test_ties_go_by_name() -> None:
    snapshot = evaluate([lane_view(traffic(US=1, JP=1, DE=1))], PLAN)
    assert countries(busiest(snapshot, PLAN)) == ["DE", "JP", "other"]


def test_the_longest_live_window_ranks() -> None:
    earlier = [Shown(country="DE", time_ms=NOW_MS - 300_000)] * 3
    snapshot = evaluate([lane_view([*earlier, *traffic(US=2, FR=1)])], PLAN)
    assert countries(busiest(snapshot, PLAN)) == ["DE", "US", "other"]


@pytest.mark.parametrize(
    ("begins_ms", "named"), [(NOW_MS, ["FR", "US", "other"]), (NOW_MS * 2, [])]
)
def test_segments_of_a_grouping_that_has_begun_within_a_window_rank_by_what_it_counts(
    begins_ms: int, named: list[str]
) -> None:
    """By name they would be the first of the alphabet until all of the window has the grouping."""
    groupings = {**first_layouts(InForce(PLAN)).since.groupings, "country": begins_ms}
    lane = since(lane_view(traffic(US=3, DE=1, FR=2, JP=1)), PLAN, groupings=groupings)
    snapshot = evaluate([lane], PLAN)
    rows = [n for n, (grouping, _) in enumerate(snapshot.segments) if grouping == "country"]
    assert snapshot.longest is not None and not snapshot.longest.rows[rows].any()
    assert countries(busiest(snapshot, PLAN)) == named


def test_a_segment_without_impressions_vanishes() -> None:
    gone = Shown(country="DE", time_ms=NOW_MS - 900_000)
    selection = busiest(evaluate([lane_view([gone, *traffic(US=1)])], PLAN), PLAN)
    assert countries(selection) == ["US"]


def test_the_admitted_other_joins_the_rest_and_never_ranks() -> None:
    lane = lane_view(traffic(US=1, DE=2, other=9))
    names = Names((g, s.replace("\\other", "other")) for g, s in lane.names.segments)
    snapshot = evaluate([type(lane)(**{**vars(lane), "names": names})], PLAN)
    selection = busiest(snapshot, PLAN)
    assert countries(selection) == ["DE", "US", "other"]
    assert selection.fold(snapshot.windows[0].rows)[3, 0] == 9


@given(st.lists(st.sampled_from("ABCDEFG"), min_size=1, max_size=40))
def test_segments_of_a_grouping_sum_to_the_whole(seen: list[str]) -> None:
    snapshot = evaluate([lane_view(Shown(country=country) for country in seen)], PLAN)
    selection = busiest(snapshot, PLAN)
    rows = selection.fold(snapshot.windows[0].rows)
    for grouping in PLAN.grouping_names[1:]:
        places = [n for n, (name, _) in enumerate(selection.segments) if name == grouping]
        np.testing.assert_array_equal(rows[places].sum(axis=0), rows[0])
        assert len(places) <= PLAN.max_segments + 1
