"""The outcome of each event, to the millisecond."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.attribution import join_rules
from relevanced.daemon.events import Event, Feedback, Impression, Rejected
from relevanced.daemon.lane import FEEDBACK_OUTCOMES, IMPRESSION_OUTCOMES
from tests.builders import (
    ATTRIBUTION_MS,
    BASE_MS,
    PLAN,
    SETTLE_MS,
    START_MS,
    clicked,
    feed,
    gains,
    items,
    judged,
    lane_of,
    passing,
    row,
    settled,
    shown,
)
from tests.replica import rows_of

CLOSES_MS = BASE_MS + SETTLE_MS
"""The watermark at which an impression of time 0 is closed."""
GRACE_MS = 5_000
EXPIRES_MS = GRACE_MS + BASE_MS + SETTLE_MS
"""The watermark at which feedback of time 0 is over."""


# Impressions: one outcome each


def test_the_first_of_an_id_is_accepted() -> None:
    lane = lane_of()
    assert feed(lane, shown(0), shown(0, of="p")) == ["accepted", "accepted"]
    assert (items(lane), gains(lane)) == (["a", "b", "c"], [None, None, None])


@pytest.mark.parametrize(
    ("again", "outcome"),
    [
        (shown(2, "a b c"), "duplicate"),
        (shown(2, "a b"), "duplicate"),
        (shown(2, "a b c", attributes={"country": "US"}), "duplicate"),
        (shown(2, ""), "conflicting"),
        (shown(2, "a c b"), "conflicting"),
        (shown(2, "a b c d"), "conflicting"),
        (shown(2, "d e", first_rank=4), "extended"),
        (shown(2, "b c", first_rank=2), "duplicate"),
        (shown(2, "x d", first_rank=3), "conflicting"),
        (shown(2, "e", first_rank=5), "conflicting"),
    ],
)
def test_one_more_record_of_an_open_impression(again: Impression, outcome: str) -> None:
    lane = lane_of()
    assert feed(lane, shown(0), again)[1] == outcome
    assert len(lane.open) == 1


def test_the_first_to_arrive_wins() -> None:
    lane = lane_of()
    feed(lane, shown(0), shown(0, "x y"))
    assert items(lane) == ["a", "b", "c"]


def test_an_empty_list_is_filled_once_and_keeps_its_time() -> None:
    lane = lane_of()
    outcomes = feed(lane, shown(0, ""), shown(1, ""), shown(9, "a b"), shown(9, "x"))
    assert outcomes == ["accepted", "duplicate", "filled", "conflicting"]
    assert items(lane) == ["a", "b"]
    assert list(lane.open.times_ms) == [START_MS]


def test_an_empty_list_is_not_filled_by_a_later_page() -> None:
    assert feed(lane_of(), shown(0, ""), shown(1, "k", first_rank=2))[1] == "conflicting"


def test_a_page_without_its_first_is_a_later_page() -> None:
    lane = lane_of()
    assert feed(lane, shown(0, first_rank=2), shown(0)) == ["later_page", "accepted"]


def seen(at_ms: int, item: str, rank: int, of: str = "q") -> Impression:
    return shown(at_ms, item, first_rank=rank, of=of, by_item=True)


def test_an_item_of_what_was_shown_begins_a_list_at_any_rank() -> None:
    lane = lane_of()
    assert feed(lane, seen(0, "c", 3), seen(1, "a", 1, of="p")) == ["accepted", "accepted"]
    assert (items(lane), items(lane, "p")) == ([None, None, "c"], ["a"])


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (seen(2, "a", 1), "extended"),
        (seen(2, "e", 5), "extended"),
        (seen(2, "c", 3), "duplicate"),
        (seen(2, "", 101), "duplicate"),
        (seen(2, "c", 1), "conflicting"),
        (seen(2, "x", 3), "conflicting"),
    ],
)
def test_one_more_item_of_what_was_shown(event: Impression, outcome: str) -> None:
    lane = lane_of()
    assert feed(lane, seen(0, "c", 3), event)[1] == outcome
    assert len(lane.open) == 1


def test_an_item_beyond_the_depth_begins_no_list() -> None:
    assert feed(lane_of(), seen(0, "", 101)) == ["later_page"]


def test_an_item_of_what_was_shown_may_be_late() -> None:
    lane = lane_of()
    feed(lane, passing(CLOSES_MS))
    assert feed(lane, seen(0, "a", 1)) == ["late"]


@given(
    st.permutations(
        [seen(0, "a", 1), seen(0, "b", 2), seen(0, "d", 4), clicked(3, "b"), clicked(2, rank=3)]
        + [clicked(5, "d", rank=1), clicked(4, rank=4, kind="cart"), seen(0, "b", 2)]
    )
)
def test_what_was_shown_and_clicked_in_any_order_gives_the_same(events: list[Event]) -> None:
    """Also a rank that nothing is known of: a blank may be clicked."""
    lane = lane_of()
    outcomes = Counter(" ".join(feed(lane, *events)).split())
    assert (items(lane), gains(lane)) == (["a", "b", None, "d"], [None, 1.0, 1.0, 2.0])
    assert outcomes - Counter(waits=8) == Counter(
        accepted=1, extended=2, duplicate=1, joined=4, rank_mismatch=1
    )


def test_a_later_page_that_is_late_is_late() -> None:
    assert feed(lane_of(), passing(CLOSES_MS), shown(0, first_rank=2))[1] == "late"


@pytest.mark.parametrize("at_ms", [0, BASE_MS - 1])
@pytest.mark.parametrize(("watermark_ms", "outcome"), [(-1, "accepted"), (0, "late")])
def test_an_impression_is_late_when_its_base_pane_is_closed(
    at_ms: int, watermark_ms: int, outcome: str
) -> None:
    assert feed(lane_of(), passing(CLOSES_MS + watermark_ms), shown(at_ms))[1] == outcome


@pytest.mark.parametrize(("watermark_ms", "outcome"), [(-1, "duplicate"), (0, "late")])
def test_an_impression_is_open_to_its_repeats_until_it_closes(
    watermark_ms: int, outcome: str
) -> None:
    assert feed(lane_of(), shown(0), passing(CLOSES_MS + watermark_ms), shown(0))[2] == outcome


def test_an_id_comes_again_after_it_closed() -> None:
    lane = lane_of()
    outcomes = feed(lane, shown(0), passing(CLOSES_MS), shown(BASE_MS, "x"), shown(BASE_MS, "x"))
    assert outcomes[2:] == ["accepted", "duplicate"]
    assert len(lane.open.slots_of("q")) == 2


def test_the_watermark_of_another_topic_does_not_matter() -> None:
    lane = lane_of("searches", "clicks")
    feed(lane, passing(2 * CLOSES_MS), topic="clicks")
    assert feed(lane, shown(0), topic="searches") == ["accepted"]


def test_a_record_an_hour_ahead_changes_nothing_but_its_own_pane() -> None:
    """The numbers of a busy lane are those without it; before, it made all others late."""
    hour_ms = 3_600_000
    wrong = [shown(hour_ms, of="w", attributes={"country": "US"}), clicked(hour_ms, "a", of="w")]
    traffic = [
        event
        for n in range(600)
        for event in (shown(n * 1_000, of=f"q{n}"), clicked(n * 1_000 + 1, "b", of=f"q{n}"))
    ]
    alone, lane = lane_of(), lane_of()
    settled(alone, *traffic)
    settled(lane, *traffic[:101], *wrong, *traffic[101:])
    assert lane.counts["ahead_events"] == {"events": 2}
    assert lane.watermarks == alone.watermarks and lane.totals.pages.keys() == {0}
    assert (lane.totals.page(0)[0] == alone.totals.page(0)[0]).all()
    others = {
        key: rows for key, rows in rows_of(lane).items() if key[1] * 1000 < START_MS + hour_ms
    }
    assert others == rows_of(alone)
    assert row(lane, hour_ms)["impressions_with_feedback"] == 1
    outcomes = alone.counts["impression_outcomes"] + Counter(accepted=1)
    assert lane.counts["impression_outcomes"] == outcomes
    assert lane.counts["feedback_outcomes"]["joined"] == 601


def test_rejected_records_are_counted_and_move_no_watermark() -> None:
    lane = lane_of()
    feed(lane, Rejected("future"), Rejected("tombstone"))
    assert dict(lane.counts["rejected"]) == {"future": 1, "tombstone": 1}
    assert (lane.watermark_ms, lane.counts["events"].total()) == (None, 0)


@pytest.mark.parametrize("event", [shown(7), shown(7, first_rank=3), passing(7)])
def test_any_outcome_of_an_event_moves_the_watermark(event: Event) -> None:
    lane = lane_of()
    feed(lane, event, passing(3))
    assert lane.watermark_ms == START_MS + 7


# Feedback: one outcome each


def test_feedback_joins_the_item_that_it_names() -> None:
    lane = lane_of()
    assert feed(lane, shown(0), clicked(1, "b")) == ["accepted", "joined"]
    assert gains(lane) == [None, 1.0, None]


def test_a_kind_without_a_grade_is_ignored_unless_the_event_has_one() -> None:
    outcomes = feed(
        lane_of(), shown(0), clicked(1, "a", kind="hover"), judged(1, "a", 2, kind="hover")
    )
    assert outcomes[1:] == ["ignored_kind", "joined"]


def test_an_ignored_kind_is_never_late() -> None:
    assert feed(lane_of(), passing(EXPIRES_MS), clicked(0, "a", kind="hover"))[1] == "ignored_kind"


@pytest.mark.parametrize(
    ("at_ms", "outcome"), [(ATTRIBUTION_MS, "joined"), (ATTRIBUTION_MS + 1, "out_of_window")]
)
def test_feedback_counts_to_the_end_of_the_attribution_window(at_ms: int, outcome: str) -> None:
    assert feed(lane_of(), shown(0), clicked(at_ms, "a"))[1] == outcome


@pytest.mark.parametrize(("at_ms", "outcome"), [(-GRACE_MS, "joined"), (-GRACE_MS - 1, "waits")])
def test_feedback_may_be_five_seconds_before_its_impression(at_ms: int, outcome: str) -> None:
    lane = lane_of()
    assert feed(lane, shown(0), clicked(at_ms, "a"))[1] == outcome


@pytest.mark.parametrize(("watermark_ms", "outcome"), [(-1, "joined"), (0, "waits")])
def test_an_impression_is_open_to_feedback_until_it_closes(watermark_ms: int, outcome: str) -> None:
    assert (
        feed(lane_of(), shown(0), passing(CLOSES_MS + watermark_ms), clicked(9, "a"))[2] == outcome
    )


@pytest.mark.parametrize(("watermark_ms", "outcome"), [(-1, "waits"), (0, "late")])
def test_feedback_is_late_when_it_could_join_nothing(watermark_ms: int, outcome: str) -> None:
    assert feed(lane_of(), passing(EXPIRES_MS + watermark_ms), clicked(0, "a"))[1] == outcome


@pytest.mark.parametrize(("watermark_ms", "outcome"), [(-1, {}), (0, {"unjoined": 1})])
def test_waiting_feedback_expires_at_the_same_watermark(
    watermark_ms: int, outcome: dict[str, int]
) -> None:
    lane = lane_of()
    feed(lane, clicked(0, "a"))
    lane.watermarks["events"] = START_MS + EXPIRES_MS + watermark_ms
    join_rules.advance(lane)
    assert dict(lane.counts["feedback_outcomes"]) == outcome
    assert len(lane.waiting) == 1 - len(outcome)


def test_waiting_feedback_expires_by_the_lane_watermark() -> None:
    lane = lane_of("searches", "clicks")
    feed(lane, clicked(0, "a"), passing(2 * EXPIRES_MS), topic="clicks")
    join_rules.advance(lane)
    assert len(lane.waiting) == 1
    feed(lane, passing(2 * EXPIRES_MS), topic="searches")
    join_rules.advance(lane)
    assert len(lane.waiting) == 0


def test_the_earliest_open_impression_of_an_id_gets_the_feedback() -> None:
    lane = lane_of("searches", "clicks")
    feed(lane, shown(0), passing(CLOSES_MS), shown(BASE_MS), topic="searches")
    assert feed(lane, clicked(BASE_MS, "a"), topic="clicks") == ["joined"]
    first, second = lane.open.slots_of("q")
    assert [lane.states[lane.open.states[s]][1] for s in (first, second)] == [((0, 1.0),), ()]


def test_feedback_does_not_pass_on_to_a_later_impression() -> None:
    """The earliest is the candidate, even where the window of a later one would hold it."""
    lane = lane_of("searches", "clicks")
    feed(lane, shown(0), passing(CLOSES_MS), shown(BASE_MS), topic="searches")
    outcomes = feed(lane, clicked(ATTRIBUTION_MS + 1, "a"), topic="clicks")
    assert outcomes == ["out_of_window"]


def test_a_closed_impression_leaves_its_id_to_the_next() -> None:
    lane = lane_of()
    feed(lane, shown(0), passing(CLOSES_MS), shown(BASE_MS))
    assert feed(lane, clicked(BASE_MS, "a")) == ["joined"]
    assert gains(lane) == [1.0, None, None]


# Places


@pytest.mark.parametrize(
    ("feedback", "rank0", "outcome"),
    [
        (clicked(1, "b"), 1, "joined"),
        (clicked(1, "b", rank=2), 1, "joined"),
        (clicked(1, "b", rank=1), 1, "joined rank_mismatch"),
        (clicked(1, "b", rank=0), 1, "joined rank_mismatch"),
        (clicked(1, "b", rank=-1), 1, "joined rank_mismatch"),
        (clicked(1, "b", rank=99), 1, "joined rank_mismatch"),
        (clicked(1, "a"), 0, "joined"),
        (clicked(1, "a", rank=3), 2, "joined"),
        (clicked(1, "a", rank=2), 0, "joined rank_mismatch"),
        (clicked(1, rank=1), 0, "joined"),
        (clicked(1, rank=3), 2, "joined"),
        (clicked(1, rank=4), None, "waits"),
        (clicked(1, rank=5), None, "waits"),
        (clicked(1, rank=6), None, "beyond_depth"),
        (clicked(1, "x"), None, "waits"),
        (clicked(1, "x", rank=6), None, "waits"),
        (clicked(1, "x", rank=1), None, "waits"),
    ],
)
def test_the_item_id_decides_and_the_rank_selects_its_occurrence(
    feedback: Feedback, rank0: int | None, outcome: str
) -> None:
    lane = lane_of()
    assert feed(lane, shown(0, "a b a"), feedback)[1] == outcome
    assert [p for p, gain in enumerate(gains(lane)) if gain] == ([] if rank0 is None else [rank0])


def test_a_blank_is_found_by_rank_and_never_by_id() -> None:
    lane = lane_of()
    feed(lane, shown(0, "a b"), shown(1, "a c", first_rank=3))
    assert items(lane) == ["a", "b", None, "c"]
    outcomes = feed(lane, clicked(2, "a", rank=3), clicked(2, rank=3))
    assert outcomes == ["joined rank_mismatch", "joined"]
    assert gains(lane) == [1.0, None, 1.0, None]


# Waiting


def test_feedback_waits_for_its_impression() -> None:
    lane = lane_of()
    outcomes = feed(lane, clicked(1, "b"), clicked(1, "b", of="p"), shown(0))
    assert outcomes == ["waits", "waits", "accepted joined"]
    assert gains(lane) == [None, 1.0, None]
    assert len(lane.waiting) == 1


@pytest.mark.parametrize(
    ("first", "then", "outcome"),
    [
        (shown(0, ""), shown(2, "a x"), "filled joined"),
        (shown(0, "a"), shown(2, "x", first_rank=2), "extended joined"),
        (shown(0, "a"), shown(2, "y", first_rank=2), "extended"),
    ],
)
def test_feedback_waits_for_its_item(first: Impression, then: Impression, outcome: str) -> None:
    assert feed(lane_of(), first, clicked(1, "x"), then)[1:] == ["waits", outcome]


def test_feedback_that_waited_may_be_out_of_the_window() -> None:
    outcomes = feed(lane_of(), clicked(ATTRIBUTION_MS + 1, "a"), shown(0))
    assert outcomes == ["waits", "accepted out_of_window"]


def test_feedback_that_waited_may_be_beyond_depth() -> None:
    assert feed(lane_of(), clicked(1, rank=6), shown(0))[1] == "accepted beyond_depth"


def test_waiting_feedback_keeps_the_watermark_that_it_arrived_at() -> None:
    """Judged by the watermark of its impression's arrival it would find nothing open."""
    lane = lane_of("searches", "clicks")
    feed(lane, clicked(0, "a"), passing(CLOSES_MS), clicked(1, "b"), topic="clicks")
    assert feed(lane, shown(0), topic="searches") == ["accepted joined"]
    assert gains(lane) == [1.0, None, None]


