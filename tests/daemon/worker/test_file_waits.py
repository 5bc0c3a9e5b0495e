"""Before each batch a lane has the files that grade and class it, or waits and says which one to
put back."""

import asyncio
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from relevanced.daemon.judgements import (
    HOUR_MS,
    INDEX,
    Content,
    Library,
    Reader,
    Timeline,
    add,
    formats,
    grades,
    judged_plan,
    start_text,
)
from relevanced.daemon.lane import Lane
from relevanced.daemon.queries import Derivation
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.worker import (
    NO_JUDGEMENTS,
    NOT_READ_YET,
    FileWaits,
    WatchedDirectory,
    classes_use,
    judgements_use,
)
from tests.builders import TOPIC, lane_of, plan_with
from tests.daemon.telemetry.test_process import series
from tests.silent_mount import silent_mount

MAX_FUTURE_MS = 300_000
JUDGED: Final = "judgements"
CLASSED: Final = "classes of traffic"
TEXTS: Final = {JUDGED: "query,docid,rating\nshoes,d1,3\n", CLASSED: "query,class\nshoes,head\n"}
READERS: Final[dict[str, Reader[Content]]] = {JUDGED: formats.read, CLASSED: grades.read_classes}
INFO: Final = {JUDGED: "relevanced_judgements_info", CLASSED: "relevanced_query_classes_info"}


class Stage:
    """A lane that needs files of one or both kinds, and the directories that a process reads."""

    def __init__(
        self, *directories: Path | None, kinds: tuple[str, ...], patience_s: float = 15.0
    ) -> None:
        grades = judged_plan(["P@5"], relevant_from=1, max_grade=3) if JUDGED in kinds else None
        traffic = Derivation("traffic", by_files=True, unlisted="tail")
        derivations = (traffic,) if CLASSED in kinds else ()
        self.lane: Lane = lane_of(TOPIC, plan=plan_with(judged=grades, derivations=derivations))
        self.kind, self.directories = kinds[0], dict(zip(kinds, directories))
        self.stop, self.telemetry = asyncio.Event(), Telemetry("test")
        uses = judgements_use(self.telemetry), classes_use("traffic", self.telemetry)
        self.watched = [
            WatchedDirectory(use, self._library(use.name), MAX_FUTURE_MS, patience_s)
            for use in uses
        ]
        self.waits = FileWaits(self.watched, lambda: [self.lane], self.stop)

    def _library(self, kind: str) -> Library[Content] | None:
        directory = self.directories.get(kind)
        return None if directory is None else Library(directory, READERS[kind])

    def put(self, hour: int, kind: str | None = None) -> Path:
        kind = kind or self.kind
        directory = self.directories[kind]
        assert directory is not None
        source = directory.parent / f"{hour}.csv"
        source.write_text(TEXTS[kind])
        entry, _ = add(directory, source, hour * HOUR_MS, 0, READERS[kind])
        return directory / entry.name

    async def takes(
        self, hour: float = 100, *, looks: bool = True, timestamp: int | None = None
    ) -> bool:
        if looks:
            await self.waits.look()
        at_ms = int(hour * HOUR_MS) if timestamp is None else timestamp
        records: Any = {TOPIC: [SimpleNamespace(timestamp=at_ms)]}
        return self.waits.prepare(self.lane, records)

    @property
    def timeline(self) -> Timeline:
        lane = self.lane
        assert lane.judged is not None or self.kind == CLASSED
        files = lane.class_files["traffic"] if lane.judged is None else lane.judged.files
        assert files.timeline is not None
        return files.timeline

    @property
    def waiting_for(self) -> str:
        return self.waits.waiting_for[self.kind]

    def read_to(self, hour: float) -> None:
        self.lane.watermarks[TOPIC] = int(hour * HOUR_MS)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "files"
    path.mkdir()
    return path


@pytest.fixture(params=[JUDGED, CLASSED])
def stage(request: pytest.FixtureRequest, directory: Path) -> Stage:
    return Stage(directory, kinds=(request.param,))


