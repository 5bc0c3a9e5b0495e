"""`relevanced queries --query TEXT`: one query by hour, and its searches as they were shown."""

import asyncio
import json

from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.http import QueryDetail, QueryExample, QueryHour
from relevanced.daemon.recompute.tables import detail_text
from tests.daemon.http.test_queries import RARE, Client, Site, serving

HOUR = "2026-11-20T{}:00:00.000Z"
SHOWN = QueryExample(
    "i\x1b7", HOUR.format(12), ("a\x1b[2J", None, "b"), (0, 0, 2), {"country": "DE"}
)


def site() -> Site:
    """Two hours of searches for one query, and one of one user."""
    found = Site()
    for turn in range(24):
        found.search(turn % 2, "Red  Shoes", f"u{turn // 2 % 4}", clicked=turn > 4)
    found.search(0, RARE, "u1", clicked=True)
    for turn in range(90):  # so that the hours are over
        found.search(2.7, f"later {turn}", "u1", clicked=True)
    return found


async def call(client: Client, *arguments: str) -> Result:
    url = f"http://127.0.0.1:{client.server.port}"
    return await asyncio.to_thread(
        CliRunner().invoke, cli, ["queries", "--url", url, "--window", "24h", *arguments]
    )


async def test_one_query_is_printed_by_hour_with_what_was_clicked() -> None:
    async for client in serving(site()):
        table = await call(client, "--query", "RED shoes")
        assert table.exit_code == 0, table.output
        assert "red shoes, by hour" in table.output
        lines = [line.split()[:3] for line in table.output.splitlines()]
        assert [HOUR.format(13), "12", "0"] in lines
        assert sum(line[:1] in ([HOUR.format(12)], [HOUR.format(13)]) for line in lines) == 2
        assert "country US" in table.output and "   1. a\n   2. b\n" in table.output
        segment = await call(client, "--query", "red shoes", "--segment", "US", "--metric", "P@1")
        assert "red shoes, segment US, by hour" in segment.output
        as_json = json.loads(
            (await call(client, "--query", "red shoes", "--output", "json")).output
        )
        assert len(as_json["hours"]) == 2 and len(as_json["examples"]) == 2
        as_csv = await call(client, "--query", "red shoes", "--output", "csv")
        assert as_csv.output.startswith("start,impressions") and as_csv.output.count("\n") == 3


async def test_query_of_one_user_is_as_one_that_nobody_searched_for() -> None:
    async for client in serving(site()):
        for query in (RARE, "nobody ever asked this"):
            found = await call(client, "--query", query)
            assert (found.exit_code, found.output) == (
                0,
                f"{query}: is not listed in these hours, or by fewer users than"
                " queries.min_users\n",
            )


async def test_options_of_lists_are_refused_beside_a_query() -> None:
    async for client in serving(site()):
        found = await call(client, "--query", "red shoes", "--order", "lost")
        assert found.exit_code == 2 and "--order: not together with --query" in found.output


def test_text_says_what_may_be_missing_and_shows_no_control_character() -> None:
    hours = [
        QueryHour(HOUR.format(n), count, 3, 0, 0, count, None) for n, count in ((12, 5), (13, 0))
    ]
    found = QueryDetail("a\x1b", "RR@10", None, True, tuple(hours), (SHOWN,), 1)
    text = detail_text(found)
    assert "\x1b" not in text and "1. a\\x1b[2J" in text
    assert "2. shown further up" in text and "3. b  <- gain 2" in text
    assert "1 more hour: at most 3 searches in each, not listed." in text
    assert "Up to 3 searches may be missing" in text
    assert "The examples of 1 hour are missing: Redis lost them." in text
