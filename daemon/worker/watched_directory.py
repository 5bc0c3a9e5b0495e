"""A directory of dated files that lanes need, as the last look found it.

Before each batch a lane adopts or refuses what is listed (`judgements.timeline`). It must wait,
before anything of the batch is applied, while the index has faults, a file of its own timeline is
missing or changed, or the batch may hold an event from the start of a listed file on that cannot be
read.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog

from ..judgements.grades import Fault
from ..judgements.index import Entry, from_now, start_text
from ..judgements.timeline import Prepared, Timeline, begun, earliest_for_lane_ms, prepared
from ..lane.lane import Lane
from .suspicion import Records

log = structlog.get_logger(__name__)

NAMED: Final = 3
"""So many faults are named that a lane waits for."""
NOT_READ_YET: Final = "the directory is being read"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Show = Callable[[Iterable[tuple[str, str, str]]], None]
"""Takes the (name, SHA-256, start) of the files that all workers must have."""


class Directory(Protocol[T_co]):
    """The files that this process has read: see `judgements.library`."""

    index: tuple[Entry, ...]
    index_faults: tuple[Fault, ...]
    faults: tuple[Fault, ...]

    @property
    def readable(self) -> Mapping[Entry, T_co]:
        """The files that are as the index says."""

    def refresh(self, timelines: Collection[Timeline]) -> None:
        """Look at the directory again."""


@dataclass(frozen=True)
class InLane(Generic[T]):
    """What a lane has of the files of a directory."""

    timeline: Timeline | None
    """None: it takes the whole index."""
    latest_ms: int
    """The latest event time of the lane: see `timeline.prepared`."""
    prepare: Callable[[Timeline, Mapping[Entry, T]], None]
    """Sets by which files the next batch is read."""


@dataclass(frozen=True)
class Use(Generic[T]):
    """What lanes need the files of a directory for."""

    name: str
    """For readiness and the log."""
    of: Callable[[Lane], InLane[T] | None]
    """None of a lane that needs none."""
    missing: str
    """What to say where this process has no such directory."""
    shown: Show = lambda files: None


@dataclass(frozen=True)
class _Seen(Generic[T]):
    """The directory as a look found it."""

    index: tuple[Entry, ...]
    index_faults: tuple[Fault, ...]
    faults: tuple[Fault, ...]
    readable: Mapping[Entry, T]

    @property
    def all_faults(self) -> list[Fault]:
        return [*self.index_faults, *self.faults]


class WatchedDirectory(Generic[T]):
    """Gives lanes their files of one directory, or says why they must wait."""

    def __init__(self, use: Use[T], directory: Directory[T] | None, max_future_ms: int) -> None:
        """`directory`: None where this process has none. `max_future_ms`: how far ahead of its
        record an event may be."""
        self.name = use.name
        self._use, self._directory, self._max_future_ms = use, directory, max_future_ms
        self._seen: _Seen[T] | None = None

    def is_needed_by(self, lane: Lane) -> bool:
        """Whether the lane needs any of its files."""
        return self._use.of(lane) is not None

    def is_unready(self, lane: Lane) -> bool:
        """Whether the lane lacks a file at the last look, for example as it was just opened."""
        needs, seen = self._use.of(lane), self._seen
        if needs is None or self._directory is None:
            return False
        return seen is None or bool(_prepared(needs, seen).missing)

    def faults(self) -> list[str]:
        """Those of files that no lane needs yet, and of others."""
        return [] if self._seen is None else [str(each) for each in self._seen.all_faults[:NAMED]]

    def refused(self, lane: Lane, now_ms: int) -> Iterator[str]:
        """The files that the lane refused, and what to do about them."""
        needs = self._use.of(lane)
        if needs is None or needs.timeline is None:
            return
        earliest = earliest_for_lane_ms(needs.latest_ms, now_ms, self._max_future_ms)
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
        await asyncio.to_thread(directory.refresh, [one.timeline or Timeline() for one in needs])
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
        if seen is None:
            return NOT_READ_YET
        if seen.index_faults:
            return "; ".join(str(fault) for fault in seen.index_faults[:NAMED])
        found = _prepared(needs, seen)
        if found.missing:
            return "; ".join(_put_back(entry, seen.faults) for entry in found.missing[:NAMED])
        before_ms = found.before_ms
        if before_ms is not None and self._latest_ms(records) >= before_ms:
            return "; ".join(_put_back(entry, seen.faults) for entry in found.unread[:NAMED])
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


def _prepared(needs: InLane[T], seen: _Seen[T]) -> Prepared:
    if needs.timeline is None:
        missing = tuple(entry for entry in seen.index if entry not in seen.readable)
        return Prepared(begun(seen.index), missing)
    return prepared(needs.timeline, seen.index, seen.readable, needs.latest_ms)


def _put_back(entry: Entry, faults: Collection[Fault]) -> str:
    """What to do about a file that cannot be read."""
    found = [str(fault) for fault in faults if fault.file.endswith(entry.name)]
    why = f" ({found[0]})" if found else ""
    return f"put back the file {entry.name} of SHA-256 {entry.sha256}{why}"
