"""Which lanes this process owns: when one may be claimed, and when it must be forgotten.

A lane is opened in one order only: starting offsets, claim, load, rebuild, seek. Whatever fails on
the way, nothing of it is kept, and it is tried again a little later with a token of its own. Each
is opened by a task of its own: a server that does not answer for one holds back no other.
"""

import asyncio
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from ..backoff import pause_s
from ..errors import Damaged, Lost, Unavailable
from ..plan import Plan
from ..storage.commit import ClaimedLane, confirm, plan_commit
from ..storage.head import blob_keys
from ..storage.restore import rebuild
from ..storage.store import Store
from ..telemetry.process import Telemetry
from .source import LaneLost, OffsetBeyondEnd, Source

log = structlog.get_logger(__name__)

STOPPED_PAUSE_S: Final = 60.0
"""Until a lane whose log was replaced is looked at again."""


@dataclass(frozen=True)
class Beginning:
    """Where lanes begin that have no offsets yet."""

    start: str | int
    """"earliest", "latest", or milliseconds back."""
    born_lanes: int
    """Lanes that the namespace began with: a partition born later is read from its beginning."""


@dataclass
class OwnedLane:
    """A lane in this process's memory."""

    held: ClaimedLane
    asked_s: float
    """When the store was last asked about it, by the monotonic clock."""
    durable: Mapping[str, int]
    """Its offsets when the store last confirmed a commit."""


@dataclass
class _Attempt:
    failures: int = 0
    not_before_s: float = 0.0
    stopped: bool = False
    confirm_first: bool = False
    """The store took the lane away: the group must confirm this process before it is claimed
    again."""
    durable: Mapping[str, int] = field(default_factory=dict)
    """How far the lane had been taken before."""


