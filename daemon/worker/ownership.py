"""Which lanes this process owns: when one may be claimed, and when it must be forgotten.

A lane is opened in one order only: starting offsets, claim, load, rebuild, seek. The claim stores
the starting offsets, so that even a crash before the first commit loses nothing; only the offsets
that are stored with the state say where to seek. Whatever fails on the way, nothing of it is kept,
and it is tried again a little later under a new token: two claims of one token could not be
distinguished if the first arrived late.

The store answers `lost` where another process claimed the lane, or where it was rolled back or
emptied. In either case this process drops the lane's memory. It claims again only once the group
confirms, after the loss, that this process still has the lane: without that, a process that was
paused through a rebalance and the new owner would take the lane from each other. The pauses between
attempts are random, so that workers do not claim in step.

Each lane is opened by a task of its own: a server that does not answer for one holds back no other
for longer than its timeout.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from ..backoff import pause_s
from ..config import LogEnd, Start
from ..errors import Damaged, Lost, Unavailable
from ..lane import place_of
from ..storage import (
    Answer,
    ClaimedLane,
    Commit,
    Layouts,
    LogMarks,
    Store,
    confirm,
    first_marks,
    lose_hours,
    missing_keys,
    past_hour_keys,
    plan_commit,
    plan_repair,
    with_ids,
)
from ..telemetry import Telemetry
from .changed_logs import LastLogs, open_logs
from .recovery import LostState, Ports, Process, Recovery, skipped
from .source import LaneLost, LogChanged

log = structlog.get_logger(__name__)

VERIFY_EVERY_S: Final = 60.0
"""How often the keys of a lane are checked."""
STOPPED_PAUSE_S: Final = 60.0
"""How long until a lane is tried again that is stopped for its state or a record."""
LOGS_CHECK_S: Final = 5.0
"""How often it is checked whether the logs of a stopped lane are back, or accepted."""


@dataclass(frozen=True)
class Beginning:
    """Where lanes begin that have no stored offsets yet."""

    start: Start
    initial_lanes: int
    """How many lanes there were when the namespace was made. A partition added later is read from
    its beginning."""


@dataclass
class OwnedLane:
    """A lane in this process's memory."""

    claimed: ClaimedLane
    checked_s: float
    """When the owner was last compared with the store's, by the monotonic clock."""
    durable_offsets: Mapping[str, int]
    """Its offsets at the last commit that the store confirmed."""
    verified_s: float = 0.0
    """When its keys were last checked, by the monotonic clock."""


@dataclass
class _Attempt:
    """What is known of a lane between two attempts to open it."""

    failures: int = 0
    due_s: float = 0.0
    """When it may be tried again, by the monotonic clock."""
    stopped: str | None = None
    """Why it is stopped: it continues only once its logs change, or an operator decides."""
    logs: LastLogs | None = None
    """Of a lane that is stopped because of its logs."""
    logs_until_s: float = 0.0
    """When the store is asked again for them, by the monotonic clock: it may be restored."""
    confirm_first: bool = False
    """The store answered `lost`: the group must confirm this process before it claims the lane
    again."""
    durable_offsets: Mapping[str, int] = field(default_factory=dict)
    """Those of the lane when this process last owned it."""
    loss_noted: bool = False
    """What the store lost was counted: once, until the lane has another commit."""


