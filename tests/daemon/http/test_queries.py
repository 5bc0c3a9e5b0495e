"""The routes of queries: lists, one query by hour, pages of a list, and what is never shown."""

import csv
import io
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import aiohttp
import pytest
from jsonschema import Draft202012Validator

from relevanced.daemon.events import Limits, decoder, timestamp_text
from relevanced.daemon.http import ROUTES, HttpServer, openapi
from relevanced.daemon.judgements import IndexEntry, Judgements, Timeline
from relevanced.daemon.lane import Lane, new_lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import HASHED, QueryPlan
from relevanced.daemon.storage import (
    ClaimedLane,
    Head,
    InForce,
    LaneDelta,
    confirm,
    first_layouts,
    head_of,
    names_of,
    plan_commit,
)
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.timing import timing
from relevanced.daemon.views import Mirror
from relevanced.metrics import catalog
from tests.fakes import MemoryLane
from tests.lane_views import published_of, reading_of, with_clicks
from tests.whole_batch import process_batch

try:
    from compression import zstd
except ImportError:  # before Python 3.14
    from backports import zstd

HOUR_MS = 3_600_000
START_MS = 1_795_176_000_000  # a whole hour
DAY = 24
PLAN = Plan(
    timing=timing([("5m", 300)], 1800, 60),
    metrics=(catalog.parse("P@1"), catalog.parse("FirstFeedbackSeconds")),
    groupings=(("country",),),
    grades={"click": 1.0},
    queries=QueryPlan(kept=50, by="country", min_users=3, salt=b"s"),
)
RARE = "one person's own medical question"
DOCUMENT: dict[str, Any] = json.loads(openapi.document("1", ROUTES))


@dataclass
class Record:
    value: bytes
    offset: int = 0
    timestamp: int = -1


@dataclass
class Site:
    """A lane that searches happen on, and its store."""

    plan: Plan = PLAN
    searches: list[dict[str, Any]] = field(default_factory=list)
    files: Mapping[IndexEntry, Judgements] = field(default_factory=dict)

    def search(
        self,
        hour: float,
        query: str | None,
        user: str,
        *,
        clicked: bool,
        country: str = "US",
        items: Sequence[str] = ("a", "b"),
        rank: int = 1,
        prefix: str = "i",
    ) -> None:
        number = len(self.searches)
        at_ms = START_MS + int(hour * HOUR_MS) + number % 3000 * 1000
        shown: dict[str, Any] = {
            "type": "impression",
            "impression_id": f"{prefix}{number}",
            "timestamp": at_ms,
            "items": [] if query == "nothing there" else items,
            "attributes": {"country": country},
            "user_id": user,
            "query": query,
        }
        self.searches.append(shown)
        self.searches.append(
            {
                "type": "feedback",
                "impression_id": f"{prefix}{number}",
                "timestamp": at_ms + 1000,
                "kind": "click" if clicked else "scroll",
                "item": items[rank - 1],
            }
        )

    def store(self) -> tuple[MemoryLane, Lane]:
        events = sorted(self.searches, key=lambda event: event["timestamp"])
        records = [Record(json.dumps(event).encode(), n) for n, event in enumerate(events)]
        lane, memory = new_lane(0, self.plan, {"t": 0}, ["t"]), MemoryLane()
        memory.claim("a", b'{"t":0}')
        claimed = ClaimedLane(lane, first_layouts(InForce(self.plan)), "a", 0, [], 1, 0, 0)
        claimed.layouts_stored = False
        if lane.judged is not None:
            lane.judged.files.prepare(Timeline(tuple(sorted(self.files))), self.files)
        limits = Limits(attributes=("country",), queries=True)
        for first in range(0, len(records), 400):
            part = records[first : first + 400]
            process_batch(lane, {"t": part}, {"t": part[-1].offset + 1}, decoder("native", limits))
            commit = plan_commit(claimed)
            assert memory.commit(commit) == "applied"
            confirm(claimed, commit)
        return memory, lane


@dataclass
class Stored:
    memory: MemoryLane

    async def head(self, lane: int) -> Head | None:
        return head_of(self.memory.fields)

    async def values(self, lane: int, keys: Sequence[str]) -> dict[str, bytes | None]:
        return {key: self.memory.blobs.get(key) for key in keys}