def test_feedback_too_early_for_its_impression_keeps_waiting() -> None:
    lane = lane_of()
    assert feed(lane, clicked(0, "a"), shown(GRACE_MS + 1)) == ["waits", "accepted"]
    assert lane.waiting.by_serial[0].bound_ms is None


def reborn(*, apart_ms: int) -> list[str]:
    """Feedback on an item that its impression lacks; then the id comes again, with the item."""
    lane = lane_of()
    settled(lane, shown(0, "a"), clicked(apart_ms, "x"))
    settled(lane, passing(CLOSES_MS))
    assert lane.open.slots_of("q") == ()
    outcomes = settled(lane, shown(apart_ms, "x"))
    settled(lane, passing(apart_ms + EXPIRES_MS))
    return [*outcomes, *sorted(lane.counts["feedback_outcomes"].keys() - {"ignored_kind"})]


@pytest.mark.parametrize("apart_ms", [BASE_MS, ATTRIBUTION_MS])
def test_feedback_stays_with_the_impression_that_it_found_when_that_has_closed(
    apart_ms: int,
) -> None:
    assert reborn(apart_ms=apart_ms) == ["accepted", "off_list"]


def test_feedback_after_an_impression_closed_may_join_the_next() -> None:
    lane = lane_of()
    settled(lane, shown(0, "a"), passing(CLOSES_MS))
    settled(lane, clicked(BASE_MS, "x"))
    assert settled(lane, shown(BASE_MS, "x")) == ["accepted joined"]


