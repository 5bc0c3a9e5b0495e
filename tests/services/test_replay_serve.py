"""`relevanced replay --serve`: page and API over a recorded file, with nothing installed."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest

from relevanced.daemon.recompute.over_time import NOTHING_SETTLED
from tests.services import processes
from tests.services.test_demo import wait

COMMAND: Final = [sys.executable, "-m", "relevanced.daemon"]
START: Final = "2021-03-04T05:00:00Z"
"""Years ago: what is served must not depend on the clock."""
PATIENCE_S: Final = 120.0
CONFIG: Final = """
windows = ["5m", "1h"]
[attribution]
window = "2m"
lateness = "10s"
[segments]
groupings = [["country"]]
"""


def relevanced(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Five hours: DE is broken from 07:00 to 08:00."""
    folder = tmp_path_factory.mktemp("recorded")
    made = {"config": folder / "c.toml", "first": folder / "1.jsonl", "then": folder / "2.jsonl"}
    made["config"].write_text(CONFIG)
    simulate = ["simulate", "--rate", "20", "--out"]
    done = relevanced(*simulate, made["first"], "--start", START, "--duration", "3h",
                      "--regression-after", "2h")  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = relevanced(*simulate, made["then"], "--start", "2021-03-04T08:00:00Z",
                      "--duration", "2h", "--seed", "2")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return made


@dataclass
class Served:
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def get(self, path: str) -> Any:
        with urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=30) as answer:
            body = answer.read()
            is_json = answer.headers.get_content_type() == "application/json"
            return json.loads(body) if is_json else body.decode()