class Client:
    def __init__(
        self, server: HttpServer, session: aiohttp.ClientSession, site: Site, memory: MemoryLane
    ) -> None:
        self.server, self._session, self.site, self.memory = server, session, site, memory

    async def get(self, path: str = "", **query: str) -> tuple[int, Any]:
        return await self.at(f"/api/v1/queries{path}", **query)

    async def at(self, path: str, **query: str) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with self._session.get(url, params=query) as response:
            is_json = response.content_type == "application/json"
            body = await (response.json() if is_json else response.text())
        document = DOCUMENT["paths"][path]["get"]["responses"]
        if is_json:
            schema = document[str(response.status)]["content"]["application/json"]["schema"]
            whole = {"components": DOCUMENT["components"], **schema}
            assert not [e.message for e in Draft202012Validator(whole).iter_errors(body)]
        return response.status, body

    async def headers(self, path: str, **query: str) -> Mapping[str, str]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with self._session.get(url, params=query) as response:
            assert response.status == 200
            return response.headers

    async def ok(self, path: str = "", **query: str) -> Any:
        status, body = await self.get(path, **query)
        assert status == 200, body
        return body


def usual_week(site: Site) -> None:
    """Eight days, an hour each at the same time: twenty queries, one of which breaks at the end."""
    for day in range(8):
        for number in range(20):
            for turn in range(12):
                broken = number == 3 and day == 7
                clicked = not broken and turn % 4 > 0
                country = "DE" if number % 2 else "US"
                user = f"u{turn % 4}"
                site.search(day * DAY, f"Query  {number}", user, clicked=clicked, country=country)
    for turn in range(6):
        site.search(7 * DAY, "nothing there", f"u{turn}", clicked=False)
        site.search(7 * DAY, None, f"u{turn}", clicked=False)
    site.search(7 * DAY, RARE, "u1", clicked=True)
    for turn in range(90):  # so that the hour is over
        site.search(7 * DAY + 1.4, f"later {turn}", "u1", clicked=True)


async def serving(site: Site) -> AsyncIterator[Client]:
    memory, _ = site.store()
    server = HttpServer(Telemetry("1"), "all")
    server.queries = Stored(memory)
    head = head_of(memory.fields)
    pages = {key: memory.blobs[key] for key, sequence in memory.listed.items() if sequence}
    mirror = Mirror(0, site.plan)
    mirror.apply(LaneDelta(head, True, names_of(memory.names, head.state.names)[1:], pages))
    server.published = published_of(reading_of([mirror.view()], site.plan))
    await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Client(server, session, site, memory)
    await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    site = Site()
    usual_week(site)
    async for served in serving(site):
        yield served


async def test_list_is_the_whole_by_parts(client: Client) -> None:
    found = await client.ok(window="1h")
    assert (found["hours"], found["lost_hours"], found["usual_days"]) == (1, 0, 7)
    counts = [row["impressions"] for row in found["rows"]]
    assert len(counts) == 21 == found["listed"] and counts == sorted(counts, reverse=True)
    parts = sum(counts) + sum(found[name]["impressions"] for name in ("none", "rare", "other"))
    assert parts == found["whole"]["impressions"] == 20 * 12 + 6 + 6 + 1
    assert found["none"]["impressions"] == 6 and found["rare"]["impressions"] == 1
    row = next(row for row in found["rows"] if row["query"] == "query 4")
    assert (row["scored"], row["mean"], row["usual_mean"]) == (12, 0.75, 0.75)
    assert row["missing_at_most"] == 0 and row["usual_scored"] == 84


async def test_rows_of_a_table_add_up_to_the_whole(client: Client) -> None:
    """Also searches without a query, and those for queries of too few users."""
    whole = (await client.ok(window="1h"))["whole"]
    rows = [*csv.DictReader(io.StringIO(await client.ok(".csv", window="1h")))]
    assert [row["query"] for row in rows[-3:]] == ["(no query)", "(rare)", "(other)"]
    for name in ("impressions", "zero_result_impressions", "scored"):
        assert sum(int(row[name]) for row in rows) == whole[name]
    of_segment = (await client.ok(".csv", window="1h", segment="DE")).splitlines()
    assert of_segment[-2].startswith("(no query)") and of_segment[-1].startswith("(rare)")


async def test_what_lost_most_is_named_and_carries_the_change(client: Client) -> None:
    found = await client.ok(window="1h", order="lost", metric="P@1")
    first = found["rows"][0]
    assert first["query"] == "query 3" and first["lost_at_least"] > 0 and first["sure"]
    lost = {row["query"] for row in found["rows"] if row["lost_at_least"] > 0}
    assert lost <= {"query 3", "nothing there"}
    assert found["carried_at_least"] < found["carried"] < found["carried_at_most"]
    gained = await client.ok(window="1h", order="gained")
    assert all(row["gained_at_least"] <= 0 for row in gained["rows"])


