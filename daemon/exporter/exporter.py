"""Keeps what a process serves of all the traffic up to date: it reads every lane, sums them and
publishes the answers.

lease ─▶ what changed of each lane ─▶ (in a thread) mirrors ─▶ snapshot ─▶ texts ─▶ published,
swapped in as one value

The holder of the lease also serves the series of all the traffic, which must come from one process
only. The others stand by: the API and the page answer from what they read themselves, a few seconds
older, with the same numbers.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, get_args

import structlog

from ..changes import DEFAULTS, ChangeSettings
from ..errors import Damaged, Trouble, Unavailable
from ..plan import Plan
from ..storage import Store, Term
from ..telemetry import Telemetry
from ..views import LaneReads, Lanes, PreviousSelection, Pulses, Reads
from .catching_up import CatchUp, CatchUpProgress
from .handover import Handover
from .kept import ExampleReads, KeptMarkers, PastReads
from .measures import Told
from .published import Condition, MetricsText, Published, of_reading
from .publisher import Publisher

log = structlog.get_logger(__name__)

REFRESH_EVERY_S: Final = 1.0
STANDBY_EVERY_S: Final = 3.0
"""How often a process that stands by reads the lanes. Without texts a snapshot took a tenth of the
CPU time: 14 ms where the holder of the lease rendered 100,000 samples in 140 ms."""
SOONEST_REFRESH_S: Final = 0.25
REFRESH_SHARE: Final = 0.1
"""Share of the time that refreshing may take when it happens more often than REFRESH_EVERY_S."""
LEASE_MS: Final = 10_000
"""Without a renewal for this long, another process serves the scores."""
SERVES_ON_S: Final = 60.0
"""How long the holder serves them on without an answer of Redis: one that restarts or fails over is
back by then, and no alert on them has ended meanwhile. Longer than the lease: where Redis is away
from this process alone, its last scores stand beside those of the next holder for 50 s."""
NO_SERIES: Final = "without a lease the series of all the traffic are not served"

LANES: Final = "lanes"
"""Where no snapshot is made though Redis answers."""


class Coordination(Lanes, Protocol):
    """What the exporter needs of the namespace. All methods raise Unavailable."""

    async def lease(self, token: str, silence_ms: int) -> bool:
        """Become, or stay, the one process that serves the series of all the traffic."""

    async def release(self, token: str) -> None:
        """Let another process serve them."""

    async def stored_selection(self) -> bytes | None:
        """The `PreviousSelection` that the last exporter stored, packed."""

    async def store_selection(self, selection: bytes) -> None:
        """Store a packed `PreviousSelection` for the next exporter."""

    async def stored_changes(self) -> bytes | None:
        """The falls that the last exporter stored."""

    async def store_changes(self, changes: bytes) -> None:
        """Store the falls for the next exporter."""

    async def term(self) -> Term:
        """Whether the namespace has caught up with its logs and serves the scores."""

    async def take_over(self) -> list[str]:
        """Note that it has caught up, and serves instead of those that did; returns these."""


class Outlet(Protocol):
    """The process that serves what the exporter publishes."""

    def swap(self, published: Published) -> None:
        """Serve this from now on."""

    def conditions(self) -> Sequence[Condition]:
        """The readiness of the other parts of the process."""


def refresh_after_s(took_s: float) -> float:
    """Seconds from the beginning of a refresh that took `took_s` to that of the next: cheap ones
    come often."""
    return min(max(took_s / REFRESH_SHARE, SOONEST_REFRESH_S), REFRESH_EVERY_S)


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
        change_settings: ChangeSettings = DEFAULTS,
        markers: KeptMarkers | None = None,
        version_attribute: str | None = None,
        former: Published = Published(),
        past: PastReads | None = None,
        examples: ExampleReads | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._coordination = coordination
        self._plan = plan
        self._telemetry = telemetry
        self._outlet = outlet
        self._stop = stop
        self._token = secrets.token_hex(8)
        self._published = former
        self._has_lease = False
        self._renewed_s = 0.0
        """When the lease was last asked for with success: in Redis it lasts from then at least. Not
        before what is stored was taken over."""
        self._led_last = False
        """Whether this process led, and has seen no other one lead since."""
        self._selection = Handover(
            PreviousSelection(),
            self._token,
            coordination.stored_selection,
            coordination.store_selection,
        )
        self._changes = Handover(
            Told(), self._token, coordination.stored_changes, coordination.store_changes
        )
        self._publisher = Publisher(plan, change_settings, version_attribute)
        self._markers = markers
        self._past = past
        self._examples = examples
        self._lanes = LaneReads(store, coordination, plan, telemetry)
        self._pulses = Pulses()
        self._catching_up = CatchUp()
        self._was_ready = former.ready
        self._problem: str | None = None
        self._trouble: Trouble | None = None
        for trouble in (*get_args(Trouble), LANES):
            telemetry.snapshot_errors.labels(trouble)
        self._standby_due_s = 0.0

    async def run(self) -> None:
        """Refresh once a second, or more often where that costs little; release the lease at the
        end."""
        stopped = asyncio.ensure_future(self._stop.wait())
        while not self._stop.is_set():
            began_s = self._monotonic()
            await self._refresh(began_s)
            self._swap_in()
            took_s = self._monotonic() - began_s
            after_s = refresh_after_s(took_s) if self._has_lease else REFRESH_EVERY_S
            await asyncio.wait({stopped}, timeout=max(after_s - took_s, 0.05))
        if self._has_lease:
            try:
                await self._coordination.release(self._token)
            except Unavailable as error:
                log.info("the lease was not released: it will expire", reason=str(error))

    async def _refresh(self, now_s: float) -> None:
        """Take or renew the lease; read and publish, if that is due. Notes what went wrong."""
        try:
            led = self._has_lease
            leads = await self._lead()
            if led and not leads:
                return  # nothing is in the way of taking the series back at once
            if not leads and now_s < self._standby_due_s:
                return
            self._standby_due_s = now_s + STANDBY_EVERY_S
            trouble, problem = None, await self._publish()
        except Unavailable as error:
            trouble, problem = error.trouble, str(error)
            self._selection.look_soon()
            self._changes.look_soon()
            if not self._holds_lease_still():
                problem += f"; {NO_SERIES}"
        self._note(problem, trouble)
        if problem is not None:
            self._telemetry.snapshot_errors.labels(trouble or LANES).inc()
            # Not known here; another process may know, and an old value would contradict it.
            self._telemetry.set_catching_up(False, None)

    def _note(self, problem: str | None, trouble: Trouble | None) -> None:
        """Keep what is wrong; one line in the log when it begins or is of another kind, and one
        when it ends."""
        before, self._problem = self._problem, problem
        if problem is not None and (before is None or trouble != self._trouble):
            write = log.warning if trouble else log.info  # fresh namespaces have no lanes yet
            write("no snapshot of the scores", reason=problem)
        elif problem is None and before is not None:
            log.info("snapshots are made again", after=before)
        self._trouble = trouble

    async def _publish(self) -> str | None:
        """Read and publish once; returns what is wrong, or None. Raises Unavailable."""
        term = await self._coordination.term()
        # Also where no snapshot can be made: an old 0, or that of a start, would deny it.
        self._telemetry.set_superseded(term.retired or term.successor is not None)
        problem = await self._snapshot(term)
        if self._has_lease:
            await self._hand_on()  # before what may fail: what was published is served from now on
        if problem is None:
            if self._has_lease and self._markers is not None:
                await self._markers.store(self._publisher.first_sights)
            await self._follow(term)
        return problem

    async def _snapshot(self, term: Term) -> str | None:
        """Read the lanes and publish what they come to; returns what is wrong, or None. Raises
        Unavailable."""
        reads = await self._lanes.read()
        if self._lanes.without_copy:
            return f"without a copy of the damaged lanes {self._lanes.without_copy} there is no sum"
        if not reads:
            return "no lane has been claimed yet"
        if self._changes.stored is None:
            await self._take_over_changes()
        await self._read_beside(int(self._clock() * 1000))
        try:
            # Off the loop: 97,000 samples took 276 ms from rows to texts. In a thread the loop was
            # late by 12 ms at worst meanwhile, about as beside any thread of plain Python (11 ms).
            self._published = await asyncio.to_thread(self._make, reads, self._may_serve(term))
        except (Damaged, OverflowError) as error:
            # The last good answers stay; the next round reads every lane from the start.
            self._lanes.forget()
            return str(error)
        return None

    async def _read_beside(self, now_ms: int) -> None:
        """Read what is stored beside the lanes. Raises Unavailable."""
        if self._markers is not None:
            self._publisher.markers = await self._markers.refresh(now_ms, self._has_lease)
        if self._past is not None:
            self._publisher.past = await self._past.refresh(now_ms)
        reading = self._published.reading
        if self._examples is not None and self._has_lease and reading is not None:
            self._publisher.exemplar = await self._examples.refresh(reading.views)

    def _may_serve(self, term: Term) -> bool:
        """Whether this process serves the series of all the traffic. Scrapers do not ask for
        readiness: of two namespaces only one may serve them."""
        return self._has_lease and (term.serves or (term.successor or term.predecessor) is None)

    async def _lead(self) -> bool:
        """Whether this process serves the series of all the traffic; when it begins to, or comes
        back after its lease was over, take over what another process stored."""
        asked_s = self._monotonic()
        leads = await self._coordination.lease(self._token, LEASE_MS)
        if leads and (not self._has_lease or asked_s - self._renewed_s >= LEASE_MS / 1000):
            await self._take_over()
            log.info("serving the series of all the traffic")
        if leads:
            self._renewed_s = asked_s
        else:
            self._led_last = False
            self._publisher.forget_totals()
        if self._has_lease and not leads:
            log.warning("another process serves the series of all the traffic now")
            self._drop_series()
        self._telemetry.exporter_lease_held.set(leads)
        self._has_lease = leads
        return leads

    def _holds_lease_still(self) -> bool:
        """Whether this process serves the series still though Redis does not answer it.

        After SERVES_ON_S it does not: old scores beside new ones would be taken for true. Where
        Redis is away from all processes none serves them then: the alert on that rests on what
        every process serves of itself, and the API answers the last scores, as of when they are.
        The totals are kept: if nobody else had the lease, counters go on.
        """
        if self._has_lease and self._monotonic() - self._renewed_s >= SERVES_ON_S:
            log.warning("the lease was not renewed in time", problem=NO_SERIES)
            self._telemetry.exporter_lease_held.set(False)
            self._drop_series()
            self._has_lease = False
        return self._has_lease

    def _drop_series(self) -> None:
        self._published = replace(self._published, text=MetricsText(), openmetrics=MetricsText())

    async def _take_over(self) -> None:
        """Go on from what another process stored; where nothing is stored, or nothing newer, from
        what this one has: without a selection every counter would jump. Raises Unavailable."""
        selection = await self._selection.take_over(led_last=self._led_last)
        if selection is not None:
            self._publisher.previous = selection
        await self._take_over_changes()
        self._led_last = True

    async def _take_over_changes(self) -> None:
        told = await self._changes.take_over(led_last=self._led_last)
        if told is not None:
            self._publisher.told = told

    async def _hand_on(self) -> None:
        """See that Redis has what the next exporter needs."""
        now_s = self._monotonic()
        await self._selection.keep(self._publisher.previous, now_s)
        await self._changes.keep(self._publisher.told, now_s)

    def _make(self, reads: Reads, with_series: bool) -> Published:
        """Apply what changed and publish it. Runs in a thread; nothing else touches the mirrors
        meanwhile, because the next read waits for this one."""
        began_s = time.perf_counter()
        for mirror, delta in reads:
            if delta is not None:
                mirror.apply(delta)
        views = [mirror.view() for mirror, _ in reads]
        now_ms = int(self._clock() * 1000)
        published = self._publisher.publish(views, now_ms, with_series=with_series)
        self._telemetry.snapshot_duration_s.set(time.perf_counter() - began_s)
        if self._has_lease:
            self._telemetry.snapshot_s.set_to_current_time()
        last = self._published
        return replace(published, catching_up=last.catching_up, successor=last.successor)

    async def _follow(self, term: Term) -> None:
        """Note whether the namespace, which served or did not, has caught up now."""
        progress: CatchUpProgress | None = None
        if not term.serves and term.successor is None and not self._lanes.damaged:
            progress = self._catching_up.progress(self._times_ms(), int(self._clock() * 1000))
            if progress is None:
                former = await self._coordination.take_over()
                log.info("caught up with the logs", instead_of=former)
        elif not term.serves and term.successor is None:
            progress = self._published.catching_up  # a copy of a lane says nothing about its like
        self._telemetry.set_catching_up(
            progress is not None, None if progress is None else progress.behind_ms
        )
        self._published = replace(self._published, catching_up=progress, successor=term.successor)

    def _times_ms(self) -> list[int | None]:
        """The event time up to which each lane is complete; None for those that have none yet, or
        were never claimed."""
        reading = self._published.reading
        times = {} if reading is None else {view.lane: view.time_ms for view in reading.views}
        return [times.get(lane) for lane in range(self._lanes.count)]

    def _swap_in(self) -> None:
        damaged = self._lanes.damaged
        whole = "; ".join(damaged[lane] for lane in sorted(damaged))
        stalled = self._pulses.stalled(self._lanes.mirrors, self._monotonic())
        conditions = (
            *self._outlet.conditions(),
            # Where Redis is away no process can do better: behind a Service the last scores are
            # worth more than no answer, and say as of when they are.
            Condition("snapshot", self._problem is None or self._was_ready, self._problem or ""),
            Condition("lanes_whole", not damaged, whole),
            # Whether workers move the lanes changes nothing about what this process can do.
            Condition("lanes", True, "" if self._problem else stalled),
            *of_reading(self._published, self._was_ready),
        )
        self._published = replace(self._published, conditions=conditions)
        self._was_ready = self._was_ready or self._published.ready
        self._outlet.swap(self._published)