class Ownership:
    """The lanes of one worker."""

    def __init__(
        self, ports: Ports, process: Process, layouts: Layouts, beginning: Beginning
    ) -> None:
        self._source = ports.source
        self._store = ports.store
        self._recovery = Recovery(ports, process, layouts)
        self._lost_state = LostState(ports.source, process.telemetry, process.clock)
        self._beginning = beginning
        self._telemetry = process.telemetry
        self._clock = process.clock
        self._attempts: dict[int, _Attempt] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self.lanes: dict[int, OwnedLane] = {}
        self.not_open: dict[int, str] = {}
        """Assigned lanes that could not be opened, with the reason: for readiness."""

    def drop_lost(self) -> frozenset[int]:
        """Forget the lanes that the group took away or the source had to give up; returns them."""
        lost, assigned = self._source.lanes_lost(), self._source.lanes_to_open()
        for lane in lost:
            self.forget(lane)
            self._attempts.pop(lane, None)
        for lane in self.not_open.keys() - assigned:
            del self.not_open[lane]
            self._attempts.pop(lane, None)
            self._telemetry.lane_stopped.labels(str(lane)).set(0)
        still_ours = (assigned | self._source.open_lanes) - lost
        for lane in self._opening.keys() - still_ours:
            self._opening[lane].cancel()
        return lost

    def forget(self, lane: int) -> None:
        """Drop a lane from memory, with its series."""
        owned = self.lanes.pop(lane, None)
        if owned is not None:
            self._telemetry.lane_closed(lane)
            for name in owned.claimed.lane.watermarks | owned.claimed.lane.offsets:
                self._telemetry.partition_lost(*place_of(lane, name))
            log.info("lane dropped", lane=lane, sequence=owned.claimed.sequence)

    async def give_up(self, lane: int, reason: str, *, confirm_first: bool) -> None:
        """Forget a lane whose memory can no longer be trusted, and open it again a little later.

        `confirm_first`: the group must confirm this process before it claims the lane again.
        """
        log.warning("lane given up", lane=lane, reason=reason)
        attempt = self._attempts.setdefault(lane, _Attempt())
        if lane in self.lanes:
            attempt.durable_offsets = self.lanes[lane].durable_offsets
        self.forget(lane)
        await self._source.close(lane)
        attempt.confirm_first = attempt.confirm_first or confirm_first
        self._postpone(lane, attempt, reason)

    async def halt(self, lane: int, error: OverflowError | Damaged) -> None:
        """Forget a lane that cannot take a record, or that vanishes while it is written; try it
        again after a long pause."""
        self.forget(lane)
        await self._source.close(lane)
        self._stop(lane, self._attempts.setdefault(lane, _Attempt()), error)

    def open_assigned(self) -> None:
        """Begin to open every assigned lane that is due. Raises the unexpected error of an earlier
        attempt."""
        for lane, task in list(self._opening.items()):
            if task.done():
                del self._opening[lane]
                if not task.cancelled():
                    task.result()
        for lane in self._due():
            self._attempts.setdefault(lane, _Attempt())
            self._opening[lane] = asyncio.create_task(self._try_to_open(lane))

    def _due(self) -> list[int]:
        """The assigned lanes that are not open, or being opened, and may be tried now."""
        now_s = time.monotonic()
        return [
            lane
            for lane in self._source.lanes_to_open() - self._opening.keys()
            if lane not in self._attempts or self._attempts[lane].due_s <= now_s
        ]

    @property
    def is_opening(self) -> bool:
        """Whether a lane is being opened, or may be at once."""
        return any(not task.done() for task in self._opening.values()) or bool(self._due())

    async def opened_within(self, seconds: float) -> None:
        """Return when an attempt to open a lane ends, and at the latest after this time."""
        tasks = [task for task in self._opening.values() if not task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def close_all(self) -> None:
        """Forget every lane, which stays assigned. Nothing of it may be in hand."""
        for lane in self._source.open_lanes | self.lanes.keys():
            self.forget(lane)
            await self._source.close(lane)

    async def stop_opening(self) -> None:
        """Cancel every attempt to open a lane, and wait for the end of them."""
        for task in self._opening.values():
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)

    async def _try_to_open(self, lane: int) -> None:
        self.forget(lane)
        attempt = self._attempts[lane]
        try:
            if attempt.confirm_first and not await self._source.still_member():
                raise Unavailable("the group does not confirm this process yet")
            if attempt.logs is not None and time.monotonic() < attempt.logs_until_s:
                await attempt.logs.check(lane, self._source, self._store)
            claimed = await self._open(lane, attempt)
        except (LogChanged, Damaged, OverflowError) as error:
            self._stop(lane, attempt, error)
        except (Unavailable, LaneLost) as error:
            self._postpone(lane, attempt, str(error))
        except Lost:
            self._postpone(lane, attempt, "another process claimed it in the meantime")
        else:
            now_s = time.monotonic()
            verified_s = now_s - random.random() * VERIFY_EVERY_S  # lanes are checked in turn
            self.lanes[lane] = OwnedLane(claimed, now_s, dict(claimed.lane.offsets), verified_s)
            attempt.logs = attempt.stopped = None
            self._telemetry.lane_stopped.labels(str(lane)).set(0)
            self.not_open.pop(lane, None)

    def commit_confirmed(self, owned: OwnedLane) -> None:
        """Note that the store confirmed a commit: earlier failures count no more."""
        owned.checked_s = time.monotonic()
        owned.durable_offsets = dict(owned.claimed.lane.offsets)
        self._attempts.pop(owned.claimed.lane.number, None)
        self._recovery.begun_anew.discard(owned.claimed.lane.number)

    async def _open(self, lane: int, attempt: _Attempt) -> ClaimedLane:
        added_later = lane >= self._beginning.initial_lanes
        start = LogEnd.EARLIEST if added_later else self._beginning.start
        # Asked first: of a topic that is recreated in between, the old id is stored, and noticed.
        logs = first_marks(await self._source.topic_ids(lane))
        begin = await self._source.starting_offsets(lane, start, int(self._clock() * 1000))
        claimed = await self._recovery.take(lane, begin, start, logs)
        if begin.keys() - claimed.lane.offsets.keys():  # partitions that came since
            earliest = await self._source.starting_offsets(lane, LogEnd.EARLIEST, 0)
            claimed.added = {n: earliest[n] for n in begin if n not in claimed.lane.offsets}
            claimed.lane.offsets |= claimed.added
        stored = dict(claimed.logs)
        unread = (
            skipped(claimed.lane.offsets, attempt.durable_offsets) if claimed.sequence == 0 else {}
        )
        if not attempt.loss_noted and lane not in self._recovery.begun_anew:
            known = attempt.durable_offsets
            attempt.loss_noted = await self._lost_state.note(claimed, start, known)
        claimed.logs = with_ids(claimed.logs, logs)
        try:
            gaps = await open_logs(self._source, self._store, claimed)
        except LogChanged:
            attempt.logs = LastLogs(dict(claimed.lane.offsets), dict(claimed.logs))
            attempt.logs_until_s = time.monotonic() + STOPPED_PAUSE_S
            raise
        try:
            await self._first_commit(claimed, Counter(unread) + gaps, stored)
        except (Unavailable, Lost):
            await self._source.close(lane)
            raise
        log.info(
            "lane owned", lane=lane, sequence=claimed.sequence, impressions=len(claimed.lane.open)
        )
        return claimed

    async def _first_commit(
        self, claimed: ClaimedLane, gaps: Mapping[str, int], stored: LogMarks
    ) -> None:
        """Commit at once what no record may ever come to be committed with: counts of records that
        will never be read, marks of logs that are not stored yet, where the lane begins logs that
        it got since, hours that are lost, and the whole lane where it goes to another layout."""
        lane = claimed.lane
        is_known = claimed.logs == stored and (claimed.layouts_stored or not claimed.sequence)
        if not gaps and is_known and not lane.has_lost_hours and not claimed.added:
            return
        if gaps and lane.chain is not None:
            lane.chain.note_gap()
        for name, records in gaps.items():
            lane.count("gap_records", name, records)
            topic, partition = place_of(lane.number, name)
            log.error(
                "records lost before they were read",
                lane=lane.number,
                topic=topic,
                partition=partition,
                records=records,
            )
        commit = await asyncio.to_thread(plan_repair if claimed.outdated else plan_commit, claimed)
        if await self._store.commit(commit) in ("lost", "damaged"):
            raise Lost  # the next attempt claims it again, and finds out
        confirm(claimed, commit)

    def _stop(
        self, lane: int, attempt: _Attempt, error: LogChanged | Damaged | OverflowError
    ) -> None:
        self._telemetry.lane_stopped.labels(str(lane)).set(1)
        if not isinstance(error, LogChanged):
            attempt.logs = None
        pause_s = STOPPED_PAUSE_S if attempt.logs is None else LOGS_CHECK_S
        attempt.due_s = time.monotonic() + pause_s
        self.not_open[lane] = str(error)
        if attempt.stopped != str(error):
            log.error("lane stopped", lane=lane, reason=str(error))
        attempt.stopped = str(error)

    def _postpone(self, lane: int, attempt: _Attempt, reason: str) -> None:
        attempt.failures += 1
        attempt.due_s = time.monotonic() + pause_s(attempt.failures, random.random())
        if self.not_open.get(lane) != reason:
            log.warning("lane cannot be opened yet", lane=lane, reason=reason)
        self.not_open[lane] = reason


