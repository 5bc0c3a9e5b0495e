"""The log of a lane between offsets, on a real broker: exactly these records, or an error."""

from contextlib import suppress

import pytest
from aiokafka import AIOKafkaProducer

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import LaneLog, LaneLogs, LogSpan
from relevanced.daemon.storage import NO_MARKS, LogMark, first_marks
from relevanced.daemon.worker import LogReplaced, OffsetBeyondEnd
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.test_kafka_source import delete_records, numbers, produce, settings


async def values(log: LaneLog, topic: str, most: int = 1000) -> list[bytes | None]:
    """All that is left of a topic."""
    found: list[bytes | None] = []
    while records := await log.take(topic, most):
        assert len(records) <= most
        found += [record.value for record in records]
    return found


async def test_reads_from_offsets_to_offsets(kafka: Broker, make_topic: MakeTopic) -> None:
    topics = [await make_topic(partitions=2) for _ in range(2)]
    for topic in topics:
        await produce(kafka, topic, numbers(0, 100), partition=1)
    shown, clicks = topics
    async with LaneLogs(settings(kafka, *topics)) as logs:
        log = await logs.open(1, {shown: 10, clicks: 0}, {shown: 60, clicks: 5}, NO_MARKS)
        assert log.spans == {shown: LogSpan(10, 60, 0), clicks: LogSpan(0, 5, 0)}
        assert sorted(log.unread) == sorted(topics) and log.share_read == 0
        first = await log.take(shown, 11)
        assert [record.offset for record in first] == list(range(10, 21))
        assert log.next_offsets == {shown: 21, clicks: 0} and log.share_read == 11 / 55
        assert await values(log, clicks) == numbers(0, 5) and log.unread == [shown]
        assert await values(log, shown, 7) == numbers(21, 60)
        assert log.is_read and log.share_read == 1
        again = await logs.open(0, {shown: 0, clicks: 0}, {shown: 0, clicks: 0}, NO_MARKS)
        assert again.is_read and again.share_read == 1 and await again.take(shown, 1) == []


async def test_aborted_records_and_markers_are_left_out(kafka: Broker, topic: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id=f"writer-{topic}"
    )
    await producer.start()
    async with producer.transaction():
        await producer.send(topic, b"kept")
    with suppress(ZeroDivisionError):
        async with producer.transaction():
            await producer.send_and_wait(topic, b"aborted")
            raise ZeroDivisionError
    await producer.stop()
    async with LaneLogs(settings(kafka, topic)) as logs:
        log = await logs.open(0, {}, {topic: 4}, NO_MARKS)
        assert await values(log, topic) == [b"kept"]
        assert log.next_offsets == {topic: 4} and log.is_read


async def test_deleted_records_show_in_the_span(kafka: Broker, topic: str) -> None:
    await produce(kafka, topic, numbers(0, 50))
    await delete_records(kafka, topic, 30)
    async with LaneLogs(settings(kafka, topic)) as logs:
        log = await logs.open(0, {topic: 12}, {topic: 50}, NO_MARKS)
        assert log.spans == {topic: LogSpan(12, 50, 30)} and not log.spans[topic].is_whole
        assert await values(log, topic) == numbers(30, 50)
        log = await logs.open(0, {topic: 0}, {topic: 20}, NO_MARKS)
        assert log.is_read and not log.spans[topic].is_whole
        log = await logs.open(0, {}, {topic: 50}, NO_MARKS)
        assert log.spans[topic].is_whole


async def test_records_deleted_while_they_are_read_are_an_error(kafka: Broker, topic: str) -> None:
    await produce(kafka, topic, [b"x" * 100_000] * 150)  # more than two fetches bring
    async with LaneLogs(settings(kafka, topic)) as logs:
        log = await logs.open(0, {topic: 0}, {topic: 150}, NO_MARKS)
        await log.take(topic, 1)
        await delete_records(kafka, topic, 145)
        with pytest.raises(Unavailable, match="shortened or replaced while it was read"):
            await values(log, topic)


async def test_other_logs_are_refused(kafka: Broker, topic: str) -> None:
    await produce(kafka, topic, numbers(0, 5))
    async with LaneLogs(settings(kafka, topic)) as logs:
        with pytest.raises(OffsetBeyondEnd):
            await logs.open(0, {topic: 0}, {topic: 6}, NO_MARKS)
        other = first_marks({topic: "AAAAAAAAAAAAAAAAAAAAAA"})
        with pytest.raises(LogReplaced):
            await logs.open(0, {topic: 0}, {topic: 5}, other)
        shorter = {topic: LogMark(last_offset=5)}
        with pytest.raises(OffsetBeyondEnd):
            await logs.open(0, {topic: 0}, {topic: 5}, shorter)
        with pytest.raises(Unavailable, match="has 1 partitions"):
            await logs.open(1, {topic: 0}, {topic: 5}, NO_MARKS)


async def test_topic_that_is_missing_is_named(kafka: Broker) -> None:
    with pytest.raises(Unavailable, match="topic missing-topic does not exist"):
        async with LaneLogs(settings(kafka, "missing-topic")):
            pass
