"""Judged rows on real parts: the same after a crash; and a worker without a file waits for it."""

import csv
import hashlib
import itertools
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from relevanced.daemon.judgements import HOUR_MS, INDEX, add
from relevanced.daemon.storage import JUDGED, close, unpack_page
from tests.services.daemons import until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_verify import command
from tests.services.whole_path import PARTITIONS, START_MS, Stage
from tests.silent_mount import silent_mount

NOT_READ = f"/{INDEX}: not read for "
EVENTS = 12_000
MORE = 1_000


class JudgedStage(Stage):
    """A stage whose daemons grade by files."""

    @property
    def judgements(self) -> Path:
        return self.directory / "judgements"

    def toml(self, name: str) -> str:
        return f'{super().toml(name)}[judgements]\ndirectory = "{self.judgements}"\n'

    def judge(self) -> Path:
        """Put a file in place that judges the queries of the first searches; its path."""
        shown, self.events = itertools.tee(self.events)
        lines = ["query,docid,rating"]
        seen: set[tuple[str, str]] = set()
        for _, event in itertools.islice(shown, 2_000):
            for rank, item in enumerate(event.get("items") or () if event.get("query") else ()):
                if (event["query"], item) not in seen:
                    seen.add((event["query"], item))
                    lines.append(f'"{event["query"]}",{item},{rank % 4}')
        self.judgements.mkdir()
        source = self.directory / "grades.csv"
        source.write_text("\n".join(lines))
        start_ms = START_MS // HOUR_MS * HOUR_MS
        entry, _ = add(self.judgements, source, start_ms, 0)
        return self.judgements / entry.name

    async def prove(self, name: str) -> None:
        """The log proves the judged rows of a lane."""
        path = self.directory / "verify.toml"
        path.write_text(self.toml(name))
        code, out = await command(
            "verify", "--config", str(path), "--lane", "0", "--output", "json"
        )
        assert code == 0, out
        (lane,) = json.loads(out)
        assert lane["result"] == "equal" and lane["judged_hours"] and not lane["notes"], lane

    async def grade_again(self, name: str) -> None:
        """`replay --kafka` grades as the lanes have graded."""
        path = self.directory / "verify.toml"
        path.write_text(self.toml(name))
        span = ("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T13:00:00Z")
        code, out = await command(
            "replay", "--kafka", "--config", str(path), *span, "--output", "csv"
        )
        assert code == 0, out
        rows = [row for row in csv.DictReader(out.splitlines()) if row["judged_metric"]]
        assert {row["grouping"] for row in rows} >= {"all", "country"}
        for row in rows:
            assert row["settled"] == "True" and row["impressions"] == row["stored_impressions"]
            assert row["mean"] == row["stored_mean"]
            assert row["judgements"] == row["stored_judgements"] != ""

    async def wait_with_an_empty_directory(self, path: Path) -> None:
        """A worker on a machine whose directory lists nothing starts, and its lanes wait for the
        file that they have graded by, until it is there; nothing is lost."""
        index, content = self.judgements / INDEX, path.read_bytes()
        listed = index.read_bytes()
        index.unlink()
        path.unlink()
        await self.produce(MORE)
        waiting = self.daemon("crashed")
        await until(lambda: "waits: put back the file" in waiting.readiness(), waiting)
        assert (
            f"{path.name} of SHA-256 {hashlib.sha256(content).hexdigest()}" in waiting.readiness()
        )
        assert sum((await self.taken("crashed")).values()) == EVENTS
        path.write_bytes(content)
        index.write_bytes(listed)
        await self.wait_for("crashed", EVENTS + MORE)
        await until(lambda: "waits" not in waiting.readiness(), waiting)
        assert waiting.terminate() == 0, waiting.log()

    async def judged_rows(self, name: str) -> dict[tuple[int, str], list[list[int]]]:
        """(lane, key) → rows of segments, sorted: workers number segments as they meet them."""
        found, store = dict[tuple[int, str], list[list[int]]](), self.store(name)
        for lane in range(PARTITIONS):
            delta = await store.read(lane, "", None, 1)
            assert delta.head.judged is not None and delta.head.judgements is not None
            for key, data in delta.pages.items():
                if JUDGED.own(key):
                    rows = unpack_page(data)
                    found[lane, key] = sorted(rows[np.any(rows, axis=1)].tolist())
        await close(store._client)
        return found


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[JudgedStage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = JudgedStage(kafka, one_redis.url, topic, tmp_path, rate=3.0)
    yield built
    built.close()


async def test_judged_rows_survive_a_crash_and_a_missing_file_is_waited_for(
    stage: JudgedStage,
) -> None:
    path = stage.judge()
    await stage.produce(EVENTS)
    calm, crashed = stage.daemon("calm"), stage.daemon("crashed")
    await stage.wait_for("crashed", EVENTS // 3)
    crashed.process.send_signal(signal.SIGKILL)
    crashed.process.wait()
    again = stage.daemon("crashed")
    for name in ("calm", "crashed"):
        await stage.wait_for(name, EVENTS)
    rows = await stage.judged_rows("calm")
    assert rows == await stage.judged_rows("crashed")
    assert sum(of[-1][0] for (_, key), of in rows.items() if of and ":hours:" in key) > 500
    await until(again.readiness, again)
    assert again.terminate() == 0, again.log()
    await stage.prove("crashed")
    await stage.grade_again("crashed")
    await stage.wait_with_an_empty_directory(path)
    await stage.wait_for("calm", EVENTS + MORE)
    assert await stage.judged_rows("calm") == await stage.judged_rows("crashed") != rows
    assert calm.terminate() == 0, calm.log()


async def test_directory_that_hangs_is_said_and_holds_neither_start_nor_exit(
    stage: JudgedStage,
) -> None:
    stage.judge()
    await stage.produce(MORE)
    with silent_mount(stage.judgements):
        daemon = stage.daemon("held")
        await until(lambda: daemon.get("/livez"), daemon)
        await until(lambda: "lane 0 waits: " in daemon.readiness(), daemon)
        await until(lambda: NOT_READ in daemon.readiness(), daemon)
        began_s = time.monotonic()
        assert daemon.terminate() == 0, daemon.log()
        assert time.monotonic() - began_s < 20
        daemon = stage.daemon("held")
        await until(lambda: NOT_READ in daemon.readiness(), daemon)
        await until(lambda: '"ready":false' in daemon.readiness(), daemon)
        daemon.get("/startedz")  # so a roll-out goes on to the others
    await stage.wait_for("held", MORE)
    await until(lambda: '"ready":true' in daemon.readiness(), daemon)