def served(recorded: dict[str, Path], log: Path, *files: str) -> Iterator[Served]:
    port = processes.free_port()
    names = [str(recorded[name]) for name in files]
    options = ["--config", str(recorded["config"]), "--serve", "--port", str(port)]
    process = processes.spawn([*COMMAND, "replay", *names, *options], log=log)
    found = Served(port, process, log)

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        return bool(found.get("readyz"))

    wait(listens, time.monotonic() + PATIENCE_S)
    yield found
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0, log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def broken(recorded: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from served(recorded, tmp_path_factory.mktemp("broken") / "log", "first")


@pytest.fixture(scope="module")
def over(recorded: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from served(recorded, tmp_path_factory.mktemp("over") / "log", "first", "then")


def test_the_scores_are_those_that_replay_prints(broken: Served, recorded: dict[str, Path]) -> None:
    printed = relevanced(
        "replay", recorded["first"], "--config", recorded["config"], "--output", "json"
    )
    report = json.loads(printed.stdout)
    whole = report["whole"]["window"]
    expected = [score for score in report["scores"] if score["window"] != whole]
    found = broken.get("api/v1/scores")
    assert found["as_of"] == report["as_of"]
    assert len(expected) > 100 and found["scores"] == expected


def test_the_hours_add_up_to_what_has_settled(broken: Served) -> None:
    rows = broken.get(
        "api/v1/hours?from=2021-03-04T00:00:00Z&metric=RR@10&grouping=all&segment=all"
    )["rows"]
    assert [row["start"][11:16] for row in rows] == ["05:00", "06:00", "07:00"]
    events = broken.get("api/v1/health")["events"]
    counted, all_of_them = sum(row["impressions"] for row in rows), events["impressions"]
    settling_s = 2 * 60 + 10 + 5
    assert 0 < all_of_them - counted < 20 * settling_s * 1.5, "the last minutes have not settled"


def test_what_fell_is_the_headline_and_the_clock_stands(broken: Served) -> None:
    found = broken.get("api/v1/changes?window=5m")
    assert "of country DE fell from 0.5" in found["headline"]["text"]
    assert found["open"][0]["onset"]["at"].startswith("2021-03-04T07:0")
    health = broken.get("api/v1/health")
    assert health["ready"] and 0 <= health["behind_seconds"] < 1
    assert health["recording"].endswith("1.jsonl ends at " + found["as_of"])


def test_what_was_over_before_the_end_is_told_as_over(over: Served) -> None:
    """The looks on the way saw it."""
    found = over.get("api/v1/changes?window=5m")
    assert found["open"] == [] and found["headline"]["tone"] == "good"
    (closed,) = found["closed"]
    assert (closed["segment"], closed["state"]) == ("DE", "recovered")
    assert closed["onset"]["at"].startswith("2021-03-04T07:0")
    assert "2021-03-04T07:5" <= closed["recovered"] <= "2021-03-04T08:1"


def test_metrics_page_and_index_are_served(broken: Served) -> None:
    assert "relevanced_score{" in broken.get("metrics")
    assert "<title>relevanced</title>" in broken.get("")
    paths = [one["path"] for one in broken.get("api/v1/")["paths"]]
    assert "/api/v1/changes" in paths
    said = broken.log.read_text()
    assert f"http://127.0.0.1:{broken.port}/  the web page: " in said and "Ctrl-C" in said


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two days, on the second of which one query breaks."""
    folder = tmp_path_factory.mktemp("searched")
    made = {"config": folder / "c.toml", "days": folder / "days.jsonl", "broken": folder / "q"}
    made["config"].write_text(CONFIG + '[queries]\ntext = "plain"\nby = "country"\n')
    made["broken"].write_text("blue office kettle\n")
    done = relevanced("simulate", "--rate", "2", "--out", made["days"], "--start", START,
                      "--duration", "50h", "--break-queries", made["broken"],
                      "--break-after", "26h")  # fmt: skip
    assert done.returncode == 0, done.stderr
    yield from served(made, folder / "log", "days")


def test_queries_of_a_recording_are_served_with_what_they_lost(searched: Served) -> None:
    found = searched.get("api/v1/queries?window=24h&order=lost&limit=5")
    first = found["rows"][0]
    assert (found["hours"], found["usual_days"]) == (24, 1)
    assert first["query"] == "blue office kettle" and first["lost_at_least"] > 0
    assert found["whole"]["impressions"] > 50_000
    one = searched.get("api/v1/queries/detail?window=24h&query=Blue+office+kettle")
    assert one["shown"] and sum(hour["impressions"] for hour in one["hours"]) > 50
    assert len(one["examples"]) == 2 and all(one["examples"][0]["items"])
    opened = searched.get("api/v1/queries?window=now")
    assert 0 < opened["whole"]["impressions"] < 5_000
    part = searched.get("api/v1/queries?window=24h&segment=DE&limit=1")
    assert part["rows"] and part["segment"] == "DE"
    assert searched.get("api/v1/health")["queries"]["by"] == "country"


def test_recording_is_served_without_queries_where_none_are_kept(broken: Served) -> None:
    assert broken.get("api/v1/health")["queries"] is None


def test_a_taken_port_is_a_sentence(recorded: dict[str, Path]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = relevanced("replay", recorded["then"], "--serve", "--port", str(port))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"another process listens at port {port}: give another one, such as" in done.stderr
    assert NOTHING_SETTLED not in done.stderr


def test_that_a_short_recording_has_nothing_settled_is_said(
    recorded: dict[str, Path], tmp_path: Path
) -> None:
    lines = recorded["then"].read_bytes().splitlines(keepends=True)
    (tmp_path / "short.jsonl").write_bytes(b"".join(lines[:2000]))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = relevanced("replay", tmp_path / "short.jsonl", "--serve", "--port", port)
    assert NOTHING_SETTLED in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--serve", "--every", "10m"], "--serve: not together with"),
        (["--serve", "--output", "json"], "--serve: not together with"),
        (["--port", "80"], "--port: only with --serve"),
    ],
)
def test_what_does_not_go_together_is_said(
    recorded: dict[str, Path], options: list[str], words: str
) -> None:
    done = relevanced("replay", recorded["then"], *options)
    assert done.returncode == 2 and words in done.stderr


def test_a_file_of_nothing_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"a":1}\n')
    done = relevanced("replay", path, "--serve", "--port", "0")
    assert done.returncode == 1 and "http://" not in done.stdout
