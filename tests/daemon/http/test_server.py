"""The HTTP server, over a real connection."""

import asyncio
import gzip
import json
import random
import re
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.exporter import Condition, MetricsText, Published, metrics_text
from relevanced.daemon.http import (
    ROUTES,
    HttpServer,
    ListenError,
    QueryParameter,
    Role,
    read_query,
    wants_gzip,
    wants_openmetrics,
)
from relevanced.daemon.telemetry import Telemetry
from tests.lane_views import Shown, lane_view, published_of, read_openmetrics, read_text, reading_of

FINE = Condition("redis", True)
PROMETHEUS_ACCEPT = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1"
    ";q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


class Client:
    """A client of one server."""

    def __init__(self, server: HttpServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and the body as it was sent."""
        url = f"http://127.0.0.1:{self.server.port}{path}"
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.get(url, headers=sent) as response:
            return response.status, dict(response.headers), await response.read()

    async def json(self, path: str) -> tuple[int, dict[str, object]]:
        status, headers, body = await self.get(path)
        assert headers["Content-Type"].startswith("application/json")
        return status, json.loads(body)


def published(*conditions: Condition) -> Published:
    return published_of(reading_of([lane_view([Shown(), Shown(country="DE")])]), *conditions)


async def served(role: Role, **options: Any) -> AsyncIterator[Client]:
    server = HttpServer(Telemetry("1.2.3"), role, **options)
    await server.start("127.0.0.1", 0)
    session = aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=("Accept-Encoding",))
    async with session:
        yield Client(server, session)
    await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async for one in served("all"):
        yield one


@pytest.fixture
async def worker() -> AsyncIterator[Client]:
    async for one in served("worker"):
        yield one


async def test_metrics_hold_both_parts(client: Client) -> None:
    client.server.published = published()
    status, headers, body = await client.get("/metrics")
    names = {family.name for family in read_text(body)}
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert {"relevanced_score", "relevanced_build_info"} <= names


async def test_openmetrics_is_negotiated(client: Client) -> None:
    client.server.published = published()
    _, headers, body = await client.get("/metrics", Accept=PROMETHEUS_ACCEPT)
    families = read_openmetrics(body)
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert {"relevanced_score", "relevanced_build"} <= {family.name for family in families}


async def test_gzip_has_the_same_content(client: Client) -> None:
    client.server.published = published()
    _, headers, packed = await client.get("/metrics", Accept_Encoding="gzip")
    _, plain_headers, plain = await client.get("/metrics", Accept_Encoding="identity")
    assert (headers["Content-Encoding"], "Content-Encoding" in plain_headers) == ("gzip", False)
    families = [read_text(x) for x in (gzip.decompress(packed), plain)]
    assert [f.name for f in families[0]] == [f.name for f in families[1]]
    assert len(packed) < len(plain) / 3


@given(st.lists(st.binary(max_size=300), max_size=4), st.binary(max_size=300))
def test_parts_compressed_one_by_one_are_one_stream(first: list[bytes], rest: bytes) -> None:
    one, whole = metrics_text(tuple(first)), b"".join((*first, rest))
    assert gzip.decompress(b"".join(one.with_rest_gzipped(rest))) == whole
    assert b"".join(one.with_rest(rest)) == whole


async def test_a_large_response_arrives_whole(client: Client) -> None:
    plain = b"# " + random.Random(5).randbytes(3_000_000).hex().encode() + b"\n"
    client.server.published = replace(Published(), text=metrics_text((plain,)))
    _, headers, body = await client.get("/metrics")
    assert body.startswith(plain) and body.endswith(b"\n")
    assert int(headers["Content-Length"]) == len(body) > len(plain)


async def test_other_tasks_run_between_the_parts_of_a_response(client: Client) -> None:
    turns, seen = 0, list[int]()

    class Parts(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            for part in super().__iter__():
                seen.append(turns)
                yield part

    class Text(MetricsText):
        def with_rest(self, rest: bytes) -> Parts:
            return Parts([b"# small\n"] * 20)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    client.server.published = replace(Published(), text=Text())
    await client.get("/metrics")
    counting.cancel()
    sent = seen[-20:]
    assert len(set(sent)) == 20, "no matter how fast the client reads"


async def test_a_worker_serves_its_process_and_no_scores(worker: Client) -> None:
    _, _, body = await worker.get("/metrics")
    status, message = await worker.json("/api/v1/scores")
    assert b"relevanced_build_info" in body and b"relevanced_score{" not in body
    assert status == 404 and "role worker serves no scores" in str(message["error"])


async def test_scores_are_the_report(client: Client) -> None:
    client.server.published = published()
    status, found = await client.json("/api/v1/scores")
    assert status == 200
    assert list(found) == ["as_of", "events", "scores"]
    assert isinstance(found["scores"], list) and len(found["scores"]) == 60


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("metric=P%401", 20),
        ("metric=P%401&metric=RR%4010", 40),
        ("grouping=country&segment=US&window=1m&view=live", 3),
        ("segment=nowhere", 0),
    ],
)
async def test_filters_narrow_the_scores(client: Client, query: str, count: int) -> None:
    client.server.published = published()
    status, found = await client.json(f"/api/v1/scores?{query}")
    assert (status, len(list(found["scores"]))) == (200, count)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("window=7m", "window=7m: must be one of 10m; 1m"),
        ("metric=P%409", "metric=P@9: must be one of P@1; RR@10; nDCG@10"),
        ("view=", "view=: must be one of live; settled"),
        ("colour=red", "colour: must be one of metric, grouping, segment, window, view"),
    ],
)
async def test_an_unknown_filter_is_refused(client: Client, query: str, message: str) -> None:
    client.server.published = published()
    assert await client.json(f"/api/v1/scores?{query}") == (400, {"error": message})


async def test_scores_before_the_first_snapshot_are_unavailable(client: Client) -> None:
    status, found = await client.json("/api/v1/scores")
    assert status == 503 and "/readyz" in str(found["error"])


@pytest.mark.parametrize("path", ["/readyz", "/-/ready"])
async def test_readiness_names_what_is_wrong(client: Client, path: str) -> None:
    assert (await client.json(path))[0] == 503
    wrong = Condition("lanes", False, "lane 3 has no owner and holds as_of back")
    client.server.published = published(FINE, wrong)
    status, found = await client.json(path)
    assert (status, found["ready"]) == (503, False)
    assert found["conditions"] == msgspec.to_builtins([FINE, wrong])
    client.server.published = replace(client.server.published, conditions=(FINE,))
    assert (await client.json(path))[0] == 200


async def test_who_has_begun_its_work_stays_started_whatever_fails_later(client: Client) -> None:
    assert (await client.json("/startedz"))[0] == 503
    for conditions, status in (
        ([Condition("group", False, "of another Redis")], 503),
        ([Condition("lanes_open", False, "lane 0"), Condition("answers", False, "Kafka")], 200),
        ([Condition("started", False, "waiting")], 200),
    ):
        client.server.published = published(FINE, *conditions)
        assert (await client.json("/startedz"))[0] == status
        assert (await client.json("/readyz"))[0] == 503


@pytest.mark.parametrize("path", ["/livez", "/-/healthy"])
async def test_a_running_loop_is_alive_whatever_else_fails(client: Client, path: str) -> None:
    client.server.published = published(Condition("redis", False, "away"))
    assert await client.json(path) == (200, {"alive": True})


async def test_a_head_request_gets_no_body(client: Client) -> None:
    client.server.published = published()
    async with aiohttp.ClientSession() as session:
        async with session.head(f"http://127.0.0.1:{client.server.port}/metrics") as response:
            assert (response.status, await response.read()) == (200, b"")
    assert (await client.get("/metrics"))[0] == 200


async def test_a_wrong_method_is_answered_with_the_allowed_ones(client: Client) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.post(f"http://127.0.0.1:{client.server.port}/metrics") as response:
            assert (response.status, response.headers["Allow"]) == (405, "GET,HEAD")


async def test_an_unknown_path_is_json_too(client: Client) -> None:
    assert await client.json("/nope") == (404, {"error": "GET /nope: Not Found"})


async def test_every_file_of_the_web_page_is_served_by_every_role(
    client: Client, worker: Client
) -> None:
    _, _, body = await client.get("/")
    named = re.findall(r'(?:src|href)="(page/[^"]+)"', body.decode())
    assert {name.rpartition(".")[2] for name in named} == {"js", "css", "svg"}
    for one in (client, worker):
        for path in ("", *named):
            status, headers, body = await one.get(f"/{path}")
            assert status == 200 and body
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert "unsafe" not in headers["Content-Security-Policy"]


async def test_an_answer_is_made_once_for_a_snapshot_and_a_second_of_the_clock() -> None:
    made, now_s = list[object](), 1000.0
    scores = next(route for route in ROUTES if route.path == "/api/v1/scores")

    def make(context: Any, query: object) -> msgspec.Struct:
        made.append(query)
        return scores.make(context, query)

    routes = [replace(scores, make=make)]
    async for client in served("all", clock=lambda: now_s, routes=routes):
        client.server.published = published()
        answers = await asyncio.gather(*(client.json("/api/v1/scores") for _ in range(20)))
        assert len(made) == 1 and all(answer == answers[0] for answer in answers)
        await client.json("/api/v1/scores?view=live")
        assert len(made) == 2, "another question"
        client.server.published = published_of(reading_of([lane_view([Shown()])]))
        assert await client.json("/api/v1/scores") != answers[0]
        assert len(made) == 3, "another snapshot"
        now_s += 1
        await client.json("/api/v1/scores")
        assert len(made) == 4, "another second: answers may follow from the clock"


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/v1/scores", "/api/v1/openapi.json"])
async def test_what_the_client_has_cached_is_not_sent_again(client: Client, path: str) -> None:
    client.server.published = published()
    _, headers, body = await client.get(path, Accept_Encoding="identity")
    _, packed_headers, packed = await client.get(path, Accept_Encoding="gzip")
    assert gzip.decompress(packed) == body and packed_headers["Content-Encoding"] == "gzip"
    assert packed_headers["Etag"] != headers["Etag"]
    for coding, etag in (("identity", headers["Etag"]), ("gzip", packed_headers["Etag"])):
        again = await client.get(path, Accept_Encoding=coding, If_None_Match=f'"other", W/{etag}')
        assert (again[0], again[2]) == (304, b"")
    assert (await client.get(path, If_None_Match='"other"'))[0] == 200


async def test_a_port_in_use_is_an_error_with_advice(client: Client) -> None:
    second = HttpServer(Telemetry("1"), "all")
    port = client.server.port
    with pytest.raises(ListenError, match=f"http.listen=127.0.0.1:{port}: another process"):
        await second.start("127.0.0.1", port)
    await second.stop()


async def test_an_unknown_host_is_an_error_that_names_it() -> None:
    with pytest.raises(ListenError, match="http.listen=host.invalid:0: "):
        await HttpServer(Telemetry("1"), "all").start("host.invalid", 0)


async def test_stop_frees_the_port_and_can_be_repeated() -> None:
    server = HttpServer(Telemetry("1"), "all")
    await server.start("127.0.0.1", 0)
    port = server.port
    await server.stop()
    await server.stop()
    await server.start("127.0.0.1", port)
    await server.stop()


class Slow(Telemetry):
    """Renders only when the test allows it."""

    def __init__(self) -> None:
        super().__init__("1")
        self.rendering, self.may_render = threading.Event(), threading.Event()

    def render(self, openmetrics: bool) -> bytes:
        self.rendering.set()
        assert self.may_render.wait(10)
        return super().render(openmetrics)


async def test_a_request_in_progress_is_answered_while_stopping() -> None:
    telemetry = Slow()
    server = HttpServer(telemetry, "all")
    await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        request = asyncio.create_task(Client(server, session).get("/metrics"))
        assert await asyncio.to_thread(telemetry.rendering.wait, 10)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        telemetry.may_render.set()
        status, _, body = await request
        await stopping
    assert status == 200 and b"relevanced_build_info" in body


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS_ACCEPT, True),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=2.0.0, text/plain", False),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
        ("text/html,*/*;q=0.8", False),
        ("", False),
        (";;,;q=", False),
    ],
)
def test_openmetrics_is_sent_if_it_is_preferred(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics


@pytest.mark.parametrize(
    ("accept", "gzipped"),
    [("gzip", True), ("br, GZIP;q=0.1", True), ("*", True), ("gzip;q=0, *", False), ("", False)],
)
def test_gzip_is_sent_if_it_is_accepted(accept: str, gzipped: bool) -> None:
    assert wants_gzip(accept) is gzipped


def test_a_filter_given_twice_accepts_both() -> None:
    filters = [QueryParameter("segment", "", repeatable=True)]
    assert read_query([("segment", "a"), ("segment", "b")], filters, {}) == {"segment": ["a", "b"]}
