"""The one process that serves what describes everything: reads all lanes, sums them, publishes the
texts.

lease ─▶ what changed of each lane ─▶ (in a thread) mirrors ─▶ snapshot ─▶ texts ─▶ published,
swapped whole
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec
import structlog

from ..errors import Damaged, Unavailable
from ..experiments.findings import FindingsCache
from ..panes import pane_start
from ..plan import Plan
from ..storage.store import LaneDelta, Store
from ..telemetry.process import Telemetry
from . import baselines as usual, exposition, scores, selection, snapshot
from .counters import PreviousSelection, HighestTotals, show
from .exposition import Exposition
from .history import History
from .lane_view import LaneView
from .mirror import Mirror
from .pane_reader import Reading
from .published import Condition, Published, publish
from .selection import Selection
from .snapshot import Snapshot

log = structlog.get_logger(__name__)

REFRESH_EVERY_S: Final = 1.0
SOONEST_REFRESH_S: Final = 0.25
REFRESH_SHARE: Final = 0.1
"""Of the time that refreshing may take, where that is more often than REFRESH_EVERY_S."""
LEASE_MS: Final = 10_000
"""Silence after which another process serves the scores."""
LANES_AT_ONCE: Final = 16
STANDS_STILL_S: Final = 15.0
"""A lane that neither commits nor writes an idle mark for this long has no owner, or its owner no
log."""


class Coordination(Protocol):
    """What the exporter asks of the namespace. All methods raise Unavailable."""

    async def lanes(self) -> int:
        """How many lanes there are."""

    async def lease(self, token: str, silence_ms: int) -> bool:
        """Be, or stay, the one process that serves the scores."""

    async def release(self, token: str) -> None:
        """Let another do it."""

    async def stored_selection(self) -> bytes | None:
        """What the last exporter remembered."""

    async def store_selection(self, memory: bytes) -> None:
        """Keep this for the next one."""


@dataclass
class _Pulse:
    """When a lane last showed a sign of its owner."""

    mark: tuple[str, int, int | None]
    since_s: float


def refresh_after_s(took_s: float) -> float:
    """From the beginning of a refresh that took so long to the next: what is cheap comes often."""
    return min(max(took_s / REFRESH_SHARE, SOONEST_REFRESH_S), REFRESH_EVERY_S)


def _remembered(stored: bytes | None) -> PreviousSelection:
    """What the last exporter remembered; nothing where that is none of ours."""
    try:
        return (
            PreviousSelection()
            if stored is None
            else msgspec.json.decode(stored, type=PreviousSelection)
        )
    except msgspec.DecodeError as error:
        log.warning("what counters have shown cannot be read", reason=str(error))
        return PreviousSelection()


class Exporter:
    """Keeps `published` up to date until told to stop."""

    def __init__(
        self,
        store: Store,
        coordination: Coordination,
        plan: Plan,
        telemetry: Telemetry,
        token: str,
        swap: Callable[[Published], None],
        conditions: Callable[[], Sequence[Condition]],
        stop: asyncio.Event,
    ) -> None:
        self._store = store
        self._coordination = coordination
        self._plan = plan
        self._telemetry = telemetry
        self._token = token
        self._swap = swap
        self._conditions = conditions
        self._stop = stop
        self._published = Published()
        self._holds_lease = False
        self._memory = HighestTotals()
        self._experiments = FindingsCache()
        self._shown = PreviousSelection()
        self._mirrors: dict[int, Mirror] = {}
        self._pulses: dict[int, _Pulse] = {}
        self._past = History(plan)
        self._compared_of: object = None
        self._compared_texts = Exposition()

    async def run(self) -> None:
        """Refresh once a second, or more often where that costs little; gives the lease back at the
        end."""
        stopped = asyncio.ensure_future(self._stop.wait())
        while not self._stop.is_set():
            began_s = time.monotonic()
            problem = await self._refresh()
            self._swap_in(problem)
            took_s = time.monotonic() - began_s
            left_s = refresh_after_s(took_s) - took_s
            await asyncio.wait({stopped}, timeout=max(left_s, 0.05))
        if self._holds_lease:
            try:
                await self._coordination.release(self._token)
            except Unavailable as error:
                log.info("lease not given back: it runs out by itself", reason=str(error))

    async def _refresh(self) -> str | None:
        """One round; what is wrong, or None."""
        try:
            if not await self._lead():
                return None
            count = await self._coordination.lanes()
            deltas = await self._read_all(count)
        except (Unavailable, Damaged) as error:
            self._telemetry.snapshot_errors.inc()
            return str(error)
        if not deltas:
            return "no lane has been claimed yet"
        before = self._shown
        try:
            self._published = await asyncio.to_thread(self._make, deltas)
        except (Damaged, OverflowError) as error:
            # What was served last stays; everything is read anew in the next round.
            self._telemetry.snapshot_errors.inc()
            self._mirrors.clear()
            return str(error)
        if self._shown != before:
            await self._remember()
        return None

    async def _lead(self) -> bool:
        """Whether this process serves the scores; takes over what the one before remembered."""
        held = await self._coordination.lease(self._token, LEASE_MS)
        self._telemetry.exporter_lease_held.set(held)
        if held and not self._holds_lease:
            stored = await self._coordination.stored_selection()
            self._shown = _remembered(stored)
            log.info("serving the scores")
        if self._holds_lease and not held:
            log.warning("another process serves the scores now")
            self._published = Published()
            self._mirrors.clear()
            self._memory = HighestTotals()
        self._holds_lease = held
        return held

    async def _remember(self) -> None:
        try:
            await self._coordination.store_selection(msgspec.json.encode(self._shown))
        except Unavailable as error:
            log.warning("what counters have shown is not stored", reason=str(error))

    async def _read_all(self, count: int) -> list[tuple[Mirror, LaneDelta]]:
        """What changed of every lane that was ever claimed."""
        gate = asyncio.Semaphore(LANES_AT_ONCE)

        async def read(lane: int) -> tuple[Mirror, LaneDelta] | None:
            mirror = self._mirrors.setdefault(lane, Mirror(lane, self._plan))
            async with gate:
                delta = await self._store.read(
                    lane, mirror.token, mirror.sequence, len(mirror.names)
                )
            if delta is None:
                self._mirrors.pop(lane, None)
                return None
            return mirror, delta

        read_lanes = await asyncio.gather(*(read(lane) for lane in range(count)))
        return [found for found in read_lanes if found is not None]

    def _make(self, deltas: Sequence[tuple[Mirror, LaneDelta]]) -> Published:
        """From what changed to everything that is handed out. Runs in a thread; nothing else
        touches the mirrors."""
        began_s = time.perf_counter()
        for mirror, delta in deltas:
            mirror.apply(delta)
        views = self._memory.hold([mirror.view() for mirror, _ in deltas])
        whole = snapshot.evaluate(views, self._plan, self._shown.segments)
        gauges = selection.busiest(whole, self._plan)
        counters, self._shown = show(whole, gauges, self._plan, self._shown)
        report = scores.report(whole, gauges, self._plan)
        experiments = self._experiments.of(
            [view.experiments for view in views],
            self._plan.tracking,
            self._plan.metrics,
            whole.as_of_ms,
            report.as_of,
        )
        texts = exposition.render(whole, gauges, counters, self._plan, experiments)
        texts = exposition.joined(texts, self._compared(views, whole, gauges))
        reading = Reading(self._plan, views, whole, gauges, experiments)
        published = publish(texts, report, reading, ())
        self._telemetry.snapshot_duration_s.set(time.perf_counter() - began_s)
        self._telemetry.snapshot_s.set_to_current_time()
        return published

    def _compared(
        self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection
    ) -> Exposition:
        """The last hours and what is usual. They cost as much as all the rest and change by base
        panes only, so they are made anew no more often."""
        self._past.take(views)
        as_of_ms = whole.as_of_ms
        pane = None if as_of_ms is None else pane_start(as_of_ms, self._plan.timing.base_ms)
        known = (pane, gauges.segments, self._past.starts)
        if known != self._compared_of:
            comparisons = usual.compare(self._past, views, whole, gauges, self._plan)
            self._compared_texts = exposition.render_compared(comparisons, gauges, self._plan)
            self._compared_of = known
        return self._compared_texts

    def _swap_in(self, problem: str | None) -> None:
        conditions = [*self._conditions()]
        if self._holds_lease or problem is not None:
            conditions.append(Condition("snapshot", problem is None, problem or ""))
            conditions.append(self._progress())
        self._published = replace(self._published, conditions=tuple(conditions))
        self._swap(self._published)

    def _progress(self) -> Condition:
        """Whether every lane moves; a lane that does not holds all views back."""
        now_s = time.monotonic()
        still = []
        for lane, mirror in sorted(self._mirrors.items()):
            if mirror.head is None:
                continue
            mark = (mirror.head.token, mirror.head.sequence, mirror.head.idle_ms)
            pulse = self._pulses.setdefault(lane, _Pulse(mark, now_s))
            if pulse.mark != mark:
                self._pulses[lane] = pulse = _Pulse(mark, now_s)
            if now_s - pulse.since_s > STANDS_STILL_S:
                still.append(f"lane {lane} has not moved for {now_s - pulse.since_s:.0f} s")
        detail = "; ".join(still)
        return Condition(
            "lanes", not still, f"{detail}: no owner, or no answer from Kafka" if still else ""
        )
