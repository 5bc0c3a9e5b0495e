"""`relevanced queries`, and the queries of a replay."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import repeat
from pathlib import Path
from threading import Thread
from typing import TypeAlias

import msgspec
import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.events import timestamp_text
from relevanced.daemon.http import Queries, QueryRow, QuerySums, UnlistedSums
from relevanced.daemon.judgements import grades
from relevanced.daemon.recompute.tables import query_table

START_MS = 1_795_176_000_000
SUMS = QuerySums(9, 1, 4, 9, 0.5)
OTHER = UnlistedSums(9, 1, 4, 9, 0.5, 0.1, 50, 0.75, 2.25, 0.5, 0.5, -4.0, True)
ROW = QueryRow("a\x1b[2Jb", 2, 1, 7, 3, 7, 0.5, 0.2, 70, 0.9, 2.8, 0.7, 1.1, -4.0, True)
FOUND = Queries(
    *("2026-11-20T12:00:00.000Z", "2026-11-20T13:00:00.000Z", "RR@10", "lost", None),
    *(1, 0, 7, 5, 3, (ROW,), SUMS, SUMS, OTHER, SUMS, 2, 0.63, 0.52, 1.2, "next", "plain"),
)


Paged: TypeAlias = Callable[[list[bytes]], tuple[str, list[str]]]
Answering: TypeAlias = Callable[[bytes, int], tuple[str, list[str]]]


@pytest.fixture
def serving() -> Iterator[Callable[[Iterator[bytes], int], tuple[str, list[str]]]]:
    """A server with these answers, one after the other: its URL, and the paths that it was asked
    for."""
    servers: list[HTTPServer] = []

    def start(bodies: Iterator[bytes], status: int) -> tuple[str, list[str]]:
        paths: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                body = next(bodies)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}", paths

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def paged(serving: Callable[[Iterator[bytes], int], tuple[str, list[str]]]) -> Paged:
    """A daemon whose list has these pages."""
    return lambda bodies: serving(iter(bodies), 200)


@pytest.fixture
def daemon(serving: Callable[[Iterator[bytes], int], tuple[str, list[str]]]) -> Answering:
    """A daemon with one answer to everything."""
    return lambda body, status: serving(repeat(body), status)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments))
    return result.exit_code, result.output


def test_table_shows_what_is_lost_and_what_is_left_out() -> None:
    text = query_table(FOUND)
    assert "a\\x1b[2Jb" in text and "\x1b" not in text
    assert "2.8" in text and "1.1 !" in text and "(rare: fewer than 5 users)" in text
    assert "2 more: --limit" in text and "carry 52% to 100%" in text
    assert "at most 2 searches" in text


def test_command_asks_the_daemon(daemon: Answering) -> None:
    url, paths = daemon(msgspec.json.encode(FOUND), 200)
    code, text = run("queries", "--url", url, "--order", "lost", "--window", "1h", "--limit", "9")
    assert code == 0 and text == query_table(FOUND)
    assert paths == ["/api/v1/queries?window=1h&order=lost&limit=9"]
    code, text = run("queries", "--url", url, "--output", "json", "--metric", "RR@10")
    assert json.loads(text)["order"] == "lost" and "metric=RR%4010" in paths[-1]
    run("queries", "--url", url, "--segment", "a b")
    assert "segment=a+b" in paths[-1]


@pytest.mark.parametrize("has_more", [False, True])
def test_csv_that_ends_at_the_limit_says_how_much_follows_beside_it(
    daemon: Answering, has_more: bool
) -> None:
    found = FOUND if has_more else msgspec.structs.replace(FOUND, next=None)
    url, paths = daemon(msgspec.json.encode(found), 200)
    result = CliRunner().invoke(cli, ["queries", "--url", url, "--output", "csv", "--limit", "1"])
    rows = [line.split(",")[0] for line in result.stdout.splitlines()]
    assert result.exit_code == 0 and "limit=1" in paths[-1]
    assert result.stderr == ("2 more: --limit\n" if has_more else "")
    assert rows[0] == "query"
    assert rows[2:] == ([] if has_more else ["(no query)", "(rare)", "(other)"])


def test_refusal_is_shown(daemon: Answering) -> None:
    url, _ = daemon(b'{"error":"no queries are kept: set queries.text"}', 404)
    code, text = run("queries", "--url", url)
    assert code == 1 and "answered 404: no queries are kept: set queries.text" in text


def recorded(folder: Path) -> Path:
    lines = []
    for number in range(60):
        at_ms = START_MS + number * 60_000
        lines.append(
            {
                "type": "impression",
                "impression_id": f"i{number}",
                "timestamp": at_ms,
                "items": ["a"] if number % 3 else [],
                "query": ["Shoes", " shoes ", "boots"][number % 3],
                "user_id": f"u{number % 12}",
            }
        )
    lines.append({**lines[1], "impression_id": "x", "query": "one user only"})
    lines.append({**lines[1], "impression_id": "y", "query": {"no": "text"}})
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_replay_lists_the_queries_of_all_hours(tmp_path: Path) -> None:
    options = ["--queries", "impressions", "--output", "json"]
    code, text = run("replay", str(recorded(tmp_path)), *options)
    found = json.loads(text[text.index('{"from"') :].splitlines()[0])
    assert code == 0, text
    rows = {row["query"]: row["impressions"] for row in found["rows"]}
    assert rows == {"shoes": 40} and found["rare"]["impressions"] == 20 + 1, "four users, and one"
    assert found["whole"]["impressions"] == 62 and found["none"]["impressions"] == 1
    assert "one user" not in text.split("left out")[0]
    assert "left out bad_query 1" in text


def test_clock_that_is_a_day_ahead_does_not_move_the_hours_that_are_compared(
    tmp_path: Path,
) -> None:
    path, hour_ms = tmp_path / "events.jsonl", 3_600_000
    times = [START_MS + minute * 60_000 for minute in range(48 * 60)]
    lines = [
        {
            "type": "impression",
            "impression_id": f"i{at_ms}",
            "timestamp": at_ms,
            "items": ["a"],
            "query": "shoes",
            "user_id": f"u{at_ms}",
        }
        for at_ms in [*times, times[-1] + 24 * hour_ms]
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, text = run("replay", str(path), "--queries", "lost", "--output", "json")
    assert code == 0, text
    found = json.loads(text[text.index('{"from"') :].splitlines()[0])
    assert found["until"] == timestamp_text(START_MS + 48 * hour_ms)
    assert found["whole"]["impressions"] == 24 * 60


def test_replay_lists_all_queries_as_csv_and_says_so_below_its_table(tmp_path: Path) -> None:
    impression = {"type": "impression", "items": ["a"]}
    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        for number in range(5 * 60):
            who = {"user_id": f"u{number // 60}", "query": f"query {number % 60}"}
            at = {"impression_id": f"i{number}", "timestamp": START_MS + number * 1000}
            file.write(json.dumps(impression | who | at) + "\n")
    options = ("replay", str(path), "--queries", "impressions")
    code, text = run(*options)
    assert code == 0 and "10 more: --output csv has all" in text and "--limit" not in text
    result = CliRunner().invoke(cli, [*options, "--output", "json"])
    assert len(json.loads(result.stdout)["rows"]) == 50
    assert "10 more: --output csv has all" in result.stderr
    code, text = run(*options, "--output", "csv")
    rows = [line.split(",") for line in text.splitlines() if line.startswith(("query ", "("))]
    assert len(rows) == 60 + 3 and sum(int(row[3]) for row in rows) == 300


def days_of(folder: Path, days: int) -> Path:
    """Days of searches for four queries, the first of which breaks on the last day."""
    lines: list[dict[str, object]] = []
    for number in range(days * 24 * 12):
        at_ms, query = START_MS + number * 300_000, number % 4
        clicked = number // 4 % 4 > 0 and not (query == 0 and number >= (days - 1) * 24 * 12)
        shown = {
            "impression_id": f"i{number}",
            "items": ["a\x1b", "b"],
            "user_id": f"u{number % 97}",
        }
        lines.append(
            {"type": "impression", "timestamp": at_ms, "query": f"Query {query}"} | shown,
        )
        reacted = {"impression_id": f"i{number}", "kind": "click", "item": "a\x1b"}
        lines += [{"type": "feedback", "timestamp": at_ms + 1000} | reacted] if clicked else []
    path = folder / "days.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_replay_of_days_says_what_lost_on_the_last_one_and_shows_searches(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        '[metrics]\nnames = ["FirstFeedbackSeconds", "P@1"]\n[queries]\nmin_users = 2\n'
    )
    path = str(days_of(tmp_path, days=5))
    options = ["--config", str(config), "--queries", "lost"]
    code, text = run("replay", path, *options, "--output", "json")
    found = json.loads(text[text.index('{"from"') :].splitlines()[0])
    assert code == 0 and (found["hours"], found["usual_days"], found["metric"]) == (24, 4, "P@1")
    first = found["rows"][0]
    assert (first["query"], first["mean"], first["usual_mean"]) == ("query 0", 0.0, 0.75)
    assert first["sure"] and [row["lost_at_least"] > 0 for row in found["rows"][1:]] == [False] * 3
    assert first["query"] in found["examples"] and len(found["examples"]["query 0"]) == 2
    code, text = run("replay", path, *options)
    assert code == 0 and "   1. a\\x1b\n   2. b\n" in text and "\x1b" not in text
    assert "! passes 3.5 errors" in text
    code, text = run("replay", path, "--config", str(config), "--queries", "gained")
    assert code == 0


@pytest.mark.parametrize("order", ["lost", "gained"])
def test_replay_of_less_than_a_day_says_why_nothing_is_usual(tmp_path: Path, order: str) -> None:
    code, text = run("replay", str(recorded(tmp_path)), "--queries", order)
    assert code == 1
    assert f"--queries {order}: nothing is usual: that needs half of the last 24 hours" in text
    config = tmp_path / "c.toml"
    config.write_text('[metrics]\nnames = ["FirstFeedbackSeconds"]\n')
    path = str(days_of(tmp_path, days=2))
    code, text = run("replay", path, "--config", str(config), "--queries", order)
    assert code == 1 and "needs a metric within 0 to 1 in metrics.names" in text


def test_replay_without_the_option_reads_no_queries(tmp_path: Path) -> None:
    code, text = run("replay", str(recorded(tmp_path)))
    assert code == 0 and "bad_query" not in text


def test_queries_are_not_printed_beside_something_else(tmp_path: Path) -> None:
    code, text = run("replay", str(recorded(tmp_path)), "--queries", "worst", "--every", "10m")
    assert code == 2 and "--queries: not together" in text


SHOWN = [("shoes", 50), ('red, "big" boots', 30), ("hats", 10)]
"""Of 100 searches with a query."""


def listed(rows: list[tuple[str, int]], cursor: str | None, text: str = "plain") -> bytes:
    """A page of an answer of these queries."""
    found = msgspec.structs.replace(
        FOUND,
        order="impressions",
        rows=tuple(msgspec.structs.replace(ROW, query=q, impressions=n) for q, n in rows),
        none=msgspec.structs.replace(SUMS, impressions=20),
        rare=msgspec.structs.replace(SUMS, impressions=4),
        other=msgspec.structs.replace(OTHER, impressions=6),
        whole=msgspec.structs.replace(SUMS, impressions=120),
        listed=3,
        next=cursor,
        text=text,
    )
    return msgspec.json.encode(found)


def test_classes_are_the_most_frequent_queries_of_the_week(paged: Paged) -> None:
    url, paths = paged([listed(SHOWN[:1], "more"), listed(SHOWN[1:], None)])
    code, text = run("queries", "--url", url, "--classes", "head=0.5,torso=0.7")
    assert code == 0, text
    assert text == 'query,class\nshoes,head\n"red, ""big"" boots",torso\n'
    found = grades.read_classes(text.encode().splitlines(keepends=True), "f")
    assert found.by_query == {"shoes": "head", 'red, "big" boots': "torso"}
    assert [path.partition("?")[2] for path in paths] == [
        "window=7d&order=impressions&limit=1000",
        "window=7d&order=impressions&limit=1000&cursor=more",
    ]


def test_classes_out_of_reach_are_refused_with_how_far_it_gets(paged: Paged) -> None:
    url, _ = paged([listed(SHOWN, None)])
    code, text = run("queries", "--url", url, "--classes", "head=0.95", "--window", "24h")
    assert code == 1 and "head=0.95: the queries that are shown carry 90.0% of the searches" in text
    assert "4.0% are of queries of fewer than 5 users and 6.0% of queries beyond the 3" in text


@pytest.mark.parametrize(
    ("body", "options", "fault"),
    [
        (listed(SHOWN, None, "hashed"), (), "only hashes of the queries are stored"),
        (listed(SHOWN, None), ("--segment", "DE"), "--segment has no effect beside --classes"),
        (listed(SHOWN, None), ("--output", "csv"), "--output has no effect beside --classes"),
    ],
)
def test_classes_that_cannot_be_are_refused(
    paged: Paged, body: bytes, options: tuple[str, ...], fault: str
) -> None:
    url, _ = paged([body])
    code, text = run("queries", "--url", url, "--classes", "head=0.3", *options)
    assert code != 0 and fault in text
