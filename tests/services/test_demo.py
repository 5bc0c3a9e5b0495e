"""The demo, as a newcomer runs it: how much is left to read, windows that slide, and a regression
to see, from its break to its repair."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.services import processes

METRIC = "RR@10 over 1m"
METRICS = ("P@5", "RR@10", "ERR@10", "nDCG@10")
SEGMENTS = {"all", "DE", "US", "FR", "JP", "BR", "ios", "android", "web", "control", "treatment"}
PATIENCE_S = 300.0
"""Half a minute is enough where nothing else runs: over an hour of traffic is read first."""
BREAKS_AFTER_S, REPAIRED_AFTER_S = 5, 60
RECOVERED_WITHIN_S = 180

Scores = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Demo:
    """A running demo."""

    port: int
    process: int
    log: Path


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo whose story is short. It is ended as Ctrl-C would end it."""
    port, log = processes.free_port(), tmp_path / "demo.log"
    command = [sys.executable, "-m", "relevanced.daemon", "demo", "--port", str(port)]
    story = [f"--regression-after={BREAKS_AFTER_S}s", f"--repair-after={REPAIRED_AFTER_S}s"]
    process = processes.spawn([*command, *story], log=log)
    yield Demo(port, process.pid, log)
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
    """The sentences at the top of the page."""
    with urlopen(f"http://127.0.0.1:{port}/api/v1/changes?window=1m", timeout=10) as answer:
        found = json.load(answer)["headline"]
    return f"{found['text']} {found['detail']}"


def wait(ready: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while True:
        try:
            if ready():
                return
        except OSError:
            pass  # it does not listen yet
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.2)


HEAP_BYTES = 64 << 20
"""glibc reserves so much for each heap of its malloc but the first, at a multiple of it."""


def more_heaps(process: int) -> int:
    """How many heaps a process has besides the first."""
    parts = [line.split() for line in Path(f"/proc/{process}/maps").read_text().splitlines()]
    spans = [(*(int(end, 16) for end in part[0].split("-")), part[1]) for part in parts]
    return sum(
        first % HEAP_BYTES == 0 and middle == begin and end - first == HEAP_BYTES
        for (first, middle, used), (begin, end, unused) in pairwise(spans)
        if (used, unused) == ("rw-p", "---p")
    )


def test_scores_of_every_segment_slide_and_follow_the_story_to_its_end(demo: Demo) -> None:
    port = demo.port
    wait(lambda: {s for _, s in read(port)[0]} >= SEGMENTS)
    first, first_end = read(port)
    assert {(metric, segment) for metric in METRICS for segment in SEGMENTS} <= set(first)
    wait(lambda: read(port)[1] >= first_end + 10)

    def lost() -> float:
        scores, _ = read(port)
        others = min(scores["nDCG@10", segment] for segment in ("US", "FR", "JP"))
        return others - scores["nDCG@10", "DE"]

    wait(lambda: lost() > 0.05)
    # Clicks take minutes to settle; by judgements the fall is known at once.
    wait(lambda: judged(port)["DE"] < judged(port)["US"] - 0.05)
    fell = "Judged nDCG(ideal=pool)@10 of country DE fell from 0.7"
    wait(lambda: fell in headline(port))
    # The terminal says what the page does.
    wait(lambda: fell in demo.log.read_text())
    before, _, _ = demo.log.read_text().partition(fell)
    assert "(ranking of country=DE was repaired" not in before
    wait(lambda: "(ranking of country=DE was repaired" in demo.log.read_text())
    wait(lambda: lost() < 0.05)
    recovered = "Judged nDCG(ideal=pool)@10 of country DE recovered at "
    wait(lambda: recovered in headline(port), RECOVERED_WITHIN_S)

    lines = demo.log.read_text().splitlines()
    assert lines[0].endswith("  reading 70 min of history: 70 min of it left")
    story = next(n for n, line in enumerate(lines) if METRIC in line)
    assert lines[story].endswith(f"(ranking of country=DE breaks in {BREAKS_AFTER_S} s)")
    assert lines[story + 2].strip().startswith("Up to ")
    reading = [n for n, line in enumerate(lines) if " of history: " in line]
    assert len(reading) > 1 and reading[-1] < story
    # With one heap for each thread, each keeps what its busiest moment took.
    assert more_heaps(demo.process) == 0


def test_taken_port_is_a_sentence_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "relevanced.daemon", "demo", "--port", str(port)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: another process listens at port {port}: give another")
    assert "--port 0 for any that is free" in result.stderr
    assert len(result.stderr.splitlines()) == 1