@pytest.mark.parametrize(
    ("impression", "feedback", "outcome"),
    [
        (None, clicked(0, "x"), "unjoined"),
        (None, clicked(0, rank=6), "unjoined"),
        (shown(0), clicked(0, "x"), "off_list"),
        (shown(0), clicked(0, "x", rank=5), "off_list"),
        (shown(0), clicked(0, "x", rank=6), "beyond_depth"),
        (shown(0), clicked(0, rank=4), "off_list"),
        (shown(0, ""), clicked(0, "x"), "off_list"),
    ],
)
def test_the_outcome_of_expired_feedback(
    impression: Impression | None, feedback: Feedback, outcome: str
) -> None:
    lane = lane_of()
    feed(lane, *([impression] if impression else []), feedback, passing(EXPIRES_MS))
    join_rules.advance(lane)
    assert dict(lane.counts["feedback_outcomes"]) == {"ignored_kind": 1, outcome: 1}


def test_feedback_whose_impression_came_late_is_bound_to_it() -> None:
    lane = lane_of()
    feed(lane, clicked(0, "x"), shown(0), passing(EXPIRES_MS))
    assert lane.waiting.by_serial[0].bound_ms == START_MS
    join_rules.advance(lane)
    assert lane.counts["feedback_outcomes"]["off_list"] == 1


