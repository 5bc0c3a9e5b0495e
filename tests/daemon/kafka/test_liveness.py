"""When the consumer is replaced, and which partitions are silent."""

from aiokafka import TopicPartition

from relevanced.daemon.kafka import UnansweredFetches, is_stuck

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_consumer_is_stuck_after_two_sessions() -> None:
    assert not is_stuck(190.0, 100.0, 45.0)
    assert is_stuck(190.1, 100.0, 45.0)


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
