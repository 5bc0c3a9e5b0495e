"""What lasts is usual: nothing before it is compared any more, and what falls next is told."""

from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import (
    ACCEPTED_MS,
    HOUR_MS,
    KEPT_MS,
    MINUTE_MS,
    STANDING_MS,
    Fall,
    FallCall,
    FallOnset,
    Least,
    Look,
    ScoreNoise,
    ScoreTimeline,
    accepted,
    beyond_rise,
    fallen,
    followed,
    measured_anew,
)

SERIES = ("all", "all", "RR@10")
DAY_MS = 24 * HOUR_MS
NOW_MS = 40 * DAY_MS
LEVEL, LOW = 0.6, 0.4


def look(levels: list[float], *hours: float, knows_weeks: bool = True) -> Look:
    """Hours with 1,000 searches each of one series, whose level on each of the last days is this
    one, and then in so many hours; 0.6 is usual."""
    scores = np.array([*np.repeat(levels, 24), *hours])[:, None]
    starts = NOW_MS - HOUR_MS * np.arange(len(scores), 0, -1)
    scored = np.full(scores.shape, 1000.0)
    hourly = np.ones(len(starts), np.bool_)
    usual = np.full(scores.shape, LEVEL) if knows_weeks else None
    sums = scored * scores
    timeline = ScoreTimeline(starts, starts + HOUR_MS, scored, sums, sums, hourly, usual)
    return Look(timeline, [SERIES], np.ones(1), ScoreNoise())


def by_look(falls: list[Fall], seen: Look) -> tuple[list[Fall], list[Fall]]:
    """(what is followed, what is accepted) by a look that calls nothing."""
    return accepted(falls, seen, seen.timeline, [])


def open_since(days: float) -> Fall:
    at_ms = NOW_MS - days * DAY_MS
    onset = FallOnset(at_ms, at_ms - HOUR_MS, at_ms + HOUR_MS, by_panes=False)
    return Fall(SERIES, round(at_ms), onset, ("hour",), round(at_ms + HOUR_MS), at_ms)


def call(lane: str, hours_ago: float) -> FallCall:
    at_ms = NOW_MS - hours_ago * HOUR_MS
    near = 10 * MINUTE_MS
    return FallCall(lane, SERIES, FallOnset(at_ms, at_ms - near, at_ms + near, by_panes=True))


def after_calls(fall: Fall, *calls: FallCall) -> list[tuple[float, bool]]:
    """(onset, whether it is accepted) of each fall that a look leaves."""
    seen = look([LOW] * 14)
    falls = followed([fall], seen, seen.timeline, calls).falls
    return sorted((each.onset.likely, each.accepted_ms is not None) for each in falls)


@pytest.mark.parametrize(("days", "is_accepted"), [(2, False), (12.9, False), (13, True)])
def test_a_fall_of_two_weeks_is_accepted(days: float, is_accepted: bool) -> None:
    fall = open_since(days)
    assert after_calls(fall) == [(fall.onset.likely, is_accepted)]
    assert (days * DAY_MS >= ACCEPTED_MS) == is_accepted


def test_what_is_accepted_remembers_the_score_before_it_until_it_is_measured_anew() -> None:
    """Of what no bin is kept before it is not known."""
    for levels, before in (([LEVEL] + [LOW] * 13, LEVEL), ([LOW] * 13, None)):
        (told,) = by_look([open_since(13)], look(levels))[1]
        assert told.before == (None if before is None else pytest.approx(before))
        assert measured_anew([told], lambda series: None) == (told,)
        (anew,) = measured_anew([told], lambda series: NOW_MS)
        assert anew == replace(told, before=None)


def test_nothing_before_an_accepted_fall_is_usual_and_its_own_hours_are() -> None:
    fall, starts = open_since(13), NOW_MS - DAY_MS * np.arange(16, 0, -1)
    told = replace(fall, accepted_ms=NOW_MS)
    assert not fallen([fall], [SERIES], starts, starts + HOUR_MS).any()
    left_out = fallen([told], [SERIES], starts, starts + HOUR_MS)[:, 0]
    assert left_out.tolist() == (starts < fall.onset.latest).tolist()
    better = replace(told, low_since_ms=float(starts[8]))
    left_out = fallen([better], [SERIES], starts, starts + HOUR_MS)[:, 0]
    assert left_out.tolist() == (starts < starts[8]).tolist(), "since it got better"


def test_what_falls_after_an_accepted_fall_is_another_fall() -> None:
    fall = replace(open_since(20), accepted_ms=NOW_MS - 7 * DAY_MS)
    assert after_calls(fall, call("weeks", 2)) == [
        (fall.onset.likely, True),
        (NOW_MS - 2 * HOUR_MS, False),
    ]


