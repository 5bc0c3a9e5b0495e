"""Changes of the data behind the scores, from lanes to what is served: during a fault, until what
is compared has recovered, and not later."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from relevanced.daemon.changes import STANDING_MS, ChangeSettings, ScoreFloor, Story, ToldChange
from relevanced.daemon.exporter import Publisher, Reading, floor_samples, traffic_changes_of
from relevanced.daemon.lane import Rows
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import WHOLE
from tests.daemon.exporter.test_open_changes import Recovering, reading
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site

SETTLE_MS = PLAN.timing.settle_ms
FAULT_MS = NOW_MS - 12 * HOUR_MS
MINUTES = 90
"""So long the fault lasts."""
IMPRESSIONS, WITH_FEEDBACK, EMPTY, ITEMS_WITH_FEEDBACK = range(4)
US = 2


class Faulty(Site):
    """Searches of three days of which something is missing for a while; no score falls."""

    def __init__(self, fault: Callable[[Rows], None]) -> None:
        super().__init__(FAULT_MS - 50 * HOUR_MS, NOW_MS * 2, 0, 60)
        for start in range(FAULT_MS, FAULT_MS + MINUTES * MINUTE_MS, MINUTE_MS):
            fault(self.parts[start])

    def reading(self, publisher: Publisher, minute: int) -> Reading:
        """What is published so long after the fault began."""
        as_of_ms = FAULT_MS + minute * MINUTE_MS + SETTLE_MS
        found = publisher.publish([self.lane(as_of_ms)], as_of_ms).reading
        assert found is not None
        return found

    def served(self, publisher: Publisher, minute: int, name: str) -> dict[tuple[str, ...], float]:
        """(label values that tell the sample, in their order) → value."""
        as_of_ms = FAULT_MS + minute * MINUTE_MS + SETTLE_MS
        text = b"".join(publisher.publish([self.lane(as_of_ms)], as_of_ms).text.plain).decode()
        wanted = ("metric", "segment", "country", "urgency", "side")
        return {
            tuple(sample.labels[label] for label in wanted if label in sample.labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }


def without_results(rows: Rows) -> None:
    rows[:, EMPTY] = rows[:, IMPRESSIONS] * 3 // 10


def without_clicks(rows: Rows) -> None:
    """As a share: the scores keep what they count."""
    rows[:, WITH_FEEDBACK] //= 20


def without_american_searches(rows: Rows) -> None:
    rows[0] -= rows[US]
    rows[US] = 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            without_results,
            {("zero_results_share", "all", "page"), ("zero_results_share", "US", "US", "ticket")},
        ),
        (
            without_clicks,
            {("feedback_share", "all", "page"), ("feedback_share", "US", "US", "ticket")},
        ),
        (without_american_searches, {("impressions", "US", "US", "ticket")}),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_it_is_served_while_it_lasts_and_over_when_the_hour_is(
    fault: Callable[[Rows], None], said: set[tuple[str, ...]]
) -> None:
    site, publisher = Faulty(fault), Publisher(PLAN)

    def served(minute: int) -> set[tuple[str, ...]]:
        return set(site.served(publisher, minute, "relevanced_traffic_change_open"))

    assert served(-10) == set()
    assert said <= served(65) and said <= served(MINUTES)
    for minutes_later in (75, 120, 240, 600):
        assert served(MINUTES + minutes_later) == set()


@pytest.mark.parametrize("part", [0.65, 0.95])
def test_a_fall_tells_of_its_shares_also_in_the_hour_of_its_end(part: float) -> None:
    over_ms, publisher = FAULT_MS + HOUR_MS, Publisher(PLAN)
    site = Recovering(FAULT_MS - 50 * HOUR_MS, FAULT_MS, over_ms, part)
    for minute in range(10, 240, 10):
        found = reading(site, FAULT_MS + minute * MINUTE_MS, publisher)
        assert found.traffic == (), minute
    assert found.clicks.changes.closed


def test_what_ended_tells_as_much_as_while_it_was_open_whatever_else_is() -> None:
    over_ms, publisher = FAULT_MS + 2 * HOUR_MS, Publisher(PLAN)
    site = Recovering(FAULT_MS - 50 * HOUR_MS, FAULT_MS, over_ms, 0.95)
    while_open, after = (
        [reading(site, FAULT_MS + minute * MINUTE_MS, publisher) for minute in minutes][-1].clicks
        for minutes in (range(10, 130, 10), (130,))
    )
    (story,), (page, *_) = after.changes.closed, while_open.changes.told
    assert page.urgency == "page" and not after.changes.told
    standing = replace(page, series=("all", "all", "RR@10"), urgency="ticket")
    of_segment = replace(story, fell=tuple(each for each in story.fell if each[0] != "all"))

    def said(told: tuple[ToldChange, ...], closed: tuple[Story, ...]) -> set[str]:
        scores = replace(after, changes=replace(after.changes, told=told, closed=closed))
        return {one.segment[1] for one in traffic_changes_of(scores, ChangeSettings())}

    assert said((), ()) == {"all", "DE"}
    assert said((), (story,)) == said((standing,), (story,)) == set()
    assert said((), (of_segment,)) == {"all"}, "a ticket of a segment tells of segments alone"
    onset = replace(story.fall.onset, likely=story.fall.onset.likely - STANDING_MS)
    stood = replace(story, fall=replace(story.fall, onset=onset))
    assert said((), (stood,)) == {"all", "DE"}, "worse than in the days since it began"


def test_a_fall_that_has_become_a_ticket_tells_as_before_of_what_is_no_worse() -> None:
    site = Recovering(FAULT_MS - 50 * HOUR_MS, FAULT_MS, FAULT_MS + 3 * HOUR_MS, 0.95)
    publisher = Publisher(PLAN)
    found = [reading(site, FAULT_MS + minute * MINUTE_MS, publisher) for minute in (30, 60, 120)]
    now = found[-1].clicks
    page, *_ = now.changes.told
    onset, later_ms = page.story.fall.onset, STANDING_MS + HOUR_MS
    stood = replace(
        page.story.fall,
        onset=replace(onset, likely=onset.likely - later_ms, latest=onset.latest - later_ms),
    )
    ticket = replace(page, story=replace(page.story, fall=stood), urgency="ticket")
    floor = ScoreFloor("Success@10", "all", "all", 0.6)
    settings = replace(ChangeSettings(), score_floors=(floor,))

    def said(is_worse: bool, *, is_accepted: bool = False) -> set[str]:
        comparisons = []
        for each in now.comparisons:
            usual = next(iter(each.periods.values()))
            yesterday = usual if is_worse else each.recent
            comparisons.append(replace(each, periods={2 * STANDING_MS: usual}, yesterday=yesterday))
        changes = replace(now.changes, told=(ticket,))
        if is_accepted:
            of_whole = replace(stood, series=(*WHOLE, "RR@10"))
            changes = replace(now.changes, told=(), accepted=(stood, of_whole))
        scores = replace(now, comparisons=comparisons, changes=changes)
        assert len([*floor_samples(scores, settings)]) == is_accepted, "nothing else tells it"
        return {one.segment[1] for one in traffic_changes_of(scores, settings)}

    assert said(is_worse=False) == set()
    assert said(is_worse=True) == {"all", "DE"}
    assert said(is_worse=False, is_accepted=True) == set()
    assert said(is_worse=True, is_accepted=True) == {"all", "DE"}


def test_a_fall_tells_of_its_floor_also_in_the_hour_of_its_end() -> None:
    site = Recovering(FAULT_MS - 50 * HOUR_MS, FAULT_MS, FAULT_MS + HOUR_MS, 0.95)
    segments = (("all", "all"), ("country", "DE"))
    floors = tuple(ScoreFloor("Success@10", *segment, 0.6) for segment in segments)
    publisher = Publisher(PLAN, replace(ChangeSettings(), score_floors=floors))
    for minute in range(20, 240, 10):
        as_of_ms = FAULT_MS + minute * MINUTE_MS + SETTLE_MS
        text = b"".join(publisher.publish([site.lane(as_of_ms)], as_of_ms).text.plain)
        assert b"\nrelevanced_score_below_floor{" not in text, minute


def test_a_time_without_any_feedback_changes_no_share() -> None:
    def without_any(rows: Rows) -> None:
        rows[:, [WITH_FEEDBACK, ITEMS_WITH_FEEDBACK]] = 0

    site, publisher = Faulty(without_any), Publisher(PLAN)
    for minute in (-10, 30, 65, MINUTES, MINUTES + 30, MINUTES + 59, MINUTES + 70, MINUTES + 240):
        assert site.served(publisher, minute, "relevanced_traffic_change_open") == {}, minute


def test_both_sides_are_served_with_what_is_open() -> None:
    site, publisher = Faulty(without_results), Publisher(PLAN)
    levels = site.served(publisher, 70, "relevanced_traffic_change_open_level")
    assert levels["zero_results_share", "all", "before"] == 0
    assert levels["zero_results_share", "all", "now"] == pytest.approx(0.29, abs=0.01)
    (z,) = (
        value
        for labels, value in site.served(publisher, 70, "relevanced_traffic_change_open_z").items()
        if labels == ("zero_results_share", "all")
    )
    assert z > 10


def test_a_score_is_served_while_it_is_below_its_floor() -> None:
    """A floor that nothing usual reaches: no score changed, so no open change tells it."""
    site = Faulty(lambda rows: None)
    floors = tuple(
        ScoreFloor(metric, *segment, floor)
        for metric, segment, floor in (
            ("Success@10", ("all", "all"), 0.71),
            ("Success@10", ("country", "US"), 0.3),
            ("RR@10", ("country", "FR"), 1.0),
            ("P@1", ("all", "all"), 1.0),
        )
    )
    publisher = Publisher(PLAN, replace(ChangeSettings(), score_floors=floors))
    served = site.served(publisher, 60, "relevanced_score_below_floor")
    assert served == {("Success@10", "all"): pytest.approx(0.7, abs=0.01)}
    quiet = Publisher(PLAN, replace(ChangeSettings(), score_floors=floors, smallest_sample=9999))
    assert site.served(quiet, 60, "relevanced_score_below_floor") == {}
