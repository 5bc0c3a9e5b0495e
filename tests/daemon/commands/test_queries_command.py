"""`relevanced queries`, and the queries of a replay."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.commands.query_table import query_table
from relevanced.daemon.http.api.query_rows import Queries, QueryRow, QuerySums

START_MS = 1_795_176_000_000
SUMS = QuerySums(9, 1, 4, 9, 0.5)
ROW = QueryRow("a\x1b[2Jb", 2, 1, 7, 3, 7, 0.5, 0.2, 70, 0.9, 2.8, 0.7, 1.1, -4.0, True)
FOUND = Queries(
    *("2026-11-20T12:00:00.000Z", "2026-11-20T13:00:00.000Z", "RR@10", "lost", None),
    *(1, 0, 7, 5, 3, (ROW,), SUMS, SUMS, SUMS, SUMS, 2, 0.63, "next"),
)


@pytest.fixture
def daemon() -> Iterator[Callable[[bytes, int], tuple[str, list[str]]]]:
    """A server with one answer: its URL, and the paths that it was asked for."""
    servers: list[HTTPServer] = []

    def start(body: bytes, status: int) -> tuple[str, list[str]]:
        paths: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
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


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments))
    return result.exit_code, result.output


def test_table_shows_what_is_lost_and_what_is_left_out() -> None:
    text = query_table(FOUND)
    assert "a\\x1b[2Jb" in text and "\x1b" not in text
    assert "2.8" in text and "1.1 !" in text and "(rare: fewer than 5 users)" in text
    assert "2 more: --limit" in text and "carry 63%" in text
    assert "at most 2 searches" in text


def test_command_asks_the_daemon(daemon: Callable[[bytes, int], tuple[str, list[str]]]) -> None:
    url, paths = daemon(msgspec.json.encode(FOUND), 200)
    code, text = run("queries", "--url", url, "--order", "lost", "--window", "1h", "--limit", "9")
    assert code == 0 and text == query_table(FOUND)
    assert paths == ["/api/v1/queries?window=1h&order=lost&limit=9"]
    code, text = run("queries", "--url", url, "--output", "json", "--metric", "RR@10")
    assert json.loads(text)["order"] == "lost" and "metric=RR%4010" in paths[-1]
    run("queries", "--url", url, "--output", "csv", "--segment", "a b")
    assert paths[-1].startswith("/api/v1/queries.csv?") and "segment=a+b" in paths[-1]


def test_refusal_is_shown(daemon: Callable[[bytes, int], tuple[str, list[str]]]) -> None:
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


def test_replay_without_the_option_reads_no_queries(tmp_path: Path) -> None:
    code, text = run("replay", str(recorded(tmp_path)))
    assert code == 0 and "bad_query" not in text


def test_queries_are_not_printed_beside_something_else(tmp_path: Path) -> None:
    code, text = run("replay", str(recorded(tmp_path)), "--queries", "worst", "--every", "10m")
    assert code == 2 and "--queries: not together" in text
