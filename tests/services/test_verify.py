"""`relevanced verify` on real parts: beside a worker that goes on, with a changed integer in Redis,
and with a log that has lost its beginning."""

import asyncio
import csv
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from relevanced.daemon.config import load
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.storage import namespace, pack_page, unpack_page
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import ask
from tests.services.redis_server import RedisServer
from tests.services.whole_path import PARTITIONS, START_MS, Stage

NAME = "proven"
RATE = 3.0
"""Events per second of event time: 20,000 of them are nearly two hours."""
EVENTS = 20_000
BETWEEN_S = 0.2
GROUPINGS = ("country", "device", "country,device", "experiment:ranker-v2")


class StageWithQueries(Stage):
    """Its workers keep tables of queries."""

    def toml(self, name: str) -> str:
        more = '[queries]\ntext = "plain"\nby = "country"\nkept = 5\nmin_users = 2\n'
        return super().toml(name) + more


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[Stage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = StageWithQueries(kafka, one_redis.url, topic, tmp_path, rate=RATE)
    yield built
    built.close()


async def verify(stage: Stage, *arguments: str, code: int) -> str:
    """The output of `relevanced verify`, which must exit with this code."""
    path = stage.directory / "verify.toml"
    path.write_text(stage.toml(NAME))
    exited, out = await command("verify", "--config", str(path), *arguments)
    assert exited == code, out
    return out


async def command(*arguments: str) -> tuple[int, str]:
    """The exit code of a command of `relevanced`, and what it printed; errors if it failed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "relevanced.daemon", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    code = process.returncode
    assert code is not None
    return code, (out + err if code == 2 else out or err).decode()


@asynccontextmanager
async def more_events(stage: Stage) -> AsyncIterator[None]:
    """Events arrive without end, and are committed several times a second."""
    done = asyncio.Event()

    async def produce() -> None:
        while not done.is_set():
            await stage.produce(100)
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), BETWEEN_S)

    producing = asyncio.create_task(produce())
    try:
        yield
    finally:
        done.set()
        await producing


def key_of(stage: Stage, lane: int, name: str) -> str:
    return f"{{{namespace(load(stage.toml(NAME), {}, 'test'))}:{lane}}}:{name}"


async def add_one_to_a_past_hour(stage: Stage, lane: int) -> None:
    """Change one integer: the impressions of the whole, in the first hour."""
    key = key_of(stage, lane, f"hours:{START_MS // HOUR_MS * HOUR_MS}:0")
    rows = np.array(unpack_page(await ask(stage.redis_url, "GET", key)))
    rows[0, 0] += 1
    await ask(stage.redis_url, "SET", key, pack_page(rows))


async def test_living_lanes_are_proven_and_a_changed_integer_is_named(stage: Stage) -> None:
    worker = stage.daemon(NAME)
    await stage.produce(EVENTS)
    await stage.wait_for(NAME, EVENTS)  # with fewer of them a lane may have read none yet
    async with more_events(stage):
        found = json.loads(await verify(stage, "--output", "json", code=0))
        assert [lane["result"] for lane in found] == ["equal"] * PARTITIONS
        read = sum(lane["records"] for lane in found)
        await stage.wait_for(NAME, read + 1)  # the worker has gone on
        assert all(lane["hours"] and lane["panes"] and lane["integers"] > 1000 for lane in found)
        assert all(lane["query_hours"] for lane in found)
        assert not any(lane["notes"] for lane in found), "no commit came between the reads"
        assert all(one["reason"] for lane in found for one in lane["left_out"])
    assert worker.terminate(signal.SIGKILL)
    await stage.wait_for(NAME, EVENTS)
    stage.daemon(NAME)
    second = stage.daemon(NAME)
    await stage.produce(EVENTS // 4)
    async with asyncio.timeout(60):
        while '"lane owned"' not in second.log():
            await asyncio.sleep(0.1)
    assert "4 of 4 lanes are proven" in await verify(stage, "--parallel", "2", code=0)
    await add_one_to_a_past_hour(stage, 1)
    found = json.loads(await verify(stage, "--output", "json", code=1))
    assert [lane["result"] for lane in found] == ["equal", "differs", "equal", "equal"]
    [difference] = found[1]["first"]
    expected = {
        "what": "hour",
        "start": "2026-11-20T12:00:00.000Z",
        "grouping": "all",
        "segment": "all",
        "column": "impressions",
    }
    assert expected.items() <= difference.items()
    assert difference["stored"] == difference["proven"] + 1
    text = await verify(stage, "--lane", "1", code=1)
    assert "lane 1: differs in 1 integers" in text
    assert "hour 2026-11-20T12:00:00.000Z, all, impressions: stored" in text
    taken = sum((await stage.taken(NAME)).values())
    await ask(stage.redis_url, "DEL", key_of(stage, 1, "head"))
    await stage.produce(200)
    await stage.wait_for(NAME, taken + 1)  # the lane was read again
    assert "lane 1: equal" in await verify(stage, "--lane", "1", code=0)


async def delete_before(stage: Stage, lane: int, offset: int) -> None:
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=stage.kafka.bootstrap)
    await admin.start()
    place = TopicPartition(stage.topic, lane)
    await admin.delete_records({place: RecordsToDelete(before_offset=offset)})
    await admin.close()


async def test_log_without_its_beginning_proves_later_hours(stage: Stage) -> None:
    worker = stage.daemon(NAME)
    await stage.produce(EVENTS)
    await stage.wait_for(NAME, EVENTS)
    assert worker.terminate() == 0, worker.log()
    taken = await stage.taken(NAME)
    await delete_before(stage, 0, taken[0] // 4)
    await delete_before(stage, 1, taken[1])
    found = json.loads(await verify(stage, "--output", "json", code=1))
    assert [one["result"] for one in found] == ["equal", "not provable", "equal", "equal"]
    assert found[0]["proven_from"] > "2026-11-20T12:2" and found[0]["panes"]
    assert found[0]["hours"] == found[2]["hours"] - 1, "not the hour that has lost records"
    assert found[2]["proven_from"] is None
    text = await verify(stage, "--lane", "0", code=0)
    assert "totals, counts and experiments cannot be proven" in text


async def test_lane_that_is_not_there_is_refused(stage: Stage) -> None:
    assert "nothing to verify" in await verify(stage, code=1)
    worker = stage.daemon(NAME)
    await stage.produce(100)
    await stage.wait_for(NAME, 100)
    assert worker.terminate() == 0, worker.log()
    assert "the lanes 0 to 3" in await verify(stage, "--lane", str(PARTITIONS), code=2)


async def test_hours_of_another_configuration_stand_beside_the_stored_ones(stage: Stage) -> None:
    worker = stage.daemon(NAME)
    await stage.produce(EVENTS)
    await stage.wait_for(NAME, EVENTS)
    assert worker.terminate() == 0, worker.log()
    other = stage.directory / "other.toml"
    stored = stage.directory / "stored.toml"
    stored.write_text(stage.toml(NAME))
    other.write_text(stage.toml(NAME) + '[metrics]\nnames = ["RR@10", "RR@3"]\n')
    span = ("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T14:00:00Z")
    configured = ("--config", str(other), "--stored", str(stored))
    code, out = await command("replay", "--kafka", *configured, *span, "--output", "csv")
    assert code == 0, out
    rows = list(csv.DictReader(out.splitlines()))
    first = [r for r in rows if r["start"] == "2026-11-20T12:00:00.000Z" and r["segment"] == "all"]
    assert [row["metric"] for row in first] == ["RR@10", "RR@3"]
    same, new = first
    for name in ("mean", "stderr", "scored", "impressions"):
        assert same[name] == same[f"stored_{name}"] != "", "the same metric has the same integers"
    assert new["mean"] and not new["stored_mean"] and float(new["mean"]) < float(same["mean"])
    assert {row["grouping"] for row in rows} == {"all", *GROUPINGS}
    for row in [row for row in rows if row["metric"] == "RR@10"]:
        assert row["stored_mean"] == (row["mean"] if row["settled"] == "True" else "")
    code, out = await command("replay", "--kafka", *configured, "--from", "2026-11-20T12:00:00Z")
    assert code == 2 and "needs --from and --to" in out
