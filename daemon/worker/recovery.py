"""Taking over a lane: claim, verify, load, rebuild; and what happens where it is damaged.

A damaged lane that nobody has in memory begins anew by itself where its logs are those in which it
began, and still have every record since: the numbers come out the same. Otherwise only an operator
can choose between a backup and what the logs still have; until then the lane is stopped.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence

import structlog

from ..config.start import LogEnd, Start
from ..errors import Damaged
from ..storage.commit import ClaimedLane
from ..storage.head import Head, blob_keys, is_past, start_of, whole_or_damaged
from ..storage.layouts import LAYOUTS_KEY, Layouts, layouts_of
from ..storage.log_marks import LaneStart, LogMarks, ids_of
from ..storage.repair import lose_hours
from ..storage.restore import rebuild
from ..storage.store import DamagedLane, missing_keys
from .ports import Ports, Process

log = structlog.get_logger(__name__)


def log_holds(earliest: Mapping[str, int], start: Mapping[str, int]) -> bool:
    """Whether logs that begin at `earliest` still have every record from `start` on."""
    return all(topic in start and offset <= start[topic] for topic, offset in earliest.items())


class Recovery:
    """Takes over lanes for one worker."""

    def __init__(self, ports: Ports, process: Process, layouts: Layouts) -> None:
        self._store = ports.store
        self._source = ports.source
        self._layouts = layouts
        self._telemetry = process.telemetry
        self._clock = process.clock
        self._rebuilding = asyncio.Lock()
        self.begun_anew: set[int] = set()
        """Damaged lanes that begin anew here: their loss is counted."""

    async def take(
        self, lane: int, begin: Mapping[str, int], start: Start, logs: LogMarks
    ) -> ClaimedLane:
        """Become the writer of a lane, which begins at `begin` in these logs if it was never
        claimed; `start` is the setting that this follows from.

        Raises Damaged where an operator must decide, Lost, Unavailable, LaneLost."""
        try:
            head = await self._store.claim(lane, secrets.token_hex(8), begin, logs)
            return await self._read(lane, head, list(begin))
        except DamagedLane as damage:
            return await self._begin_anew(lane, damage, start, logs)

    async def _begin_anew(
        self, lane: int, damage: DamagedLane, setting: Start, logs: LogMarks
    ) -> ClaimedLane:
        """Begin a damaged lane where it began before. What the logs no longer have of it is counted
        as a gap when they are opened; of logs that took the place of others, nothing can be."""
        now_ms = int(self._clock() * 1000)
        earliest = await self._source.starting_offsets(lane, LogEnd.EARLIEST, now_ms)
        start = damage.start
        if start is None and setting is LogEnd.EARLIEST:
            start = LaneStart(dict.fromkeys(earliest, 0), ids_of(logs))  # no lane began earlier
        is_known = start is not None and start.is_in(logs)
        known = start.offsets if start is not None and is_known else {}
        if not log_holds(earliest, known) and not await self._store.may_begin_anew(lane):
            raise damage
        begin = {topic: known.get(topic, first) for topic, first in earliest.items()}
        token = secrets.token_hex(8)
        head = await self._store.begin_anew(lane, damage.token, token, begin, logs)
        self.begun_anew.add(lane)
        self._telemetry.lanes_begun_anew.inc()
        log.error("a damaged lane begins anew", lane=lane, reason=str(damage), offsets=begin)
        return await self._read(lane, head, list(begin))

    async def _read(self, lane: int, head: Head, topics: Sequence[str]) -> ClaimedLane:
        """The lane as its last commit left it, without the hours of which pages are missing."""
        missing = await self._store.verify(lane, head.token, head.sequence)
        past = [key for key in missing if is_past(head, key)]
        if len(past) < len(missing):
            raise DamagedLane(lane, missing_keys(missing), head.token, start_of(head))
        names, blobs = await self._store.load(lane, head, blob_keys)
        try:
            with whole_or_damaged(f"lane {lane}, {LAYOUTS_KEY}"):
                stored = layouts_of(blobs)
            await self._layouts.follow(stored)
            async with self._rebuilding:  # one at a time: threads would only take turns
                claimed = await asyncio.to_thread(
                    rebuild, lane, self._layouts, topics, head, names, blobs
                )
        except Damaged as error:
            what = f"a part cannot be read ({error.__cause__!r})"
            raise DamagedLane(lane, what, head.token, start_of(head)) from error
        lose_hours(claimed.lane, past)
        return claimed
