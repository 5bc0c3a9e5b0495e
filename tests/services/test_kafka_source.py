"""The Kafka source on a real broker: nothing lost, nothing twice, whatever group or log do."""

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiokafka.codec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.consumer import fetcher
from aiokafka.protocol.group import LeaveGroupRequest
from structlog.testing import capture_logs

from relevanced.daemon.config import Ago, LogEnd, Secret, Start
from relevanced.daemon.errors import RecordRefused, StartError, Unavailable
from relevanced.daemon.kafka import (
    KafkaProducer,
    KafkaSettings,
    KafkaSource,
    aiokafka_patches,
    consumer_arguments,
    create_topic,
    member as kafka_group,
    resuming as kafka_offsets,
)
from relevanced.daemon.telemetry import ADVICE, KafkaFault, NoteFault, ignore_fault
from relevanced.daemon.worker import Batch, LaneLost, OffsetBeyondEnd
from tests.kafka_compression import install_compression
from tests.services.fixtures import MakeTopic, OwnKafka
from tests.services.kafka_server import Broker

Source = Callable[..., Coroutine[Any, Any, KafkaSource]]
NOW_MS = 1_795_176_000_000


def settings(kafka: Broker, *topics: str, **others: Any) -> KafkaSettings:
    """A group of its own for every test, and short sessions."""
    values = {"session_timeout_s": 6.0, "group_id": f"group-{uuid.uuid4().hex[:8]}", **others}
    return KafkaSettings(kafka.bootstrap, topics, **values)


@pytest.fixture
async def source(kafka: Broker) -> AsyncIterator[Source]:
    """Starts sources, `await source("topic", …)`, and stops them after the test."""
    started: list[KafkaSource] = []

    async def make(*topics: str, note: NoteFault = ignore_fault, **others: Any) -> KafkaSource:
        made = KafkaSource(settings(kafka, *topics, **others), note)
        started.append(made)
        await made.start()
        return made

    yield make
    await asyncio.gather(*(made.stop() for made in started))


async def produce(
    kafka: Broker, topic: str, values: Iterable[bytes], partition: int = 0, **others: Any
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, **others)
    await producer.start()
    try:
        sent = [await producer.send(topic, value, partition=partition) for value in values]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


async def until(met: Callable[[], bool], source: KafkaSource, patience_s: float = 8.0) -> None:
    """Poll until it is so. What arrives is ignored."""
    async with asyncio.timeout(patience_s):
        while not met():
            await source.poll(100, 100)


async def happens(met: Callable[[], bool], patience_s: float = 10.0) -> None:
    """Wait until it is so, while others poll."""
    async with asyncio.timeout(patience_s):
        while not met():
            await asyncio.sleep(0.05)


async def opened(source: KafkaSource, lane: int = 0, **offsets: int) -> dict[str, int]:
    """Wait for the lane and open it, at its beginning unless offsets are given."""
    await until(lambda: lane in source.lanes_to_open(), source)
    begin = await source.starting_offsets(lane, LogEnd.EARLIEST, NOW_MS)
    return await source.open(lane, begin | offsets)


async def read(
    source: KafkaSource, count: int, max_records: int = 100, patience_s: float = 8.0
) -> list[bytes]:
    """The next values of all lanes, at least `count`."""
    values: list[bytes] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            while len(values) < count:
                values += values_of(await source.poll(max_records, 200))
    return values


def values_of(batch: Batch) -> list[bytes]:
    return [
        record.value
        for topics in batch.lanes.values()
        for records in topics.values()
        for record in records
    ]


class Worker:
    """Does what a worker must: claims lanes, keeps offsets with the results in one step."""

    def __init__(self, source: KafkaSource, store: dict[tuple[str, int], int]) -> None:
        self.source = source
        self.store = store
        self.seen: list[tuple[str, int, int]] = []
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        while True:
            await self.step()

    async def step(self) -> None:
        self.source.lanes_lost()
        for lane in sorted(self.source.lanes_to_open()):
            begin = await self.source.starting_offsets(lane, LogEnd.EARLIEST, NOW_MS)
            stored = {topic: self.store.get((topic, lane), begin[topic]) for topic in begin}
            with suppress(LaneLost):
                await self.source.open(lane, stored)
        batch = await self.source.poll(20, 100)
        async with self.source.batch_in_hand():
            await asyncio.sleep(0.01)  # work takes time, in which a rebalance may begin
            for lane, topics in batch.lanes.items():
                for topic, records in topics.items():
                    self.seen += [(topic, lane, record.offset) for record in records]
                    self.store[topic, lane] = batch.next_offsets[lane][topic]

    async def stop(self) -> None:
        """Ends between two steps."""
        self.task.cancel()
        await asyncio.wait({self.task})
        await self.source.stop()


