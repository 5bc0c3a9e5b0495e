"""When the log says that the records of a topic are no events."""

from relevanced.daemon.commands.worker_conditions import LOOK_EVERY_S, LOOKS, Warnings


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
