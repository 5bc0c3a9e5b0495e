"""The runbook as it is served: a section for each alert, and no link that leads nowhere."""

import re
from collections.abc import AsyncIterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import aiohttp
import pytest
import yaml

from relevanced.daemon.config import loading as config
from relevanced.daemon.http import HttpServer, Role
from relevanced.daemon.telemetry import Telemetry
from tests.deploy.commands import served_paths

ROOT: Final = Path(__file__).parents[3]
ALERTS: Final = sorted(
    rule["alert"]
    for file in (ROOT / "deploy/prometheus/rules").glob("*.yml")
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
)
USERS: Final = (
    "basic_auth_users: {bob: $2b$04$abcdefghijklmnopqrstuu8gGHls/mdv32ht0pJqcxptBcJ3WwHFi}\n"
)


class Found(HTMLParser):
    """What a page links to, and the ids that it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [given[name] or "" for name in ("href", "src") if name in given]
        self.ids += [given["id"] or ""] if "id" in given else []


class Client:
    def __init__(self, server: HttpServer, session: aiohttp.ClientSession) -> None:
        self.url = f"http://127.0.0.1:{server.port}"
        self._session = session

    async def get(self, path: str) -> tuple[int, dict[str, str], str]:
        async with self._session.get(self.url + path) as response:
            return response.status, dict(response.headers), await response.text()


async def served(role: Role, web_config: Path | None = None) -> AsyncIterator[Client]:
    server = HttpServer(Telemetry("1"), role)
    await server.start("127.0.0.1", 0, None if web_config is None else str(web_config))
    async with aiohttp.ClientSession() as session:
        yield Client(server, session)
    await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async for one in served("all"):
        yield one


@pytest.mark.parametrize("alert", ALERTS)
async def test_every_alert_has_a_page_of_its_own_section(client: Client, alert: str) -> None:
    for name in (alert, alert.lower()):
        status, headers, page = await client.get(f"/runbook/{name}")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert f'<h1 id="{alert.lower()}">{alert}</h1>' in page
        assert page.count("What to do.") == 1 and page.count("<h1") == 1


async def test_the_whole_runbook_has_the_section_of_every_alert(client: Client) -> None:
    _, _, page = await client.get("/runbook")
    assert len(ALERTS) > 40 and {alert.lower() for alert in ALERTS} <= set(Found(page).ids)
    assert "<!--" not in page and "&lt;!--" not in page and "](" not in page
    assert "made by" not in page


async def test_a_slash_at_its_end_leads_to_it(client: Client) -> None:
    assert await client.get("/runbook/") == await client.get("/runbook")


async def test_no_link_of_the_runbook_is_dead(client: Client) -> None:
    """Neither in the whole nor in a section, nor where there is none."""
    pages: dict[str, Found] = {}

    async def read(url: str) -> Found | None:
        if url not in pages:
            status, headers, text = await client.get(url.removeprefix(client.url))
            assert status == 200 or "nothing" in url, url
            if not headers["Content-Type"].startswith("text/html"):
                return None
            pages[url] = Found(text)
        return pages[url]

    whole = f"{client.url}/runbook"
    started = [whole, f"{whole}/nothing", *(f"{whole}/{alert}" for alert in ALERTS)]
    linked = 0
    for start in started:
        page = await read(start)
        assert page is not None
        for link in page.links:
            target, _, anchor = urljoin(start, link).partition("#")
            assert target.startswith(client.url)
            if urlsplit(target).path == "/":
                continue  # the page of the scores
            found = await read(target)
            assert not anchor or (found is not None and anchor in found.ids), (start, link)
            linked += 1
    assert linked > 200


async def test_a_document_that_is_not_served_is_named_by_its_path(client: Client) -> None:
    _, _, page = await client.get("/runbook")
    named = set(re.findall(r"<code>(deploy/guide/[^<]+)</code>", page))
    assert len(named) > 2 and all((ROOT / name).is_file() for name in named)


@pytest.mark.parametrize(
    "name", ["RelevancedNothing", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "%00x", "a{b"]
)
async def test_an_unknown_section_says_so_and_lists_those_there_are(
    client: Client, name: str
) -> None:
    status, headers, page = await client.get(f"/runbook/{name}")
    assert status == 404 and headers["Content-Type"].startswith("text/html")
    assert "The runbook has no section" in unescape(page) and "<script>" not in page
    assert {alert.lower() for alert in ALERTS} <= set(Found(page).links)


@pytest.mark.parametrize("role", ["worker", "exporter", "all"])
@pytest.mark.parametrize("path", ["/runbook", "/runbook/RelevancedDown", "/runbook/none"])
async def test_every_role_serves_it_as_closed_as_the_page(role: Role, path: str) -> None:
    async for client in served(role):
        _, of_page, _ = await client.get("/")
        _, headers, _ = await client.get(path)
        for name in ("Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"):
            assert headers[name] == of_page[name]


async def test_passwords_protect_it(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(USERS)
    async for client in served("all", tmp_path / "web.yml"):
        for path in ("/runbook", "/runbook/RelevancedDown"):
            assert (await client.get(path))[0] == 401


def test_it_is_documented() -> None:
    assert {"/runbook", "/runbook/{alert}"} <= served_paths()


@pytest.mark.parametrize(
    ("links", "address"),
    [
        ({}, None),
        ({"page": "https://search.example.com"}, "https://search.example.com/runbook"),
        ({"page": "https://x.example.com/a/?b=1"}, "https://x.example.com/a/runbook"),
        ({"page": "https://x.example.com", "runbook": "https://wiki"}, "https://wiki"),
    ],
)
def test_alerts_lead_to_the_runbook_of_the_page_unless_there_is_another(
    links: dict[str, str], address: str | None
) -> None:
    given = "\n".join(f'{name} = "{url}"' for name, url in links.items())
    found = config.load(f"[links]\n{given}\n", {}, "relevanced.toml")
    assert found.links.runbook_address == address
