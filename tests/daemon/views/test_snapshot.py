"""Lanes sum exactly to what one lane would have shown, at one common instant."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.lane import Rows
from relevanced.daemon.views import LIVE, SETTLED, Snapshot, estimates, evaluate, with_everything
from tests.lane_views import NOW_MS, PLAN, Shown, lane_view, pages_of

SETTLE_MS = PLAN.timing.settle_ms
VALUES = st.none() | st.floats(0, 1)
SHOWN = st.builds(
    Shown,
    time_ms=st.integers(NOW_MS - 800_000, NOW_MS),
    country=st.sampled_from(["US", "DE", "a,b", "other", "\\"]),
    device=st.sampled_from(["ios", "web"]),
    values=st.tuples(VALUES, VALUES, VALUES),
    feedback=st.integers(0, 3),
    zero_result=st.booleans(),
)


def rows_of(snapshot: Snapshot, window: str, view: str) -> Rows:
    [rows] = [one.rows for one in snapshot.windows if (one.window, one.view) == (window, view)]
    return rows


def impressions_in(snapshot: Snapshot, window: str, view: str) -> int:
    return int(rows_of(snapshot, window, view)[0, 0])


@given(st.lists(st.tuples(SHOWN, st.integers(0, 2)), min_size=1, max_size=30))
def test_any_split_into_lanes_sums_to_the_whole(parts: list[tuple[Shown, int]]) -> None:
    whole = evaluate([lane_view(one for one, _ in parts)], PLAN)
    lanes = [lane_view([one for one, lane in parts if lane == n], lane=n) for n in range(3)]
    split = evaluate(lanes, PLAN)
    assert split.segments == whole.segments
    assert split.counts == whole.counts
    np.testing.assert_array_equal(split.totals, whole.totals)
    for ours, theirs in zip(split.windows, whole.windows, strict=True):
        assert (ours.window, ours.view, ours.end_ms) == (theirs.window, theirs.view, theirs.end_ms)
        np.testing.assert_array_equal(ours.rows, theirs.rows)


@given(st.lists(SHOWN, min_size=1, max_size=20))
def test_a_window_contains_the_impressions_of_its_panes(shown: list[Shown]) -> None:
    snapshot = evaluate([lane_view(shown)], PLAN)
    last_pane_end_ms = NOW_MS + PLAN.timing.windows[1].pane_ms
    inside = [one for one in shown if one.time_ms >= last_pane_end_ms - 600_000]
    rows = rows_of(snapshot, "10m", LIVE)
    expected = np.sum([one.row() for one in inside], axis=0) if inside else np.zeros(rows.shape[1])
    np.testing.assert_array_equal(rows[0], expected)


def test_live_slides_by_one_pane() -> None:
    lane = lane_view([Shown(time_ms=NOW_MS)], watermark_ms=NOW_MS)
    last_ms = NOW_MS + 60_000 - 1
    assert impressions_in(evaluate([replace(lane, idle_ms=last_ms)], PLAN), "1m", LIVE) == 1
    assert impressions_in(evaluate([replace(lane, idle_ms=last_ms + 1)], PLAN), "1m", LIVE) == 0


def test_settled_is_live_as_long_ago_as_settling_takes() -> None:
    lane = lane_view([Shown(time_ms=NOW_MS)], watermark_ms=NOW_MS)
    before = evaluate([lane], PLAN)
    after = evaluate([replace(lane, idle_ms=NOW_MS + SETTLE_MS)], PLAN)
    assert (impressions_in(before, "1m", LIVE), impressions_in(before, "1m", SETTLED)) == (1, 0)
    assert (impressions_in(after, "1m", LIVE), impressions_in(after, "1m", SETTLED)) == (0, 1)
    assert [one.end_ms for one in after.windows[:2]] == [NOW_MS + SETTLE_MS, NOW_MS]


def test_the_slowest_lane_with_events_is_as_of() -> None:
    ahead = lane_view([Shown()], lane=0, watermark_ms=NOW_MS)
    behind = lane_view([Shown()], lane=1, watermark_ms=NOW_MS - 5000, idle_ms=NOW_MS - 3000)
    never = lane_view([], lane=2, watermark_ms=None, idle_ms=NOW_MS - 9000)
    snapshot = evaluate([ahead, behind, never], PLAN)
    assert snapshot.as_of_ms == NOW_MS - 3000
    assert [s.time_ms for s in snapshot.lanes] == [NOW_MS, NOW_MS - 3000, NOW_MS - 9000]


def test_a_lane_without_a_time_holds_all_windows_back() -> None:
    silent = lane_view([Shown()], lane=1, watermark_ms=None)
    snapshot = evaluate([lane_view([Shown()]), silent], PLAN)
    assert (snapshot.as_of_ms, snapshot.windows) == (None, ())
    assert [s.time_ms for s in snapshot.lanes] == [NOW_MS, None]


def test_a_view_never_ends_in_the_future() -> None:
    """Where every record is ahead of the clock; once the clock is right again, nothing is held
    back. Rows do not depend on the clock."""
    lane = lane_view([Shown(time_ms=NOW_MS)], watermark_ms=NOW_MS)
    wrong, right = evaluate([lane], PLAN, now_ms=NOW_MS - 1), evaluate([lane], PLAN, now_ms=NOW_MS)
    assert (wrong.as_of_ms, right.as_of_ms) == (NOW_MS - 1, NOW_MS)
    assert [one.end_ms for one in wrong.windows[:2]] == [NOW_MS - 1, NOW_MS - 1 - SETTLE_MS]
    assert impressions_in(right, "1m", LIVE) == impressions_in(evaluate([lane], PLAN), "1m", LIVE)
    assert (
        evaluate([lane], PLAN, now_ms=NOW_MS - 3_600_000).totals.tolist() == right.totals.tolist()
    )


def test_nothing_read_is_an_empty_snapshot() -> None:
    snapshot = evaluate([], PLAN)
    assert (snapshot.as_of_ms, snapshot.windows, snapshot.counts) == (None, (), {})
    assert not snapshot.totals.any()


def test_a_view_whose_panes_are_gone_is_left_out_and_named() -> None:
    slow = lane_view([Shown(time_ms=NOW_MS)], lane=0, watermark_ms=NOW_MS)
    fast = lane_view([Shown(time_ms=NOW_MS)], lane=1, watermark_ms=NOW_MS + 200_000)
    snapshot = evaluate([slow, fast], PLAN)
    shown = [(one.window, one.view) for one in snapshot.windows]
    assert snapshot.incomplete == (("1m", LIVE), ("1m", SETTLED))
    assert shown == [("10m", LIVE), ("10m", SETTLED)]


@pytest.mark.parametrize(("ahead_ms", "incomplete"), [(65_999, ()), (66_000, (("1m", SETTLED),))])
def test_a_lane_may_be_ahead_by_what_is_kept(
    ahead_ms: int, incomplete: tuple[tuple[str, str], ...]
) -> None:
    slow = lane_view([Shown(time_ms=NOW_MS)], lane=0, watermark_ms=NOW_MS)
    fast = lane_view([Shown(time_ms=NOW_MS)], lane=1, watermark_ms=NOW_MS + ahead_ms)
    assert evaluate([slow, fast], PLAN).incomplete == incomplete


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_int64_is_an_error(sign: int) -> None:
    lane = lane_view([Shown()])
    huge = pages_of(np.full((1, PLAN.row_width), sign * 2**62, np.int64))
    views = [replace(lane, lane=number, totals=huge) for number in range(2)]
    with pytest.raises(OverflowError, match="must sum to at most"):
        evaluate(views, PLAN)
    assert evaluate(views[:1], PLAN).totals[0, 0] == sign * 2**62


def test_everything_is_what_settled_and_what_has_not() -> None:
    """The impression of 66 s ago settles at this very watermark, the later ones do not yet."""
    shown = [Shown(time_ms=NOW_MS - ago_ms) for ago_ms in (0, 66_000, 66_001, 90_000, 2_000_000)]
    views = [lane_view(shown[:2], lane=0), lane_view(shown[2:], lane=1)]
    snapshot = evaluate(views, PLAN)
    *windows, whole = with_everything(snapshot, views, PLAN).windows
    assert (tuple(windows), whole.window, whole.view) == (snapshot.windows, "all", LIVE)
    np.testing.assert_array_equal(whole.rows[0], np.sum([one.row() for one in shown], axis=0))


def test_no_traffic_undefined_and_zero_stay_apart() -> None:
    shown = [Shown(values=(0.0, None, 1.0)), Shown(values=(0.0, None, None))]
    rows = rows_of(evaluate([lane_view(shown)], PLAN), "1m", LIVE)
    means, errors = zip(*(estimates(rows, PLAN, number) for number in range(3)), strict=True)
    assert [float(mean[0]) for mean in means[::2]] == [0.0, 1.0]
    assert np.isnan(means[1][0])
    assert errors[0][0] == 0 and np.isnan(errors[1][0]) and np.isnan(errors[2][0])


def test_standard_error_is_of_the_sample_variance() -> None:
    values = [0.0, 0.25, 1.0, 0.5, 0.5]
    rows = rows_of(evaluate([lane_view(Shown(values=(v, v, v)) for v in values)], PLAN), "1m", LIVE)
    means, errors = estimates(rows, PLAN, 1)
    assert means[0] == pytest.approx(np.mean(values), abs=1e-6)
    assert errors[0] == pytest.approx(np.std(values, ddof=1) / np.sqrt(5), abs=1e-6)


def test_variance_clamps_at_zero() -> None:
    rows = np.zeros((1, PLAN.row_width), np.int64)
    rows[0, 4:7] = (3, 1_000_000, 333_333)  # three thirds, squares rounded down
    _, errors = estimates(rows, PLAN, 0)
    assert errors[0] == 0
