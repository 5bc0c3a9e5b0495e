"""A log is read as long as it is the one that was read before: recreated topics, logs that lost
their end, on a real broker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.config import LogEnd
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import FetchById, KafkaSource, resuming
from relevanced.daemon.storage import LogMark, note_read
from relevanced.daemon.worker import LaneLost, LogReplaced, LogRewritten, OffsetBeyondEnd
from tests.services import kafka_logs
from tests.services.fixtures import OwnKafka
from tests.services.kafka_server import Broker, KafkaServer
from tests.services.test_kafka_source import (
    NOW_MS,
    delete_records,
    numbers,
    produce,
    settings,
    until,
    values_of,
)

Source = Callable[[str], Awaitable[KafkaSource]]


@pytest.fixture
async def source(kafka: Broker) -> AsyncIterator[Source]:
    made: list[KafkaSource] = []

    async def make(topic: str) -> KafkaSource:
        made.append(KafkaSource(settings(kafka, topic)))
        await made[-1].start()
        return made[-1]

    yield make
    for reader in made:
        await reader.stop()


async def opened(reader: KafkaSource) -> dict[str, LogMark]:
    """Open lane 0 at its beginning; returns its marks."""
    await until(lambda: 0 in reader.lanes_to_open(), reader)
    begin = await reader.starting_offsets(0, LogEnd.EARLIEST, NOW_MS)
    ids = await reader.topic_ids(0)
    marks = {topic: LogMark(ids.get(topic)) for topic in begin}
    await reader.open(0, begin, marks)
    return marks


async def read_to(reader: KafkaSource, topic: str, marks: dict[str, LogMark], end: int) -> None:
    at = 0
    async with asyncio.timeout(10):
        while at < end:
            batch = await reader.poll(100, 200)
            note_read(marks, batch.lanes.get(0, {}))
            at = batch.next_offsets.get(0, {topic: at})[topic]


async def recreate(kafka: Broker, topic: str, count: int) -> None:
    """Delete the topic and create it again, with so many records."""
    await kafka.delete_topic(topic)
    await kafka.create_topic(topic)
    await produce(kafka, topic, numbers(1000, 1000 + count))


@pytest.mark.parametrize("count", [3, 500], ids=["shorter", "longer"])
async def test_no_record_of_a_recreated_topic_is_read_into_the_old_lane(
    kafka: Broker, topic: str, source: Source, count: int
) -> None:
    """The worker is busy with what it has fetched, so that its next fetch meets the new log. By
    name, a longer one would answer it."""
    await produce(kafka, topic, numbers(0, 50))
    reader = await source(topic)
    marks = await opened(reader)
    got: list[bytes] = []
    while not got:
        got += values_of(await reader.poll(10, 200))
    await recreate(kafka, topic, count)
    async with asyncio.timeout(20):
        while 0 not in reader.lanes_to_open():
            got += values_of(await reader.poll(1000, 100))
    assert got == numbers(0, 50)
    assert reader.lanes_lost() == {0}
    new = (await reader.topic_ids(0))[topic]
    with pytest.raises(LogReplaced) as error:
        await reader.open(0, {topic: 50}, marks)
    assert (error.value.found, error.value.stored) == (new, 50)
    assert new != marks[topic].topic_id


async def test_last_record_is_compared_where_another_worker_began_another_log(
    kafka: Broker, topic: str, source: Source
) -> None:
    """The topic id under which this process read the lane before must not hide that record."""
    await produce(kafka, topic, numbers(0, 5))
    reader = await source(topic)
    old = (await whole_log(reader, 5, topic))[topic]
    await recreate(kafka, topic, 10)
    async with asyncio.timeout(20):
        while True:
            try:
                new = (await reader.topic_ids(0))[topic]
                marks = {topic: LogMark(new, 4, old.checksum)}
                with pytest.raises(LogRewritten):
                    await reader.verify(0, {topic: 5}, marks)
                break
            except (Unavailable, LaneLost):
                await reader.poll(1, 100)
    assert new != old.topic_id


async def whole_log(reader: KafkaSource, end: int, topic: str = "events") -> dict[str, LogMark]:
    """Read lane 0 to this end; returns its marks, and closes it."""
    marks = await opened(reader)
    await read_to(reader, topic, marks, end)
    await reader.close(0)
    return marks


async def restarted(broker: KafkaServer, change: Callable[[], object]) -> None:
    """Stop the broker, change something, start it again."""
    await asyncio.to_thread(broker.stop)
    change()
    await asyncio.to_thread(broker.start)


async def verified(reader: KafkaSource, offset: int, marks: dict[str, LogMark]) -> None:
    """Ask until the broker answers again: whether the log is the one of the marks."""
    async with asyncio.timeout(40):
        while True:
            try:
                return await reader.verify(0, {"events": offset}, marks)
            except (Unavailable, LaneLost):
                await reader.poll(1, 100)


async def test_log_that_lost_its_end_is_refused_until_it_has_it_again(own_kafka: OwnKafka) -> None:
    """Also once other records have taken the place of the lost ones: the offset lies in the log
    then, and the id of the topic is the same."""
    broker = own_kafka()
    await broker.create_topic("events")
    for number in range(5):
        await produce(broker, "events", numbers(number, number + 1))
    reader = KafkaSource(settings(broker, "events", session_timeout_s=30.0))
    await reader.start()
    marks = await whole_log(reader, 5)
    log = kafka_logs.segment(broker, "events", 0)
    whole = log.read_bytes()

    await restarted(broker, lambda: kafka_logs.cut_from(log, 2))
    with pytest.raises(OffsetBeyondEnd, match=r"stored offset 5 is beyond the end of the log, 2"):
        await verified(reader, 5, marks)

    await produce(broker, "events", numbers(100, 110))
    with pytest.raises(LogRewritten, match="record at offset 4, the last that was read"):
        await verified(reader, 5, marks)

    def restore() -> None:
        kafka_logs.cut_from(log, 0)
        log.write_bytes(whole)

    await restarted(broker, restore)
    await verified(reader, 5, marks)
    await reader.stop()


async def test_without_topic_ids_the_last_record_tells_logs_apart(
    kafka: Broker, topic: str, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the log still has it: else reading goes on, because there is nothing to compare."""

    async def none(*_: Any) -> dict[Any, str]:
        return {}

    monkeypatch.setattr(resuming, "ids_by_leader", none)
    await produce(kafka, topic, numbers(0, 50))
    with capture_logs() as lines:
        reader = await source(topic)
        marks = await whole_log(reader, 50, topic)
    assert [line["event"] for line in lines].count("the brokers cannot fetch by topic id") == 1
    marks = {topic: LogMark(None, marks[topic].last_offset, marks[topic].checksum)}
    await reader.verify(0, {topic: 50}, marks)
    await reader.stop()

    await recreate(kafka, topic, 80)
    reader = await source(topic)
    await until(lambda: 0 in reader.lanes_to_open(), reader)
    with pytest.raises(LogRewritten) as error:
        await reader.open(0, {topic: 50}, marks)
    assert error.value.found == ""
    await delete_records(kafka, topic, 60)
    assert await reader.open(0, {topic: 50}, marks) == {topic: 10}


async def test_a_broker_without_fetch_by_id_is_asked_by_name(
    kafka: Broker, topic: str, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = FetchById.prepare
    asked: list[int] = []

    def older(self: FetchById, versions: dict[int, tuple[int, int]]) -> Any:
        request = prepare(self, {**versions, FetchById.API_KEY: (4, 11)})
        asked.append(request.API_VERSION)
        return request

    monkeypatch.setattr(FetchById, "prepare", older)
    await produce(kafka, topic, numbers(0, 50))
    await whole_log(await source(topic), 50, topic)
    assert set(asked) == {11}