MOST_REPAIRS: Final = 5
"""Tries of a repair during which further keys vanish."""


Retry: TypeAlias = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Calls until there is an answer, while the lane is ours."""


@dataclass(frozen=True)
class Damage:
    """What the store has lost of a lane."""

    what: str
    only_past_hours: bool = False


class Integrity:
    """Checks whether all keys of the lanes of one worker are there, and repairs them from memory.

    A commit compares how many keys and names there are; that every key is there is checked once in
    a while. Whatever is missing, the owner writes everything it has anew in one commit. Only rows
    of past hours are in the store alone: an hour of which pages are missing is removed and noted as
    lost.
    """

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    def is_due(self, owned: OwnedLane) -> bool:
        """Whether the lane's keys are to be checked now."""
        return time.monotonic() - owned.verified_s >= VERIFY_EVERY_S

    async def damage(self, owned: OwnedLane) -> Damage | None:
        """What the store has lost of the lane as of its last commit; None where it is whole or
        cannot be asked now. Raises Lost."""
        claimed, owned.verified_s = owned.claimed, time.monotonic()
        lane = claimed.lane
        try:
            missing = await self._store.verify(lane.number, claimed.token, claimed.sequence)
        except Unavailable:
            return None  # asked again: the next commit or touch waits for an answer
        except Damaged as error:
            return Damage(str(error))
        if not missing:
            return None
        only_past = set(missing) <= set(past_hour_keys(lane))
        return Damage(missing_keys(missing), only_past)

    async def repair(
        self, owned: OwnedLane, damage: Damage, idle_ms: int | None, retry: Retry
    ) -> tuple[Commit, Answer]:
        """Write all of the lane anew, or, where only past hours are damaged, without those; returns
        the commit and its answer. Raises Lost, and Damaged where keys vanish as fast as they are
        written."""
        claimed, lane = owned.claimed, owned.claimed.lane
        log.error("a damaged lane is repaired from memory", lane=lane.number, reason=damage.what)
        for attempt in range(MOST_REPAIRS):
            await self._lose_hours(claimed, retry)
            plan = plan_commit if damage.only_past_hours and not attempt else plan_repair
            commit = await asyncio.to_thread(plan, claimed, idle_ms)
            answer = await retry(partial(self._store.commit, commit))
            if answer != "damaged":
                self._telemetry.lane_repairs.inc()
                return commit, answer
        raise Damaged(f"lane {lane.number}: keys vanish from Redis while they are written")

    async def _lose_hours(self, claimed: ClaimedLane, retry: Retry) -> None:
        lane, past = claimed.lane, past_hour_keys(claimed.lane)
        if past:
            ask = partial(self._store.verify, lane.number, claimed.token, claimed.sequence, past)
            missing = await retry(ask)
            lose_hours(lane, missing)
            if missing:
                log.error("rows of past hours are lost", lane=lane.number, hours=len(missing))
