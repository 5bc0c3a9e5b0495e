"""When the consumer is replaced, and which partitions are silent."""

from aiokafka import TopicPartition

from relevanced.daemon.kafka import Pulse, UnansweredFetches, is_stuck

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_consumer_is_stuck_after_two_sessions() -> None:
    assert not is_stuck(190.0, 100.0, 45.0)
    assert is_stuck(190.1, 100.0, 45.0)


def test_a_consumer_lives_by_answers_or_while_it_has_nothing_to_fetch() -> None:
    pulse = Pulse(0.0)
    assert not pulse.is_stuck({}, 90.0, 45.0)
    assert pulse.is_stuck({}, 90.1, 45.0), "it waits for an assignment"
    pulse.waits = False
    assert not pulse.is_stuck({}, 300.0, 45.0)
    assert not pulse.is_stuck({A0: 1, A1: 1}, 301.0, 45.0)
    assert not pulse.is_stuck({A0: 2, A1: 1}, 380.0, 45.0)
    assert not pulse.is_stuck({A0: 2, A1: 1}, 470.0, 45.0)
    assert pulse.is_stuck({A0: 2, A1: 1}, 470.1, 45.0)


def test_partition_is_silent_where_others_answer() -> None:
    fetches = UnansweredFetches()
    assert fetches.find({A0: 1, A1: 1}, 0.0, 10.0) == []
    assert fetches.find({A0: 2, A1: 1}, 10.0, 10.0) == []
    assert fetches.find({A0: 3, A1: 1}, 10.1, 10.0) == [A1]
    assert fetches.find({A0: 3, A1: 1}, 20.2, 10.0) == []  # nobody: that is the cluster
    assert fetches.find({A0: 3, A1: 2}, 20.2, 10.0) == [A0]


def test_partition_that_was_not_fetched_is_not_silent() -> None:
    fetches = UnansweredFetches()
    fetches.find({A0: 1, A1: None}, 0.0, 10.0)
    fetches.find({A0: 2}, 10.0, 10.0)
    assert fetches.find({A0: 3, A1: None}, 10.1, 10.0) == []
    assert fetches.find({A0: 4, A1: None}, 20.2, 10.0) == [A1]
