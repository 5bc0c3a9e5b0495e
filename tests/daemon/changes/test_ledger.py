"""The life of a fall: opened once, refined, over, reopened, forgotten."""

from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    KEPT_MS,
    MINUTE_MS,
    REOPENS_MS,
    STANDING_MS,
    Fall,
    FallCall,
    FallOnset,
    Look,
    ScoreNoise,
    ScoreTimeline,
    advanced,
    measured_anew,
    without_falls,
)

SERIES = ("country", "DE", "RR@10")
OTHER = ("country", "US", "RR@10")
BREAK = 1000 * HOUR_MS


def look(end_ms: int, fell_ms: int = BREAK, over_ms: int | None = None) -> Look:
    """Panes of two minutes over six hours; both series have 1,000 searches in each, DE falls from
    0.6 to 0.2 between two instants."""
    starts = np.arange(end_ms - 6 * HOUR_MS, end_ms, 2 * MINUTE_MS, dtype=np.int64)
    ends = starts + 2 * MINUTE_MS
    low = (starts >= fell_ms) & (starts < (end_ms if over_ms is None else over_ms))
    scored = np.full((len(starts), 2), 1000.0)
    sums = np.stack([np.where(low, 200.0, 600.0), np.full(len(starts), 600.0)], axis=1)
    timeline = ScoreTimeline(starts, ends, scored, sums, sums, np.zeros(len(starts), bool))
    return Look(timeline, [SERIES, OTHER], np.ones(2), ScoreNoise(1.2, np.full(2, 0.006)))


def onset(
    at_ms: float = BREAK, width_ms: float = 8 * MINUTE_MS, by_panes: bool = True
) -> FallOnset:
    return FallOnset(at_ms, at_ms - width_ms / 2, at_ms + width_ms / 2, by_panes)


def opened(lane: str = "hour", **of: object) -> Fall:
    (fall,) = advanced((), look(BREAK + 10 * MINUTE_MS), [FallCall(lane, SERIES, onset())])
    return replace(fall, **of)


def test_a_call_opens_a_fall_that_stays_open_without_further_calls() -> None:
    fall = opened()
    assert (fall.series, fall.recovered_ms, fall.called_ms) == (
        SERIES,
        None,
        BREAK + 10 * MINUTE_MS,
    )
    for minutes in (11, 75, 200):
        (found,) = advanced([fall], look(BREAK + minutes * MINUTE_MS), [])
        assert replace(found, scored_ms=0) == fall


def test_a_second_lane_joins_the_fall() -> None:
    found = advanced([opened()], look(BREAK + HOUR_MS), [FallCall("weeks", SERIES, onset())])
    assert [fall.lanes for fall in found] == [("hour", "weeks")]


def test_only_a_narrower_interval_of_panes_that_meets_replaces_the_onset() -> None:
    better, worse = onset(BREAK + MINUTE_MS, 4 * MINUTE_MS), onset(BREAK, 60 * MINUTE_MS)
    by_hours = onset(BREAK, MINUTE_MS, by_panes=False)
    elsewhere = onset(BREAK + HOUR_MS, MINUTE_MS)
    for told, kept in (
        (better, better),
        *((each, onset()) for each in (worse, by_hours, elsewhere)),
    ):
        (fall,) = advanced(
            [opened()], look(BREAK + 10 * MINUTE_MS), [FallCall("hour", SERIES, told)]
        )
        assert fall.onset == kept and fall.first_ms == BREAK


def test_a_recovery_closes_the_fall_at_its_instant() -> None:
    over_ms = BREAK + HOUR_MS
    (fall,) = advanced([opened()], look(over_ms + 20 * MINUTE_MS, over_ms=over_ms), [])
    assert fall.recovered_ms == over_ms


