"""When the log says that records are no events, that ranks disagree, or that no feedback joins."""

from types import SimpleNamespace
from typing import Any

from relevanced.daemon.commands.worker_conditions import (
    FEW,
    JOINS_WITHIN_S,
    LOOK_EVERY_S,
    LOOKS,
    CoreWatch,
    JoinWatch,
    Warnings,
    rank_watch,
    visitor_watch,
)
from relevanced.daemon.events import Feedback
from tests.builders import clicked, feed, lane_of, passing, shown


def test_topics_that_stay_unreadable_are_named_once_within_a_minute() -> None:
    assert LOOKS * LOOK_EVERY_S < 60
    warnings = Warnings()
    said = [warnings.due(("clicks",)) for _ in range(10)]
    assert said == [n == LOOKS - 1 for n in range(10)]


def test_topics_that_come_to_be_read_are_not_named_and_others_are() -> None:
    warnings = Warnings()
    brief = [warnings.due(("clicks",)) for _ in range(LOOKS - 1)]
    assert not any([*brief, *(warnings.due(()) for _ in range(10))])
    assert [warnings.due(("search",)) for _ in range(LOOKS)][-1]


def lane_with(joined: int, mismatched: int) -> Any:
    counts = {"joined": joined, "rank_mismatch": mismatched}
    return SimpleNamespace(counts={"feedback_outcomes": counts})


def test_ranks_that_disagree_are_said_once_until_they_agree() -> None:
    ranks = rank_watch()
    assert not ranks.look([]) and not ranks.look([lane_with(FEW - 1, FEW - 1)])
    assert ranks.look([lane_with(60, 50), lane_with(40, 30)])
    assert ranks.text.startswith("80 of the last 100 pieces of feedback that joined state another")
    assert not ranks.look([lane_with(2 * FEW, 80 + 60)]) and ranks.text
    assert not ranks.look([lane_with(3 * FEW, 140 + 10)]) and not ranks.text


def test_lanes_that_come_and_go_say_nothing_of_ranks() -> None:
    ranks = rank_watch()
    assert not ranks.look([lane_with(1000, 100)])
    assert not ranks.look([lane_with(600, 60)]), "the other lanes have another owner"
    assert ranks.look([lane_with(700, 160)])


def clicks(first: int, count: int, of: str) -> list[Feedback]:
    return [clicked(first + n, "a", of=of) for n in range(count)]


def test_that_no_feedback_joins_is_said_after_minutes_without_a_value_of_a_record() -> None:
    watch, lanes = JoinWatch(), [lane_of(), lane_of()]
    feed(lanes[0], shown(0, of="s0"), *clicks(1, 10, "s0x"))
    feed(lanes[1], shown(0, of="s1"), *clicks(1, 9, "s1x"))
    assert not watch.look(lanes, 0) and not watch.look(lanes, JOINS_WITHIN_S)
    feed(lanes[1], *clicks(20, 1, "s1x"))
    assert not watch.look(lanes, JOINS_WITHIN_S - 1) and not watch.text
    assert watch.look(lanes, JOINS_WITHIN_S) and not watch.look(lanes, JOINS_WITHIN_S + 1)
    assert watch.text == (
        "None of 20 pieces of feedback joined an impression. 20 are for impressions that were not"
        " read. relevanced doctor --show-values has examples."
    )
    feed(lanes[0], *clicks(30, 1, "s0"))
    assert not watch.look(lanes, JOINS_WITHIN_S + 2) and not watch.text


def test_joins_that_end_are_missed_and_kinds_without_a_grade_are_not() -> None:
    watch, lane = JoinWatch(), lane_of()
    feed(lane, shown(0), *clicks(1, 50, "q"))
    assert not watch.look([lane], 0)
    feed(lane, *(passing(n) for n in range(100)))
    assert not watch.look([lane], JOINS_WITHIN_S) and not watch.text
    feed(lane, *(clicked(60 + n, "z") for n in range(20)))
    assert watch.look([lane], JOINS_WITHIN_S)
    assert watch.text.endswith("is an item named alike in both?"), "nothing is kept back"
    assert "kind" not in watch.text, "which kinds have no grade is not known here"


def test_lanes_that_come_and_go_say_nothing_of_joins() -> None:
    watch, lanes = JoinWatch(), [lane_of(), lane_of()]
    feed(lanes[0], shown(0), *clicks(1, 50, "q"))
    feed(lanes[1], *clicks(1, 30, "x"))
    assert not watch.look(lanes, 0)
    assert not watch.look(lanes[1:], 2 * JOINS_WITHIN_S) and not watch.text
    assert not watch.look([], 3 * JOINS_WITHIN_S)


def test_visitors_without_an_impression_in_their_lane_are_said() -> None:
    counts = {"joined_last_touch": 40, "joined": 40, "unjoined": 60, "unknown_visitor": 55}
    visitors = visitor_watch()
    assert visitors.look([SimpleNamespace(counts={"feedback_outcomes": counts})])  # type: ignore
    assert visitors.text.startswith("of 55 of the last 100 pieces of feedback that last touch")


def test_a_process_that_uses_most_of_a_core_says_so_until_it_does_not() -> None:
    watch = CoreWatch()
    for second in range(0, 120, 5):
        watch.look(second, 0.69 * second)
    assert watch.text == ""
    for second in range(120, 200, 5):
        watch.look(second, 0.69 * 120 + 0.9 * (second - 120))
    assert watch.text.startswith("this process uses 90% of a core")
    watch.look(300, 0.69 * 120 + 0.9 * 75)
    assert watch.text == ""
