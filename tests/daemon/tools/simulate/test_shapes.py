"""The same traffic, native and in the shape of a preset through its mapping, gives the same
integers."""

import io
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.config import load
from relevanced.daemon.recompute.replay_pipeline import Replayed, replayed
from relevanced.daemon.tools.traffic import SHAPES, Faults, Traffic, generate_events
from tests.replica import arms_of, counts_of, open_of, row_dicts, rows_of

START_MS: Final = 1795176000000
SETTINGS: Final = """
[segments]
groupings = [["country"], ["device"], ["country", "experiment:ranker-v2"]]
[attribution]
window = "2m"
lateness = "10s"
"""
PARTS: Final = ("algolia-search-log", "algolia-insights")
"""Two topics of one traffic."""
TRAFFIC: Final = Traffic(seed=3, rate=12, faults=Faults(0.05, 0.05, 0.05, 0.05))


def events() -> Sequence[Any]:
    """Ten minutes, with duplicates, disorder, orphans and items that were not shown."""
    stream = takewhile(
        lambda pair: pair[0] < START_MS + 600_000, generate_events(TRAFFIC, START_MS)
    )
    return [event for _, event in stream]


def replay(path: Path, records: Sequence[Any], sources: str, *, kcat: bool = False) -> Replayed:
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    bars = Progress(console=Console(file=io.StringIO(), quiet=True))
    config = load(SETTINGS + sources, {}, "test.toml")
    return replayed([str(path)], config, bars, as_is=True, kcat=kcat)


def integers(found: Replayed) -> Any:
    """Every integer of the lane: rows, totals, counts, open impressions, experiments."""
    lane = found.lane
    totals = row_dicts(lane.totals.pages, lane.segments.names, lane.plan)
    return rows_of(lane), totals, counts_of(lane), open_of(lane), arms_of(lane)


ALONE: Final = [name for name, shape in SHAPES.items() if not shape.is_part]


@pytest.mark.parametrize("names", [*((name,) for name in ALONE), PARTS], ids="-and-".join)
def test_simulated_traffic_through_a_preset_equals_native_traffic(
    names: Sequence[str], tmp_path: Path
) -> None:
    simulated, lines = events(), []
    native = integers(replay(tmp_path / "native.jsonl", simulated, ""))
    for event in simulated:
        written = {name: SHAPES[name].record(event) for name in names}
        ((name, record),) = ((name, one) for name, one in written.items() if one is not None)
        lines.append({"topic": name, "payload": msgspec.json.encode(record).decode()})
    sources = "".join(SHAPES[name].source(name, name) for name in names)
    mapped = integers(replay(tmp_path / "mapped.jsonl", lines, sources, kcat=True))
    assert native[2]["impression_outcomes"]["accepted"] > 1000
    assert native[2]["feedback_outcomes"]["joined"] > 1000
    assert mapped == native
