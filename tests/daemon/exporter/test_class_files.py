"""What lanes have of files of classes, and what they refused, reaches everything that is served."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.exporter import Published, Publisher, of_reading
from relevanced.daemon.http import HttpServer, class_files
from relevanced.daemon.judgements import (
    IndexEntry,
    QueryClasses,
    Timeline,
    add,
    prepared,
    read_classes,
)
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import Derivation
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.views import LaneFiles, LaneView, Mirror
from tests.builders import START_MS, claimed, commit, plan_with, shown
from tests.daemon.views.test_mirror import read
from tests.fakes import MemoryLane
from tests.lane_views import read_text

TRAFFIC: Final = Derivation("traffic", by_files=True, unlisted="tail")
KIND: Final = replace(TRAFFIC, attribute="kind")
PLAN: Final = plan_with(groupings=(("traffic",),), max_segments=9, derivations=(TRAFFIC,))
FIRST_MS: Final = START_MS // HOUR_MS * HOUR_MS
FIRST, LATE = IndexEntry(FIRST_MS, "first.csv", "1" * 64), IndexEntry(
    FIRST_MS + HOUR_MS, "late.csv", "2" * 64
)


def view_of(latest_ms: int, plan: Plan = PLAN) -> LaneView:
    """A lane that has read so far before it looked at the index again, as it is stored."""
    store = MemoryLane()
    held = claimed(store, plan=plan)
    timeline, classes = Timeline((FIRST,)), dict.fromkeys((FIRST, LATE), QueryClasses({}))
    for files in held.lane.class_files.values():
        files.prepare(timeline, classes)
    commit(store, held, shown(latest_ms - START_MS))
    for files in held.lane.class_files.values():
        assert files.timeline is not None
        files.prepare(prepared(files.timeline, (FIRST, LATE), classes, latest_ms).timeline, classes)
    commit(store, held, shown(latest_ms - START_MS + 1, of="next"))
    return read(store, Mirror(0, plan)).view()


def published(*latest_ms: int, plan: Plan = PLAN) -> Published:
    """Of lanes that had read so far when they saw the second file."""
    views = [replace(view_of(at_ms, plan), lane=n) for n, at_ms in enumerate(latest_ms)]
    of_lanes = [
        replace(view, classes={n: replace(f, lane=view.lane) for n, f in view.classes.items()})
        for view in views
    ]
    return Publisher(plan).publish(of_lanes, max(latest_ms))


def test_a_reader_has_the_timelines_of_the_head() -> None:
    early, late = view_of(LATE.start_ms - 1), view_of(LATE.start_ms)
    files = LaneFiles(0, (FIRST, LATE), (), 0, LATE.start_ms, FIRST_MS)
    assert early.classes == {"traffic": files}
    refusing = replace(files, entries=(FIRST,), refused=(LATE,), latest_ms=LATE.start_ms + 1)
    assert late.classes == {"traffic": refusing}


def test_a_refused_file_is_named_with_lanes_and_the_start_that_would_do() -> None:
    found = published(LATE.start_ms - 1, LATE.start_ms + 5, LATE.start_ms + HOUR_MS)
    assert found.reading is not None
    (derived,) = class_files(found.reading).derived
    assert (derived.attribute, [file.name for file in derived.refused]) == ("traffic", ["late.csv"])
    assert [[f.name for f in lane.refused] for lane in derived.lanes] == [
        [],
        ["late.csv"],
        ["late.csv"],
    ]
    (condition,) = (one for one in of_reading(found, True) if one.name == "classes of traffic")
    assert condition.ok and condition.detail.startswith("lanes 1, 2 refused late.csv")
    assert "in place again from 2026-11-20T15:00:00Z on" in condition.detail
    samples = [
        (sample.name, sample.labels, sample.value)
        for family in read_text(b"".join(found.text.plain))
        for sample in family.samples
        if "refused" in sample.name
    ]
    named = {"name": "late.csv", "start": "2026-11-20T13:00:00Z"}
    earliest = "relevanced_refused_file_earliest_start_timestamp_seconds"
    assert samples == [
        ("relevanced_query_classes_refused_lanes", {"attribute": "traffic", **named}, 2),
        *(
            (
                earliest,
                {"files": "classes of traffic", **named, "lane": str(lane)},
                (FIRST_MS + hours * HOUR_MS) / 1000,
            )
            for lane, hours in ((1, 2), (2, 3))
        ),
    ]


def test_where_nothing_is_refused_or_derived_nothing_is_said() -> None:
    quiet = published(LATE.start_ms - 1)
    (condition,) = (one for one in of_reading(quiet, True) if one.name == "classes of traffic")
    assert condition.detail == ""
    assert b"refused_" not in b"".join(quiet.text.plain)
    plain = published(LATE.start_ms, plan=plan_with())
    assert plain.reading is not None and class_files(plain.reading).derived == ()
    assert not [one for one in of_reading(plain, True) if "classes" in one.name]


async def test_classes_check_asks_the_lanes_of_an_attribute(tmp_path: Path) -> None:
    directory, source = tmp_path / "heads", tmp_path / "a.csv"
    directory.mkdir()
    source.write_text("query,class\nshoes,head\n")
    listed, _ = add(directory, source, LATE.start_ms, 0, read_classes)
    server = HttpServer(Telemetry("1"), "all")
    await server.start("127.0.0.1", 0)

    async def check(*more: str) -> Result:
        url = f"http://127.0.0.1:{server.port}"
        command = ["classes", "check", str(directory), "--url", url, *more]
        return await asyncio.to_thread(CliRunner().invoke, cli, command)

    server.published = published(LATE.start_ms - 1)
    waits = await check()
    assert waits.exit_code == 2 and "first.csv: lane 0 must have it" in waits.output
    server.published = published(LATE.start_ms + 5)
    late = await check("--attribute", "traffic")
    assert late.exit_code == 2 and f"{listed.name}: will be refused by lane 0" in late.output
    assert "put it in place again from 2026-11-20T14:00:00Z on" in late.output
    assert "must be one of traffic" in (await check("--attribute", "kind")).output
    both = plan_with(groupings=(("traffic",), ("kind",)), derivations=(TRAFFIC, KIND))
    server.published = published(LATE.start_ms - 1, plan=both)
    assert "--attribute: needed, one of traffic, kind" in (await check()).output
    server.published = published(LATE.start_ms, plan=plan_with())
    assert "derives no attribute by files" in (await check()).output
    await server.stop()
