"""A process that is killed anywhere in its start leaves nothing behind that counts twice or is
missing."""

import asyncio
from pathlib import Path

import pytest

from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_daemon import TOML, impression, send

STEPS = ("serving", "lanes assigned", "lane begins", "lane opened", "lane owned")
ACCEPTED = 'relevanced_impression_outcomes_total{outcome="accepted"}'


@pytest.mark.parametrize("step", STEPS)
async def test_a_start_that_is_killed_changes_no_number(
    kafka: Broker, make_topic: MakeTopic, one_redis: RedisServer, tmp_path: Path, step: str
) -> None:
    topic = await make_topic(partitions=2)
    toml = TOML.format(
        topics=f'"{topic}"',
        redis=one_redis.url,
        more="[segments]\ngroupings = []",
        bootstrap=kafka.bootstrap,
        group=topic,
    ).replace("[redis]", 'session_timeout = "6s"\n[redis]')
    await send(kafka, topic, *(impression(n) for n in range(50)))
    killed = Daemon(tmp_path, toml)
    await until(lambda: f'"{step}"' in killed.log())
    killed.close()
    daemon = Daemon(tmp_path, toml)
    try:
        await until(lambda: daemon.series(ACCEPTED) >= 50)
        assert daemon.series(ACCEPTED) == 50
        assert await asyncio.to_thread(daemon.terminate) == 0
        assert "Traceback" not in daemon.log()
    finally:
        daemon.close()
