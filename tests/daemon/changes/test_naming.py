"""The name of a fault holds still."""

from dataclasses import replace

import pytest

from relevanced.daemon.changes import HOUR_MS, MINUTE_MS, Fall, FallOnset, FaultName, held_name

AT = 490_000 * HOUR_MS
DE = FaultName("country", ("DE",), "RR@10")
WHOLE = FaultName("all", ("all",), "RR@10")
IOS = FaultName("device", ("ios",), "RR@10")


def falls(*names: FaultName) -> list[Fall]:
    onset = FallOnset(AT, AT - 1, AT + 1, by_panes=True)
    return [
        Fall((name.grouping, segment, name.metric), AT, onset, ("hour",), AT, AT)
        for name in names
        for segment in name.segments
    ]


ALL_OF_THEM = falls(DE, WHOLE, IOS)


def subjects(best: list[FaultName], *, every_min: int = 2) -> list[str]:
    """The name after each look, two minutes apart."""
    name, told = None, []
    for look, each in enumerate(best):
        name = held_name(name, each, ALL_OF_THEM, AT + look * every_min * MINUTE_MS)
        told.append(name.segments[0])
    return told


def test_names_that_alternate_do_not_alternate_on_the_page() -> None:
    assert set(subjects([DE, WHOLE] * 200)) == {"DE"}


def test_a_first_name_gives_way_to_one_that_leads_for_ten_minutes() -> None:
    told = subjects([WHOLE] + [DE] * 10)
    assert told == ["all"] * 6 + ["DE"] * 5


def test_in_an_hour_a_name_changes_at_most_once() -> None:
    told = subjects(([WHOLE] * 6 + [DE] * 6 + [IOS] * 6) * 20)
    changes = [at for at, (a, b) in enumerate(zip(told, told[1:], strict=False)) if a != b]
    assert len(changes) <= 1 and len(told) > 300
    told = subjects([WHOLE] * 3 + [DE] * 40 + [IOS] * 40)
    changes = [at for at, (a, b) in enumerate(zip(told, told[1:], strict=False)) if a != b]
    assert [told[at + 1] for at in changes] == ["DE", "ios"]
    assert (changes[1] - changes[0]) * 2 >= 60


def test_the_order_of_segments_is_no_other_name() -> None:
    both, turned = (replace(DE, segments=each) for each in (("DE", "FR"), ("FR", "DE")))
    first = held_name(None, both, falls(both), AT)
    assert held_name(first, turned, falls(both), AT + HOUR_MS) == first


@pytest.mark.parametrize("minutes", [0, 1, 500])
def test_a_name_of_which_nothing_is_open_any_more_goes_at_once(minutes: int) -> None:
    first = held_name(None, replace(DE, first=(AT, "country", "DE")), ALL_OF_THEM, AT)
    now = held_name(first, IOS, falls(IOS, WHOLE), AT + minutes * MINUTE_MS)
    assert now.segments == ("ios",) and now.first == first.first, "the identity stays"


def test_a_name_of_which_a_part_is_back_goes_at_once() -> None:
    both = replace(DE, segments=("DE", "FR"))
    first = held_name(None, both, falls(both), AT)
    back = {("country", "DE", "RR@10")}
    now = held_name(first, replace(DE, segments=("FR",)), falls(both), AT + MINUTE_MS, back)
    assert now.segments == ("FR",) and now.first == first.first
