"""The route of items without a judgement: what is listed, what never is, and a list that raters
fill in."""

import json
from dataclasses import replace
from typing import Any, Final

from relevanced.daemon.http import MISSING_PATH, QUERIES_PATH
from relevanced.daemon.judgements import IndexEntry, Judgements, judged_plan, read
from relevanced.daemon.queries import HASHED, hashed_keys
from relevanced.daemon.storage import QueryHead
from relevanced.daemon.views import LaneHours, missing_window
from tests.daemon.http.test_queries import HOUR_MS, PLAN, Client, Site, serving

JUDGED: Final = replace(
    PLAN, judged=judged_plan(["P@2"], relevant_from=1, max_grade=3), missing=True
)
SECRET: Final = "a condition of one person"
BY_QUERY: Final = {"shoes": {"a": 2.0}, "boots": {"a": 1.0, "c": 0.0}, SECRET: {"a": 1.0}}
ENTRY: Final = IndexEntry(0, "a.csv", "0" * 64)


def site_of(plan: Any = JUDGED, by_query: Any = None) -> Site:
    """An hour of judged and other queries, one of them by one user only."""
    site = Site(plan, files={ENTRY: Judgements(by_query or BY_QUERY)})
    for turn in range(12):
        user = f"u{turn % 4}"
        site.search(0, "Shoes", user, clicked=True, items=("a", "b", "c"))
        site.search(0, "boots", user, clicked=True, items=("c", 'a," b'))
        site.search(0, "not judged", user, clicked=True, items=("x", "y"))
    site.search(0, SECRET, "u1", clicked=True, items=("z", "a"))
    for turn in range(90):  # so that the hour is over
        site.search(1.7, f"later {turn}", "u1", clicked=True)
    return site


async def listed(client: Client, **query: str) -> Any:
    status, body = await client.at(MISSING_PATH, **query)
    assert status == 200, body
    return body


async def test_items_of_judged_queries_are_listed_by_how_often_they_were_shown() -> None:
    async for client in serving(site_of()):
        found = await listed(client)
        pairs = {(row["query"], row["docid"]): row["impressions"] for row in found["rows"]}
        assert pairs == {("shoes", "b"): 12, ("boots", 'a," b'): 12}, "two places of each list"
        assert (found["hours"], found["depth"], found["listed"]) == (1, 2, 2)
        assert (found["rare"], found["other"], found["whole"]) == (1, 0, 25)
        assert len((await listed(client, limit="1"))["rows"]) == 1


async def test_pair_of_fewer_users_is_nowhere() -> None:
    async for client in serving(site_of()):
        for window in ("now", "1h", "24h"):
            page = await listed(client, window=window)
            _, table = await client.at(f"{MISSING_PATH}.csv", window=window)
            assert SECRET not in json.dumps(page) + table and '"z"' not in json.dumps(page)


KEY: Final = b"a secret key of a site"
assert JUDGED.queries is not None
HASHED_PLAN: Final = replace(JUDGED, queries=replace(JUDGED.queries, text=HASHED, key=KEY))
HASHED_JUDGEMENTS: Final = dict(
    zip(hashed_keys(list(BY_QUERY), KEY), BY_QUERY.values(), strict=True)
)


async def test_hashed_queries_stay_hashes_and_are_no_list_for_raters() -> None:
    async for client in serving(site_of(HASHED_PLAN, HASHED_JUDGEMENTS)):
        found = await listed(client)
        assert {row["query"] for row in found["rows"]} == {*hashed_keys(["shoes", "boots"], KEY)}
        status, body = await client.at(f"{MISSING_PATH}.csv")
        assert status == 400 and "only hashes of the queries" in body["error"]


async def test_list_with_its_ratings_filled_in_is_a_file_of_judgements() -> None:
    async for client in serving(site_of()):
        _, text = await client.at(f"{MISSING_PATH}.csv")
        lines = text.encode().splitlines(keepends=True)
        empty = b"".join(lines).replace(b",,12,", b",3,12,").splitlines(keepends=True)
        found = read(empty, "rated.csv")
        assert found.by_query == {"shoes": {"b": 3.0}, "boots": {'a," b': 3.0}}


async def test_csv_has_the_length_of_the_whole_list_beside_it() -> None:
    async for client in serving(site_of()):
        for path, rows in ((MISSING_PATH, 2), (QUERIES_PATH, 3)):
            assert (await client.headers(path, limit="1")).get("X-Total-Count") is None
            found = await client.headers(f"{path}.csv", limit="1")
            assert found["X-Total-Count"] == str(rows)


async def test_what_is_not_counted_is_said_with_the_setting() -> None:
    async for client in serving(site_of(replace(JUDGED, missing=False))):
        status, body = await client.at(MISSING_PATH)
        assert status == 404 and "judgements.missing = true" in body["error"]
    async for client in serving(site_of()):
        status, body = await client.at(MISSING_PATH, limit="10001")
        assert status == 400 and "between 1 and 10,000" in body["error"]


def test_window_has_only_hours_in_which_all_lanes_counted() -> None:
    hours = {start * HOUR_MS: 1 for start in range(24)}
    heads = [QueryHead(hours=hours), QueryHead(hours=hours, missing_since_ms=20 * HOUR_MS)]
    lanes = [LaneHours(n, head, 24 * HOUR_MS) for n, head in enumerate(heads)]
    assert list(missing_window(lanes, "24h", HOUR_MS).hours)[::3] == [20 * HOUR_MS, 23 * HOUR_MS]
    later = [LaneHours(0, QueryHead(hours=hours, missing_since_ms=30 * HOUR_MS), 24 * HOUR_MS)]
    assert not missing_window(later, "now", HOUR_MS).hours
    assert missing_window(later, "24h", HOUR_MS).until_ms == 24 * HOUR_MS
    assert not missing_window([], "24h", HOUR_MS).until_ms
