"""Who is told of an open change, under which name, and that leftovers of a repair are not told."""

from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    STANDING_MS,
    ChangeSettings,
    Fall,
    FallOnset,
    Graded,
    Look,
    Story,
    ToldChange,
    told_changes,
    without_leftovers,
)
from tests.daemon.changes.test_telling import END, Effect, only, site, stories

SETTINGS = ChangeSettings()
WHOLE = ("all", "all", "RR@10")
DE = ("country", "DE", "RR@10")


def told(found: tuple[Story, ...], at: int = END, *before: ToldChange) -> list[tuple[str, str]]:
    """(urgency, segment) of each."""
    return [(each.urgency, each.series[1]) for each in told_changes(found, SETTINGS, at, before)]


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
    (now,) = told_changes([broken_country], SETTINGS, END, [first])
    assert now.series == success.series and now.urgency == "page"


def repaired(minutes: int, effect: Effect) -> Look:
    """As `site`, but the effect is over for so long."""
    look, _ = site(effect, 120 * MINUTE_MS)
    healthy, _ = site(only(), 1)
    bins = look.timeline
    over = (bins.starts >= END - minutes * MINUTE_MS)[:, None]
    parts = {
        name: np.where(over, getattr(healthy.timeline, name), getattr(bins, name))
        for name in ("scored", "sums", "squares")
    }
    return replace(look, timeline=replace(bins, **parts))


def falls(look: Look, *, recovered: tuple[str, str, str] | None = None) -> tuple[Fall, ...]:
    onset_ms = float(END - 120 * MINUTE_MS)
    onset = FallOnset(onset_ms, onset_ms - 4e5, onset_ms + 4e5, by_panes=True)
    fell = [series for series in look.series if series[2] == "RR@10" and series[1] != "US"]
    over_ms = float(END - 40 * MINUTE_MS)
    return tuple(
        (
            Fall(s, int(onset_ms), onset, ("hour",), END - HOUR_MS, onset_ms)
            if s != recovered
            else Fall(s, int(onset_ms), onset, ("hour",), END - HOUR_MS, onset_ms, over_ms)
        )
        for s in fell
    )


def left(look: Look, found: tuple[Fall, ...]) -> set[str]:
    lasting = without_leftovers(found, look)
    return {fall.series[1] for fall in lasting if fall.ended_ms is None}


def test_what_fell_with_a_segment_is_over_when_that_has_recovered() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    assert left(look, falls(look, recovered=DE)) == set()


def test_what_is_still_low_is_told_on() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    both, _ = site(only(device="ios", rank=0.3), 120 * MINUTE_MS)
    ios = look.series.index(("device", "ios", "RR@10"))
    look.timeline.sums[:, ios] = both.timeline.sums[:, ios]
    look.timeline.scored[:, ios] = both.timeline.scored[:, ios]
    look.timeline.squares[:, ios] = both.timeline.squares[:, ios]
    assert left(look, falls(look, recovered=DE)) == {"ios"}


def test_a_shallow_fall_that_recovers_ends_no_deeper_one() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    web = ("device", "web", "RR@10")
    assert {"DE", "all"} <= left(look, falls(look, recovered=web))


def test_without_a_recovery_all_is_told() -> None:
    look = repaired(0, only(country="DE", rank=0.3))
    found = falls(look)
    assert without_leftovers(found, look) == found
