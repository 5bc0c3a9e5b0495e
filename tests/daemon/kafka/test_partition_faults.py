"""Which partitions are suspected, excluded and tried again."""

from aiokafka import TopicPartition

from relevanced.daemon.kafka import PartitionFaults

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_partition_that_fails_alone_is_excluded_and_tried_again_later() -> None:
    faults = PartitionFaults()
    faults.suspect([A0, A1], now_ms=0)
    assert faults.exclude(A0, "damaged", now_s=10.0)
    assert not faults.clear(A1)
    assert faults.suspects == {} and faults.excluded() == {A0}
    assert faults.retry(10.9, 0) == []
    assert faults.retry(11.0, 0) == [A0] and faults.excluded() == set()
    assert not faults.exclude(A0, "damaged", now_s=11.0)
    assert faults.retry(12.9, 0) == [] and faults.retry(13.0, 0) == [A0]
    assert faults.clear(A0) and faults.failed == {}


def test_pauses_grow_to_a_minute() -> None:
    faults, now_s, pauses_s = PartitionFaults(), 0.0, []
    for _ in range(10):
        faults.exclude(A0, "damaged", now_s)
        pauses_s.append(faults.failed[A0].retry_s - now_s)
        now_s = faults.failed[A0].retry_s
    assert pauses_s == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_excluded_partitions_are_no_suspects_of_others_errors() -> None:
    faults = PartitionFaults()
    faults.exclude(A0, "damaged", now_s=0.0)
    faults.suspect([A0, A1], now_ms=0)
    assert faults.suspects.keys() == {A1}
    faults.keep([B0])
    assert not faults.suspects and not faults.failed
