"""Attributes by files of classes on real parts: the rows are the oracle's after a crash, a lane
whose file is gone says which one to put back, and a file that was listed too late is refused.
"""

import itertools
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from relevanced.daemon.judgements import HOUR_MS, INDEX, add, read_classes
from tests import oracle
from tests.oracle_queries import Dated
from tests.services.daemons import until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.whole_path import CONFIG, PARTITIONS, START_MS, Stage

EVENTS = 5_000
GROUPINGS = (("country",), ("traffic",), ("traffic", "device"))


class ClassedStage(Stage):
    """A stage whose daemons class queries by files."""

    @property
    def heads(self) -> Path:
        return self.directory / "heads"

    def toml(self, name: str) -> str:
        text, before, _ = super().toml(name).partition("groupings = ")
        groupings = [list(names) for names in GROUPINGS]
        # A group of its own: nobody waits until that of the killed worker misses it.
        text = text.replace(f'group_id = "{name}"', f'group_id = "{name}-{len(self.daemons)}"')
        derive = f'[[derive]]\nattribute = "traffic"\ndirectory = "{self.heads}"\n'
        return f"{text}{before}{groupings}\n{derive}".replace("'", '"')

    def class_queries(self, *kinds: str) -> Path:
        """Put a file in place for each kind of frequent queries, which begin an hour apart; the
        path of the last."""
        shown, self.events = itertools.tee(self.events)
        found = Counter(e["query"] for _, e in itertools.islice(shown, 1_000) if e.get("query"))
        most = [query for query, _ in found.most_common(40)]
        self.heads.mkdir()
        dated, path = [], self.heads
        for number, kind in enumerate(kinds):
            start_ms = START_MS + number * HOUR_MS
            lines = [(query, kind if n < 20 else "rest") for n, query in enumerate(most)]
            path = self.put(start_ms, lines)
            dated.append((start_ms, lines))
        self.config = replace(CONFIG, groupings=GROUPINGS, derive={"traffic": Dated(dated)})
        return path

    def put(self, start_ms: int, classes: Sequence[tuple[str, str]]) -> Path:
        """Put a file of (query, class) in place; its path."""
        source = self.directory / "classes.csv"
        rows = (f'"{query}",{of}' for query, of in classes)
        source.write_text("\n".join(["query,class", *rows]))
        entry, _ = add(self.heads, source, start_ms, 0, read_classes)
        return self.heads / entry.name


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[ClassedStage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = ClassedStage(kafka, one_redis.url, topic, tmp_path, rate=1.2)
    yield built
    built.close()


async def test_classes_survive_a_crash_and_a_missing_file_is_waited_for(
    stage: ClassedStage,
) -> None:
    path = stage.class_queries("head", "torso")
    await stage.produce(EVENTS // 2)
    crashed = stage.daemon("classed")
    await stage.wait_for("classed", EVENTS // 2)
    await stage.produce(EVENTS // 2)
    crashed.process.send_signal(signal.SIGKILL)
    crashed.process.wait()
    again = stage.daemon("classed")
    await stage.wait_for("classed", EVENTS)
    await until(again.readiness, again)  # the other one may have counted all before its end
    assert again.terminate() == 0, again.log()
    expected = oracle.run(await stage.records(), stage.topics, stage.config)
    segments = {key[-1] for lane in expected.values() for key in lane.rows}
    assert {"head", "torso", "rest", "tail"} <= segments
    await stage.assert_equals_oracle("classed", expected)
    for gone in (path, stage.heads / INDEX):
        gone.unlink()
    await stage.produce(100)
    waiting = stage.daemon("classed")
    wanted = f"put back the file {path.name} of SHA-256"
    await until(lambda: wanted in waiting.readiness(), waiting)
    assert waiting.terminate() == 0, waiting.log()


async def test_a_file_that_is_listed_too_late_is_refused_by_every_lane_and_named(
    stage: ClassedStage,
) -> None:
    stage.class_queries("head")
    await stage.produce(EVENTS)
    before = stage.daemon("late")
    await stage.wait_for("late", EVENTS)
    assert before.terminate() == 0, before.log()
    late = stage.put(START_MS + HOUR_MS, [("a query", "torso")])
    await stage.produce(100)
    daemon = stage.daemon("late", "all")
    await stage.wait_for("late", EVENTS + 100)
    named = f'attribute="traffic",name="{late.name}",start="2026-11-20T13:00:00Z"'
    series = f"relevanced_query_classes_refused_lanes{{{named}}}"
    await until(lambda: daemon.series(series) == PARTITIONS, daemon)
    assert f"lanes 0, 1, 2, 3 refused {late.name}" in daemon.readiness()
    (traffic,) = json.loads(daemon.get("/api/v1/classes"))["derived"]
    assert [file["name"] for file in traffic["refused"]] == [late.name]
    assert daemon.terminate() == 0, daemon.log()
    expected = oracle.run(await stage.records(), stage.topics, stage.config)
    await stage.assert_equals_oracle("late", expected)
