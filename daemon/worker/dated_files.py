"""Which dated files lanes work by, and lanes that wait for files.

Lanes need them to grade lists, and to derive attributes. The directories are looked at every
minute, in a thread. A lane waits, before anything of a batch is applied, until each of them gives
it its files.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog

from ..backoff import stopped_within
from ..files import PATIENCE_S, FileLooks, NotRead
from ..judgements import (
    DatedFiles,
    Directory,
    Fault,
    IndexEntry,
    Judgements,
    Prepared,
    QueryClasses,
    Timeline,
    begun,
    earliest_for_lane_ms,
    from_now,
    prepared,
    start_text,
)
from ..lane import Lane, latest_ms
from ..telemetry import Telemetry
from .batch import Records

log = structlog.get_logger(__name__)

NAMED: Final = 3
"""So many faults are named that a lane waits for."""
NOT_READ_YET: Final = "the directory is being read"

T = TypeVar("T")
Show = Callable[[Iterable[tuple[str, str, str]]], None]
"""Takes the (name, SHA-256, start) of the files that all workers must have."""


@dataclass(frozen=True)
class Use(Generic[T]):
    """What lanes need the files of a directory for."""

    name: str
    """For readiness and the log."""
    of: Callable[[Lane], DatedFiles[T] | None]
    """None of a lane that needs none."""
    missing: str
    """What to say where this process has no such directory."""
    shown: Show = lambda files: None


@dataclass(frozen=True)
class _Seen(Generic[T]):
    """The directory as a look found it."""

    index: tuple[IndexEntry, ...]
    index_faults: tuple[Fault, ...]
    faults: tuple[Fault, ...]
    readable: Mapping[IndexEntry, T]

    @property
    def all_faults(self) -> list[Fault]:
        return [*self.index_faults, *self.faults]


class WatchedDirectory(Generic[T]):
    """Gives lanes their files of one directory, as the last look found it, or says why they must
    wait.

    Before each batch a lane adopts or refuses what is listed (`judgements.files_in_force`). It must
    wait while the index has faults, a file of its own timeline is missing or changed, or the batch
    may hold an event from the start of a listed file on that cannot be read.
    """

    def __init__(
        self,
        use: Use[T],
        directory: Directory[T] | None,
        max_future_ms: int,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`directory`: None where this process has none. `max_future_ms`: how far ahead of its
        record an event may be. `patience_s`: for a look."""
        self.name = use.name
        self._use, self._directory, self._max_future_ms = use, directory, max_future_ms
        self._seen: _Seen[T] | None = None
        self._looks = FileLooks(f"the directory of {use.name}", patience_s)

    def is_needed_by(self, lane: Lane) -> bool:
        """Whether the lane needs any of its files."""
        return self._use.of(lane) is not None

    def is_unready(self, lane: Lane) -> bool:
        """Whether the lane lacks a file at the last look, for example as it was just opened."""
        needs, seen = self._use.of(lane), self._seen
        if needs is None or self._directory is None:
            return False
        return seen is None or bool(_prepared(needs, seen, lane).missing)

    def faults(self) -> list[str]:
        """Those of files that no lane needs yet, and of others."""
        found = [] if self._seen is None else self._seen.all_faults[:NAMED]
        return [*filter(None, [self._looks.unread]), *map(str, found)]

    def refused(self, lane: Lane, now_ms: int) -> Iterator[str]:
        """The files that the lane refused, and what to do about them."""
        needs = self._use.of(lane)
        if needs is None or needs.timeline is None:
            return
        earliest = earliest_for_lane_ms(latest_ms(lane), now_ms, self._max_future_ms)
        for entry in needs.timeline.refused:
            yield (
                f"lane {lane.number} refused {entry.name}: it was listed too late for it; add it"
                f" again from {start_text(earliest)} or later"
            )

    async def look(self, lanes: Collection[Lane]) -> None:
        """Look at the directory now, for these lanes."""
        directory = self._directory
        if directory is None:
            return
        needs = [found for found in map(self._use.of, lanes) if found is not None]
        refresh = partial(directory.refresh, [one.timeline or Timeline() for one in needs])
        was_said = bool(self._looks.unread)
        try:
            await self._looks.look(refresh)
        except NotRead:
            if not was_said:
                log.error("files cannot be read", of=self.name, faults=[self._looks.unread])
            return
        before, seen = self._seen, _Seen(
            directory.index, directory.index_faults, directory.faults, dict(directory.readable)
        )
        self._seen = seen
        needed = from_now(seen.readable, time.time_ns() // 1_000_000)
        self._use.shown((one.name, one.sha256, start_text(one.start_ms)) for one in needed)
        if seen.all_faults and (before is None or seen.all_faults != before.all_faults):
            log.error("files cannot be read", of=self.name, faults=self.faults())

    def obstacle(self, lane: Lane, records: Records) -> str | None:
        """Give the lane its files for this batch; returns None, or why it must wait."""
        needs, seen = self._use.of(lane), self._seen
        if needs is None:
            return None
        if self._directory is None:
            return self._use.missing
        if unread := self._looks.unread:
            return unread  # as with an index that has faults, nobody knows what is listed
        if seen is None:
            return NOT_READ_YET
        if seen.index_faults:
            return "; ".join(str(fault) for fault in seen.index_faults[:NAMED])
        found = _prepared(needs, seen, lane)
        if found.missing:
            return "; ".join(_put_right(entry, seen.faults) for entry in found.missing[:NAMED])
        before_ms = found.before_ms
        if before_ms is not None and self._latest_ms(records) >= before_ms:
            return "; ".join(_put_right(entry, seen.faults) for entry in found.unread[:NAMED])
        known = () if needs.timeline is None else needs.timeline.refused
        for entry in set(found.timeline.refused).difference(known):
            log.error("file refused", of=self.name, lane=lane.number, file=entry.name)
        needs.prepare(found.timeline, seen.readable)
        return None

    def _latest_ms(self, records: Records) -> int:
        """No event of the records is later: one that is further ahead of its record is refused."""
        every = [record.timestamp for of_topic in records.values() for record in of_topic]
        if min(every, default=0) < 0:
            return 2**62  # a record without a time may hold any event
        return max(every, default=-(2**62)) + self._max_future_ms


def _prepared(needs: DatedFiles[T], seen: _Seen[T], lane: Lane) -> Prepared:
    if needs.timeline is None:
        missing = tuple(entry for entry in seen.index if entry not in seen.readable)
        return Prepared(begun(seen.index), missing)
    return prepared(needs.timeline, seen.index, seen.readable, latest_ms(lane))


def _put_right(entry: IndexEntry, faults: Collection[Fault]) -> str:
    """What to do about a file that cannot be read."""
    found = [fault for fault in faults if fault.file.endswith(entry.name)]
    if found and not found[0].lacking:  # its bytes are those that were added: nothing to put back
        return f"the file {entry.name} is in place, but cannot be read here: {found[0]}"
    why = f" ({found[0]})" if found else ""
    return f"put back the file {entry.name} of SHA-256 {entry.sha256}{why}"


LOOK_EVERY_S: Final = 60.0
LOOK_AGAIN_S: Final = 5.0
"""While a lane waits, or nothing was read yet."""
CHECK_EVERY_S: Final = 0.5


class FileWaits:
    """Gives lanes their files, and lets them wait for those that are not there."""

    def __init__(
        self,
        directories: Sequence[WatchedDirectory[Any]],
        lanes: Callable[[], Collection[Lane]],
        stop: asyncio.Event,
    ) -> None:
        self._directories = directories
        self._lanes, self._stop = lanes, stop
        self._following: asyncio.Task[None] | None = None
        self._waiting: dict[int, dict[str, str]] = {}

    @property
    def waiting_for(self) -> dict[str, str]:
        """What lanes wait for, by the name of the files: for readiness."""
        found: dict[str, list[str]] = {}
        for lane, obstacles in sorted(self._waiting.items()):
            for name, why in obstacles.items():
                found.setdefault(name, []).append(f"lane {lane} waits: {why}")
        return {name: "; ".join(lines) for name, lines in found.items()}

    def stated(self, now_ms: int) -> dict[str, str]:
        """Of the files that lanes need, by their name: the faults of those that no lane needs yet,
        and those that lanes refused. For readiness."""
        lanes = self._lanes()
        return {
            each.name: "; ".join(
                [*each.faults(), *(line for lane in lanes for line in each.refused(lane, now_ms))]
            )
            for each in self._directories
            if any(map(each.is_needed_by, lanes))
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look at the directories for as long as this lasts."""
        self._following = asyncio.create_task(self.follow())
        try:
            yield
        finally:
            self._following.cancel()

    async def follow(self) -> None:
        """Look at the directories until the process is to stop."""
        while not self._stop.is_set():
            await self.look()
            for _ in range(round(LOOK_EVERY_S / LOOK_AGAIN_S)):
                # A lane may be opened, or begin to wait, at any time between two looks.
                if await stopped_within(self._stop, LOOK_AGAIN_S) or self._hurries:
                    break

    @property
    def _hurries(self) -> bool:
        """Whether a lane waits, or will."""
        lanes = self._lanes()
        unready = any(each.is_unready(lane) for each in self._directories for lane in lanes)
        return bool(self._waiting) or unready

    async def look(self) -> None:
        """Look at the directories now, at once: one that does not answer holds no other."""
        await asyncio.gather(*(each.look(self._lanes()) for each in self._directories))

    def obstacles(self, lane: Lane, records: Records) -> dict[str, str]:
        """Give the lane its files for this batch; returns why it must wait for those that are not
        there, by their name."""
        if not any(each.is_needed_by(lane) for each in self._directories):
            return {}
        if self._following is not None and self._following.done():
            self._following.result()  # what ended it ends the worker: no lane waits for nothing
        asked = {each.name: each.obstacle(lane, records) for each in self._directories}
        return {name: why for name, why in asked.items() if why is not None}

    def prepare(self, lane: Lane, records: Records) -> bool:
        """Give the lane its files for this batch; returns whether it may be taken now. If not, the
        lane is said to wait, until it is `given` them."""
        obstacles = self.obstacles(lane, records)
        before = self._waiting.pop(lane.number, {})
        if obstacles:
            self._waiting[lane.number] = obstacles
        for name in obstacles.keys() - before:
            log.warning("waiting for files", of=name, lane=lane.number, reason=obstacles[name])
        for name in before.keys() - obstacles:
            log.info("no longer waiting for files", of=name, lane=lane.number)
        return not obstacles

    async def given(self, lane: Lane, records: Records) -> bool:
        """Wait until the batch may be taken; returns False where the process is to stop before."""
        try:
            while not self.prepare(lane, records):
                if await stopped_within(self._stop, CHECK_EVERY_S):
                    return False
            return True
        finally:
            self._waiting.pop(lane.number, None)


JUDGEMENTS: Final = "judgements"
NO_JUDGEMENTS: Final = "judgements.directory is not set here, and the layout in force grades by it"


def judgements_use(telemetry: Telemetry) -> Use[Judgements]:
    """Judgements, by which lists are graded."""
    return Use(JUDGEMENTS, _judged, NO_JUDGEMENTS, telemetry.judgements_read)


def _judged(lane: Lane) -> DatedFiles[Judgements] | None:
    return None if lane.judged is None else lane.judged.files


def classes_use(attribute: str, telemetry: Telemetry) -> Use[QueryClasses]:
    """Classes of queries, which are the values of an attribute."""
    missing = f"[[derive]] of {attribute} has no directory here"
    shown = partial(telemetry.classes_read, attribute)
    return Use(f"classes of {attribute}", partial(_classed, attribute), missing, shown)


def _classed(attribute: str, lane: Lane) -> DatedFiles[QueryClasses] | None:
    return lane.class_files.get(attribute)