def week_of_a_tail(*, breaks: bool, kept: int = 3) -> Site:
    """Three queries that the tables list, and many that they do not, which may break at the end."""
    site = Site(replace(PLAN, queries=QueryPlan(kept=kept, by="country", min_users=3, salt=b"s")))
    for day in range(8):
        for number in range(18):
            for turn in range(40 if number < 3 else 12):
                fails = breaks and day == 7 and number >= 3
                clicked = not fails and turn % 4 > 0
                country = "DE" if number % 2 else "US"
                query, user = f"query {number}", f"u{turn % 4}"
                site.search(day * DAY, query, user, clicked=clicked, country=country)
    for turn in range(90):  # so that the hour is over
        site.search(7 * DAY + 1.4, f"later {turn}", "u1", clicked=True)
    return site


@pytest.mark.parametrize("breaks", [False, True])
async def test_tail_has_a_usual_and_says_what_it_lost(breaks: bool) -> None:
    async for client in serving(week_of_a_tail(breaks=breaks)):
        found = await client.ok(window="1h", order="lost")
        assert [row["query"] for row in found["rows"]] != [] and found["listed"] == 3
        other = found["other"]
        assert (other["impressions"], other["usual_scored"]) == (15 * 12, 7 * 15 * 12)
        assert other["usual_mean"] == 0.75 and other["mean"] == (0.0 if breaks else 0.75)
        assert abs(other["lost"] - (0.75 * 180 if breaks else 0)) < 2
        least = other["lost"] - 0.5 - 2.5 * other["lost_stderr"]
        assert other["lost_at_least"] == pytest.approx(least)
        assert (other["lost_at_least"] > 0, other["sure"]) == (breaks, breaks)
        assert all(row["lost_at_least"] <= 0 for row in found["rows"])
        table = await client.ok(".csv", window="1h", order="lost")
        *_, last = csv.DictReader(io.StringIO(table))
        assert last["query"] == "(other)" and float(last["lost"]) == other["lost"]
        part = await client.ok(".csv", window="1h", order="lost", limit="1")
        assert "(other)" not in part, "only where the list ends"


@pytest.mark.parametrize("kept", [3, 50])
async def test_share_that_queries_of_a_segment_carry_needs_all_of_them_listed(kept: int) -> None:
    async for client in serving(week_of_a_tail(breaks=True, kept=kept)):
        found = await client.ok(window="1h", order="lost", segment="DE")
        assert found["rows"] and (found["unlisted_at_most"] > 0) == (kept == 3)
        assert (found["carried"] is None) == (kept == 3)


async def test_worst_and_without_results(client: Client) -> None:
    worst = await client.ok(window="1h", order="worst", limit="2")
    assert {row["query"] for row in worst["rows"]} == {"query 3", "nothing there"}
    empty = await client.ok(window="1h", order="zero_results")
    assert [(r["query"], r["zero_result_impressions"]) for r in empty["rows"]] == [
        ("nothing there", 6)
    ]


async def test_segment_has_its_own_queries(client: Client) -> None:
    found = await client.ok(window="1h", segment="DE")
    assert {row["query"] for row in found["rows"]} == {f"query {n}" for n in range(1, 20, 2)}
    assert found["other"] is None and found["whole"] is None


async def test_pages_of_a_list_are_of_the_same_hours(client: Client) -> None:
    whole = await client.ok(window="1h", limit="100")
    rows, cursor, pages = [], {}, 0
    while pages < 10:
        part = await client.ok(window="1h", limit="8", **cursor)
        rows, pages = rows + part["rows"], pages + 1
        assert (part["from"], part["until"]) == (whole["from"], whole["until"])
        if part["next"] is None:
            break
        cursor = {"cursor": part["next"]}
    assert rows == whole["rows"] and pages == 3
    other_window = await client.ok(window="7d", limit="8", **cursor)
    assert other_window["from"] == whole["from"]


async def test_a_list_does_not_go_on_once_hours_of_it_are_no_longer_known(client: Client) -> None:
    first = await client.ok(window="7d", limit="5")
    for turn in range(90):
        client.site.search(9 * DAY, f"much later {turn}", "u1", clicked=True)
    client.server.queries = Stored(client.site.store()[0])
    status, body = await client.get(window="7d", limit="5", cursor=first["next"])
    assert status == 400 and "are no longer known: begin the list again" in body["error"]
    found = await client.ok("/detail", query="query 3", cursor=first["next"])
    assert found["hours"][0]["start"] > first["from"]
    assert len(found["hours"]) < first["hours"]


