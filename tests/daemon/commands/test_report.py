"""`relevanced report`, and the verdicts on simulated experiments of a known effect."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from click.testing import CliRunner
from rich.progress import Progress

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import load
from relevanced.daemon.experiments import Finding, Findings, OverTime
from relevanced.daemon.recompute import replay_files
from relevanced.daemon.tools.traffic import EXPERIMENT, Traffic, generate_events
from tests.arms import dealt_arms, found_of
from tests.daemon.http.api.test_over_time import asked

IMPRESSIONS = 25_000
CONFIG = f"""
[segments]
groupings = []
[metrics]
names = ["RR@10", "Success@10"]
[experiments.{EXPERIMENT}]
planned_impressions = {IMPRESSIONS}
"""
START_MS = 1_795_176_000_000
DAYS = "/api/v1/experiments/ranker-v2/over-time"
QUERIES = ("", "?exclude=2024-10-06%2F2024-10-07")

Serve = Callable[..., str]
"""(body, status, and the body for effects by day): the URL."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    """An HTTP server with one answer; its URL."""
    servers: list[HTTPServer] = []

    def start(body: bytes, status: int, days: bytes = b"") -> str:
        bodies = {"/x/api/v1/experiments": body} | {f"/x{DAYS}{query}": days for query in QUERIES}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = bodies.get(self.path, b"")
                self.send_response(status if found else 404)
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/x/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def report(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["report", *arguments])
    return result.exit_code, result.output


def test_the_report_is_what_the_daemon_answers(serve: Serve) -> None:
    found = found_of(dealt_arms())
    url = serve(msgspec.json.encode(found), 200)
    code, table = report("ranker-v2", "--url", url)
    assert code == 0 and table.startswith("ranker-v2: running, as of 2026-11-20T12:00:00.000Z\n")
    code, text = report("ranker-v2", "--url", url, "--output", "json")
    assert code == 0 and msgspec.json.decode(text, type=Findings) == found


def test_effects_by_day_stand_in_the_report(serve: Serve) -> None:
    found, days = found_of(dealt_arms()), asked(lanes=1)
    url = serve(msgspec.json.encode(found), 200, msgspec.json.encode(days))
    code, text = report("ranker-v2", "--url", url, "--by-day", "--output", "json")
    (finding,) = msgspec.json.decode(text, type=Findings).experiments
    assert code == 0 and finding.by_day == days.days
    code, text = report("ranker-v2", "--url", url, "--by-day")
    assert code == 0 and text.startswith("ranker-v2: running") and "by day (UTC)" in text
    assert all(row.day in text for row in days.days) and "only the sum is known" not in text


def test_days_left_out_are_said_before_the_effects_without_them(serve: Serve) -> None:
    exclude = "2024-10-06/2024-10-07"
    days = asked(exclude, lanes=1)
    url = serve(msgspec.json.encode(found_of(dealt_arms())), 200, msgspec.json.encode(days))
    code, text = report("ranker-v2", "--url", url, "--exclude", exclude)
    assert code == 0 and "Leaves out 2024-10-06 00:00" in text and "2024-10-06  " not in text
    assert "WARNING whether the arms lost equal shares is not tested" in text
    assert "running" not in text, "the report itself is of all days"
    code, text = report("ranker-v2", "--url", url, "--exclude", exclude, "--output", "json")
    assert code == 0 and msgspec.json.decode(text, type=OverTime) == days


def test_a_report_that_cannot_be_fetched_is_an_error_with_its_reason(serve: Serve) -> None:
    url = serve(msgspec.json.encode(found_of(dealt_arms())), 200)
    assert report("other", "--url", url) == (
        1,
        "Error: other: no experiment of this name; known: ranker-v2\n",
    )
    code, text = report("other", "--url", serve(b'{"error":"no scores"}', 503))
    assert code == 1 and "answered 503: no scores\n" in text
    code, text = report("other", "--url", serve(b"<html>", 200))
    assert code == 1 and "is no answer of this program" in text
    code, text = report("other", "--url", "127.0.0.1:1")
    assert code == 2 and "must be http://host:port" in text
    code, text = report("other", "--url", "http://127.0.0.1:1")
    assert code == 1 and "no answer" in text


def simulated(tmp_path: Path, effect: float, seed: int) -> Finding:
    """The finding on IMPRESSIONS impressions of an experiment with a true effect on RR@10."""
    traffic = Traffic(seed=seed, rate=200.0, effect=effect)
    path, shown = tmp_path / "events.jsonl", 0
    with path.open("wb") as file:
        for _, event in generate_events(traffic, START_MS):
            shown += event["type"] == "impression"
            if shown > IMPRESSIONS:
                break
            file.write(msgspec.json.encode(event) + b"\n")
    config = load(CONFIG, {}, "test")
    with Progress(disable=True) as bars:
        lane = replay_files.read_lane([str(path)], config, bars, as_is=False)
    [found] = replay_files.experiments_of(lane).experiments
    return found


def test_a_simulated_loss_of_five_percent_is_called_worse(tmp_path: Path) -> None:
    found = simulated(tmp_path, -0.027, seed=5)
    primary = found.variants[1].metrics[0]
    assert found.impressions == IMPRESSIONS and found.warnings == ()
    assert (primary.metric, primary.verdict, primary.words) == ("RR@10", "worse", "worse")
    assert primary.relative_lower is not None and primary.relative_upper is not None
    assert primary.relative_lower < -0.05 < primary.relative_upper


def test_a_simulated_experiment_without_an_effect_is_not(tmp_path: Path) -> None:
    found = simulated(tmp_path, 0.0, seed=5)
    assert {metric.verdict for metric in found.variants[1].metrics} == {"undecided"}