# The whole


def test_every_event_has_exactly_one_outcome() -> None:
    lane = lane_of()
    events: list[Event] = [
        shown(0),
        clicked(1, "a", rank=2),
        clicked(1, "x"),
        shown(2),
        passing(EXPIRES_MS),
    ]
    settled(lane, *events, clicked(1, "a"))
    counts = lane.counts
    feedback = counts["feedback_outcomes"].total() - counts["feedback_outcomes"]["rank_mismatch"]
    assert dict(counts["events"]) == {"impression": 2, "feedback": 4}
    assert (counts["impression_outcomes"].total(), feedback) == (2, 4 - len(lane.waiting))
    assert set(counts["impression_outcomes"]) <= set(IMPRESSION_OUTCOMES)
    assert set(counts["feedback_outcomes"]) <= set(FEEDBACK_OUTCOMES)


def test_only_accepted_impressions_admit_values() -> None:
    lane = lane_of()
    feed(lane, shown(0), shown(0, "x", attributes={"country": "US"}))
    feed(lane, shown(0, of="p", first_rank=2, attributes={"country": "DE"}))
    assert [name for _, name in lane.segments.names] == ["all", "(none)"]
    assert list(lane.admissions["events"].seen[0]) == ["(none)"]


def test_values_are_admitted_at_the_watermark_of_their_impression() -> None:
    lane, longest = lane_of(), PLAN.timing.longest
    feed(lane, shown(0), passing(longest.pane_ms), shown(longest.pane_ms - 1, of="p"))
    first = START_MS // longest.pane_ms
    assert lane.admissions["events"].seen == [{"(none)": first + 1}]


def test_an_overflowing_value_counts_in_other_for_good() -> None:
    lane = lane_of()
    for number in range(PLAN.admitted_values + 1):
        feed(lane, shown(0, of=f"q{number}", attributes={"country": f"c{number}"}))
    assert dict(lane.counts["segment_overflow"]) == {"country": 1}
    assert lane.segments.names[-1] == (1, "other")
