"""When the log says that the records of a topic are no events, or that ranks disagree."""

from types import SimpleNamespace
from typing import Any

from relevanced.daemon.commands.worker_conditions import (
    FEW_RANKS,
    LOOK_EVERY_S,
    LOOKS,
    RankWatch,
    Warnings,
)


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
    ranks = RankWatch()
    assert not ranks.look([]) and not ranks.look([lane_with(FEW_RANKS - 1, FEW_RANKS - 1)])
    assert ranks.look([lane_with(60, 50), lane_with(40, 30)])
    assert ranks.text.startswith("80 of the last 100 pieces of feedback that joined state another")
    assert not ranks.look([lane_with(2 * FEW_RANKS, 80 + 60)]) and ranks.text
    assert not ranks.look([lane_with(3 * FEW_RANKS, 140 + 10)]) and not ranks.text


def test_lanes_that_come_and_go_say_nothing_of_ranks() -> None:
    ranks = RankWatch()
    assert not ranks.look([lane_with(1000, 100)])
    assert not ranks.look([lane_with(600, 60)]), "the other lanes have another owner"
    assert ranks.look([lane_with(700, 160)])