async def test_directory_that_hangs_or_goes_is_waited_for_and_holds_no_other(
    directory: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stage = Stage(directory, other, kinds=(JUDGED, CLASSED), patience_s=2.0)
    stage.put(10)
    stage.put(10, CLASSED)
    assert await stage.takes()
    with silent_mount(directory):
        assert not await stage.takes()
        assert f"{directory / INDEX}: not read for" in stage.waiting_for
        assert f"{directory / INDEX}: not read for" in stage.waits.stated(0)[JUDGED]
        assert CLASSED not in stage.waits.waiting_for
    async with asyncio.timeout(30):
        while not await stage.takes():  # the call that hung ends a moment after the mount is gone
            await asyncio.sleep(0.01)
    assert not any(stage.waits.stated(0).values())
    away = directory.rename(tmp_path / "away")
    assert not await stage.takes()
    assert f"{directory / INDEX}: cannot be read: No such file" in stage.waiting_for
    away.rename(directory)
    assert await stage.takes()


async def test_lane_that_begins_takes_the_whole_index(stage: Stage) -> None:
    stage.put(10)
    stage.put(200)
    assert not await stage.takes(looks=False)
    assert stage.waits.waiting_for == {stage.kind: f"lane 0 waits: {NOT_READ_YET}"}
    assert await stage.takes()
    assert stage.waits.waiting_for == {}
    assert len(stage.timeline.entries) == 2


async def test_files_that_all_workers_must_have_are_shown(stage: Stage) -> None:
    now = time.time_ns() // 3_600_000_000_000
    for hour in (now - 5, now - 2, now + 3):
        stage.put(hour)
    await stage.waits.look()
    shown = [labels for labels, _ in series(stage.telemetry)[INFO[stage.kind]]]
    starts = [start_text(hour * HOUR_MS) for hour in (now - 2, now + 3)]
    assert [labels["start"] for labels in shown] == starts
    assert all(len(labels["sha256"]) == 64 for labels in shown)


async def test_file_is_adopted_early_and_refused_late(stage: Stage) -> None:
    stage.put(10)
    assert await stage.takes()
    stage.read_to(100.5)
    stage.put(100)
    late = stage.put(99)
    stage.put(101)
    assert await stage.takes()
    assert len(stage.timeline.entries) == 2
    stated = stage.waits.stated(int(100.6 * HOUR_MS))[stage.kind]
    assert f"lane 0 refused {late.name}: it was listed too late for it" in stated
    assert "from 1970-01-05T05:00:00Z or later" in stated


async def test_missing_file_of_the_timeline_stops_the_lane_until_it_is_back(stage: Stage) -> None:
    path = stage.put(10)
    assert await stage.takes()
    content = path.read_bytes()
    for gone in (path.unlink, lambda: path.write_bytes(content[:-2] + b"2\n")):
        gone()
        assert not await stage.takes()
        assert f"put back the file {path.name} of SHA-256" in stage.waiting_for
        path.write_bytes(content)
        assert await stage.takes()


async def test_unreadable_file_stops_batches_that_may_hold_an_event_from_its_start_on(
    stage: Stage,
) -> None:
    stage.put(10)
    assert await stage.takes()
    stage.read_to(100)
    stage.put(110).unlink()
    assert await stage.takes(109)
    assert not await stage.takes(109.95), "an event may be five minutes ahead of its record"
    assert not await stage.takes(timestamp=-1), "a record without a time may hold any event"
    assert "csv" in stage.waits.stated(0)[stage.kind]


@pytest.mark.parametrize("adopts", [False, True])
async def test_file_in_place_that_a_setting_forbids_is_not_asked_for_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch, adopts: bool
) -> None:
    with monkeypatch.context() as context:
        context.setitem(READERS, JUDGED, partial(formats.read, max_grade=2))
        stage = Stage(directory, kinds=(JUDGED,))
    if adopts:
        assert await stage.takes()
        stage.read_to(100)
    path = stage.put(110)
    assert not await stage.takes(120)
    assert f"the file {path.name} is in place, but cannot be read here: " in stage.waiting_for
    assert "raise judgements.max_grade" in stage.waiting_for


async def test_faults_of_the_index_stop_the_lane(stage: Stage, directory: Path) -> None:
    stage.put(10)
    assert await stage.takes()
    index = (directory / "index").read_bytes()
    (directory / "index").write_bytes(b"half")
    assert not await stage.takes()
    assert "must be 3 fields" in stage.waiting_for
    (directory / "index").write_bytes(index)
    assert await stage.takes()


async def test_process_without_a_directory_grades_nothing() -> None:
    stage = Stage(None, kinds=(JUDGED,))
    assert not await stage.takes(looks=False)
    assert stage.waits.waiting_for == {"judgements": f"lane 0 waits: {NO_JUDGEMENTS}"}


async def test_waiting_ends_when_the_process_is_to_stop(stage: Stage) -> None:
    stage.stop.set()
    assert not await stage.waits.given(stage.lane, {})
    assert stage.waits.waiting_for == {}


async def test_what_ends_the_look_at_the_directory_is_raised_at_the_next_batch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.put(10)

    def refresh(timelines: object) -> None:
        raise MemoryError("no room for the file")

    assert await stage.takes(100)
    for watched in stage.watched:
        if watched._directory is not None:
            monkeypatch.setattr(watched._directory, "refresh", refresh)
    with stage.waits.running():
        following = stage.waits._following
        assert following is not None
        await asyncio.wait([following])
        with pytest.raises(MemoryError, match="no room for the file"):
            await stage.takes(100, looks=False)


async def test_lane_waits_until_the_files_of_each_kind_are_there(tmp_path: Path) -> None:
    both = [tmp_path / "judgements", tmp_path / "heads"]
    for path in both:
        path.mkdir()
    stage = Stage(*both, kinds=(JUDGED, CLASSED))
    paths = [stage.put(10, JUDGED), stage.put(11, CLASSED)]
    assert await stage.takes()
    assert stage.lane.has_its_files
    contents = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    for path, content, left in zip(paths, contents, ([CLASSED], [])):
        assert not await stage.takes()
        assert path.name in "".join(stage.waits.waiting_for.values())
        path.write_bytes(content)
        assert await stage.takes() is (not left)
        assert [*stage.waits.waiting_for] == left