async def test_one_query_by_hour(client: Client) -> None:
    found = await client.ok("/detail", window="7d", query="QUERY 3")
    assert found["query"] == "query 3" and found["shown"] and len(found["hours"]) == 168
    counted = [hour["impressions"] for hour in found["hours"] if hour["impressions"]]
    assert counted == [12] * 7


async def test_examples_are_the_searches_that_scored_worst(client: Client) -> None:
    found = await client.ok("/detail", window="1h", query="query 4")
    assert found["lost_examples"] == 0 and len(found["examples"]) == 2
    shown = worst_of(client.site, "query  4", 7 * DAY, count=2)
    assert found["examples"] == [
        {
            "impression_id": one["impression_id"],
            "time": timestamp_text(one["timestamp"]),
            "items": ["a", "b"],
            "gains": [0, 0],
            "attributes": {"country": "US"},
        }
        for one in shown
    ]
    day_before = await client.ok("/detail", window="24h", query="query 4")
    assert [one["impression_id"] for one in day_before["examples"]] == [
        one["impression_id"] for one in shown
    ]
    table = await client.ok("/detail.csv", window="1h", query="query 4")
    assert shown[0]["impression_id"] not in table


def worst_of(site: Site, query: str, hour: int, count: int) -> list[dict[str, Any]]:
    """The searches of this hour that were not clicked, in the order of examples."""
    clicked = {e["impression_id"] for e in site.searches if e.get("kind") == "click"}
    of_query = [e for e in site.searches if str(e.get("query")).lower() == query]
    start_ms = START_MS + hour * HOUR_MS
    bad = [
        one
        for one in of_query
        if 0 <= one["timestamp"] - start_ms < HOUR_MS and one["impression_id"] not in clicked
    ]
    return sorted(bad, key=lambda one: crc32(one["impression_id"].encode()))[:count]


async def test_examples_of_a_segment_are_its_own(client: Client) -> None:
    own = await client.ok("/detail", window="1h", query="query 5", segment="DE")
    assert [one["attributes"] for one in own["examples"]] == [{"country": "DE"}] * 2
    other = await client.ok("/detail", window="1h", query="query 5", segment="US")
    assert not other["shown"] and other["examples"] == []


async def test_examples_follow_the_hours_of_a_list(client: Client) -> None:
    listed = await client.ok(window="1h", limit="1")
    found = await client.ok("/detail", query="query 4", cursor=listed["next"])
    assert [hour["start"] for hour in found["hours"]] == [listed["from"]]
    assert len(found["examples"]) == 2


async def test_examples_of_the_open_hour_come_from_its_parts() -> None:
    site = Site()
    for number in range(300):
        site.search(0, "shoes", f"u{number % 5}", clicked=number % 3 > 0)
    for number, event in enumerate(site.searches):
        event["timestamp"] = START_MS + number * 5_000
    async for client in serving(site):
        found = await client.ok("/detail", window="now", query="shoes")
        assert len(found["examples"]) == 2 and found["hours"][0]["impressions"] > 50
        assert [one["gains"] for one in found["examples"]] == [[0, 0], [0, 0]]


async def test_lost_examples_are_counted_whatever_is_asked(client: Client) -> None:
    lost = [key for key in client.memory.blobs if key.startswith("examples:")]
    assert len(lost) == 1
    del client.memory.blobs[lost[0]]
    for query in ("query 4", "nobody ever asked this"):
        found = await client.ok("/detail", window="24h", query=query)
        assert (found["examples"], found["lost_examples"]) == ([], 1)


async def test_examples_of_fewer_users_than_now_asked_for_are_not_shown(client: Client) -> None:
    reading = client.server.published.reading
    assert reading is not None and reading.plan.queries is not None
    kept = replace(reading.plan.queries, min_users=0)
    lower = with_clicks(reading, plan=replace(reading.plan, queries=kept))
    client.server.published = replace(client.server.published, reading=lower)
    assert len((await client.ok("/detail", window="1h", query="query 4"))["examples"]) == 2
    higher = with_clicks(reading, plan=replace(reading.plan, queries=replace(kept, min_users=4)))
    client.server.published = replace(client.server.published, reading=higher)
    found = await client.ok("/detail", window="1h", query="query 4")
    assert found["examples"] == []


async def test_tables_are_csv_too(client: Client) -> None:
    text = await client.ok(".csv", window="1h", limit="1")
    header, line = text.splitlines()
    assert header.startswith("query,missing_at_most") and line.startswith("query ")
    assert (await client.ok("/detail.csv", window="1h", query="query 3")).count("\n") == 2


