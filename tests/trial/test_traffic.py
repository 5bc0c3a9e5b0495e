"""The searches of a trial: what breaks, breaks from its instant on and not before."""

from itertools import takewhile
from typing import Final

import pytest

from tests.trial.traffic import (
    HISTORY_HOURS,
    HOUR_MS,
    HOURS_AHEAD,
    MINUTE_MS,
    WEEK_MS,
    Fault,
    Timed,
    events,
    past,
)

NOW_MS: Final = 1_795_176_000_000
BREAK_MS: Final = NOW_MS - 30 * MINUTE_MS


def until_now(fault: Fault | None = None) -> list[Timed]:
    stream = events(NOW_MS, 1, fault)
    return list(takewhile(lambda timed: timed[0] < NOW_MS, stream))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(-30, ranking_of={"country": "DE"}),
        Fault(-30, empty_share=0.5),
        Fault(-30, clicks_lost=0.5),
        Fault(-30, fewer={"US": 0.5}),
    ],
)
def test_a_fault_changes_nothing_before_it_begins(fault: Fault) -> None:
    healthy, broken = until_now(), until_now(fault)
    before = [timed for timed in healthy if timed[0] < BREAK_MS]
    assert broken[: len(before)] == before
    assert broken != healthy


def test_a_search_that_finds_nothing_has_no_feedback() -> None:
    broken = [event for _, event in until_now(Fault(-60, empty_share=0.5))]
    empty = {event["impression_id"] for event in broken if event.get("items") == []}
    assert len(empty) > 0.3 * sum(event["type"] == "impression" for event in broken)
    assert not [e for e in broken if e["type"] == "feedback" and e["impression_id"] in empty]


def test_the_share_of_the_feedback_that_is_lost_is_the_one_that_was_asked_for() -> None:
    def feedback(timed: list[Timed]) -> int:
        return sum(event["type"] == "feedback" for _, event in timed)

    assert feedback(until_now(Fault(-60, clicks_lost=1.0))) == 0
    assert 0.7 < feedback(until_now(Fault(-60, clicks_lost=0.2))) / feedback(until_now()) < 0.9


def test_weeks_are_the_same_hours_one_after_the_other() -> None:
    end_ms = NOW_MS + HOURS_AHEAD * HOUR_MS
    before = [(end_ms - 1 - at_ms) for at_ms, _ in past(NOW_MS, weeks=2)]
    assert before == sorted(before, reverse=True)
    assert {left_ms // WEEK_MS for left_ms in before} == {1, 2}
    assert max(left_ms % WEEK_MS for left_ms in before) < (HISTORY_HOURS + HOURS_AHEAD) * HOUR_MS
