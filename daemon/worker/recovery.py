"""Taking over a lane: claim, verify, load, rebuild; and what happens where it is damaged.

A damaged lane that nobody has in memory begins anew by itself where the log still has every record
since the lane began: the numbers come out the same. Where it does not, only a person can choose
between a backup and what the log still has; until then the lane is stopped.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from ..config.start import LogEnd, Start
from ..errors import Damaged
from ..plan import Plan
from ..storage.commit import ClaimedLane
from ..storage.head import Head, blob_keys, is_past
from ..storage.log_marks import NO_MARKS, LogMarks, are_same
from ..storage.repair import lose_hours
from ..storage.restore import rebuild
from ..storage.store import DamagedLane, missing_keys
from .ports import Ports, Process

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Taken:
    """A lane that was taken over, and what of it will never be read."""

    claimed: ClaimedLane
    unreadable: Mapping[str, int]
    """Topic → records of a lane that begins anew that the log no longer has."""


def log_holds(earliest: Mapping[str, int], start: Mapping[str, int]) -> bool:
    """Whether logs that begin at `earliest` still have every record from `start` on."""
    return all(topic in start and offset <= start[topic] for topic, offset in earliest.items())


def gone_since(earliest: Mapping[str, int], start: Mapping[str, int] | None) -> dict[str, int]:
    """How many records of each topic from `start` on are no longer in logs that begin at
    `earliest`, where any are. Where `start` is not known, nothing can be said."""
    known = start or {}
    return {t: e - known[t] for t, e in earliest.items() if t in known and e > known[t]}


class Recovery:
    """Takes over lanes for one worker."""

    def __init__(self, ports: Ports, process: Process, plan: Plan) -> None:
        self._store = ports.store
        self._source = ports.source
        self._plan = plan
        self._telemetry = process.telemetry
        self._clock = process.clock
        self._rebuilding = asyncio.Lock()

    async def take(
        self, lane: int, begin: Mapping[str, int], start: Start, logs: LogMarks
    ) -> Taken:
        """Become the writer of a lane, which begins at `begin` in these logs if it was never
        claimed; `start` is the setting that this follows from.

        Raises Damaged where a person must decide, Lost, Unavailable, LaneLost."""
        read = NO_MARKS
        try:
            head = await self._store.claim(lane, secrets.token_hex(8), begin, logs)
            read = head.logs
            return Taken(await self._read(lane, head, list(begin)), {})
        except DamagedLane as damage:
            return await self._begin_anew(lane, damage, start, read, logs)

    async def _begin_anew(
        self, lane: int, damage: DamagedLane, setting: Start, read: LogMarks, logs: LogMarks
    ) -> Taken:
        """Begin anew a lane that has read the logs `read`, as far as is known."""
        now_ms = int(self._clock() * 1000)
        earliest = await self._source.starting_offsets(lane, LogEnd.EARLIEST, now_ms)
        start = damage.start
        if start is None and setting is LogEnd.EARLIEST:
            start = dict.fromkeys(earliest, 0)  # no lane began earlier
        is_whole = start is not None and log_holds(earliest, start)
        is_whole = is_whole and are_same(read, logs)
        if not is_whole and not await self._store.told_to_begin_anew(lane):
            raise damage
        begin = start if is_whole and start is not None else earliest
        gone = {} if is_whole else gone_since(earliest, damage.start)
        token = secrets.token_hex(8)
        head = await self._store.begin_anew(lane, damage.token, token, begin, logs)
        self._telemetry.lanes_begun_anew.inc()
        log.error(
            "a damaged lane begins anew", lane=lane, reason=str(damage), offsets=dict(begin), **gone
        )
        return Taken(await self._read(lane, head, list(begin)), gone)

    async def _read(self, lane: int, head: Head, topics: Sequence[str]) -> ClaimedLane:
        """The lane as its last commit left it, without the hours of which pages are missing."""
        missing = await self._store.verify(lane, head.token, head.sequence)
        past = [key for key in missing if is_past(head, key)]
        if len(past) < len(missing):
            raise DamagedLane(lane, missing_keys(missing), head.token, head.start)
        names, blobs = await self._store.load(lane, head, blob_keys)
        try:
            async with self._rebuilding:  # one at a time: threads would only take turns
                claimed = await asyncio.to_thread(
                    rebuild, lane, self._plan, topics, head, names, blobs
                )
        except Damaged as error:
            what = f"a part cannot be read ({error.__cause__!r})"
            raise DamagedLane(lane, what, head.token, head.start) from error
        lose_hours(claimed.lane, past)
        return claimed
