"""`relevanced judgements check DIR --url URL`: what the lanes of a running daemon make of a
directory is what they do at their next look."""

import asyncio
import random
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.commands.dated_files import lane_lines
from relevanced.daemon.http import HttpServer, LaneDatedFiles, judged
from relevanced.daemon.judgements import (
    NOTHING_READ,
    IndexEntry,
    Timeline,
    add,
    file_name,
    prepared,
    pruned,
)
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import BY_JUDGEMENTS
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.views import LaneFiles
from tests.daemon.http.test_judged_missing import ENTRY, site_of
from tests.daemon.http.test_queries import serving
from tests.judged_lanes import NOON, entry, judged_reading, lane, steady
from tests.lane_views import published_of
from tests.seeds import seeds


def lanes_of(*files: LaneFiles) -> tuple[LaneDatedFiles, ...]:
    """As they are served, through JSON."""
    read = judged_reading(*(lane(steady(3), one, number=one.lane) for one in files))
    text = msgspec.json.encode(judged(read, {}).lanes)
    return msgspec.json.decode(text, type=tuple[LaneDatedFiles, ...])


def named(hour: int, sha256: str = "0" * 64) -> IndexEntry:
    start_ms = NOON + hour * HOUR_MS
    return IndexEntry(start_ms, file_name(start_ms, "a.csv"), sha256)


@pytest.mark.parametrize("seed", seeds(30))
def test_what_is_said_is_what_a_lane_does(seed: int) -> None:
    rng = random.Random(seed)
    files = [named(hour) for hour in range(-6, 6)]
    known = Timeline(tuple(sorted(rng.sample(files, 4))))
    latest_ms = NOON + rng.randrange(-3 * HOUR_MS, 3 * HOUR_MS, 1800_000)
    before = prepared(known, rng.sample(files, 6), files, latest_ms).timeline
    left = pruned(before, latest_ms, 1000, 0)
    past = before.entries[: len(before.entries) - len(left.entries)]
    index = sorted({*left.entries, *rng.sample(files, 8)})
    after = prepared(left, index, index, latest_ms).timeline
    history = (*past, *left.entries)
    of_lane = LaneFiles(
        0, history, left.refused, 3, latest_ms=latest_ms, first_ms=left.entries[0].start_ms
    )
    good, bad = lane_lines(index, lanes_of(of_lane))
    assert [line for line in good if "will be adopted by lane 3" in line] == [
        f"{each.name}: will be adopted by lane 3"
        for each in after.entries
        if each not in left.entries and each not in past
    ]
    refusing = [line.split(":")[0] for line in bad if "will be refused by lane 3" in line]
    new = set(after.refused) - set(left.refused)
    assert refusing == [each.name for each in sorted(new)]
    assert not [line for line in bad if "waits" in line]


def test_refusals_name_lanes_and_the_start_that_would_do() -> None:
    old, new = named(-2), named(1)
    ahead = LaneFiles(0, (old,), (), 1, latest_ms=NOON + 3 * HOUR_MS, first_ms=old.start_ms)
    behind = LaneFiles(0, (old,), (), 0, latest_ms=NOON, first_ms=old.start_ms)
    refused = LaneFiles(0, (old,), (new,), 2, latest_ms=NOON, first_ms=old.start_ms)
    good, bad = lane_lines([old, new], lanes_of(behind, ahead, refused))
    assert good == [
        f"{old.name}: adopted by lanes 0, 1, 2",
        f"{new.name}: will be adopted by lane 0",
    ]
    again = "where events of its time have been read: put it in place again from 2026-11-20T{}Z on"
    assert bad == [
        f"{new.name}: was refused by lane 2, {again.format('13:00:00')}, or later",
        f"{new.name}: will be refused by lane 1, {again.format('16:00:00')}, or later",
    ]


def test_file_of_a_lane_that_is_not_listed_as_it_was_is_named() -> None:
    changed = named(-2, "1" * 64)
    of_lane = LaneFiles(0, (changed,), latest_ms=NOTHING_READ, first_ms=changed.start_ms)
    _, (fault,) = lane_lines([named(-1)], lanes_of(of_lane))
    assert f"lane 0 must have it with the hash {'1' * 64}" in fault and "waits" in fault


async def test_lane_says_how_far_it_has_read() -> None:
    site = site_of()
    async for client in serving(site):
        reading = client.server.published.reading
        assert reading is not None
        files = reading.views[0].rows[BY_JUDGEMENTS].files
        assert files is not None
        assert files.latest_ms == max(event["timestamp"] for event in site.searches)
        assert (files.first_ms, files.entries) == (ENTRY.start_ms, (ENTRY,))


async def test_command_asks_the_daemon_and_fails_where_a_lane_refuses(tmp_path: Path) -> None:
    directory, source = tmp_path / "judgements", tmp_path / "a.csv"
    directory.mkdir()
    source.write_text("query,docid,rating\nshoes,d7,2\n")
    listed, _ = add(directory, source, NOON + HOUR_MS, NOON)
    server = HttpServer(Telemetry("1"), "all")
    await server.start("127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.port}"

    async def check(latest_ms: int, *paths: Path) -> Result:
        files = LaneFiles(0, (entry(0),), latest_ms=latest_ms, first_ms=listed.start_ms)
        server.published = published_of(judged_reading(lane(steady(3), files)))
        command = ["judgements", "check", *map(str, paths), "--url", url]
        return await asyncio.to_thread(CliRunner().invoke, cli, command)

    good = await check(NOON, directory)
    assert good.exit_code == 0 and f"{listed.name}: will be adopted by lane 0" in good.output
    late = await check(NOON + 2 * HOUR_MS, directory)
    assert late.exit_code == 2 and f"{listed.name}: will be refused by lane 0" in late.output
    alone = await check(NOON, source)
    assert alone.exit_code == 2 and "need a directory" in alone.output
    await server.stop()