def test_a_fall_soon_after_a_recovery_reopens_it() -> None:
    over_ms = BREAK + HOUR_MS
    closed = opened(recovered_ms=float(over_ms))
    again_ms = over_ms + HOUR_MS
    seen = look(again_ms + 20 * MINUTE_MS, fell_ms=again_ms)
    (fall,) = advanced([closed], seen, [FallCall("hour", SERIES, onset(again_ms))])
    assert fall.recovered_ms is None and fall.low_since_ms == again_ms
    assert (fall.first_ms, fall.onset) == (BREAK, onset())


def test_a_later_fall_is_another() -> None:
    closed = opened(recovered_ms=float(BREAK + HOUR_MS))
    later_ms = BREAK + HOUR_MS + REOPENS_MS
    seen = look(later_ms + 20 * MINUTE_MS, fell_ms=later_ms)
    found = advanced([closed], seen, [FallCall("hour", SERIES, onset(later_ms))])
    assert [fall.first_ms for fall in found] == [BREAK, later_ms]


def test_the_shadow_of_a_fall_that_is_over_opens_nothing() -> None:
    closed = opened(recovered_ms=float(BREAK + HOUR_MS))
    seen = look(BREAK + 2 * HOUR_MS, over_ms=BREAK + HOUR_MS)
    assert advanced([closed], seen, [FallCall("weeks", SERIES, onset())]) == (closed,)


def test_hours_of_a_fall_that_is_over_count_in_no_comparison() -> None:
    over_ms = BREAK + HOUR_MS
    seen = look(over_ms + HOUR_MS, over_ms=over_ms)
    left = without_falls(seen, [opened(recovered_ms=float(over_ms))])
    empty = left.scored[:, 0] == 0
    inside = (left.ends > BREAK - 4 * MINUTE_MS) & (left.starts < over_ms)
    assert (empty == inside).all() and (left.scored[:, 1] > 0).all()
    assert without_falls(seen, [opened()]) is seen.timeline, "an open one is its own business"


def test_what_is_over_is_forgotten_in_the_end() -> None:
    closed = opened(recovered_ms=float(BREAK))
    assert advanced([closed], look(BREAK + KEPT_MS - MINUTE_MS), [])
    assert not advanced([closed], look(BREAK + KEPT_MS + MINUTE_MS), [])


def test_a_fall_of_a_series_that_is_not_shown_now_stays_as_it_is() -> None:
    fall = replace(opened(), series=("country", "FR", "RR@10"))
    assert advanced([fall], look(BREAK + HOUR_MS), []) == (fall,)


def test_a_week_makes_a_fall_the_state_of_things() -> None:
    assert not opened().is_standing(BREAK + STANDING_MS)
    assert opened().is_standing(BREAK + STANDING_MS + 1)


LEFT_MS = BREAK + HOUR_MS


def left(end_ms: int, per_pane: float = 1000, whole: float = 2000, is_shown: bool = True) -> Look:
    """DE, which fell, has so many searches in each pane, and none from an instant on; everything
    goes on. Unless it is shown it has no series."""
    found = look(end_ms)
    goes = found.timeline.starts < LEFT_MS
    columns = np.stack([np.where(goes, per_pane, 0.0), np.full(len(goes), whole)], axis=1)
    timeline = replace(found.timeline, scored=columns, sums=columns * 0.2, squares=columns * 0.2)
    series = [SERIES if is_shown else OTHER, ("all", "all", "RR@10")]
    return replace(found, timeline=timeline, series=series)


def test_a_fall_of_what_is_scored_no_more_is_over_once_some_would_have_been() -> None:
    (fall,) = advanced([opened()], left(LEFT_MS + 28 * MINUTE_MS), [])
    assert fall.ended_ms is None
    (fall,) = advanced([fall], left(LEFT_MS + 30 * MINUTE_MS), [])
    assert (fall.unscored_ms, fall.recovered_ms, fall.ended_ms) == (LEFT_MS, None, LEFT_MS)
    assert advanced([fall], left(LEFT_MS + KEPT_MS - HOUR_MS), []) == (fall,)
    assert advanced([fall], left(LEFT_MS + KEPT_MS), []) == ()


