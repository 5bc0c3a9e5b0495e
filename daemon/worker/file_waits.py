"""Which dated files lanes work by, and lanes that wait for files.

The directories are looked at every minute, in a thread. A lane waits, before anything of a batch is
applied, until each of them gives it its files (`watched_directory`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import structlog

from ..backoff import stopped_within
from ..lane.lane import Lane
from .suspicion import Records
from .watched_directory import WatchedDirectory

log = structlog.get_logger(__name__)

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
        """Look at the directories now."""
        for each in self._directories:
            await each.look(self._lanes())

    def prepare(self, lane: Lane, records: Records) -> bool:
        """Give the lane its files for this batch; returns whether it may be taken now."""
        if not any(each.is_needed_by(lane) for each in self._directories):
            return True
        if self._following is not None and self._following.done():
            self._following.result()  # what ended it ends the worker: no lane waits for nothing
        asked = {each.name: each.obstacle(lane, records) for each in self._directories}
        obstacles = {name: why for name, why in asked.items() if why is not None}
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
