"""A fault is told once, whether feedback shows it, judgements do, or both."""

from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    Fall,
    FallOnset,
    FaultName,
    Graded,
    Marker,
    MeasuredChange,
    Moved,
    Story,
    acknowledgement,
    incidents,
)

AT: Final = 490_000 * HOUR_MS
WAIT_MS: Final = 30 * MINUTE_MS
FILE: Final = Graded("a.csv", AT - 24 * HOUR_MS)
WHOLE: Final = ("all", "all")


def story(
    where: tuple[str, ...] = ("country", "DE"),
    minutes: float = 0,
    called_min: float = 5,
    *,
    judged: bool = False,
    over: bool = False,
) -> Story:
    """Of a fall that began so many minutes after `AT`, and was called so long after `AT`."""
    at_ms = AT + minutes * MINUTE_MS
    series = (where[0], where[1], "P@5")
    known = MeasuredChange(0.8, 0.01, 1000)
    called_ms = AT + round(called_min * MINUTE_MS)
    fall = Fall(
        series, round(at_ms), FallOnset(at_ms, at_ms, at_ms, by_panes=True), ("hour",), called_ms,
        at_ms, recovered_ms=at_ms + HOUR_MS if over else None, graded=FILE if judged else None,
    )  # fmt: skip
    moved = Moved(series, known, known, 0.01, (1000, 1000))
    return Story(fall, where[1:], moved, False, -9.0, ("hour",), called_ms)


@pytest.mark.parametrize(
    ("where", "minutes", "is_one"),
    [
        (("country", "DE"), 0, True),
        (("country", "DE"), 60, True),
        (("country", "DE"), -60, True),
        (("country", "DE"), 61, False),
        (("country", "DE", "FR"), 0, True),
        (("country", "FR"), 0, False),
        (("device", "DE"), 0, False),
        (WHOLE, 30, True),
    ],
)
def test_a_common_segment_and_an_hour_make_one_fault(
    where: tuple[str, ...], minutes: float, is_one: bool
) -> None:
    clicked, judged = story(), story(where, minutes, judged=True)
    found = incidents([clicked], [judged], WAIT_MS)
    assert len(found) == (1 if is_one else 2)
    assert (found[0].story, found[0].beside) == (clicked, judged if is_one else None)


def test_a_fault_keeps_the_name_under_which_it_was_known_first() -> None:
    """Judged scores are final half an hour earlier: what was called up to then was known first."""
    for called_min, kind in ((5, "j"), (35, "j"), (36, "c")):
        judged = story(called_min=called_min, judged=True)
        alone, (one,) = incidents([], [judged], WAIT_MS)[0], incidents([story()], [judged], WAIT_MS)
        assert one.identity.startswith(f"{kind}-") and alone.identity.startswith("j-")
        assert one.identity in (judged.identity, story().identity)


def test_an_acknowledgement_follows_a_change_that_is_joined_or_renamed() -> None:
    """By every id that it has had: an alert, or a page that is open, knows the older one."""
    clicked, judged = story(), story(called_min=5, judged=True)
    (one,) = incidents([clicked], [judged], WAIT_MS)
    assert one.ids == {clicked.identity, judged.identity}
    first = FaultName("country", ("DE",), "P@5", first=(AT, "country", "DE"))
    renamed = replace(first, grouping="device", segments=("ios",), renamed=True)
    before, after = replace(clicked, name=first), replace(clicked, name=renamed)
    said = Marker("a-1", AT, "acknowledged", "x", AT + HOUR_MS, change=before.identity)
    (now,) = incidents([after], [judged], WAIT_MS)
    assert acknowledgement(now.ids, [said], AT) == said


def test_the_measure_that_has_not_recovered_tells_it() -> None:
    over, judged = story(over=True), story(judged=True)
    (one,) = incidents([over], [judged], WAIT_MS)
    assert (one.story, one.beside, one.is_open) == (judged, over, True)
    (both,) = incidents([over], [story(judged=True, over=True)], WAIT_MS)
    assert both.story is over and not both.is_open


def test_a_judged_change_that_ended_with_its_file_leaves_the_other_open() -> None:
    ended = story(judged=True)
    ended = replace(ended, fall=replace(ended.fall, superseded=Graded("b.csv", AT + HOUR_MS)))
    (one,) = incidents([story()], [ended], WAIT_MS)
    assert one.is_open and one.beside is ended


def test_of_several_the_same_segment_comes_first_and_then_the_nearest() -> None:
    whole, near, far = story(WHOLE), story(minutes=10), story(minutes=40)
    judged = story(judged=True)
    found = incidents([whole, far, near], [judged], WAIT_MS)
    assert [each.beside for each in found] == [None, None, judged]
    two = incidents([whole, near], [judged, story(minutes=9, judged=True)], WAIT_MS)
    assert len(two) == 2 and all(each.beside is not None for each in two)
