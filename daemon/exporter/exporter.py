"""The one process that serves what describes all the traffic: it reads every lane, sums them and
publishes the texts.

lease ─▶ what changed of each lane ─▶ (in a thread) mirrors ─▶ snapshot ─▶ texts ─▶ published,
swapped in as one value
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec
import structlog

from ..errors import Damaged, Unavailable
from ..judging.settings import DEFAULTS, Judging
from ..plan import Plan
from ..storage.store import Store
from ..telemetry.process import Telemetry
from .counters import PreviousSelection
from .lane_reads import LaneReads, Lanes, Reads
from .published import Condition, Published
from .publisher import Publisher

log = structlog.get_logger(__name__)

REFRESH_EVERY_S: Final = 1.0
SOONEST_REFRESH_S: Final = 0.25
REFRESH_SHARE: Final = 0.1
"""Share of the time that refreshing may take when it happens more often than REFRESH_EVERY_S."""
LEASE_MS: Final = 10_000
"""Without a renewal for this long, another process serves the scores."""
STALLED_AFTER_S: Final = 15.0
"""A lane that neither commits nor writes an idle mark for this long has no owner, or its owner
gets no answer from Kafka."""


class Coordination(Lanes, Protocol):
    """What the exporter needs of the namespace. All methods raise Unavailable."""

    async def lease(self, token: str, silence_ms: int) -> bool:
        """Become, or stay, the one process that serves the scores."""

    async def release(self, token: str) -> None:
        """Let another process serve the scores."""

    async def stored_selection(self) -> bytes | None:
        """The `PreviousSelection` that the last exporter stored."""

    async def store_selection(self, selection: bytes) -> None:
        """Store a `PreviousSelection` for the next exporter."""


class Outlet(Protocol):
    """The process that serves what the exporter publishes."""

    def swap(self, published: Published) -> None:
        """Serve this from now on."""

    def conditions(self) -> Sequence[Condition]:
        """The readiness of the other parts of the process."""


@dataclass
class _Pulse:
    """When a lane last showed that it has an owner."""

    mark: tuple[str, int, int | None]
    since_s: float


def refresh_after_s(took_s: float) -> float:
    """Seconds from the beginning of a refresh that took `took_s` to that of the next: cheap ones
    come often."""
    return min(max(took_s / REFRESH_SHARE, SOONEST_REFRESH_S), REFRESH_EVERY_S)


def _restored(stored: bytes | None) -> PreviousSelection:
    """The stored selection; an empty one where there is none that can be read."""
    if stored is None:
        return PreviousSelection()
    try:
        return msgspec.json.decode(stored, type=PreviousSelection)
    except msgspec.DecodeError as error:
        log.warning("the stored selection of counters cannot be read", reason=str(error))
        return PreviousSelection()


class Exporter:
    """Keeps what `outlet` serves up to date until `stop` is set."""

    def __init__(
        self,
        store: Store,
        coordination: Coordination,
        plan: Plan,
        telemetry: Telemetry,
        outlet: Outlet,
        stop: asyncio.Event,
        clock: Callable[[], float] = time.time,
        judging: Judging = DEFAULTS,
    ) -> None:
        self._clock = clock
        self._coordination = coordination
        self._plan = plan
        self._telemetry = telemetry
        self._outlet = outlet
        self._stop = stop
        self._token = secrets.token_hex(8)
        self._published = Published()
        self._has_lease = False
        self._publisher = Publisher(plan, judging)
        self._lanes = LaneReads(store, coordination, plan, telemetry)
        self._pulses: dict[int, _Pulse] = {}

    async def run(self) -> None:
        """Refresh once a second, or more often where that costs little; release the lease at the
        end."""
        stopped = asyncio.ensure_future(self._stop.wait())
        while not self._stop.is_set():
            began_s = time.monotonic()
            problem = await self._refresh()
            self._swap_in(problem)
            took_s = time.monotonic() - began_s
            left_s = refresh_after_s(took_s) - took_s
            await asyncio.wait({stopped}, timeout=max(left_s, 0.05))
        if self._has_lease:
            try:
                await self._coordination.release(self._token)
            except Unavailable as error:
                log.info("the lease was not released: it will expire", reason=str(error))

    async def _refresh(self) -> str | None:
        """Read and publish once; returns what went wrong, or None."""
        try:
            if not await self._lead():
                return None
            reads = await self._lanes.read()
        except Unavailable as error:
            self._telemetry.snapshot_errors.inc()
            return str(error)
        if self._lanes.without_copy:
            self._telemetry.snapshot_errors.inc()
            return f"without a copy of the damaged lanes {self._lanes.without_copy} there is no sum"
        if not reads:
            return "no lane has been claimed yet"
        before = self._publisher.previous
        try:
            # Off the loop: 97,000 samples took 276 ms from rows to texts. In a thread the loop was
            # late by 12 ms at worst meanwhile, about as beside any thread of plain Python (11 ms).
            self._published = await asyncio.to_thread(self._make, reads)
        except (Damaged, OverflowError) as error:
            # The last good texts stay; the next round reads every lane from the start.
            self._telemetry.snapshot_errors.inc()
            self._lanes.forget()
            return str(error)
        if self._publisher.previous != before:
            await self._store_selection()
        return None

    async def _lead(self) -> bool:
        """Whether this process serves the scores; when it begins to, restore the selection that
        the process before stored."""
        leads = await self._coordination.lease(self._token, LEASE_MS)
        self._telemetry.exporter_lease_held.set(leads)
        if leads and not self._has_lease:
            stored = await self._coordination.stored_selection()
            self._publisher.previous = _restored(stored)
            log.info("serving the scores")
        if self._has_lease and not leads:
            log.warning("another process serves the scores now")
            self._published = Published()
            self._lanes.forget()
            self._publisher.forget_totals()
        self._has_lease = leads
        return leads

    async def _store_selection(self) -> None:
        try:
            stored = msgspec.json.encode(self._publisher.previous)
            await self._coordination.store_selection(stored)
        except Unavailable as error:
            log.warning("the selection of counters was not stored", reason=str(error))

    def _make(self, reads: Reads) -> Published:
        """Apply what changed and publish it. Runs in a thread; nothing else touches the mirrors
        meanwhile, because the next read waits for this one."""
        began_s = time.perf_counter()
        for mirror, delta in reads:
            if delta is not None:
                mirror.apply(delta)
        views = [mirror.view() for mirror, _ in reads]
        published = self._publisher.publish(views, int(self._clock() * 1000))
        self._telemetry.snapshot_duration_s.set(time.perf_counter() - began_s)
        self._telemetry.snapshot_s.set_to_current_time()
        return published

    def _swap_in(self, problem: str | None) -> None:
        conditions = [*self._outlet.conditions()]
        if self._has_lease or problem is not None:
            conditions.append(Condition("snapshot", problem is None, problem or ""))
            conditions += [self._wholeness(), self._progress()]
        self._published = replace(self._published, conditions=tuple(conditions))
        self._outlet.swap(self._published)

    def _wholeness(self) -> Condition:
        """Whether Redis has all of every lane."""
        damaged = self._lanes.damaged
        return Condition(
            "lanes_whole", not damaged, "; ".join(damaged[lane] for lane in sorted(damaged))
        )

    def _progress(self) -> Condition:
        """Whether every lane moves: all views wait for one that does not."""
        now_s = time.monotonic()
        stalled = []
        for lane, mirror in sorted(self._lanes.mirrors.items()):
            if mirror.head is None:
                continue
            mark = (mirror.head.token, mirror.head.sequence, mirror.head.idle_ms)
            pulse = self._pulses.setdefault(lane, _Pulse(mark, now_s))
            if pulse.mark != mark:
                self._pulses[lane] = pulse = _Pulse(mark, now_s)
            if now_s - pulse.since_s > STALLED_AFTER_S:
                stalled.append(f"lane {lane} has not moved for {now_s - pulse.since_s:.0f} s")
        detail = "; ".join(stalled)
        return Condition(
            "lanes", not stalled, f"{detail}: no owner, or no answer from Kafka" if stalled else ""
        )
