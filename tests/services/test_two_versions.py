"""Two versions that store other bytes, beside each other: each has its own namespace and group, and
each counts everything once. One of them serves the series."""

import asyncio
import json
from pathlib import Path

from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_daemon import TOML, impression, send

NEXT = """
import runpy, sys
from relevanced.daemon.storage import hashed_names
hashed_names.SCHEMA_VERSION += 1
sys.argv = ["relevanced", *sys.argv[1:]]
runpy.run_module("relevanced.daemon", run_name="__main__")
"""


def accepted(daemon: Daemon) -> int:
    events = json.loads(daemon.get("/api/v1/scores"))["events"]
    return int(events["impression_outcomes"]["accepted"])


def serves_series(daemon: Daemon) -> bool:
    return "\nrelevanced_events_total{" in daemon.get("/metrics").decode()


async def test_each_version_counts_everything_once_in_a_namespace_of_its_own(
    kafka: Broker, make_topic: MakeTopic, one_redis: RedisServer, tmp_path: Path
) -> None:
    topic = await make_topic(partitions=2)
    values = {"bootstrap": kafka.bootstrap, "group": topic, "redis": one_redis.url}
    toml = TOML.format(topics=f'"{topic}"', more="[segments]\ngroupings = []", **values)
    await send(kafka, topic, *(impression(n) for n in range(10)))
    old = Daemon(tmp_path, toml)
    await until(lambda: serves_series(old) and accepted(old) == 10)
    new = Daemon(tmp_path, toml, script=["-c", NEXT])
    try:
        await until(lambda: serves_series(new) and accepted(new) == 10)
        await until(lambda: not serves_series(old))
        await send(kafka, topic, *(impression(n) for n in range(10, 20)))
        for daemon in (old, new):
            await until(lambda at=daemon: accepted(at) == 20)
            assert '"lane dropped"' not in daemon.log(), "neither takes lanes from the other"
        assert await asyncio.to_thread(old.terminate) == 0
        await send(kafka, topic, *(impression(n) for n in range(20, 30)))
        await until(lambda: accepted(new) == 30)
        assert await asyncio.to_thread(new.terminate) == 0
    finally:
        old.close()
        new.close()
