"""Recorded events fill the hours that they have whole, and no others: a file does not say when its
recording began, or that another one was forgotten."""

import asyncio
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.config import load
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.backfill import FileHours, Staging
from relevanced.daemon.recompute.backfill_report import Filled, lines
from relevanced.daemon.recompute.whole_hours import whole_hours
from relevanced.daemon.storage import unpack_page

NOON: Final = 1_795_176_000_000
MINUTE: Final = 60_000
CONFIG: Final = load(
    'windows = ["5m"]\n[kafka]\ntopics = ["t"]\n[segments]\ngroupings = []\n', {}, "test"
)
SPAN: Final = range(NOON - 96 * HOUR_MS, NOON + 96 * HOUR_MS, HOUR_MS)


def every_minute(first: int, minutes: int) -> list[int]:
    return [NOON + (first + at) * MINUTE for at in range(minutes)]


def counted(path: Path, times_ms: Iterable[int], *, are_whole: bool = False) -> Staging:
    """A run on a file with an impression at each of these times."""
    impressions = [
        json.dumps(
            {"type": "impression", "impression_id": f"q{at}", "timestamp": at, "items": ["a"]}
        )
        for at in times_ms
    ]
    path.write_text("\n".join(impressions))
    staging = Staging("id", CONFIG.plan, SPAN)

    async def applied(_: float) -> None: ...

    with Progress(console=Console(file=io.StringIO())) as bars:
        files = [str(path)]
        source = FileHours(CONFIG, files, bars, kcat=False, topic=None, are_whole=are_whole)
        asyncio.run(source.count(staging, applied))
    return staging


def filled(staging: Staging) -> Mapping[int, int]:
    """Hour since noon → its impressions."""
    pages = {key.split(":")[3]: page for key, page in staging.ready.items() if ":hours:" in key}
    rows = {int(start): unpack_page(page)[0, 0] for start, page in pages.items()}
    starts = [start for start in staging.filled if start not in staging.left_out]
    return {(start - NOON) // HOUR_MS: int(rows.get(start, 0)) for start in starts}


LATE: Final = {
    "none": [],
    "a day before": [NOON - 26 * HOUR_MS],
    "in the hour before": [NOON - 20 * MINUTE],
    "in each hour of a day": [NOON - at * HOUR_MS for at in range(1, 25)],
}


@pytest.mark.parametrize("late", LATE)
def test_events_from_before_recording_began_make_no_hour_whole(late: str, tmp_path: Path) -> None:
    recorded = every_minute(40, 300)
    found = filled(counted(tmp_path / "events.jsonl", [*LATE[late], *recorded]))
    assert found == dict.fromkeys((1, 2, 3, 4), 60)


@pytest.mark.parametrize("early", [[], [NOON + 200 * MINUTE], [NOON + 20 * HOUR_MS]])
def test_events_from_after_recording_ended_make_no_hour_whole(
    early: list[int], tmp_path: Path
) -> None:
    found = filled(counted(tmp_path / "events.jsonl", [*every_minute(0, 170), *early]))
    assert found == {1: 60}


def test_day_whose_file_is_missing_is_left_out_and_said(tmp_path: Path) -> None:
    day = 24 * 60
    days = [*every_minute(0, day), *every_minute(2 * day, day)]
    staging = counted(tmp_path / "events.jsonl", [*days, NOON + 30 * HOUR_MS])
    found = filled(staging)
    assert set(found.values()) == {60} and found.keys() == {*range(1, 23), *range(49, 71)}
    whole, left_out = staging.filled, staging.left_out
    assert len(left_out) == 26, "with the hours in which the files beside it end and begin"
    already = [NOON + hour * HOUR_MS for hour in found]
    said = list(lines(Filled(CONFIG.plan, SPAN, "2 files", whole, (), None, 70, left_out, already)))
    assert any(line.startswith("Left out of 2 files: ") for line in said), said
    assert any("(44 of 70 hours)" in line for line in said), said


def test_files_that_are_said_to_be_whole_fill_hours_without_traffic(tmp_path: Path) -> None:
    times = [*every_minute(0, 100), *every_minute(300, 100)]
    staging = counted(tmp_path / "events.jsonl", times, are_whole=True)
    assert filled(staging) == {1: 40, 2: 0, 3: 0, 4: 0, 5: 60} and not staging.left_out


def test_quiet_nights_with_a_twentieth_of_the_traffic_of_the_day_are_whole() -> None:
    days = {hour: 40 if 8 <= hour % 24 < 22 else 2 for hour in range(72)}
    assert whole_hours(days, 1) == set(range(1, 71))
