"""Acknowledgements over real HTTP and in real Redis: who may say what, who sees it, until when."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from yarl import URL

from relevanced.daemon.changes import MINUTE_MS
from relevanced.daemon.exporter import KeptMarkers, Publisher
from relevanced.daemon.http import (
    ACKNOWLEDGE_PATH,
    ROUTES,
    HttpServer,
    MarkerSettings,
    loading,
    openapi,
)
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.storage import Client, MarkerLog
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.views import WHOLE
from tests.daemon.exporter.test_open_changes import PER_MINUTE, SETTLED_MS
from tests.daemon.exporter.two_countries import NOW_MS, PLAN, Site
from tests.services.fixtures import AnyRedis
from tests.services.redis_lanes import NAMESPACE, client_at
from tests.services.test_markers import JSON, USERS

BREAK_MS: Final = NOW_MS - 10 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
AS_OF_MS: Final = NOW_MS + SETTLED_MS
"""2026-11-20 12:01:04 UTC."""
UNTIL: Final = "2026-11-20T14:30:00Z"
SAID: Final = {"text": "rolled back to v7, waiting", "until": UNTIL}
DOCUMENT: Final[dict[str, Any]] = json.loads(openapi.document("1", ROUTES))
HOSTILE: Final = "</script>{a}%2F?#\u202e"
NOBODY: Final[Mapping[str, str]] = {}


class Exporter:
    """One exporter of a site of which DE broke ten minutes ago: what it reads, and its HTTP."""

    def __init__(self, client: Client, site: Site | None = None) -> None:
        store = MarkerLog(client, NAMESPACE)
        self.now_ms = AS_OF_MS
        self.server = HttpServer(
            Telemetry("1"),
            "all",
            markers=MarkerSettings(store),
            clock=lambda: self.now_ms / 1e3,
        )
        self._kept = KeptMarkers(store, DAY_MS)
        self._publisher = Publisher(PLAN)
        self._site = site or Site(BREAK_MS - HOUR_MS, BREAK_MS, 0.65, PER_MINUTE)
        self.session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/"

    async def look(self) -> None:
        """Publish what there is now."""
        self._publisher.markers = await self._kept.refresh(self.now_ms, True)
        views = [self._site.lane(self.now_ms)]
        self.server.published = self._publisher.publish(views, self.now_ms)

    async def call(
        self,
        method: str,
        change: str,
        body: object = None,
        headers: Mapping[str, str] = JSON,
        login: Mapping[str, str] = NOBODY,
        query: str = "",
    ) -> tuple[int, Any]:
        """Status and answer, checked by the document."""
        path = f"{ACKNOWLEDGE_PATH.replace('{id}', quote(change, safe=''))}?{query}"
        status, answer = await self._call(method, path, body, {**headers, **login})
        if status != 401:
            described = DOCUMENT["paths"][ACKNOWLEDGE_PATH][method.lower()]["responses"]
            check(described[str(status)], answer)
        return status, answer

    async def changes(self, login: Mapping[str, str] = NOBODY) -> Any:
        path = "/api/v1/changes"
        status, answer = await self._call("GET", f"{path}?window=5m", None, login)
        check(DOCUMENT["paths"][path]["get"]["responses"][str(status)], answer)
        return answer

    async def _call(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        assert self.session is not None
        url = URL(f"http://127.0.0.1:{self.server.port}{path}", encoded=True)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {} if method == "GET" else {"data": data}
        async with self.session.request(method, url, headers=dict(headers), **sent) as response:
            return response.status, await response.json()


def check(response: Mapping[str, Any], answer: Any) -> None:
    schema = response["content"]["application/json"]["schema"]
    whole = {"components": DOCUMENT["components"], **schema}
    assert [error.message for error in Draft202012Validator(whole).iter_errors(answer)] == []


@asynccontextmanager
async def exporting(
    client: Client, *, site: Site | None = None, web_config: str | None = None
) -> AsyncIterator[Exporter]:
    made = Exporter(client, site)
    await made.look()
    await made.server.start("127.0.0.1" if web_config is None else "0.0.0.0", 0, web_config)
    try:
        async with aiohttp.ClientSession() as made.session:
            yield made
    finally:
        await made.server.stop()


@pytest.fixture
async def client(any_redis: AnyRedis) -> AsyncIterator[Client]:
    async with client_at(any_redis.url) as opened:
        yield opened


@pytest.fixture
async def exporter(client: Client) -> AsyncIterator[Exporter]:
    async with exporting(client) as made:
        yield made


async def test_an_acknowledged_change_says_so_and_stays_as_red_as_it_is(exporter: Exporter) -> None:
    before = await exporter.changes()
    (change,) = before["open"]
    assert change["acknowledged"] is None
    status, answer = await exporter.call("POST", change["id"], SAID)
    said = {"text": SAID["text"], "until": "2026-11-20T14:30:00.000Z", "by": None}
    assert (status, answer) == (201, said | {"at": "2026-11-20T12:01:04.000Z"})
    await exporter.look()
    after = await exporter.changes()
    assert after["open"] == [change | {"acknowledged": answer}]
    for name in ("tone", "text", "change"):
        assert after["headline"][name] == before["headline"][name]
    phrase = "Acknowledged until 14:30: rolled back to v7, waiting."
    assert after["headline"]["detail"].startswith(phrase)
    assert after["headline"]["detail"].removeprefix(phrase).strip() == before["headline"]["detail"]


async def test_it_is_not_said_any_more_once_its_end_has_come(exporter: Exporter) -> None:
    (change,) = (await exporter.changes())["open"]
    await exporter.call("POST", change["id"], SAID | {"until": "2026-11-20T12:02:04Z"})
    await exporter.look()
    exporter.now_ms = AS_OF_MS + MINUTE_MS - 1
    assert (await exporter.changes())["open"][0]["acknowledged"] is not None
    exporter.now_ms += 1
    found = await exporter.changes()
    assert found["open"][0]["acknowledged"] is None
    assert "Acknowledged" not in found["headline"]["detail"]


async def test_what_is_said_later_is_said_instead_and_can_be_withdrawn(
    exporter: Exporter, client: Client
) -> None:
    (change,) = (await exporter.changes())["open"]
    assert (await exporter.call("POST", change["id"], SAID))[0] == 201
    exporter.now_ms += 1000
    assert (await exporter.call("POST", change["id"], SAID | {"text": "v8 is ready"}))[0] == 200
    await exporter.look()
    assert (await exporter.changes())["open"][0]["acknowledged"]["text"] == "v8 is ready"
    stored = await MarkerLog(client, NAMESPACE).read()
    assert stored is not None and len(stored.markers) == 1
    assert await exporter.call("DELETE", change["id"]) == (200, {"id": change["id"]})
    assert (await exporter.call("DELETE", change["id"]))[0] == 404
    await exporter.look()
    assert (await exporter.changes())["open"][0]["acknowledged"] is None


async def test_every_exporter_says_it_and_it_outlasts_a_restart(client: Client) -> None:
    async with exporting(client) as one:
        (change,) = (await one.changes())["open"]
        await one.call("POST", change["id"], SAID)
    async with exporting(client) as another:
        (same,) = (await another.changes())["open"]
        assert same["id"] == change["id"] and same["acknowledged"]["text"] == SAID["text"]


async def test_an_acknowledgement_is_no_marker(exporter: Exporter) -> None:
    """Neither in the list, nor beside the change, nor in the series."""
    (change,) = (await exporter.changes())["open"]
    await exporter.call("POST", change["id"], SAID)
    await exporter.look()
    assert (await exporter._call("GET", "/api/v1/markers", None, {}))[1] == {"markers": []}
    found = await exporter.changes()
    assert found["open"][0]["markers"] == [] and found["headline"]["parts"]["marker"] is None
    text = b"".join(exporter.server.published.text.with_rest(b""))
    assert b"relevanced_change_open" in text and b"rolled back" not in text


async def test_it_can_be_said_anew_where_no_more_markers_are_kept(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MOST_MARKERS", 1)
    (change,) = (await exporter.changes())["open"]
    assert (await exporter.call("POST", change["id"], SAID))[0] == 201
    assert (await exporter.call("POST", change["id"], SAID | {"text": "v8 is ready"}))[0] == 200


async def test_a_parameter_that_nothing_reads_is_refused(exporter: Exporter) -> None:
    (change,) = (await exporter.changes())["open"]
    for method in ("POST", "DELETE"):
        status, answer = await exporter.call(method, change["id"], SAID, query="until=1h")
        assert (status, answer["error"]) == (400, "until: must be one of id")
        status, answer = await exporter.call(method, change["id"], SAID, query="id=c-2")
        assert status == 400 and answer["error"].endswith("must be given once")


async def test_an_unknown_change_is_refused_with_those_that_are_open(exporter: Exporter) -> None:
    (change,) = (await exporter.changes())["open"]
    for name in ("c-1-country-FR", "a/b", "{x}", "\u202e"):
        status, answer = await exporter.call("POST", name, SAID)
        assert status == 404
        assert answer["error"].endswith(f"no such change is open; those that are: {change['id']}")


async def test_the_name_of_a_segment_may_be_any_text(client: Client) -> None:
    site = Site(BREAK_MS - HOUR_MS, BREAK_MS, 0.65, PER_MINUTE)
    site.names = (WHOLE, ("country", HOSTILE), ("country", "US"))
    async with exporting(client, site=site) as exporter:
        (change,) = (await exporter.changes())["open"]
        assert HOSTILE in change["id"]
        assert (await exporter.call("POST", change["id"], SAID))[0] == 201
        await exporter.look()
        assert (await exporter.changes())["open"][0]["acknowledged"] is not None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "the body: must be a JSON object"),
        (SAID | {"kind": "release"}, "kind: must be one of text, until"),
        ({"until": UNTIL}, "text=null: must be 1 to 200 printable"),
        (SAID | {"text": "x" * 201}, f"text={'x' * 80}…: must be 1 to 200 printable"),
        (SAID | {"text": "a\nb"}, "text=a\\nb: must be 1 to 200 printable"),
        ({"text": "x"}, "until=null: must be in the future, at most 7 days ahead: after 2026-11-"),
        (SAID | {"until": "1h"}, "until=1h: must be a time with its zone"),
        (SAID | {"until": "2026-11-20T12:01:04Z"}, "until=2026-11-20T12:01:04Z: must be in the fu"),
        (SAID | {"until": "2026-11-27T12:01:05Z"}, "until=2026-11-27T12:01:05Z: must be in the fu"),
    ],
)
async def test_a_refusal_names_the_value_and_the_rule(
    exporter: Exporter, body: object, message: str
) -> None:
    (change,) = (await exporter.changes())["open"]
    status, answer = await exporter.call("POST", change["id"], body)
    assert status == 400 and answer["error"].startswith(message)


async def test_a_page_of_another_site_acknowledges_nothing(exporter: Exporter) -> None:
    (change,) = (await exporter.changes())["open"]
    foreign = {**JSON, "Origin": "http://evil.example"}
    for method in ("POST", "DELETE"):
        assert (await exporter.call(method, change["id"], SAID, foreign))[0] == 403
    assert (await exporter.call("POST", change["id"], SAID, {"Content-Type": "text/plain"}))[
        0
    ] == 415


async def test_who_logged_in_is_named(client: Client, tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(USERS)
    bob = {"Authorization": "Basic " + base64.b64encode(b"bob:relevanced").decode()}
    async with exporting(client, web_config=str(tmp_path / "web.yml")) as exporter:
        (change,) = (await exporter.changes(bob))["open"]
        assert (await exporter.call("POST", change["id"], SAID))[0] == 401
        assert (await exporter.call("POST", change["id"], SAID, login=bob))[0] == 201
        await exporter.look()
        found = await exporter.changes(bob)
        assert found["open"][0]["acknowledged"]["by"] == "bob"
        assert found["headline"]["detail"].startswith("Acknowledged by bob until 14:30: rolled")
