"""What the reader believes of a client that makes up errors of its own."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchError
from aiokafka.errors import RecordTooLargeError

from relevanced.daemon.kafka import AssignedLanes, Reader

TOPIC = "events"


class Client:
    """A consumer of two partitions: partition 1 has an incomplete batch at offset 5, over which
    aiokafka steps before it says so."""

    def __init__(self) -> None:
        self.at = {TopicPartition(TOPIC, 0): 7, TopicPartition(TOPIC, 1): 6}
        error = FetchError(error=RecordTooLargeError("incomplete"), backoff=0.1)
        self._fetcher = SimpleNamespace(_records={TopicPartition(TOPIC, 1): error})
        self.paused: list[TopicPartition] = []

    async def getmany(self, *partitions: TopicPartition, **_: Any) -> dict[Any, Any]:
        bad = TopicPartition(TOPIC, 1)
        if TopicPartition(TOPIC, 0) in partitions or bad not in partitions:
            return {}
        if bad in self._fetcher._records:
            self._fetcher._records.pop(bad).check_raise()
        return {}

    async def position(self, partition: TopicPartition) -> int:
        return self.at[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at[partition] = offset

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused += partitions

    def last_poll_timestamp(self, partition: TopicPartition) -> int:
        return 1

    def highwater(self, partition: TopicPartition) -> int:
        return 9


@pytest.fixture
def lanes() -> AssignedLanes:
    made = AssignedLanes([TOPIC])
    made.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
    made.open(0, {TOPIC: 5})
    made.open(1, {TOPIC: 5})
    return made


async def test_markers_are_stepped_over_and_records_that_could_not_be_read_are_not(
    lanes: AssignedLanes,
) -> None:
    client, noted = Client(), list[str]()
    reader = Reader(lanes, noted.append)
    await reader.fetch(client, 100, 0, [0, 1])
    assert lanes.next_offset == {(TOPIC, 0): 7, (TOPIC, 1): 5}
    await reader.fetch(client, 100, 0, [1])
    assert client.at[TopicPartition(TOPIC, 1)] == 5 and noted == []
    client._fetcher._records[TopicPartition(TOPIC, 1)] = FetchError(
        error=RecordTooLargeError("incomplete"), backoff=0.1
    )
    client.at[TopicPartition(TOPIC, 1)] = 6
    await reader.fetch(client, 100, 0, [1])
    assert lanes.next_offset[TopicPartition(TOPIC, 1)] == 5 == client.at[TopicPartition(TOPIC, 1)]
    assert client.paused == [TopicPartition(TOPIC, 1)]
    assert noted == ["corrupt_batch"]


async def test_lanes_that_are_not_asked_for_are_not_read(lanes: AssignedLanes) -> None:
    client = Client()
    await Reader(lanes).fetch(client, 100, 0, [])
    assert TopicPartition(TOPIC, 1) in client._fetcher._records


async def test_a_suspect_that_a_rebalance_took_has_no_end(lanes: AssignedLanes) -> None:
    reader = Reader(lanes)
    assert not reader._end_seen(Client(), TopicPartition(TOPIC, 0))
