"""`relevanced report`, and the verdicts on simulated experiments of a known effect."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from click.testing import CliRunner
from rich.progress import Progress

from relevanced.daemon.commands import replay
from relevanced.daemon.commands.cli import cli
from relevanced.daemon.commands.simulate.traffic import EXPERIMENT, Traffic, generate_events
from relevanced.daemon.config.loading import load
from relevanced.daemon.experiments.types import Finding, Findings
from tests.arms import dealt_arms, found_of

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

Serve = Callable[[bytes, int], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """An HTTP server with one answer; its URL."""
    servers: list[HTTPServer] = []

    def start(body: bytes, status: int) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status if self.path == "/x/api/v1/experiments" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

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


def test_a_report_that_cannot_be_fetched_is_an_error_with_its_reason(serve: Serve) -> None:
    url = serve(msgspec.json.encode(found_of(dealt_arms())), 200)
    assert report("other", "--url", url) == (
        1,
        "Error: other: no experiment of this name; known: ranker-v2\n",
    )
    code, text = report("other", "--url", serve(b'{"error":"no scores"}', 503))
    assert code == 1 and 'answered 503: {"error":"no scores"}' in text
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
        lane = replay.read_lane([str(path)], config, bars, as_is=False)
    [found] = replay.experiments_of(lane).experiments
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
