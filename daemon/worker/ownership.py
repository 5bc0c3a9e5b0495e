"""Which lanes this process owns: when one may be claimed, and when it must be forgotten.

Whatever fails while a lane is opened, nothing of it is kept, and it is tried again a little later
under a new token: two claims of one token could not be distinguished if the first arrived late.

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
from typing import Final

import structlog

from ..backoff import pause_s
from ..errors import Damaged, Lost, Unavailable
from ..lane import place_of
from ..storage import Layouts
from .lane_opening import (
    STOPPED_PAUSE_S,
    VERIFY_EVERY_S,
    Attempt,
    Beginning,
    LaneOpening,
    OwnedLane,
)
from .source import LaneLost, LogChanged
from .taking_over import Ports, Process

log = structlog.get_logger(__name__)

LOGS_CHECK_S: Final = 5.0
"""How often it is checked whether the logs of a stopped lane are back, or accepted."""


class Ownership:
    """The lanes of one worker."""

    def __init__(
        self, ports: Ports, process: Process, layouts: Layouts, beginning: Beginning
    ) -> None:
        self._source = ports.source
        self._store = ports.store
        self._lane_opening = LaneOpening(ports, process, layouts, beginning)
        self._telemetry = process.telemetry
        self._attempts: dict[int, Attempt] = {}
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
        # What is open in the source is being taken over, and not open yet.
        for lane in self.not_open.keys() - assigned - self._source.open_lanes:
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
        attempt = self._attempts.setdefault(lane, Attempt())
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
        self._stop(lane, self._attempts.setdefault(lane, Attempt()), error)

    def open_assigned(self) -> None:
        """Begin to open every assigned lane that is due. Raises the unexpected error of an earlier
        attempt."""
        for lane, task in list(self._opening.items()):
            if task.done():
                del self._opening[lane]
                if not task.cancelled():
                    task.result()
        for lane in self._due():
            self._attempts.setdefault(lane, Attempt())
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
            claimed = await self._lane_opening.open(lane, attempt)
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
            # The former owner may not have told the group. Of a lane without a commit there is
            # nothing to tell: an offset in the group, and no state here, is a state that was lost.
            if claimed.sequence > 0:
                self._source.hint(lane, claimed.lane.offsets)

    def commit_confirmed(self, owned: OwnedLane) -> None:
        """Note that the store confirmed a commit: earlier failures count no more."""
        owned.checked_s = time.monotonic()
        owned.durable_offsets = dict(owned.claimed.lane.offsets)
        self._attempts.pop(owned.claimed.lane.number, None)
        self._lane_opening.commit_confirmed(owned.claimed.lane.number)

    def _stop(
        self, lane: int, attempt: Attempt, error: LogChanged | Damaged | OverflowError
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

    def _postpone(self, lane: int, attempt: Attempt, reason: str) -> None:
        attempt.failures += 1
        attempt.due_s = time.monotonic() + pause_s(attempt.failures, random.random())
        if self.not_open.get(lane) != reason:
            log.warning("lane cannot be opened yet", lane=lane, reason=reason)
        self.not_open[lane] = reason
