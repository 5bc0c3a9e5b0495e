"""The demo, as a newcomer runs it: numbers at once, windows that slide, and a regression to see."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.services import processes

METRICS = ("P@5", "RR@10", "ERR@10", "nDCG@10")
SEGMENTS = {"all", "DE", "US", "FR", "JP", "BR", "ios", "android", "web", "control", "treatment"}
PATIENCE_S = 120.0
"""Half a minute is enough where nothing else runs: over an hour of traffic is read first."""

Scores = dict[tuple[str, str], float]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a running demo, which is ended as Ctrl-C would end it."""
    port, log = processes.free_port(), tmp_path / "demo.log"
    command = [sys.executable, "-m", "relevanced.daemon", "demo", "--port", str(port)]
    process = processes.spawn(command, log=log)
    yield port
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0, log.read_text()
    assert "Traceback" not in log.read_text()


def read(port: int) -> tuple[Scores, float]:
    """(metric, segment) → live score over the last minute, and the end of that window."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    scores: Scores = {}
    end = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            if (labels.get("window"), labels.get("view")) != ("1m", "live"):
                continue
            if sample.name == "relevanced_score":
                scores[labels["metric"], labels["segment"]] = sample.value
            elif sample.name == "relevanced_window_end_timestamp_seconds":
                end = sample.value
    return scores, end


def judged(port: int) -> Mapping[str, float]:
    """Segment → the first judged metric over the last minute that is final."""
    with urlopen(f"http://127.0.0.1:{port}/api/v1/judged?window=1m", timeout=10) as answer:
        found = json.load(answer)
    metric, *_ = found["judged_metrics"]
    of_metric = [one for one in found["scores"] if one["judged_metric"] == metric]
    return {one["segment"]: one["mean"] for one in of_metric}


def headline(port: int) -> str:
    """The sentence of the page."""
    with urlopen(f"http://127.0.0.1:{port}/api/v1/changes?window=1m", timeout=10) as answer:
        return str(json.load(answer)["headline"]["text"])


def wait(ready: Callable[[], bool], deadline: float) -> None:
    while True:
        try:
            if ready():
                return
        except OSError:
            pass  # it does not listen yet
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s"
        time.sleep(0.2)


def test_scores_of_every_segment_slide_and_show_the_regression(port: int, tmp_path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    wait(lambda: {s for _, s in read(port)[0]} >= SEGMENTS, deadline)
    first, first_end = read(port)
    assert {(metric, segment) for metric in METRICS for segment in SEGMENTS} <= set(first)
    wait(lambda: read(port)[1] >= first_end + 10, deadline)

    def regressed() -> bool:
        scores, _ = read(port)
        others = min(scores["nDCG@10", segment] for segment in ("US", "FR", "JP"))
        return scores["nDCG@10", "DE"] < others - 0.05

    wait(regressed, deadline)
    # Clicks take minutes to settle; by judgements the fall is known at once.
    wait(lambda: judged(port)["DE"] < judged(port)["US"] - 0.05, deadline)
    fell = "Judged nDCG(ideal=pool)@10 of country DE fell from 0.7"
    wait(lambda: headline(port).startswith(fell), deadline)
    # The terminal says what the page does.
    log = tmp_path / "demo.log"
    wait(lambda: fell in log.read_text(), deadline)
    assert "Search is as good as before." in log.read_text().partition(fell)[0]


def test_taken_port_is_a_sentence_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "relevanced.daemon", "demo", "--port", str(port)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: another process listens at port {port}: give another")
    assert "--port 0 for any that is free" in result.stderr
    assert len(result.stderr.splitlines()) == 1
