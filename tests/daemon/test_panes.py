"""Panes are half-open and epoch-aligned, windows are whole panes, and everything ends on time."""

import pytest

from relevanced.daemon.panes import pane_start, window
from relevanced.daemon.timing import GRACE_MS, Timing, timing
from tests.builders import ATTRIBUTION_MS, BASE_MS, LATENESS_MS, PLAN, SETTLE_MS, START_MS

TIMING = PLAN.timing
LENGTHS = {1: 1, 29: 1, 30: 1, 31: 31, 60: 2, 90: 3, 100: 4, 300: 10, 3600: 120, 86400: 2880}


@pytest.mark.parametrize(("length_s", "pane_s"), LENGTHS.items())
def test_a_pane_is_the_least_divisor_of_at_least_a_thirtieth(length_s: int, pane_s: int) -> None:
    assert window("w", length_s).pane_ms == pane_s * 1000


def test_a_window_is_at_most_thirty_whole_panes() -> None:
    spans = [window("w", length_s) for length_s in range(1, 4000)]
    assert all(span.pane_count * span.pane_ms == span.length_ms for span in spans)
    assert all(1 <= span.pane_count <= 30 for span in spans)


@pytest.mark.parametrize("length_s", [0, -5])
def test_a_window_needs_a_second(length_s: int) -> None:
    with pytest.raises(ValueError, match="window w: must be at least 1s"):
        window("w", length_s)


@pytest.mark.parametrize(
    ("time_ms", "start_ms"),
    [(0, 0), (9_999, 0), (10_000, 10_000), (10_001, 10_000), (-1, -10_000), (-10_000, -10_000)],
)
def test_a_pane_contains_its_start_but_not_its_end(time_ms: int, start_ms: int) -> None:
    assert pane_start(time_ms, 10_000) == start_ms


def test_windows_are_sorted_by_length() -> None:
    several = timing([("1h", 3600), ("5m", 300)], 60, 5)
    assert [span.name for span in several.windows] == ["5m", "1h"]
    assert (several.base_ms, several.longest.name) == (BASE_MS, "1h")


def test_panes_are_multiples_of_the_base_pane_and_divide_their_window() -> None:
    several = timing([("70s", 70), ("100s", 100), ("7m", 420), ("1h", 3600)], 60, 5)
    assert [span.pane_ms // 1000 for span in several.windows] == [5, 5, 15, 120]
    given = timing([("5m", 300), ("1h", 3600)], 60, 5, base_s=2)
    assert [span.pane_ms // 1000 for span in given.windows] == [2, 120], "as many as there are"
    with pytest.raises(
        ValueError, match=r"windows: 301s must be a multiple of the base pane \(10s"
    ):
        timing([("5m", 300), ("301s", 301)], 60, 5)


def test_there_is_at_least_one_window() -> None:
    with pytest.raises(ValueError, match="windows: at least one is needed"):
        timing([], 60, 5)


def test_an_impression_closes_with_its_whole_base_pane() -> None:
    closes = START_MS + BASE_MS + ATTRIBUTION_MS + LATENESS_MS
    assert TIMING.closes_at(START_MS) == TIMING.closes_at(START_MS + BASE_MS - 1) == closes
    assert TIMING.closes_at(START_MS + BASE_MS) == closes + BASE_MS


def test_waiting_feedback_outlives_every_impression_that_it_could_join() -> None:
    latest_ms = START_MS + GRACE_MS
    assert TIMING.expires_at(START_MS) == latest_ms + BASE_MS + SETTLE_MS
    assert TIMING.expires_at(START_MS) >= TIMING.closes_at(latest_ms)


def settled_panes(times: Timing, number: int, as_of_ms: int) -> range:
    span = times.windows[number]
    last_ms = pane_start(as_of_ms - times.settle_ms, span.pane_ms)
    return range(last_ms - span.length_ms + span.pane_ms, last_ms + 1, span.pane_ms)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("ahead", [0.0, 0.5, 1.0])
def test_a_lane_one_window_ahead_keeps_the_settled_view(number: int, ahead: float) -> None:
    span = TIMING.windows[number]
    for as_of_ms in (START_MS, START_MS + 1, START_MS + span.pane_ms - 1):
        watermark_ms = as_of_ms + int(ahead * span.length_ms)
        first_ms = settled_panes(TIMING, number, as_of_ms)[0]
        assert TIMING.dropped_before(span, watermark_ms) <= first_ms


def test_a_pane_is_dropped_eventually() -> None:
    span = TIMING.windows[0]
    needed_ms = 2 * span.length_ms + span.pane_ms + SETTLE_MS
    assert TIMING.kept_ms(span) == needed_ms
    assert TIMING.dropped_before(span, START_MS + needed_ms - 1) == START_MS - span.pane_ms
    assert TIMING.dropped_before(span, START_MS + needed_ms) == START_MS
