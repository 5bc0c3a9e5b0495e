"""What breaks is seen by judgements first, and told once: simulated searches, from events to the
list of changes."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import load
from relevanced.daemon.http import Changes, changes
from relevanced.daemon.judgements import add
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.buckets import JudgedHours
from relevanced.daemon.recompute.driver import Settled
from relevanced.daemon.recompute.libraries import whole_index
from relevanced.daemon.recompute.over_time import Looks
from relevanced.daemon.recompute.replay_pipeline import replayed
from relevanced.daemon.tools.traffic import Regression, Traffic, generate_events, judged_set
from tests.judged_lanes import NOON

MINUTE_MS: Final = 60_000
BEGIN: Final = NOON - HOUR_MS
SETTINGS: Final = """
windows = ["5m", "1h"]
[attribution]
window = "10m"
[segments]
groupings = [["country"]]
[metrics]
names = ["RR@10", "Success@10"]
[judgements]
directory = "{}"
"""


@dataclass
class Seen:
    """What is said of changes whenever so much time has passed."""

    looks: Looks
    apart_ms: int = 4 * MINUTE_MS
    at: dict[float, Changes] = field(default_factory=dict)
    """By minutes since noon."""

    def take(self, settled: Settled) -> None:
        lane = settled.lane
        self.looks.take(settled)
        reading = self.looks.published(lane, "").reading
        assert reading is not None and lane.watermark_ms is not None
        minute = (lane.watermark_ms - NOON) / MINUTE_MS
        self.at[minute] = changes(reading, "1h", "settled", {})

    def finish(self, settled: Settled) -> None:
        self.looks.finish(settled)


@dataclass(frozen=True)
class Recording:
    """Searches of an hour, and of some minutes after the break at noon."""

    path: Path
    settings: str


def recorded(folder: Path, regression: Regression, minutes: int) -> Recording:
    traffic, encoder = Traffic(seed=1, rate=8, regression=regression), msgspec.json.Encoder()
    path, grades = folder / "events.jsonl", folder / "grades.csv"
    with path.open("wb") as file:
        for time_ms, event in generate_events(traffic, BEGIN):
            if time_ms >= NOON + minutes * MINUTE_MS:
                break
            file.write(encoder.encode(event) + b"\n")
    (folder / "judgements").mkdir()
    grades.write_bytes(judged_set(traffic.world))
    add(folder / "judgements", grades, BEGIN, 0)
    return Recording(path, SETTINGS.format(folder / "judgements"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The ranking of DE breaks."""
    return recorded(tmp_path_factory.mktemp("ranking"), Regression(after_s=3600), 32)


def seen(recording: Recording) -> dict[float, Changes]:
    """What is said on the way."""
    config = load(recording.settings, {}, "test")
    index = whole_index(config)
    assert index is not None
    graded = JudgedHours(index.timeline, index.judgements)
    found = Seen(Looks(config.plan, config.resolved_changes, judged=graded))
    bars = Progress(console=Console(file=io.StringIO(), quiet=True))
    replayed([str(recording.path)], config, bars, as_is=False, looks=found, judged=graded)
    return found.at


def test_a_broken_ranking_is_known_by_judgements_first_and_incidents(broken: Recording) -> None:
    found = seen(broken)
    assert not any(each.open for minute, each in found.items() if minute < 0)
    judged = [minute for minute, each in found.items() if each.open and each.open[0].judged]
    clicked = [minute for minute, each in found.items() if each.open and not each.open[0].judged]
    assert min(judged) < 8 and min(clicked) >= 10 and max(judged) < min(clicked)
    told = [each.open for minute, each in found.items() if minute >= min(judged)]
    assert {len(each) for each in told} == {1} and len({each[0].id for each in told}) == 1
    assert {each[0].segments for each in told} == {("DE",)}
    (last,) = told[-1]
    assert last.metric == "RR@10" and last.beside is not None and last.beside.judged
    headline = [*found.values()][-1].headline
    assert headline.text == last.text and last.beside.text in headline.detail
    assert "Clicks show no such fall so far" in found[min(judged)].headline.detail


def test_an_index_outage_is_known_while_clicks_hardly_move(tmp_path: Path) -> None:
    outage = Regression(after_s=3600, segment={}, what="index")
    found = seen(recorded(tmp_path, outage, 20))
    first = min(minute for minute, each in found.items() if each.open)
    assert 0 < first < 8
    (last,) = [*found.values()][-1].open
    assert last.judged and last.beside is None
    assert (last.metric, last.segment) == ("nDCG(ideal=pool)@10", "all")


def changes_of(recording: Recording, folder: Path) -> list[str]:
    """The lines of `replay --changes`."""
    config = folder / "relevanced.toml"
    config.write_text(recording.settings)
    arguments = ["replay", str(recording.path), "--config", str(config), "--changes"]
    run = CliRunner().invoke(cli, arguments)
    assert run.exit_code == 0, run.output
    return run.stdout.splitlines()


def test_a_replay_tells_a_fault_once_by_clicks_and_judgements(
    broken: Recording, tmp_path: Path
) -> None:
    until, judged_until, clicked, detail, judged, _ = changes_of(broken, tmp_path)
    assert until.startswith("Up to 20 Nov 12:2") and judged_until == (
        "By judgements up to 20 Nov 12:30 UTC."
    )
    assert clicked.startswith("RR@10 of country DE fell from 0.5")
    assert "Looks like RANKING" in detail
    assert judged.startswith("    Judged nDCG(ideal=pool)@10 of country DE fell from 0.7")
    assert clicked.endswith(", not recovered.") and judged.endswith(" at 12:00, not recovered.")
