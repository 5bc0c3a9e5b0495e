"""A record that keeps every owner of its lane from committing: it is found, named and passed
over, and everything else counts once."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from tests.services import slow_decoder
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_daemon import TOML, impression, send

SESSION_S = 6
"""The shortest that may be configured."""
BURNT_S = 9.0
"""Longer than the session and the rebalance that follows it."""
PATIENCE_S = 400.0
"""Four attempts, each a session and more: 45 s in all, where nothing else has the machine."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Daemon]]:
    daemons: list[Daemon] = []
    yield daemons
    for daemon in daemons:
        daemon.close()


async def test_a_record_that_stalls_every_owner_is_passed_over_and_named(
    kafka: Broker,
    make_topic: MakeTopic,
    one_redis: RedisServer,
    tmp_path: Path,
    pair: list[Daemon],
) -> None:
    topic, letters = await make_topic(), await make_topic()
    more = f'[segments]\ngroupings = []\n[events]\ndead_letter_topic = "{letters}"'
    toml = TOML.format(
        topics=f'"{topic}"', redis=one_redis.url, more=more, bootstrap=kafka.bootstrap, group=topic
    ).replace("[redis]", f'session_timeout = "{SESSION_S}s"\n[redis]')
    # The third of five records stalls.
    values = [impression(n, query="stalling" if n == 2 else "shoes") for n in range(5)]
    await send(kafka, topic, *values)
    script = [slow_decoder.__file__, str(BURNT_S)]
    pair += [Daemon(tmp_path, toml, "worker", script=script) for _ in range(2)]
    pair.append(Daemon(tmp_path, toml, "exporter"))
    accepted = 'relevanced_impression_outcomes_total{outcome="accepted"}'
    stalls = 'relevanced_rejected_events_total{reason="stalls"}'
    await until(lambda: pair[-1].series(stalls), patience_s=PATIENCE_S)
    await until(lambda: pair[-1].series(accepted) == 4, patience_s=PATIENCE_S)
    assert pair[-1].series(stalls) == 1
    lines = [json.loads(line) for daemon in pair[:2] for line in daemon.log().splitlines()]
    (named,) = [line for line in lines if line["event"].startswith("record passed over")]
    assert (named["topic"], named["partition"], named["offset"]) == (topic, 0, 2)
    marks = sorted(
        (line for line in lines if line["event"] == "a batch takes long"),
        key=lambda line: str(line["timestamp"]),
    )
    assert [mark["owners_in_a_row"] for mark in marks] == [1, 2, 1, 2]
    assert [mark["record"] for mark in marks] == [None, None, [topic, 2], [topic, 2]]
    (letter,) = await read(kafka, letters)
    headers = dict(letter.headers)
    assert (headers["relevanced.offset"], headers["relevanced.reason"]) == (b"2", b"stalls")
    assert letter.value == values[2]


async def read(kafka: Broker, topic: str) -> list[Any]:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        async with asyncio.timeout(10):
            fetched: dict[Any, list[Any]] = {}
            while not fetched:
                fetched = await consumer.getmany(timeout_ms=500)
    finally:
        await consumer.stop()
    return [record for part in fetched.values() for record in part]
