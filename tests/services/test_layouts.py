"""A roll-out of another layout on real parts: lanes change owners and layouts beside their traffic,
stragglers come back, a worker is killed; what holds is what the log proves."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relevanced.daemon.config import load
from relevanced.daemon.storage import LayoutRegistry, close, connect, namespace
from tests.services.daemons import Daemon
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_exporters import comes, ready
from tests.services.test_verify import command
from tests.services.whole_path import PARTITIONS, Stage

NAME = "rolled"
RATE = 3.0
PART = 4_000
OLD_GROUPINGS = '["country"], ["device"], ["country", "device"]'
NEW_GROUPINGS = '["device"], ["country"], ["device", "country"]'


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Stage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = Stage(kafka, one_redis.url, topic, tmp_path, rate=RATE)
    yield built
    built.close()


def changed(stage: Stage) -> str:
    """The configuration with a metric, a window and a grouping more, and a grouping less."""
    old = stage.toml(NAME)
    names = [*load(old, {}, "test").metrics.names, "AP@7"]
    new = old.replace(OLD_GROUPINGS, NEW_GROUPINGS)
    new = new.replace('["60s", "300s", "3600s"]', '["60s", "300s", "1800s", "3600s"]')
    assert new.count("1800s") == 1 and OLD_GROUPINGS not in new
    return f"{new}\n[metrics]\nnames = {json.dumps(names)}\n"


def start(stage: Stage, toml: str, role: str = "all") -> Daemon:
    stage.daemons.append(Daemon(stage.directory, toml, role))
    return stage.daemons[-1]


async def generation(stage: Stage) -> int:
    client = connect(stage.redis_url)
    try:
        registry = LayoutRegistry(client, namespace(load(stage.toml(NAME), {}, "test")))
        found = await registry.in_force()
    finally:
        await close(client)
    return 0 if found is None else found.number


def scores(daemon: Daemon, metric: str, window: str) -> list[dict[str, Any]]:
    query = f"metric={metric}&window={window}&grouping=all&view=settled"
    return list(json.loads(daemon.get(f"/api/v1/scores?{query}"))["scores"])


async def test_a_metric_more_keeps_the_namespace_and_all_that_was_counted(stage: Stage) -> None:
    new_toml = changed(stage)
    await stage.produce(PART)
    old = start(stage, stage.toml(NAME))
    await stage.wait_for(NAME, PART)
    assert await generation(stage) == 1

    new = start(stage, new_toml)
    await stage.produce(PART)
    await comes(lambda: "works under generation 2" in old.readiness(), old)
    await stage.wait_for(NAME, 2 * PART)
    assert await asyncio.to_thread(old.terminate) == 0, old.log()

    straggler = start(stage, stage.toml(NAME))
    await comes(lambda: "works under generation 2" in straggler.readiness(), straggler)
    new.terminate(signal.SIGKILL)
    await stage.produce(PART)
    await stage.wait_for(NAME, 3 * PART)
    assert await generation(stage) == 2
    await comes(lambda: ready(straggler), straggler)

    path = stage.directory / "verify.toml"
    path.write_text(new_toml)
    code, said = await command("verify", "--config", str(path))
    assert code == 0 and f"{PARTITIONS} of {PARTITIONS} lanes are proven" in said, said
    assert straggler.terminate() == 0, straggler.log()
    await shows_what_is_covered(stage)


async def end_with_the_events(stage: Stage, name: str) -> None:
    """So that windows end there, and not at the clock when a worker had read all."""
    store = stage.store(name)
    for lane in range(PARTITIONS):
        await store._client.hset(f"{{{store._namespace}:{lane}}}:head", "idle", "0")
    await close(store._client)


async def shows_what_is_covered(stage: Stage) -> None:
    """The new metric has been there for the last 45 minutes of the events."""
    await end_with_the_events(stage, NAME)
    exporter = start(stage, stage.toml(NAME), "exporter")
    await comes(lambda: ready(exporter) and scores(exporter, "RR@10", "60s"), exporter)
    windows = ("60s", "300s", "1800s", "3600s")
    shown = {w: [s["mean"] for s in scores(exporter, "AP@7", w)] for w in windows}
    assert None not in shown["60s"] + shown["300s"], shown
    assert shown["3600s"] == [None], "of the last hour it lacks the first part"
    since = [scores(exporter, "AP@7", window)[0]["since"] for window in ("60s", "3600s")]
    assert since[0] is None and since[1].startswith("2026-11-20T12:"), since
    assert "relevanced_column_since_timestamp_seconds{" in exporter.get("/metrics").decode()
    assert scores(exporter, "RR@10", "3600s")[0]["mean"] is not None
    assert scores(exporter, "RR@10", "1800s")[0]["mean"] is not None
    assert exporter.terminate() == 0, exporter.log()