def test_what_falls_just_before_a_rise_is_accepted_is_told() -> None:
    rose = replace(open_since(3), rose=True, accepted_ms=NOW_MS)
    assert after_calls(rose, call("hour", 1)) == [
        (rose.onset.likely, True),
        (NOW_MS - HOUR_MS, False),
    ]


def test_comparisons_with_what_was_before_call_nothing_once_it_is_accepted() -> None:
    fall = open_since(13)
    assert after_calls(fall, call("weeks", 24), call("hour", 13 * 24)) == [
        (fall.onset.likely, True)
    ]


@pytest.mark.parametrize(
    ("lane", "days", "is_another"),
    [("hour", 9, True), ("weeks", 9, False), ("hour", 6, False)],
)
def test_what_has_been_low_for_a_week_can_fall_again(
    lane: str, days: float, is_another: bool
) -> None:
    """By what was just before."""
    fall = open_since(days)
    found = after_calls(fall, call(lane, 1))
    assert (days * DAY_MS > STANDING_MS) == (days > 7)
    expected = [(fall.onset.likely, is_another)]
    assert found == expected + [(NOW_MS - HOUR_MS, False)] * is_another


def test_what_is_accepted_is_forgotten_once_no_week_before_it_is_looked_at() -> None:
    known, forgotten = (
        replace(open_since(days), accepted_ms=NOW_MS - 10 * DAY_MS) for days in (34.9, 35)
    )
    assert by_look([known, forgotten], look([LOW] * 14)) == ([], [known])
    assert KEPT_MS == 35 * DAY_MS


@pytest.mark.parametrize(
    ("levels", "knows_weeks", "is_raised"),
    [
        ([0.6] * 11 + [0.7] * 3, True, True),
        ([0.6] * 12 + [0.7] * 2, True, False),  # not yet
        ([0.6] * 10 + [0.8] * 3 + [0.6], True, False),  # it is back
        ([0.6] * 11 + [0.62] * 3, True, False),  # too little
        ([0.6] * 11 + [0.7] * 3, False, False),  # as perhaps every week
        ([0.6] * 2 + [0.7] * 3, True, False),  # nothing is known of before
    ],
)
def test_a_rise_that_lasts_is_accepted(
    levels: list[float], knows_weeks: bool, is_raised: bool
) -> None:
    still, usual = by_look([], look(levels, knows_weeks=knows_weeks))
    assert still == [] and [each.rose for each in usual] == [True] * is_raised
    for rose in usual:
        assert rose.onset.likely == pytest.approx(NOW_MS - 3 * DAY_MS, abs=HOUR_MS)
        (again,) = by_look(usual, look([0.7] * 14))[1]
        assert again == rose, "once"


def test_what_is_low_does_not_rise() -> None:
    """It recovers, or got better."""
    fall = open_since(4)
    assert by_look([fall], look([0.6] * 11 + [0.7] * 3)) == ([fall], [])


RISE = [LEVEL] * 12, [0.75] * 6 + [LEVEL] * 2
"""Of six hours, over for two."""


def test_what_is_as_in_the_weeks_before_a_rise_did_not_fall() -> None:
    """No hour of the rise is usual then, and it is forgotten when no week of it is looked at."""
    seen = look(RISE[0], *RISE[1])
    (rose,) = followed([], seen, seen.timeline, [call("hour", 2)]).falls
    starts, ends = seen.timeline.starts, seen.timeline.ends
    assert rose.rose and not rose.is_followed
    left_out = fallen([rose], [SERIES], starts, ends)[:, 0]
    assert left_out[-8:-2].all() and left_out.sum() <= 8
    assert by_look([rose], look([LEVEL] * 14)) == ([], [rose])
    late = replace(seen, timeline=replace(seen.timeline, ends=ends + KEPT_MS))
    assert by_look([rose], late) == ([], [])


@pytest.mark.parametrize(
    ("days", "hours", "lane", "knows_weeks", "has_accepted"),
    [
        ([LEVEL] * 12, [0.75] * 6 + [0.5] * 2, "hour", True, False),  # lower than weeks
        ([LEVEL] * 6 + [0.75] * 6, [0.75] * 6 + [LEVEL] * 2, "hour", True, False),  # too old
        ([LEVEL] * 12, [0.61] * 6 + [LEVEL] * 2, "hour", True, False),  # too small
        (*RISE, "weeks", True, False),
        (*RISE, "hour", False, False),
        (*RISE, "hour", True, True),  # perhaps it was repaired, and breaks again
        ([LEVEL], [0.75] * 6 + [LEVEL] * 2, "hour", True, False),  # nothing is known of before
    ],
)
def test_other_falls_after_a_rise_are_told(
    days: list[float], hours: list[float], lane: str, knows_weeks: bool, has_accepted: bool
) -> None:
    seen = look(days, *hours, knows_weeks=knows_weeks)
    known = [replace(open_since(20), accepted_ms=NOW_MS - 7 * DAY_MS)] * has_accepted
    found = followed(known, seen, seen.timeline, [call(lane, 2)]).falls
    assert [each.is_followed for each in found if not each.rose and each not in known] == [True]


