"""Markers over real HTTP and in real Redis: who may set them, what is stored, who sees them."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from jsonschema import Draft202012Validator

from relevanced.daemon.changes import MOST_MARKERS, Marker
from relevanced.daemon.exporter import KeptMarkers, unpacked
from relevanced.daemon.http import (
    MARKERS_PATH,
    ROUTES,
    HttpServer,
    MarkerRules,
    MarkerSettings,
    loading,
    openapi,
)
from relevanced.daemon.storage import Client, MarkerLog
from relevanced.daemon.telemetry import Telemetry
from tests.services.fixtures import AnyRedis
from tests.services.redis_lanes import NAMESPACE, client_at

NOW_MS: Final = 1_795_176_000_000
"""2026-11-20 12:00 UTC."""
DAY_MS: Final = 86_400_000
USERS = "basic_auth_users: {bob: $2b$04$abcdefghijklmnopqrstuu8gGHls/mdv32ht0pJqcxptBcJ3WwHFi}\n"
RELEASE: Final = {"kind": "release", "text": "ranker v8"}
JSON: Final = {"Content-Type": "application/json"}
NOBODY: Final[Mapping[str, str]] = {}
DOCUMENT: Final[dict[str, Any]] = json.loads(openapi.document("1", ROUTES))
Call = Callable[..., Any]


@asynccontextmanager
async def serving(
    client: Client, host: str = "127.0.0.1", web_config: str | None = None
) -> AsyncIterator[Call]:
    """Call a server: method, path and body to status and answer, checked by the document. PORT
    asks for its port."""
    settings = MarkerSettings(
        MarkerLog(client, NAMESPACE),
        MarkerRules(("RR@10",), ("all", "country"), 35 * DAY_MS),
    )
    server = HttpServer(Telemetry("1"), "all", markers=settings, clock=lambda: NOW_MS / 1e3)
    await server.start(host, 0, web_config)
    try:
        async with aiohttp.ClientSession() as session:

            async def call(
                method: str,
                path: str = "",
                body: object = None,
                headers: Mapping[str, str] = JSON,
                login: Mapping[str, str] = NOBODY,
            ) -> tuple[int, Any]:
                if method == "PORT":
                    return server.port, None
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                url = f"http://127.0.0.1:{server.port}/api/v1/markers{path}"
                sent = {} if method == "GET" else {"data": data}
                given = {**headers, **login}
                async with session.request(method, url, headers=given, **sent) as response:
                    status, answer = response.status, await response.json()
                assert status == 401 or faults(method, path, status, answer) == []
                return status, answer

            yield call
    finally:
        await server.stop()


def faults(method: str, path: str, status: int, body: Any) -> list[str]:
    """What the document does not allow in an answer."""
    of_one = path.startswith("/")
    operations = DOCUMENT["paths"][MARKERS_PATH + "/{id}" * of_one]
    answer = operations[method.lower()]["responses"][str(status)]["content"]["application/json"]
    whole = {"components": DOCUMENT["components"], **answer["schema"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(body)]


@pytest.fixture
async def client(any_redis: AnyRedis) -> AsyncIterator[Client]:
    async with client_at(any_redis.url) as opened:
        yield opened


async def test_a_marker_is_set_listed_and_removed(client: Client) -> None:
    async with serving(client) as call:
        status, one = await call("POST", body={**RELEASE, "id": "v8"})
        assert (status, one["at"], one["id"]) == (201, "2026-11-20T12:00:00.000Z", "v8")
        assert await call("GET") == (200, {"markers": [one]})
        assert (await call("GET", "?from=2026-11-20T12:00:00.001Z"))[1] == {"markers": []}
        assert (await call("GET", "?to=2026-11-20T12:00:00Z"))[1] == {"markers": []}
        assert await call("DELETE", "/v8") == (200, {"id": "v8"})
        assert (await call("DELETE", "/v8"))[0] == 404
        assert await call("GET") == (200, {"markers": []})


async def test_a_marker_with_an_id_is_stored_once(client: Client) -> None:
    async with serving(client) as call:
        first, again, other = [
            await call("POST", body={**RELEASE, "id": "v8", "text": text})
            for text in ("ranker v8", "ranker v8", "ranker v9")
        ]
        assert (first[0], again[0], other[0]) == (201, 200, 409) and first[1] == again[1]
        assert len((await call("GET"))[1]["markers"]) == 1
        assert other[1]["error"].startswith("id=v8: is the id of another marker")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "the body: must be a JSON object"),
        (b"{", "the body: must be a JSON object"),
        ({**RELEASE, "colour": 1}, "colour: must be one of id, at, until, kind, text, scope"),
        ({"text": "x"}, "kind=null: must be one of release, planned"),
        ({**RELEASE, "kind": "accepted"}, "kind=accepted: must be one of release, planned"),
        ({**RELEASE, "kind": "outage"}, "kind=outage: must be one of release, planned"),
        ({**RELEASE, "text": "x" * 201}, f"text={'x' * 80}…: must be 1 to 200 printable"),
        ({**RELEASE, "text": " "}, "text= : must be 1 to 200 printable"),
        ({**RELEASE, "text": "\x1b"}, "text=\\x1b: must be 1 to 200 printable"),
        ({**RELEASE, "id": "a/b"}, "id=a/b: must be 1 to 64 of the characters"),
        ({**RELEASE, "at": 5}, "at=5: must be a time with its zone"),
        ({**RELEASE, "at": "2026-11-20T12:00:00"}, "at=2026-11-20T12:00:00: must be a time"),
        ({**RELEASE, "at": "2026-10-01T00:00:00Z"}, "at=2026-10-01T00:00:00Z: must be within"),
        ({**RELEASE, "until": "2026-11-21T00:00:00Z"}, "until=2026-11-21T00:00:00Z: only kind"),
        (
            {"kind": "planned", "text": "x", "until": "2026-11-20T11:00:00Z"},
            "until=2026-11-20T11:00:00Z: must be after at=2026-11-20T12:00:00.000Z",
        ),
        ({**RELEASE, "scope": "DE"}, "scope=DE: must be an object"),
        ({**RELEASE, "scope": {"metric": "P@1"}}, "scope.metric=P@1: must be one of RR@10"),
        ({**RELEASE, "scope": {"grouping": []}}, "scope.grouping=[]: must be one of all; country"),
        (
            {**RELEASE, "scope": {"segment": "DE"}},
            "scope.segment=DE: must be a text, and scope.gro",
        ),
    ],
)
async def test_a_refusal_names_the_value_and_the_rule(
    client: Client, body: object, message: str
) -> None:
    async with serving(client) as call:
        status, answer = await call("POST", body=body)
        assert status == 400 and answer["error"].startswith(message)
        assert await call("GET") == (200, {"markers": []})


async def test_a_long_body_is_refused(client: Client) -> None:
    async with serving(client) as call:
        assert (await call("POST", body={**RELEASE, "text": "x" * 9000}))[0] == 413


async def test_there_is_a_bound_of_markers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MOST_MARKERS", 2)
    async with serving(client) as call:
        found = [await call("POST", body={**RELEASE, "id": str(n)}) for n in (1, 2, 3, 2)]
        assert [status for status, _ in found] == [201, 201, 409, 200]
        assert "2 markers, the most that are kept: remove some" in found[2][1]["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({**JSON, "Origin": "http://evil.example"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({**JSON, "Origin": "http://[evil"}, 403),
        ({**JSON, "Host": "[evil"}, 403),
        ({**JSON, "Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({**JSON, "Host": "localhost", "Origin": "http://localhost"}, 201),
        (JSON, 201),
    ],
)
async def test_a_page_of_another_site_sets_no_marker(
    client: Client, headers: Mapping[str, str], status: int
) -> None:
    async with serving(client) as call:
        assert (await call("POST", body=RELEASE, headers=headers))[0] == status
        found = (await call("GET"))[1]["markers"]
        assert len(found) == (status == 201)


async def test_without_passwords_only_the_machine_itself_sets_markers(client: Client) -> None:
    async with serving(client, "0.0.0.0") as call:
        for method, path in (("POST", ""), ("DELETE", "/v8")):
            status, answer = await call(method, path, RELEASE)
            assert status == 403 and "set basic_auth_users" in answer["error"]
        assert (await call("GET"))[0] == 200


async def test_with_passwords_whoever_has_one_sets_markers(client: Client, tmp_path: Path) -> None:
    web_config = tmp_path / "web.yml"
    web_config.write_text(USERS)
    async with serving(client, "0.0.0.0", str(web_config)) as call:
        assert (await call("POST", body=RELEASE))[0] == 401
        bob = {"Authorization": "Basic " + base64.b64encode(b"bob:relevanced").decode()}
        assert (await call("POST", body=RELEASE, login=bob))[0] == 201
        foreign = {**JSON, "Origin": "http://evil.example"}
        assert (await call("POST", body=RELEASE, headers=foreign, login=bob))[0] == 403


async def test_every_exporter_sees_a_marker_and_one_that_starts_later_too(client: Client) -> None:
    leader, standby = (KeptMarkers(MarkerLog(client, NAMESPACE), DAY_MS) for _ in range(2))
    assert await leader.refresh(NOW_MS, True) == await standby.refresh(NOW_MS, False) == ()
    async with serving(client) as call:
        await call("POST", body={**RELEASE, "id": "v8"})
        seen = await leader.refresh(NOW_MS, True)
        assert [marker.id for marker in seen] == ["v8"]
        assert await standby.refresh(NOW_MS, False) == seen
        await call("DELETE", "/v8")
        assert await leader.refresh(NOW_MS, True) == await standby.refresh(NOW_MS, False) == ()
        await call("POST", body={**RELEASE, "id": "v8"})
    later = KeptMarkers(MarkerLog(client, NAMESPACE), DAY_MS)
    assert await later.refresh(NOW_MS, False) == seen


async def test_old_markers_are_removed_by_the_exporter_that_leads(client: Client) -> None:
    store = MarkerLog(client, NAMESPACE)
    async with serving(client) as call:
        await call("POST", body=RELEASE)
    leader, standby = KeptMarkers(store, DAY_MS), KeptMarkers(store, DAY_MS)
    assert await standby.refresh(NOW_MS + DAY_MS + 1, False) == ()
    stored = await store.read()
    assert stored is not None and len(stored.markers) == 1
    assert await leader.refresh(NOW_MS + DAY_MS + 1, True) == ()
    stored = await store.read()
    assert stored is not None and stored.markers == ()


async def test_what_an_exporter_marks_is_stored_once_and_stays_removed(client: Client) -> None:
    found = Marker("version-0-1", NOW_MS, "release", "ranker v8")
    first, second = (KeptMarkers(MarkerLog(client, NAMESPACE), DAY_MS) for _ in range(2))
    for leader in (first, second):
        await leader.store([found])
        assert await leader.refresh(NOW_MS, True) == (found,)
    async with serving(client) as call:
        assert [each["id"] for each in (await call("GET"))[1]["markers"]] == [found.id]
        await call("DELETE", f"/{found.id}")
    assert await first.refresh(NOW_MS, True) == ()


async def test_markers_that_redis_lost_are_put_back(client: Client) -> None:
    store = MarkerLog(client, NAMESPACE)
    async with serving(client) as call:
        await call("POST", body=RELEASE)
    leader, standby = KeptMarkers(store, DAY_MS), KeptMarkers(store, DAY_MS)
    before = await leader.refresh(NOW_MS, True)
    assert await standby.refresh(NOW_MS, False) == before
    await client.delete(f"{NAMESPACE}:markers")
    assert await standby.refresh(NOW_MS, False) == before, "it keeps what it knows"
    assert await leader.refresh(NOW_MS, True) == before
    stored = await store.read()
    assert stored is not None and unpacked(stored.markers) == before


async def test_as_many_as_there_may_be_are_put_back(client: Client) -> None:
    store = MarkerLog(client, NAMESPACE)
    markers = {f"v{n}": b"marker %d" % n for n in range(MOST_MARKERS)}
    assert await store.put_back(markers) and not await store.put_back({})
    stored = await store.read()
    assert stored is not None and sorted(stored.markers) == sorted(markers.values())


async def test_the_line_in_the_documentation_works_as_it_stands(
    client: Client, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "deploy" / "guide" / "alerts.md").read_text()
    (line,) = [each.strip() for each in page.splitlines() if "curl" in each and "markers" in each]
    async with serving(client) as call:
        port = (await call("PORT"))[0]
        shell = await asyncio.create_subprocess_shell(line.replace(":9465/", f":{port}/"))
        assert await shell.wait() == 0
        assert [each["text"] for each in (await call("GET"))[1]["markers"]] == ["ranker v8"]
