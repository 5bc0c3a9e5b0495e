"""The counter of all traffic leads to the search that scored worst in the last hour, and a real
Prometheus takes it."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import yaml
from msgspec import structs

from relevanced.daemon.exporter import ExampleReads, Published, Publisher, metrics_text
from relevanced.daemon.http import HttpServer
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import LaneDelta, head_of, names_of, row_pages
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.views import LaneView, Mirror
from relevanced.metrics import catalog
from tests.daemon.http.test_queries import HOUR_MS, PLAN, START_MS, Site, Stored
from tests.lane_views import read_openmetrics, read_text
from tests.services.prometheus_server import Prometheus, answer, required

COUNTER: Final = "relevanced_settled_score_sum_total"
ODD: Final = "of {ü,\U0001f50d}# 1 ".ljust(113, "-")
"""With the number of a search an id as long as it may be."""


def hours(plan: Plan = PLAN, count: int = 1, prefix: str = ODD) -> Site:
    """Each hour twelve searches of one query, of which every fourth fails; all are over."""
    site = Site(plan)
    for hour in range(count):
        for turn in range(12):
            site.search(hour, "lamp", f"u{turn % 4}", clicked=turn % 4 > 0, prefix=prefix)
    for turn in range(90):
        site.search(count + 0.6, f"later {turn}", "u1", clicked=True)
    return site


@dataclass
class Counting(Stored):
    """A store that counts what is asked of it."""

    asked: int = 0

    async def values(self, lane: int, keys: Sequence[str]) -> dict[str, bytes | None]:
        self.asked += 1
        return await super().values(lane, keys)


def stored(site: Site) -> tuple[Counting, LaneView]:
    memory, _ = site.store()
    head, mirror = head_of(memory.fields), Mirror(0, site.plan)
    pages = {key: memory.blobs[key] for key, sequence in memory.listed.items() if sequence}
    mirror.apply(LaneDelta(head, True, names_of(memory.names, head.state.names)[1:], pages))
    return Counting(memory), mirror.view()


async def published(site: Site) -> Published:
    store, view = stored(site)
    publisher = Publisher(site.plan)
    publisher.exemplar = await ExampleReads(store, site.plan).refresh([view])
    return publisher.publish([view], view.watermark_ms or 0)


def shown(site: Site) -> dict[str, dict[str, Any]]:
    """Impression id → the impression."""
    return {e["impression_id"]: e for e in site.searches if e["type"] == "impression"}


async def test_only_openmetrics_has_the_exemplar_and_only_one_line() -> None:
    site = hours()
    served = await published(site)
    families = read_openmetrics(b"".join((*served.openmetrics.plain, b"# EOF\n")))
    [one] = [s for family in families for s in family.samples if s.exemplar]
    assert one.name == COUNTER
    assert one.labels == {"metric": "P@1", "grouping": "all", "segment": "all"}
    impression = shown(site)[one.exemplar.labels["impression_id"]]
    assert one.exemplar.value == 0
    assert 1000 * float(one.exemplar.timestamp) == impression["timestamp"]
    plain = b"".join(served.text.plain)
    assert b"impression_id" not in plain and read_text(plain)


async def test_examples_are_read_once_an_hour() -> None:
    store, view = stored(hours(count=2))
    reads = ExampleReads(store, PLAN)
    found = [await reads.refresh([view]) for _ in range(3)]
    assert found[0] and len(set(found)) == 1 and store.asked == 1
    assert int(float(found[0].split()[-1])) // 3600 == START_MS // HOUR_MS + 1, "the last closed"
    assert await reads.refresh([]) == ""


async def test_searches_with_too_few_users_or_lost_or_damaged_are_no_exemplar() -> None:
    store, view = stored(hours())
    queries = PLAN.queries
    assert queries is not None and await ExampleReads(store, PLAN).refresh([view])
    stricter = replace(PLAN, queries=replace(queries, min_users=queries.min_users + 1))
    assert await ExampleReads(store, stricter).refresh([view]) == ""
    for value in (b"\xff", None):
        store.memory.blobs[row_pages.examples_hour_key(START_MS)] = value
        assert await ExampleReads(store, PLAN).refresh([view]) == ""


async def test_examples_that_another_layout_ordered_are_no_exemplar() -> None:
    store, view = stored(hours())
    assert view.queries is not None
    begun = structs.replace(view.queries, since_ms=START_MS + HOUR_MS)
    assert await ExampleReads(store, PLAN).refresh([replace(view, queries=begun)]) == ""


@pytest.mark.parametrize("prefix", ["x" * 115, "line\nbreak", "\x00", '"', "\\"], ids=ascii)
async def test_an_id_that_a_scrape_could_fail_on_is_no_exemplar(prefix: str) -> None:
    store, view = stored(hours(prefix=prefix))
    assert await ExampleReads(store, PLAN).refresh([view]) == ""


async def test_the_worst_of_a_metric_that_should_be_low_is_its_highest() -> None:
    plan = replace(PLAN, metrics=(catalog.parse("FirstFeedbackSeconds"),))
    store, view = stored(hours(plan))
    assert "} 1 " in await ExampleReads(store, plan).refresh([view]), "a click after a second"


async def targets(prometheus: Prometheus) -> dict[str, Any]:
    """Job → what its last scrape came to, if there was one."""
    url = f"{prometheus.url}/api/v1/targets?state=active"
    found = json.loads(await asyncio.to_thread(answer, url))["data"]["activeTargets"]
    return {one["labels"]["job"]: one for one in found if one["health"] != "unknown"}


@required("prometheus")
async def test_prometheus_finds_the_exemplar_and_refuses_one_on_a_gauge(tmp_path: Path) -> None:
    site = hours()
    right = await published(site)
    gauge = re.compile(rb"^(relevanced_as_of_timestamp_seconds .+)$", re.MULTILINE)
    text, planted = gauge.subn(rb'\1 # {impression_id="i"} 1', b"".join(right.openmetrics.plain))
    assert planted == 1
    servers = {"counter": right, "gauge": replace(right, openmetrics=metrics_text((text,)))}
    scraped = []
    for job, page in servers.items():
        server = HttpServer(Telemetry("1"), "all")
        server.published = page
        await server.start("127.0.0.1", 0)
        static = [{"targets": [f"127.0.0.1:{server.port}"]}]
        scraped.append({"job_name": job, "scrape_interval": "1s", "static_configs": static})
        servers[job] = server
    config = yaml.safe_dump({"scrape_configs": scraped})
    feature = "--enable-feature=exemplar-storage"
    prometheus = await asyncio.to_thread(Prometheus, tmp_path, config, feature)
    try:
        async with asyncio.timeout(60):
            while len(found := await targets(prometheus)) < len(servers):
                await asyncio.sleep(0.1)
        asked = {"query": COUNTER, "start": START_MS / 1000, "end": START_MS / 1000 + 7200}
        url = f"{prometheus.url}/api/v1/query_exemplars?{urlencode(asked)}"
        [series] = json.loads(await asyncio.to_thread(answer, url))["data"]
    finally:
        prometheus.close()
        for server in servers.values():
            await server.stop()
    assert found["counter"]["health"] == "up", found["counter"]["lastError"]
    assert found["gauge"]["health"] == "down" and "exemplar" in found["gauge"]["lastError"]
    assert series["seriesLabels"]["job"] == "counter"
    [exemplar] = series["exemplars"]
    assert exemplar["labels"]["impression_id"] in shown(site) and float(exemplar["value"]) == 0