def test_what_has_few_searches_is_waited_for_longer() -> None:
    """A search in two panes, of a thousand: 30 are missed after two hours."""
    (fall,) = advanced([opened()], left(LEFT_MS + 118 * MINUTE_MS, 0.5, 500), [])
    assert fall.ended_ms is None
    (fall,) = advanced([fall], left(LEFT_MS + 120 * MINUTE_MS, 0.5, 500), [])
    assert fall.ended_ms == LEFT_MS


def test_no_fall_is_over_because_nothing_at_all_is_scored() -> None:
    silent = left(LEFT_MS + 5 * HOUR_MS)
    scored = silent.timeline.scored.copy()
    scored[silent.timeline.starts >= LEFT_MS] = 0
    silent = replace(silent, timeline=replace(silent.timeline, scored=scored))
    (fall,) = advanced([opened()], silent, [])
    assert fall.ended_ms is None
    (fall,) = advanced([fall], look(BREAK + 7 * HOUR_MS), [])
    assert fall.ended_ms is None, "and it goes on where that does"


def test_a_fall_without_a_series_is_over_after_a_day() -> None:
    (fall,) = advanced([opened()], left(BREAK + 50 * MINUTE_MS), [])
    seen_ms = fall.scored_ms
    assert abs(seen_ms - (BREAK + 50 * MINUTE_MS)) <= 10 * MINUTE_MS
    day_later_ms = seen_ms + 24 * HOUR_MS
    (fall,) = advanced([fall], left(day_later_ms - 2 * MINUTE_MS, is_shown=False), [])
    assert fall.ended_ms is None
    (fall,) = advanced([fall], left(day_later_ms, is_shown=False), [])
    assert fall.ended_ms == seen_ms


def test_what_comes_back_as_low_within_a_day_is_the_same_fall() -> None:
    (fall,) = advanced([opened()], left(LEFT_MS + HOUR_MS), [])
    again = FallCall("hour", SERIES, onset(LEFT_MS + 3 * HOUR_MS))
    (fall,) = advanced([fall], look(LEFT_MS + 4 * HOUR_MS), [again])
    assert (fall.ended_ms, fall.first_ms) == (None, BREAK)


@pytest.mark.parametrize(("anew_ms", "is_over"), [(BREAK, False), (BREAK + 1, True), (None, False)])
def test_what_is_measured_anew_is_over_and_is_not_the_same_fall_again(
    anew_ms: int | None, is_over: bool
) -> None:
    fell = opened()
    (fall,) = measured_anew([fell], {fell.series: anew_ms}.get)
    assert fall.ended_ms == (anew_ms if is_over else None)
    again = FallCall("hour", SERIES, onset(BREAK + 3 * HOUR_MS))
    falls = advanced([fall], look(BREAK + 4 * HOUR_MS), [again])
    assert [each.ended_ms for each in falls] == ([anew_ms, None] if is_over else [None])
    assert measured_anew(falls, {fell.series: anew_ms}.get) == falls


def test_what_falls_again_on_several_other_days_is_usual() -> None:
    fall = opened()
    for night in range(4):
        assert fall.again == night
        ended_ms = float(BREAK + 24 * night * HOUR_MS + 7 * HOUR_MS)
        closed = replace(fall, recovered_ms=ended_ms)
        assert closed.is_unusual == (night < 3) and not fall.is_unusual
        for hours in (12, 17):  # the same night twice is one more day
            at_ms = BREAK + 24 * night * HOUR_MS + (7 + hours) * HOUR_MS
            call = FallCall("hour", SERIES, onset(at_ms))
            (fall,) = advanced([closed], look(at_ms + HOUR_MS, at_ms), [call])
            assert fall.recovered_ms is None
            closed = replace(fall, recovered_ms=float(at_ms + HOUR_MS))
