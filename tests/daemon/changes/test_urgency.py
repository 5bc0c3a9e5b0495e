"""Who is told of an open change, and under which name."""

from dataclasses import replace

import pytest

from relevanced.daemon.changes import (
    STANDING_MS,
    ChangeSettings,
    Graded,
    ScoreFloor,
    Story,
    ToldChange,
    is_below_floor,
    told_changes,
)
from tests.daemon.changes.test_fault_grouping import END, Effect, only, stories

SETTINGS = ChangeSettings()
WHOLE = ("all", "all", "RR@10")
DE = ("country", "DE", "RR@10")


def told(found: tuple[Story, ...], at: int = END, *before: ToldChange) -> list[tuple[str, str]]:
    """(urgency, segment) of each."""
    names = [change.told_as for change in before]
    return [(each.urgency, each.series[1]) for each in told_changes(found, SETTINGS, at, names)]


def fault(effect: Effect) -> Story:
    (story,) = stories(effect)
    return story


@pytest.fixture(scope="module")
def broken_country() -> Story:
    return fault(only(country="DE", rank=0.3))


def test_a_country_with_which_the_whole_falls_pages(broken_country: Story) -> None:
    (change,) = told_changes([broken_country], SETTINGS, END)
    assert (change.urgency, change.series, change.against) == ("page", DE, "hour")
    assert change.pattern == "RANKING" and change.loss_ratio and 0.4 < change.loss_ratio < 0.55
    assert change.z is not None and change.z < -6


def test_a_country_with_which_the_whole_does_not_fall_is_a_ticket(broken_country: Story) -> None:
    of_country = tuple(series for series in broken_country.fell if series[0] == "country")
    assert told((replace(broken_country, fell=of_country),)) == [("ticket", "DE")]


def test_other_metrics_of_the_whole_page_only_where_they_fall_far(broken_country: Story) -> None:
    story = replace(broken_country, fell=(("all", "all", "nDCG@10"),))
    assert told((story,)) == [("ticket", "DE")]
    far = replace(SETTINGS, far_below_ratio=0.01)
    assert [each.urgency for each in told_changes([story], far, END)] == ["page"]
    (page,) = told_changes([story], far, END)
    assert told((story,), END, page) == [("page", "DE")], "less far by now: no end of its page"
    of_country = tuple(series for series in broken_country.fell if series[0] == "country")
    assert told((replace(story, fell=of_country),), END, page) == [("ticket", "DE")]
    judged = replace(story, fall=replace(story.fall, graded=Graded("g", 0)))
    assert told((judged,)) == [("page", "DE")], "any judged metric of the whole"


def test_what_is_unknown_is_told_to_nobody_and_what_stands_wakes_nobody(
    broken_country: Story,
) -> None:
    assert told((replace(broken_country, z=None),)) == [("none", "DE")]
    assert told((broken_country,), END + STANDING_MS) == [("ticket", "DE")]


def test_each_segment_that_broke_has_its_own_and_one_pages() -> None:
    story = fault(lambda cell: {"found": 0.5} if cell[0] in ("DE", "FR") else {})
    assert sorted(told((story,))) in (
        [("page", "DE"), ("ticket", "FR")],
        [("page", "FR"), ("ticket", "DE")],
    )


def test_a_page_keeps_its_name_and_a_ticket_may_get_a_better_one(broken_country: Story) -> None:
    whole = next(each for each in broken_country.shares if each.series == WHOLE)
    shown = replace(broken_country.fall, series=WHOLE)
    as_whole = replace(broken_country, fall=shown, segments=("all",), own=whole)
    page = told_changes([as_whole], SETTINGS, END)[0]
    assert page.series == WHOLE
    assert told((broken_country,), END, page) == [("page", "all")]
    less = tuple(series for series in broken_country.fell if series[2] != "RR@10" or "DE" in series)
    of_country = replace(broken_country, fell=(*less, ("all", "all", "nDCG@10")))
    ticket = replace(page, urgency="ticket", series=("all", "all", "nDCG@10"))
    assert told((of_country,), END, ticket)[0][1] == "DE"


def test_of_one_segment_the_metric_that_was_told_first_stays(broken_country: Story) -> None:
    success = next(each for each in broken_country.also if each.series[1:] == ("DE", "nDCG@10"))
    first = replace(told_changes([broken_country], SETTINGS, END)[0], moved=success)
    first = replace(first, series=success.series, urgency="ticket")
    (now,) = told_changes([broken_country], SETTINGS, END, [first.told_as])
    assert now.series == success.series and now.urgency == "page"


def test_a_score_below_its_floor_is_said_where_no_open_change_tells_it(
    broken_country: Story,
) -> None:
    (page,) = told_changes([broken_country], SETTINGS, END)
    ticket = replace(page, urgency="ticket")
    whole, country = ScoreFloor("RR@10", "all", "all", 0.05), ScoreFloor(
        "P@1", "country", "DE", 0.05
    )
    france = replace(country, segment="FR")

    def below(floor: ScoreFloor, score: float, scored: float, *told: ToldChange) -> bool:
        by_segment = {change.series[:2]: change.urgency for change in told}
        return is_below_floor(floor, score, scored, SETTINGS, by_segment)

    assert below(whole, 0.04, 200) and not below(whole, 0.04, 199)
    assert not below(whole, 0.05, 200) and not below(whole, float("nan"), 200)
    assert below(whole, 0.04, 200, ticket) and not below(whole, 0.04, 200, page)
    assert not below(country, 0.04, 200, ticket) and below(france, 0.04, 200, page)