class Ownership:
    """The lanes of one worker."""

    def __init__(
        self,
        source: Source,
        store: Store,
        plan: Plan,
        beginning: Beginning,
        telemetry: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._store = store
        self._plan = plan
        self._beginning = beginning
        self._telemetry = telemetry
        self._clock = clock
        self._attempts: dict[int, _Attempt] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._rebuilding = asyncio.Lock()
        self.lanes: dict[int, OwnedLane] = {}
        self.refused: dict[int, str] = {}
        """Lanes that are assigned and could not be opened, with the reason: for readiness."""

    def drop_lost(self) -> frozenset[int]:
        """Forget the lanes that the group took away, or that the source had to give up; returns
        them."""
        lost, assigned = self._source.lanes_lost(), self._source.lanes_to_open()
        for lane in lost:
            self.forget(lane)
            self._attempts.pop(lane, None)
        for lane in self.refused.keys() - assigned:
            del self.refused[lane]
            self._attempts.pop(lane, None)
            self._telemetry.lane_stopped.labels(str(lane)).set(0)
        ours = (assigned | self._source.open_lanes) - lost
        for lane in self._opening.keys() - ours:
            self._opening[lane].cancel()
        return lost

    def forget(self, lane: int) -> None:
        """Drop a lane's memory."""
        owned = self.lanes.pop(lane, None)
        if owned is not None:
            self._telemetry.lane_closed(lane)
            for topic in owned.held.lane.watermarks:
                self._telemetry.partition_lost(topic, lane)
            log.info("lane dropped", lane=lane, sequence=owned.held.sequence)

    async def give_up(self, lane: int, reason: str, *, confirm_first: bool) -> None:
        """Forget a lane whose memory may not be trusted any more, to open it again a little
        later."""
        log.warning("lane given up", lane=lane, reason=reason)
        attempt = self._attempts.setdefault(lane, _Attempt())
        if lane in self.lanes:
            attempt.durable = self.lanes[lane].durable
        self.forget(lane)
        await self._source.close(lane)
        attempt.confirm_first = attempt.confirm_first or confirm_first
        self._postpone(lane, attempt, reason)

    async def halt(self, lane: int, error: OverflowError) -> None:
        """Forget a lane that meets a record it cannot count; look again seldom."""
        self.forget(lane)
        await self._source.close(lane)
        self._stop(lane, self._attempts.setdefault(lane, _Attempt()), error)

    def open_assigned(self) -> None:
        """Begin to open every lane that is assigned and due."""
        for lane, task in list(self._opening.items()):
            if task.done():
                del self._opening[lane]
                if not task.cancelled():
                    task.result()
        for lane in self._due():
            self._attempts.setdefault(lane, _Attempt())
            self._opening[lane] = asyncio.create_task(self._try_to_open(lane))

    def _due(self) -> list[int]:
        """Lanes that may be opened now and are not."""
        now_s = time.monotonic()
        return [
            lane
            for lane in self._source.lanes_to_open() - self._opening.keys()
            if lane not in self._attempts or self._attempts[lane].not_before_s <= now_s
        ]

    @property
    def is_opening(self) -> bool:
        """Whether a lane is being opened, or may be at once."""
        return any(not task.done() for task in self._opening.values()) or bool(self._due())

    async def stop_opening(self) -> None:
        """Leave no task behind."""
        for task in self._opening.values():
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)

    async def _try_to_open(self, lane: int) -> None:
        self.forget(lane)
        attempt = self._attempts[lane]
        try:
            if attempt.confirm_first and not await self._source.still_member():
                raise Unavailable("the group does not confirm this process yet")
            held = await self._open(lane, attempt)
        except (OffsetBeyondEnd, Damaged) as error:
            self._stop(lane, attempt, error)
        except (Unavailable, LaneLost) as error:
            self._postpone(lane, attempt, str(error))
        except Lost:
            self._postpone(lane, attempt, "another process claimed it meanwhile")
        else:
            self.lanes[lane] = OwnedLane(held, time.monotonic(), dict(held.lane.offsets))
            self._telemetry.lane_stopped.labels(str(lane)).set(0)
            self.refused.pop(lane, None)

    def commit_taken(self, owned: OwnedLane) -> None:
        """The store has confirmed a commit: what went wrong before is over."""
        owned.asked_s = time.monotonic()
        owned.durable = dict(owned.held.lane.offsets)
        self._attempts.pop(owned.held.lane.number, None)

    async def _open(self, lane: int, attempt: _Attempt) -> ClaimedLane:
        late_born = lane >= self._beginning.born_lanes
        start = "earliest" if late_born else self._beginning.start
        begin = await self._source.starting_offsets(lane, start, int(self._clock() * 1000))
        head = await self._store.claim(lane, secrets.token_hex(8), begin)
        names, blobs = await self._store.load(lane, head, blob_keys)
        async with self._rebuilding:  # threads would only take turns
            held = await asyncio.to_thread(
                rebuild, lane, self._plan, list(begin), head, names, blobs
            )
        skipped = _skipped(held.lane.offsets, attempt.durable) if held.sequence == 0 else {}
        _tell_what_is_missing(held, attempt.durable)
        gaps = await self._source.open(lane, held.lane.offsets)
        for topic, records in gaps.items():
            held.lane.offsets[topic] += records
        try:
            await self._commit_gaps(held, Counter(skipped) + Counter(gaps))
        except (Unavailable, Lost):
            await self._source.close(lane)
            raise
        log.info("lane owned", lane=lane, sequence=held.sequence, impressions=len(held.lane.open))
        return held

    async def _commit_gaps(self, held: ClaimedLane, gaps: Mapping[str, int]) -> None:
        """Count what will never be read, and make the count durable: nothing may ever follow."""
        if not gaps:
            return
        lane = held.lane
        for topic, records in gaps.items():
            lane.count("gap_records", topic, records)
            log.error(
                "records lost before they were read",
                lane=lane.number,
                topic=topic,
                records=records,
            )
        commit = plan_commit(held)
        if await self._store.commit(commit) == "lost":
            raise Lost
        confirm(held, commit)

    def _stop(
        self, lane: int, attempt: _Attempt, error: OffsetBeyondEnd | Damaged | OverflowError
    ) -> None:
        self._telemetry.lane_stopped.labels(str(lane)).set(1)
        attempt.not_before_s = time.monotonic() + STOPPED_PAUSE_S
        self.refused[lane] = str(error)
        if not attempt.stopped:
            log.error("lane stopped", lane=lane, reason=str(error))
        attempt.stopped = True

    def _postpone(self, lane: int, attempt: _Attempt, reason: str) -> None:
        attempt.failures += 1
        attempt.not_before_s = time.monotonic() + pause_s(attempt.failures, random.random())
        if self.refused.get(lane) != reason:
            log.warning("lane not open", lane=lane, reason=reason)
        self.refused[lane] = reason


def _tell_what_is_missing(held: ClaimedLane, durable: Mapping[str, int]) -> None:
    """Say so where the store holds nothing of a lane, or less than it had confirmed."""
    offsets, behind = dict(held.lane.offsets), Counter(durable) - Counter(held.lane.offsets)
    told = log.bind(lane=held.lane.number, offsets=offsets)
    if held.sequence == 0 and durable:
        told.error("the store lost the lane: it begins anew", records_again=dict(behind))
    elif held.sequence == 0:
        told.info("lane begins")
    elif behind:
        told.warning("the store holds an older lane: reading again", records_again=dict(behind))


def _skipped(begin: Mapping[str, int], durable: Mapping[str, int]) -> dict[str, int]:
    """Records between what a lane had been taken to, before the store lost it, and where it begins
    anew: with `start = "latest"` nobody reads them."""
    return {topic: begin[topic] - taken for topic, taken in durable.items() if begin[topic] > taken}