@pytest.mark.parametrize(
    ("before", "is_told"),
    [([0.7], True), ([0.85], True), ([1.0], False), ([1.0, 0.8], True), ([1.0, None], True)],
)
def test_a_rise_after_an_accepted_fall_that_was_no_repair_ends_without_a_fall(
    before: list[float | None], is_told: bool
) -> None:
    """One of 0.15 that does not reach half of what was lost by any fall that was accepted."""
    known = [
        replace(open_since(20 - n), accepted_ms=NOW_MS - 7 * DAY_MS, before=each)
        for n, each in enumerate(before)
    ]
    seen = look(*RISE[:1], *RISE[1])
    found = followed(known, seen, seen.timeline, [call("hour", 2)]).falls
    assert [each.rose for each in found if each not in known] == [not is_told]


@pytest.mark.parametrize(("now", "is_remembered"), [(LEVEL, True), (0.54, False)])
def test_a_rise_that_ended_in_a_fall_is_forgotten_once_that_can_be_told(
    now: float, is_remembered: bool
) -> None:
    """In the first minutes little tells a fall below what is usual from the end of the rise."""
    seen = look(RISE[0], *RISE[1][:-2], 0.57)
    (rose,) = followed([], seen, seen.timeline, [call("hour", 1)]).falls
    assert rose.rose and not rose.is_followed
    later = look([LEVEL] * 12, *RISE[1][:-2], *[now] * 3)
    rose = replace(rose, recovered_ms=NOW_MS - 3 * HOUR_MS)
    found = followed([rose], later, later.timeline, [call("hour", 3)] * (not is_remembered)).falls
    assert [each.rose for each in found] == [is_remembered]


@pytest.mark.parametrize(("begun_hours", "drop"), [(6, 0.05 + 0.25), (200, 0.05)])
def test_no_fall_back_to_the_weeks_before_is_promised(begun_hours: float, drop: float) -> None:
    seen = look([LEVEL] * 12, *[0.75] * 6)
    begun_ms = np.array([NOW_MS - begun_hours * HOUR_MS])
    least = Least("hour", np.array([0.05]), begun_ms)
    found = beyond_rise(least, seen.timeline, seen.directions, seen.noise)
    assert found.drop == pytest.approx([drop]) and found.begun_ms is begun_ms


@pytest.mark.parametrize(
    ("lasted", "low", "level", "is_accepted"),
    [(4, 4, LEVEL, True), (4, 3, LEVEL, False), (1, 2, LEVEL, False), (4, 4, 0.5, False)],
)
def test_what_fell_back_is_accepted_once_it_has_lasted_as_long_as_the_rise(
    lasted: int, low: int, level: float, is_accepted: bool
) -> None:
    """Where it is what it was before both."""
    rose = replace(open_since(lasted + low), rose=True, accepted_ms=NOW_MS - low * DAY_MS)
    fall = open_since(low)
    seen = look([LEVEL] * (14 - lasted - low) + [0.75] * lasted + [level] * low)
    found = by_look([fall, rose], seen)
    told = replace(fall, accepted_ms=NOW_MS, before=pytest.approx(0.75))
    assert found == (([], [told, rose]) if is_accepted else ([fall], [rose]))


@pytest.mark.parametrize(
    ("lasted", "low", "level", "is_accepted"),
    [(8, 8, LEVEL, True), (8, 7, LEVEL, False), (10, 10, LEVEL, True), (8, 8, 0.5, False)],
)
def test_the_same_where_nothing_is_kept_of_the_time_before_the_rise(
    lasted: int, low: int, level: float, is_accepted: bool
) -> None:
    since = look([LEVEL] * 11 + [0.75] * 3)
    (rose,) = by_look([], since)[1]
    assert rose.before == pytest.approx(LEVEL)
    days = [LEVEL] * 14 + [0.75] * lasted + [level] * low
    ago_ms = (lasted + low) * DAY_MS
    onset = replace(rose.onset, likely=NOW_MS - ago_ms, latest=NOW_MS - ago_ms + HOUR_MS)
    rose = replace(rose, onset=onset, low_since_ms=onset.likely, accepted_ms=NOW_MS - ago_ms)
    still, _ = by_look([open_since(low), rose], look(days[-14:]))
    assert (still == []) == is_accepted