async def test_records_come_by_lane_topic_and_offset(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    first, second = await make_topic(partitions=2), await make_topic(partitions=2)
    await produce(kafka, first, numbers(0, 3))
    await produce(kafka, second, numbers(5, 8))
    reader = await source(first, second)
    await opened(reader)
    lanes: dict[str, list[tuple[int, bytes]]] = {first: [], second: []}
    while sum(map(len, lanes.values())) < 6:
        batch = await reader.poll(100, 500)
        for topic, records in batch.lanes.get(0, {}).items():
            lanes[topic] += [(record.offset, record.value) for record in records]
            assert batch.next_offsets[0][topic] == records[-1].offset + 1
    assert lanes[first] == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert lanes[second] == [(0, b"5"), (1, b"6"), (2, b"7")]


async def test_unequal_partition_counts_stop_the_start(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    first, second = await make_topic(partitions=2), await make_topic(partitions=3)
    with pytest.raises(StartError) as error:
        await source(first, second)
    assert f"{first} has 2, {second} has 3" in str(error.value)
    assert "same record key" in str(error.value) and "murmur2" in str(error.value)


async def test_start_waits_for_missing_topic(kafka: Broker, topic: str, source: Source) -> None:
    missing = f"missing-{uuid.uuid4().hex}"
    starting = asyncio.create_task(source(topic, missing))
    await asyncio.sleep(1)
    assert not starting.done()
    assert await create_topic(settings(kafka), missing, partitions=1)
    async with asyncio.timeout(8):
        assert (await starting).lane_count == 1
    await kafka.delete_topic(missing)


async def test_nothing_is_delivered_before_open(kafka: Broker, topic: str, source: Source) -> None:
    await produce(kafka, topic, numbers(0, 50))
    reader = await source(topic)
    await until(lambda: bool(reader.lanes_to_open()), reader)
    assert await read(reader, 1, patience_s=1.5) == []
    assert reader._member.consumer.paused() == {TopicPartition(topic, 0)}
    assert reader._member.consumer.highwater(TopicPartition(topic, 0)) is None  # not even fetched
    await reader.open(0, {topic: 40})
    assert await read(reader, 10) == numbers(40, 50)


async def test_closed_lane_gives_nothing_and_opens_again(
    kafka: Broker, topic: str, source: Source
) -> None:
    await produce(kafka, topic, numbers(0, 20))
    reader = await source(topic)
    await opened(reader)
    await read(reader, 5, max_records=5)
    await reader.close(0)
    assert await read(reader, 1, patience_s=0.8) == []
    assert reader.lanes_lost() == set() and reader.lanes_to_open() == {0}
    await reader.open(0, {topic: 3})
    assert await read(reader, 17) == numbers(3, 20)


async def test_members_come_and_go_without_loss_or_duplicates(
    kafka: Broker, make_topic: MakeTopic
) -> None:
    topics = [await make_topic(partitions=3), await make_topic(partitions=3)]
    store: dict[tuple[str, int], int] = {}
    group = settings(kafka, *topics)
    workers: list[Worker] = []

    async def send(start: int) -> None:
        for topic in topics:
            for lane in range(3):
                await produce(kafka, topic, numbers(start, start + 30), lane)

    async def join() -> None:
        joining = KafkaSource(group)
        await joining.start()
        workers.append(Worker(joining, store))

    await join()
    await send(0)
    await join()
    await send(30)
    try:
        await happens(lambda: sorted(len(each.source.open_lanes) for each in workers) == [1, 2])
        await workers[0].stop()
        await send(60)
        await happens(lambda: len(store) == 6 and min(store.values()) == 90)
    finally:
        await asyncio.gather(*(worker.stop() for worker in workers))
    seen = sorted(workers[0].seen + workers[1].seen)
    assert seen == [(t, lane, o) for t in sorted(topics) for lane in range(3) for o in range(90)]


async def test_rebalance_waits_for_the_batch_in_hand(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    topic = await make_topic(partitions=2)
    first = await source(topic, group_id="waits")
    await opened(first)
    async with first.batch_in_hand():
        second = await source(topic, group_id="waits")
        await until(lambda: first._member.rebalancing, second)
        await asyncio.sleep(0.3)
        assert first.open_lanes == {0} and first.lanes_to_open() == set()
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        while not first.lanes_to_open() or not second.lanes_to_open():
            await asyncio.gather(first.poll(1, 50), second.poll(1, 50))
    assert first.lanes_lost() == {0}
    assert first.lanes_to_open() | second.lanes_to_open() == {0, 1}


async def test_poll_keeps_its_time_in_a_rebalance(
    kafka: Broker, topic: str, source: Source
) -> None:
    reader = await source(topic)
    await until(lambda: bool(reader.lanes_to_open()), reader)
    reader._member.consumer._subscription.begin_reassignment()
    async with asyncio.timeout(1):
        assert (await reader.poll(10, 100)).lanes == {}
        assert (await reader.poll(10, 100)).lanes == {}


async def test_standby_takes_over_at_once(kafka: Broker, topic: str, source: Source) -> None:
    owner, standby = await source(topic, group_id=topic), await source(topic, group_id=topic)
    async with asyncio.timeout(8):
        while len(owner.assignment) + len(standby.assignment) != 1 or owner._member.rebalancing:
            await asyncio.gather(owner.poll(1, 50), standby.poll(1, 50))
    if standby.assignment:
        owner, standby = standby, owner
    await owner.stop()
    await opened(standby)
    assert standby.open_lanes == {0}


async def test_pause_between_polls_is_no_silence(kafka: Broker, topic: str, source: Source) -> None:
    reader = await source(topic)
    await opened(reader)
    await reader.poll(1, 0)
    reader._reader.last_answer_s -= 1_000
    reader._reader._unwatched_since_s -= 1_000
    await reader.poll(1, 300)
    assert reader.open_lanes == {0}


async def test_partial_lanes_stay_closed(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    first, second = await make_topic(partitions=1), await make_topic(partitions=1)
    noted: list[KafkaFault] = []
    reader = await source(first, second, note=noted.append)
    await until(lambda: reader.lanes_to_open() == {0}, reader)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_partitions({first: NewPartitions(2)})
    await admin.close()
    with capture_logs() as logged:
        async with asyncio.timeout(30):
            while (first, 1) not in reader.assignment:
                # Again each time: a broker tells of a partition a while after it was made.
                await reader._member.consumer._client.force_metadata_update()
                await reader.poll(100, 100)
    assert reader.lanes_to_open() == {0}
    assert noted == ["partly_assigned"]
    (line,) = [line for line in logged if line.get("advice") == ADVICE["partly_assigned"]]
    assert line["lanes_and_missing_topics"] == {1: [second]}
    with pytest.raises(LaneLost):
        await reader.open(1, {first: 0, second: 0})


async def test_unreadable_partition_stops_only_itself(
    kafka: Broker, make_topic: MakeTopic, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make_topic(partitions=3)
    await produce(kafka, topic, numbers(0, 5), 1)
    install_compression()
    await produce(kafka, topic, numbers(5, 9), 1, compression_type="zstd")
    for lane in (0, 2):
        await produce(kafka, topic, numbers(0, 300), lane)
    reader = await source(topic)
    with monkeypatch.context() as without:
        without.setattr(aiokafka.codec, "cramjam", None)
        for lane in range(3):
            await opened(reader, lane)
        assert sorted(await read(reader, 605)) == sorted(numbers(0, 300) * 2 + numbers(0, 5))
        await until(lambda: bool(reader.status()[1].fault), reader)
        assert [partition.next_offset for partition in reader.status()] == [300, 5, 300]
        await produce(kafka, topic, numbers(300, 303), 2)
        assert await read(reader, 3) == numbers(300, 303)
    assert await read(reader, 4) == numbers(5, 9)
    await until(lambda: reader.status()[1].fault is None, reader)


async def test_error_of_the_client_loses_nothing(
    kafka: Broker, make_topic: MakeTopic, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make_topic(partitions=4)
    for lane in range(4):
        await produce(kafka, topic, numbers(0, 200), lane)
    aiokafka_patches.install()
    unpacked = fetcher.PartitionRecords._unpack_records
    failures = iter([450, 500, 501, 700])
    calls, next_failure = 0, next(failures)

    def flaky(self: object) -> Any:
        records = unpacked(self)
        take = records.take

        def taken(most: int) -> Any:
            nonlocal calls, next_failure
            before = next_failure - calls - 1
            found = take(min(most, before) if before > 0 else most)
            if before == 0 or (0 < before < most and len(found) == before):
                calls = next_failure
                next_failure = next(failures, -1)
                raise RuntimeError("a bad moment")
            calls += len(found)
            return found

        records.take = taken
        return records

    reader = await source(topic)
    monkeypatch.setattr(fetcher.PartitionRecords, "_unpack_records", flaky)
    for lane in range(4):  # a lane that is open is fetched while the next one is opened
        await opened(reader, lane)
    assert sorted(await read(reader, 800, max_records=1_000)) == sorted(numbers(0, 200) * 4)
    assert next_failure == -1


async def test_cancelled_poll_loses_nothing(kafka: Broker, topic: str, source: Source) -> None:
    reader = await source(topic)
    await opened(reader)
    got: list[bytes] = []
    for start in range(0, 100, 10):
        sending = asyncio.create_task(produce(kafka, topic, numbers(start, start + 10)))
        with suppress(TimeoutError):
            got += values_of(await asyncio.wait_for(reader.poll(7, 5000), 0.02))
        await sending
    assert got + await read(reader, 100 - len(got)) == numbers(0, 100)
    assert reader._member.consumer._subscription._fetch_count <= 1


async def delete_records(kafka: Broker, topic: str, before: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before)})
    finally:
        await admin.close()


async def test_open_counts_records_that_are_gone(kafka: Broker, topic: str, source: Source) -> None:
    await produce(kafka, topic, numbers(0, 50))
    await delete_records(kafka, topic, 30)
    reader = await source(topic)
    assert await opened(reader, **{topic: 12}) == {topic: 18}
    assert await read(reader, 20) == numbers(30, 50)
    await reader.close(0)
    assert await reader.open(0, {topic: 50}) == {}


async def test_open_refuses_offset_beyond_the_end(
    kafka: Broker, topic: str, source: Source
) -> None:
    await produce(kafka, topic, numbers(0, 5))
    reader = await source(topic)
    with pytest.raises(OffsetBeyondEnd) as error:
        await opened(reader, **{topic: 6})
    assert (error.value.topic, error.value.stored, error.value.end) == (topic, 6, 5)
    assert reader.open_lanes == set() and reader.lanes_to_open() == {0}


async def test_records_deleted_while_reading_are_a_gap(
    kafka: Broker, topic: str, source: Source
) -> None:
    await produce(kafka, topic, [b"x" * 100_000] * 150)  # more than two fetches bring
    reader = await source(topic)
    await opened(reader)
    before = len(await read(reader, 1, max_records=1))
    await delete_records(kafka, topic, 145)
    stored = before
    async with asyncio.timeout(8):
        while not (lost := reader.lanes_lost()):
            batch = await reader.poll(10, 200)
            stored = batch.next_offsets.get(0, {topic: stored})[topic]
    assert lost == {0} == reader.lanes_to_open() and before <= stored < 145
    assert await reader.open(0, {topic: stored}) == {topic: 145 - stored}
    assert len(await read(reader, 5)) == 5


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (LogEnd.EARLIEST, 0),
        (LogEnd.LATEST, 10),
        (Ago(5_500), 5),
        (Ago(10**15), 0),
        (Ago(500), 10),
        (Ago(0), 10),
    ],
)
async def test_reading_starts_where_configured(
    kafka: Broker, topic: str, source: Source, start: Start, offset: int
) -> None:
    producer = KafkaProducer(settings(kafka))
    await producer.start()
    for second in range(10):
        await producer.send(topic, b"x", timestamp_ms=NOW_MS - 10_000 + second * 1_000)
    await producer.stop()
    reader = await source(topic)
    assert await reader.starting_offsets(0, start, NOW_MS) == {topic: offset}


async def test_lane_is_caught_up_only_at_the_end_of_all_logs(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    first, second = await make_topic(), await make_topic()
    await produce(kafka, first, numbers(0, 20))
    await produce(kafka, second, numbers(0, 30))
    reader = await source(first, second)
    await opened(reader)
    taken, caught_up = 0, frozenset[int]()
    while taken < 50:
        assert caught_up == set()
        batch = await reader.poll(7, 500)
        taken, caught_up = taken + len(values_of(batch)), batch.caught_up
    await asyncio.sleep(0)
    async with asyncio.timeout(3):
        while not (await reader.poll(7, 100)).caught_up:
            pass
    assert [partition.lag_records for partition in reader.status()] == [0, 0]


async def test_transactions_leave_no_lag_and_no_aborted_records(
    kafka: Broker, topic: str, source: Source
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id=f"writer-{topic}"
    )
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send(topic, b"kept")
        with suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted")
                raise ZeroDivisionError
    finally:
        await producer.stop()
    reader = await source(topic)
    await opened(reader)
    assert await read(reader, 2, patience_s=1.5) == [b"kept"]
    assert (await reader.poll(10, 100)).caught_up == {0}
    assert reader.next_offsets(0) == {topic: 4}


async def test_removed_member_is_not_confirmed(kafka: Broker, topic: str, source: Source) -> None:
    reader = await source(topic)
    assert not await reader.still_member()
    await opened(reader)
    assert await reader.still_member()
    coordinator = reader._member.consumer._coordinator
    await coordinator._send_req(LeaveGroupRequest(coordinator.group_id, coordinator.member_id))
    assert not await reader.still_member()
    await until(lambda: reader.lanes_lost() == {0}, reader)
    await until(lambda: reader.lanes_to_open() == {0}, reader)
    assert await reader.still_member()


async def test_membership_proof_keeps_the_groups_offsets(
    kafka: Broker, topic: str, source: Source
) -> None:
    await produce(kafka, topic, numbers(0, 9))
    first = await source(topic, group_id=f"proof-{topic}")
    await opened(first)
    first.hint(0, {topic: 7})
    await first.stop()
    second = await source(topic, group_id=f"proof-{topic}")
    await opened(second)
    assert await second.still_member()
    assert await second._member.consumer.committed(TopicPartition(topic, 0)) == 7


async def test_hints_reach_the_group_in_the_background(
    kafka: Broker, topic: str, source: Source
) -> None:
    await produce(kafka, topic, numbers(0, 9))
    reader = await source(topic)
    await opened(reader)
    reader.hint(0, {topic: 3})
    committed: int | None = None
    async with asyncio.timeout(5):
        while committed is None:
            await reader.poll(1, 50)
            committed = await reader._member.consumer.committed(TopicPartition(topic, 0))
    assert committed == 3
    reader.hint(0, {topic: 4})
    await reader.poll(1, 300)
    assert await reader._member.consumer.committed(TopicPartition(topic, 0)) == 3


async def test_silent_consumer_is_replaced(kafka: Broker, topic: str, source: Source) -> None:
    await produce(kafka, topic, numbers(0, 9))
    reader = await source(topic)
    await opened(reader)
    await read(reader, 9)
    replaced, reader._reader.last_answer_s = reader._member.consumer, -1_000.0
    await until(lambda: reader.lanes_lost() == {0}, reader)
    assert reader._member.consumer is not replaced
    await opened(reader, **{topic: 4})
    assert await read(reader, 5) == numbers(4, 9)


async def test_member_long_without_an_assignment_joins_anew(
    kafka: Broker, topic: str, source: Source
) -> None:
    """The client takes the lanes and never says that it has new ones, while polls go well."""
    await produce(kafka, topic, numbers(0, 9))
    reader = await source(topic)
    await opened(reader)
    stuck = reader._member.consumer
    await reader._member.revoke(stuck)
    assert reader.lanes_lost() == {0} and reader.lanes_to_open() == set()
    assert reader._member.rebalancing_since_s is not None
    reader._member.rebalancing_since_s -= 1_000
    await until(lambda: reader.lanes_to_open() == {0}, reader)
    assert reader._member.consumer is not stuck
    await reader.open(0, {topic: 4})
    assert await read(reader, 5) == numbers(4, 9)


async def test_member_long_refused_by_the_group_joins_anew(
    kafka: Broker, topic: str, source: Source
) -> None:
    """The client believes in an assignment that the group has given to others."""
    reader = await source(topic)
    await opened(reader)
    stuck = reader._member.consumer
    stuck._coordinator._coordination_task.cancel()  # who would join again
    stuck._coordinator._heartbeat_task.cancel()
    stuck._coordinator.generation += 1
    await reader.close(0)
    assert not await reader.still_member()
    assert reader._group.unproven_since_s is not None
    reader._group._unproven_since_s = -1_000.0
    await until(lambda: reader._member.consumer not in (stuck, None), reader)
    await until(lambda: reader.lanes_to_open() == {0}, reader)
    assert await reader.still_member() and reader._group.unproven_since_s is None


async def test_many_proofs_of_membership_are_two_at_most(
    kafka: Broker, topic: str, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = await source(topic)
    await opened(reader)
    commit, commits = reader._member.consumer.commit, 0

    async def counted(offsets: Any) -> None:
        nonlocal commits
        commits += 1
        await commit(offsets)

    monkeypatch.setattr(reader._member.consumer, "commit", counted)
    first = asyncio.create_task(reader.still_member())
    while not commits:
        await asyncio.sleep(0)
    others = [reader.still_member() for _ in range(20)]
    assert await asyncio.gather(first, *others) == [True] * 21
    assert commits == 2, "the first had begun before the others asked"


async def test_partition_without_answers_is_excluded_for_a_while(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    topic = await make_topic(partitions=2)
    noted: list[str] = []
    reader = await source(topic, session_timeout_s=2.0)
    reader._reader._note = noted.append
    await opened(reader, 0)
    await opened(reader, 1)
    silent = TopicPartition(topic, 1)
    reader._member.consumer.pause(silent)  # unknown to the source: no fetch, hence no answer
    await until(lambda: bool(reader.status()[1].fault), reader)
    assert "no answer to its fetches for 2 s" in str(reader.status()[1].fault)
    assert noted == ["unreadable"] and reader.status()[0].fault is None
    await produce(kafka, topic, numbers(0, 3), 1)
    assert await read(reader, 3) == numbers(0, 3), "it is tried again"
    await until(lambda: reader.status()[1].fault is None, reader)


async def test_lanes_that_are_not_polled_wait_and_lose_nothing(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    topic = await make_topic(partitions=3)
    for lane in range(3):
        await produce(kafka, topic, numbers(lane * 100, lane * 100 + 50), lane)
    reader = await source(topic)
    for lane in range(3):
        await opened(reader, lane)
    got: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    async with asyncio.timeout(8):
        for busy in [{1}, {1, 2}, {0}, set(), {0, 1, 2}, {2}] * 8:
            batch = await reader.poll(7, 50, frozenset({0, 1, 2} - busy))
            assert not batch.lanes.keys() & busy
            for lane, topics in batch.lanes.items():
                got[lane] += [record.value for record in topics[topic]]
    for lane in range(3):
        assert got[lane] == numbers(lane * 100, lane * 100 + len(got[lane]))
    assert (
        sum(map(len, got.values())) + len(await read(reader, 150 - sum(map(len, got.values()))))
        == 150
    )


async def test_outage_of_the_broker_is_waited_out(own_kafka: OwnKafka) -> None:
    broker = own_kafka()
    await broker.create_topic("events")
    await produce(broker, "events", numbers(0, 5))
    reader = KafkaSource(settings(broker, "events", session_timeout_s=30.0))
    await reader.start()
    await opened(reader)
    assert await read(reader, 5) == numbers(0, 5)
    await asyncio.to_thread(broker.kill)
    async with asyncio.timeout(2):
        assert (await reader.poll(10, 300)).lanes == {}
    starting = asyncio.create_task(asyncio.to_thread(broker.start))
    while not starting.done():
        await reader.poll(10, 100)
    await produce(broker, "events", numbers(5, 8))
    assert await read(reader, 3, patience_s=20) == numbers(5, 8)
    await reader.stop()


async def test_without_a_broker_everything_ends_in_time(
    own_kafka: OwnKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_group, "COMMIT_PATIENCE_S", 0.5)
    monkeypatch.setattr(kafka_offsets, "ANSWER_PATIENCE_S", 0.5)
    broker = own_kafka()
    await broker.create_topic("events")
    reader = KafkaSource(settings(broker, "events"))
    await reader.start()
    await until(lambda: reader.lanes_to_open() == {0}, reader)
    await asyncio.to_thread(broker.kill)
    async with asyncio.timeout(6):
        with pytest.raises(Unavailable):
            await reader.open(0, {"events": 0})
        assert reader.open_lanes == set() and not await reader.still_member()
        assert (await reader.poll(10, 300)).lanes == {}
        await reader.stop()


async def test_login_and_its_refusal(own_kafka: OwnKafka) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_daemon="open"; '
    broker = own_kafka(
        listeners={"LOGIN": "SASL_PLAINTEXT"},
        properties={
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": login,
        },
    )
    await broker.create_topic("events")
    accepted = KafkaSettings(
        broker.address("LOGIN"),
        ("events",),
        session_timeout_s=6.0,
        security_protocol="SASL_PLAINTEXT",
        sasl_username="daemon",
        sasl_password=Secret("open"),
    )
    producer, reader = KafkaProducer(accepted), KafkaSource(accepted)
    await producer.start()
    await producer.send("events", b"one", b"key", [("name", b"value")], NOW_MS)
    await producer.flush()
    await producer.stop()
    await reader.start()
    await opened(reader)
    assert await read(reader, 1) == [b"one"]
    await reader.stop()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(
            KafkaSource(replace(accepted, sasl_password=Secret("wrong"))).start(), 2
        )


async def test_credentials_reach_the_client(kafka: Broker) -> None:
    values = settings(
        kafka,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="daemon",
        sasl_password=Secret("open"),
        ssl_check_hostname=False,
        isolation_level="read_uncommitted",
    )
    consumer = AIOKafkaConsumer(**consumer_arguments(values))
    client = consumer._client
    await consumer.stop()
    assert (client._sasl_mechanism, client._security_protocol) == ("SCRAM-SHA-512", "SASL_SSL")
    assert client._sasl_plain_username == "daemon"
    assert await client._sasl_plain_password.secret() == "open"
    context = client._ssl_context.value.context
    assert context.verify_mode == ssl.CERT_REQUIRED and not context.check_hostname
    assert consumer._isolation_level == "read_uncommitted"
    assert "open" not in repr(values)


async def test_flush_returns_when_records_are_acknowledged(
    kafka: Broker, make_topic: MakeTopic, source: Source
) -> None:
    topic = await make_topic(partitions=4)
    producer = KafkaProducer(settings(kafka))
    await producer.start()
    # Java's murmur2 of these keys: 1357151166 and 1173551340 (sign bit off), of 4 partitions.
    await producer.send(topic, b"two", b"foobar", [("reason", b"late")], NOW_MS)
    await producer.send(topic, b"zero", b"21")
    await producer.flush()
    await producer.stop()
    reader = await source(topic)
    await opened(reader, 0)
    await opened(reader, 2)
    records: dict[int, Any] = {}
    async with asyncio.timeout(5):
        while len(records) < 2:
            batch = await reader.poll(10, 200)
            records |= {lane: topics[topic][0] for lane, topics in batch.lanes.items()}
    assert (records[0].value, records[2].value) == (b"zero", b"two")
    assert (records[2].headers, records[2].timestamp) == ((("reason", b"late"),), NOW_MS)


async def test_record_that_is_too_large_is_refused(kafka: Broker, make_topic: MakeTopic) -> None:
    topic = await make_topic(config={"max.message.bytes": "1000"})
    producer = KafkaProducer(settings(kafka))
    await producer.start()
    await producer.send(topic, b"x" * 2000)
    with pytest.raises(RecordRefused):
        await producer.flush()
    await producer.send(topic, b"x" * 100)
    await producer.flush()
    await producer.stop()
