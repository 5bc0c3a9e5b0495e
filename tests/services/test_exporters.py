"""Two exporters of one namespace: both answer, one serves the series; when they are ready."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from relevanced.daemon.exporter import LOOK_EVERY_S
from relevanced.daemon.storage import Namespace, close
from tests.daemon.exporter.one_lane import Lane, countries, rounds
from tests.services.daemons import Daemon
from tests.services.fixtures import MakeTopic, OwnRedis
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import client_at
from tests.services.redis_server import RedisServer
from tests.services.whole_path import PARTITIONS, Stage

PATIENCE_S = 60.0
EVENTS = 3000
ANSWERS = (
    "scores",
    "segments",
    "experiments",
    "changes?window=3600s&view=live",
    "changes?window=3600s",
    "history?metric=RR@10&window=60s",
    "history?metric=RR@10&window=3600s&grouping=device&segment={device}",
)
SCORES = "\nrelevanced_score{"


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Stage]:
    """A topic of which the events are days old."""
    built = Stage(kafka, one_redis.url, await make_topic(partitions=PARTITIONS), tmp_path)
    yield built
    built.close()


async def comes(holds: Callable[[], object], daemon: Daemon) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < deadline, daemon.readiness() + daemon.log()
        await asyncio.sleep(0.2)


def ready(daemon: Daemon) -> bool:
    return bool(daemon.readiness()) and json.loads(daemon.readiness())["ready"]


def answer(daemon: Daemon, path: str) -> Any:
    return json.loads(daemon.get(f"/api/v1/{path}"))


def serves_series(daemon: Daemon) -> bool:
    return SCORES in daemon.get("/metrics").decode()


async def as_if_the_end_was_not_seen(stage: Stage) -> None:
    """Take back what an owner writes that has seen the end of its logs."""
    store = stage.store("one")
    for lane in range(PARTITIONS):
        await store._client.hset(f"{{{store._namespace}:{lane}}}:head", "idle", "0")
    await close(store._client)


async def test_without_workers_two_exporters_are_ready_and_answer_alike(stage: Stage) -> None:
    await stage.produce(EVENTS)
    worker, first = stage.daemon("one"), stage.daemon("one", "exporter")
    await stage.wait_for("one", EVENTS)
    await comes(lambda: ready(first), first)
    assert worker.terminate() == 0, worker.log()
    await as_if_the_end_was_not_seen(stage)  # so that the windows end with the events

    second = stage.daemon("one", "exporter")
    await comes(lambda: ready(second), second)
    await comes(lambda: answer(first, "scores") == answer(second, "scores"), second)
    device = answer(first, "scores?grouping=device")["scores"][0]["segment"]
    for path in (path.format(device=device) for path in ANSWERS):
        assert answer(first, path) == answer(second, path), path
    health = answer(second, "health")
    assert health["scores"] == "served" and health["as_of"] and health["behind_seconds"] > 0
    assert serves_series(first) and not serves_series(second)
    assert second.series("relevanced_exporter_lease_held") == 0

    assert first.terminate() == 0, first.log()
    await comes(lambda: serves_series(second), second)
    assert ready(second)


async def test_a_fresh_namespace_is_ready_once_it_has_caught_up(stage: Stage) -> None:
    await stage.produce(EVENTS)
    worker = stage.daemon("one")
    await stage.wait_for("one", EVENTS)
    worker.process.kill()
    await as_if_the_end_was_not_seen(stage)
    first = stage.daemon("one", "exporter")
    await comes(lambda: "behind" in first.readiness(), first)
    assert not ready(first) and first.series("relevanced_catching_up") == 1
    health = answer(first, "health")
    assert not health["ready"] and "days behind" in health["catching_up"]["words"]
    assert first.series("relevanced_catch_up_behind_seconds") > 86_400
    assert answer(first, "scores")["as_of"], "it answers all the same"

    worker = stage.daemon("one")
    await comes(lambda: ready(first), first)
    assert first.series("relevanced_catching_up") == 0
    assert answer(first, "health")["catching_up"] is None


async def test_an_empty_topic_keeps_no_exporter_from_being_ready(stage: Stage) -> None:
    exporter = stage.daemon("one", "exporter")
    stage.daemon("one")
    await comes(lambda: ready(exporter), exporter)


async def test_what_redis_lost_is_stored_again_for_the_next_exporter(own_redis: OwnRedis) -> None:
    server = own_redis()
    async with client_at(server.url) as client:
        namespace = Namespace(client, "relevanced", "one")
        await namespace.register(1)

        def restarted() -> float:
            server.restart()
            assert server.call("EXISTS one:shown") == ":0", "it keeps nothing on disk"
            return within_a_lease()

        def within_a_lease() -> float:
            return LOOK_EVERY_S / 2

        lane = Lane(countries(1000, 500, "DE"))
        await rounds(namespace, lane, [within_a_lease, restarted, within_a_lease, within_a_lease])
        assert await namespace.stored_selection() is not None
