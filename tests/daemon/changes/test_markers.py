"""Which markers are named beside a change, and how."""

from dataclasses import replace

import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    Fall,
    FallOnset,
    Marker,
    MarkerReach,
    MeasuredChange,
    Moved,
    Story,
    acknowledgement,
    beside,
    expired,
    happened,
    nearest,
    newest,
    plan_of,
    sentences,
)

AT = 1_795_185_240_000
"""2026-11-20 14:34 UTC."""
NOW = AT + 75 * MINUTE_MS
RELEASE = Marker("r", AT - 4 * MINUTE_MS, "release", "ranker v8")
PLANNED = Marker("p", AT, "planned", "diversity v2")


def moved(metric: str = "RR@10") -> Moved:
    levels = (MeasuredChange(0.5, 0.002, 19_800), MeasuredChange(0.46, 0.002, 24_310))
    return Moved(("country", "DE", metric), *levels, 0.003, (19_800, 24_310))


def story(*segments: str, also: tuple[Moved, ...] = (), known: bool = True) -> Story:
    onset = FallOnset(AT, AT - 2 * MINUTE_MS if known else None, AT + 2 * MINUTE_MS, by_panes=True)
    fall = Fall(("country", "DE", "RR@10"), AT, onset, ("hour",), AT, float(AT))
    return Story(fall, segments or ("DE",), moved(), False, -12.0, ("hour",), AT, also=also)


@pytest.mark.parametrize(
    ("minutes", "named"), [(-12.01, False), (-12, True), (0, True), (2, True), (2.01, False)]
)
def test_a_marker_is_named_from_ten_minutes_before_the_onset_to_its_end(
    minutes: float, named: bool
) -> None:
    marker = replace(RELEASE, at_ms=AT + round(minutes * MINUTE_MS))
    assert beside(story(), [marker]) == (marker,) * named


def test_no_marker_is_named_where_it_is_unknown_when_a_change_began() -> None:
    assert beside(story(known=False), [RELEASE, PLANNED]) == ()


@pytest.mark.parametrize(
    ("scope", "told", "holds"),
    [
        (MarkerReach(), story(), True),
        (MarkerReach("RR@10"), story(), True),
        (MarkerReach("P@5"), story(), False),
        (MarkerReach(None, "country"), story("DE", "FR"), True),
        (MarkerReach(None, "device"), story(), False),
        (MarkerReach(None, "country", "DE"), story(), True),
        (MarkerReach(None, "country", "FR"), story(), False),
        (MarkerReach(None, "country", "DE"), story("DE", "FR"), False),
    ],
)
def test_a_scope_holds_a_change_that_lies_in_it_wholly(
    scope: MarkerReach, told: Story, holds: bool
) -> None:
    assert bool(beside(told, [replace(RELEASE, scope=scope)])) == holds


def test_a_plan_excuses_only_what_it_names() -> None:
    of_rr = replace(PLANNED, scope=MarkerReach("RR@10"))
    fell_too = story(also=(moved("Success@10"),))
    assert plan_of(story(), [of_rr], NOW) == of_rr
    assert plan_of(fell_too, [of_rr], NOW) is None
    assert plan_of(fell_too, [PLANNED], NOW) == PLANNED
    assert plan_of(story(), [RELEASE], NOW) is None


def test_a_plan_holds_until_its_end() -> None:
    plan = replace(PLANNED, at_ms=AT - HOUR_MS, until_ms=AT + HOUR_MS)
    assert plan_of(story(), [plan], AT + HOUR_MS) == plan
    assert plan_of(story(), [plan], AT + HOUR_MS + 1) is None
    over = replace(plan, until_ms=AT - 13 * MINUTE_MS)
    assert plan_of(story(), [over], AT - HOUR_MS) is None


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        (RELEASE, '4 min after "ranker v8"'),
        (replace(RELEASE, at_ms=AT), '0 min after "ranker v8"'),
        (replace(RELEASE, at_ms=AT + MINUTE_MS), 'at about the time of "ranker v8"'),
        (replace(RELEASE, text="a\x1b[2J"), '4 min after "a\\x1b[2J"'),
    ],
)
def test_a_marker_is_named_by_time_and_never_as_a_cause(marker: Marker, text: str) -> None:
    assert sentences.headline(story(), NOW, nearest(story(), [marker])) == (
        f"RR@10 of country DE fell from 0.50 to 0.46 at 14:34, {text}, not recovered."
    )


def test_a_planned_change_says_so() -> None:
    assert sentences.planned(story(), NOW, PLANNED) == (
        'RR@10 of country DE is 8 % lower since 14:34, as planned ("diversity v2").'
    )


def test_the_nearest_marker_is_the_one_that_is_named() -> None:
    nearer = replace(RELEASE, id="n", at_ms=AT - MINUTE_MS)
    assert nearest(story(), [RELEASE, nearer]) == nearer
    assert nearest(story(), []) is None


def test_the_latest_acknowledgement_holds_until_its_end() -> None:
    first = Marker("b", AT, "acknowledged", "seen", AT + 4 * HOUR_MS, change="c-1-country-DE")
    later = replace(
        first, id="a", at_ms=AT + 1, until_ms=AT + HOUR_MS, text="rolling back!", by="bob"
    )
    ids = {"c-1-country-DE"}
    assert acknowledgement(ids, [later, first], AT + HOUR_MS - 1) == later
    assert acknowledgement(ids, [later, first], AT + HOUR_MS) is None
    assert acknowledgement({"c-2-country-DE"}, [later, first, RELEASE], AT) is None
    assert happened([first, RELEASE, PLANNED]) == (RELEASE, PLANNED)
    assert sentences.acknowledged(first, NOW) == "Acknowledged until 18:34: seen."
    assert sentences.acknowledged(later, NOW) == "Acknowledged by bob until 15:34: rolling back!"


def test_a_marker_is_kept_as_long_as_hours_are() -> None:
    ends = replace(PLANNED, id="later", until_ms=AT + HOUR_MS)
    assert expired([PLANNED, ends], AT + HOUR_MS, HOUR_MS) == ()
    assert expired([PLANNED, ends], AT + HOUR_MS + 1, HOUR_MS) == ("p",)
    assert expired([PLANNED, ends], AT + 2 * HOUR_MS + 1, HOUR_MS) == ("p", "later")


def test_only_the_latest_few_of_each_kind_are_series() -> None:
    many = [replace(RELEASE, id=str(n), at_ms=AT + n) for n in range(9)]
    chosen = newest([*many, PLANNED], AT + 7, HOUR_MS, 3)
    assert [marker.id for marker in chosen] == ["5", "6", "7", "p"]
    assert newest(many, AT + HOUR_MS + 9, HOUR_MS, 3) == []
