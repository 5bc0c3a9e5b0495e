"""`relevanced judgements missing` asks a running daemon."""

import asyncio
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.commands.judgements import missing_table
from relevanced.daemon.http import UnjudgedItem, UnjudgedItems
from tests.daemon.http.test_judged_missing import (
    HASHED_JUDGEMENTS,
    HASHED_PLAN,
    JUDGED,
    site_of,
)
from tests.daemon.http.test_queries import Client, serving


async def call(client: Client, *arguments: str) -> Result:
    url = f"http://127.0.0.1:{client.server.port}"
    command = ["judgements", "missing", "--url", url, *arguments]
    return await asyncio.to_thread(CliRunner().invoke, cli, command)


async def test_items_are_printed_as_a_table_json_and_csv() -> None:
    async for client in serving(site_of()):
        table = await call(client)
        assert table.exit_code == 0, table.output
        assert ["shoes", "b", "12"] in [line.split() for line in table.output.splitlines()]
        assert "(rare: fewer than 3 users)" in table.output
        as_json = await call(client, "--output", "json", "--limit", "1")
        assert len(json.loads(as_json.output)["rows"]) == 1
        as_csv = await call(client, "--window", "24h", "--output", "csv")
        header, *lines = as_csv.output.splitlines()
        assert header == "query,docid,rating,impressions,missing_at_most"
        assert "shoes,b,,12,0" in lines and len(lines) == 2


async def test_csv_that_ends_at_the_limit_says_how_much_follows_beside_it() -> None:
    async for client in serving(site_of()):
        for limit, said in (("1", "1 more: --limit\n"), ("2", "")):
            found = await call(client, "--output", "csv", "--limit", limit)
            assert found.exit_code == 0 and found.stderr == said
            assert len(found.stdout.splitlines()) == 1 + int(limit)


async def test_list_of_hashes_is_no_list_for_raters() -> None:
    async for client in serving(site_of(HASHED_PLAN, HASHED_JUDGEMENTS)):
        refused = await call(client, "--output", "csv")
        assert refused.exit_code == 1 and "only hashes of the queries" in refused.output
        assert (await call(client)).exit_code == 0


async def test_daemon_that_does_not_count_says_what_to_set() -> None:
    async for client in serving(site_of(replace(JUDGED, missing=False))):
        refused = await call(client)
        assert refused.exit_code == 1 and "set judgements.missing = true" in refused.output


@pytest.mark.parametrize("hours", [0, 1])
def test_table_says_what_it_leaves_out(hours: int) -> None:
    row = UnjudgedItem("a\x1b[2J", "b", None, 7, 2)
    found = UnjudgedItems("from", "until", hours, 1, 10, 5, 3, (row,), 4, 9, 20, 6, "plain")
    text = missing_table(found)
    assert text.startswith("items without a judgement, from to until\n\n  query ")
    assert "\x1b" not in text and "a\\x1b[2J" in text
    assert "Up to 2 searches" in text and "at most 6 times" in text and "2 more: --limit" in text
    assert "Redis lost it" in text and ("Not counted for a whole hour" in text) == (not hours)
