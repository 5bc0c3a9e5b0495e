"""Every query of every dashboard has results on a real Prometheus that scraped the daemon."""

import asyncio
import json
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from relevanced.daemon.kafka import KafkaProducer, KafkaSettings
from tests.deploy.dashboard_rules import Json, expressions, targets
from tests.deploy.scraped import Prometheus, scraped_daemon, until
from tests.deploy.shown import choices, fill
from tests.deploy.test_dashboards import DASHBOARDS
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer, binaries

FORMER_AGE_S: Final = 1200
"""Age of an event outside the smallest window that is not late yet."""
HISTORY_AGE_S: Final = 27 * 3600
"""Age of the first event of the history."""
LEGEND: Final = re.compile(r"{{\s*(\w+)\s*}}")


def event(country: str, age_s: float, name: str) -> bytes:
    """An impression without feedback."""
    timestamp = int((time.time() - age_s) * 1000)
    fields = {"impression_id": name, "timestamp": timestamp, "items": ["a", "b"]}
    attributes = {"country": country, "device": "web"}
    return json.dumps({"type": "impression", **fields, "attributes": attributes}).encode()


def interleaved(number: int) -> Iterator[bytes]:
    """A list of two rankers, shown to a user of its own when the history begins, and a click."""
    name, timestamp = f"shared{number}", int((time.time() - HISTORY_AGE_S) * 1000)
    one = {"impression_id": name, "timestamp": timestamp}
    teams = {"teams": ["control", "new"], "experiments": {"ranker-v2": "interleaved"}}
    shown = {"items": ["a", "b"], "user_id": f"shared{number}", **teams}
    yield json.dumps({"type": "impression", **one, **shown}).encode()
    clicked = {"kind": "click", "item": "ab"[number % 3 % 2]}
    yield json.dumps({"type": "feedback", **one, **clicked}).encode()


async def send(kafka: str, topic: str, values: Sequence[bytes]) -> None:
    """Send records to one partition of the topic."""
    producer = KafkaProducer(KafkaSettings(kafka, (topic,), "none"))
    await producer.start()
    for value in values:
        await producer.send(topic, value, b"key", timestamp_ms=int(time.time() * 1000))
    await producer.flush()
    await producer.stop()


OF_JUDGEMENTS: Final = "_judged_"
"""In the names of series that a daemon without judgements, as this one, does not have."""


@pytest.fixture(scope="module")
def prometheus(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the daemon."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no prometheus: apt-get install prometheus")
    directory = tmp_path_factory.mktemp("watched")
    kafka.start()
    redis = RedisServer(str(binaries()["valkey"]), directory / "redis")
    redis.start()
    topic, letters = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("watched", "letters"))
    asyncio.run(kafka.create_topic(letters))
    names = {"kafka": kafka.bootstrap, "topic": topic, "letters": letters, "redis": redis.url}

    def before() -> None:
        """Lists that settle long before the end of the history."""
        asyncio.run(kafka.create_topic(topic, 2))
        shared = [value for number in range(200) for value in interleaved(number)]
        asyncio.run(send(kafka.bootstrap, topic, shared))

    def produce() -> None:
        """An invalid record, and impressions without clicks: a current and an older one."""
        values = [event("unclicked", 1, "now"), event("former", FORMER_AGE_S, "then"), b"garbage"]
        asyncio.run(send(kafka.bootstrap, topic, values))

    try:
        with scraped_daemon(names, binary, directory, produce, before) as server:
            yield server
    finally:
        redis.kill()
        for name in (topic, letters):
            asyncio.run(kafka.delete_topic(name))


def queries() -> list[Any]:
    return [
        pytest.param(name, panel, target, id=f"{name}-{panel['title']}-{target['refId']}")
        for name, dashboard in DASHBOARDS.items()
        for panel, target in targets(dashboard)
        if OF_JUDGEMENTS not in target["expr"]
    ]


@pytest.mark.parametrize(("name", "panel", "target"), queries())
def test_query_has_results(prometheus: Prometheus, name: str, panel: Json, target: Json) -> None:
    expression = fill(target["expr"], choices(prometheus, DASHBOARDS[name]))
    query = prometheus.now if target.get("instant") else prometheus.lately
    found = until(lambda: query(expression), what=f"{panel['title']}: {expression} has results")
    named = set(LEGEND.findall(target.get("legendFormat") or ""))
    assert all(named <= labels.keys() for labels, _ in found), (named, found)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_annotation_has_results(prometheus: Prometheus, name: str) -> None:
    selected = choices(prometheus, DASHBOARDS[name])
    for where, expression in expressions(DASHBOARDS[name]):
        # Nothing has changed in this traffic: that mark has a test of its own.
        if where.startswith("annotation") and "Change began" not in where:
            query = fill(expression, selected)
            assert until(lambda: prometheus.lately(query), what=where)  # noqa: B023


@pytest.mark.parametrize(
    ("metric", "segment", "value"),
    [("P@1", "unclicked", 0), ("nDCG@10", "unclicked", -1), ("P@1", "former", -2)],
    ids=["zero", "undefined", "no traffic"],
)
def test_states_have_different_values(
    prometheus: Prometheus, metric: str, segment: str, value: float
) -> None:
    """The same panel shows 0, undefined and no traffic as three different values."""
    dashboard = DASHBOARDS["segment"]
    (expression,) = (
        target["expr"] for panel, target in targets(dashboard) if panel["title"] == "Live score"
    )
    selected = {
        "cluster": "",
        "namespace": "",
        "job": "relevanced",
        "grouping": "country",
        "metric": metric,
        "segment": segment,
    }
    query = fill(expression, {**selected, "window": "5m"})
    assert [found for _, found in until(lambda: prometheus.now(query), what=query)] == [value]