@pytest.mark.parametrize(
    ("path", "query", "says"),
    [
        ("", {"window": "2h"}, "window=2h: must be one of"),
        ("", {"order": "loudest"}, "order=loudest: must be one of"),
        ("", {"limit": "0"}, "limit=0: must be a whole number between 1 and 1,000"),
        ("", {"limit": "9" * 30}, "must be a whole number"),
        ("", {"cursor": "x"}, "cursor: must be `next` of an answer"),
        ("", {"cursor": "WzEsMiwtM10="}, "cursor: must be `next` of an answer"),
        ("", {"order": "lost", "metric": "FirstFeedbackSeconds"}, "is not within 0 to 1"),
        ("", {"order": "lost", "window": "7d"}, "set queries.days to 14 or more (it is 8)"),
        ("/detail", {}, "query: must be given"),
    ],
)
async def test_bad_requests_are_answered_with_the_rule(
    client: Client, path: str, query: dict[str, str], says: str
) -> None:
    status, body = await client.get(path, **query)
    assert status == 400 and says in body["error"], body


async def test_queries_that_are_not_kept_are_said_to_be_off() -> None:
    site = Site(replace(PLAN, queries=replace(PLAN.queries or QueryPlan(), by=None)))
    usual_week(site)
    async for client in serving(site):
        status, body = await client.get(segment="DE")
        assert status == 400 and "queries.by" in body["error"]
        reading = client.server.published.reading
        assert reading is not None
        off = with_clicks(reading, plan=replace(site.plan, queries=None))
        client.server.published = replace(client.server.published, reading=off)
        status, body = await client.get()
        assert status == 404 and "queries.text" in body["error"]


async def test_text_of_one_user_is_nowhere(client: Client) -> None:
    marks = (RARE, RARE.split()[1], RARE.split()[-2])
    for order in ("lost", "gained", "zero_results", "impressions", "worst"):
        for window in ("now", "1h", "24h"):
            cursor: dict[str, str] = {}
            while True:
                page = await client.ok(order=order, window=window, limit="5", **cursor)
                table = await client.ok(".csv", order=order, window=window, limit="5", **cursor)
                assert not [mark for mark in marks if mark in json.dumps(page) + table]
                if page["next"] is None:
                    break
                cursor = {"cursor": page["next"]}
    known = await client.ok("/detail", query=RARE, window="24h")
    unknown = await client.ok("/detail", query="nobody ever asked this", window="24h")
    assert {**known, "query": ""} == {**unknown, "query": ""} and not known["shown"]
    assert known["examples"] == [] and known["hours"] == []
    stored = [zstd.decompress(v) for k, v in client.memory.blobs.items() if k[:9] == "examples:"]
    assert stored and not [mark for mark in marks for data in stored if mark.encode() in data]
    url = f"http://127.0.0.1:{client.server.port}"
    for path in ("/metrics", "/api/v1/scores", "/api/v1/segments", "/readyz", "/"):
        async with client._session.get(url + path) as response:
            text = await response.text()
            assert not [mark for mark in marks if mark in text], path


async def test_hashed_texts_are_found_by_their_text() -> None:
    hashing = QueryPlan(text=HASHED, kept=50, min_users=3, key=b"a secret key of a site")
    site = Site(replace(PLAN, queries=hashing))
    usual_week(site)
    async for client in serving(site):
        found = await client.ok(window="1h")
        assert "query" not in {row["query"][:5] for row in found["rows"]}
        one = await client.ok("/detail", window="1h", query="Query 3")
        assert one["shown"] and one["query"] in {row["query"] for row in found["rows"]}


async def test_hash_of_a_list_is_found_as_it_is() -> None:
    hashing = QueryPlan(text=HASHED, kept=50, min_users=3, key=b"a secret key of a site")
    site = Site(replace(PLAN, queries=hashing))
    usual_week(site)
    async for client in serving(site):
        for row in (await client.ok(window="1h"))["rows"]:
            assert (await client.ok("/detail", window="1h", query=row["query"]))["shown"]
        unlisted = "0123456789abcdef"
        one = await client.ok("/detail", window="1h", query=unlisted)
        assert (one["query"], one["shown"]) == (unlisted, False)


async def test_open_hour_is_that_of_the_parts() -> None:
    site = Site()
    for minute in range(50):
        for user in range(3):
            site.search(0, f"q{minute % 5}", f"u{user}", clicked=True)
    for number, event in enumerate(site.searches):
        event["timestamp"] = START_MS + number * 11_000
    async for client in serving(site):
        found = await client.ok(window="now")
        assert 0 < found["whole"]["impressions"] < 150 and found["listed"] == 5
        assert sum(row["impressions"] for row in found["rows"]) == found["whole"]["impressions"]
