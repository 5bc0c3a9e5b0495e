"""The layout that a process works under, the one in force in Redis, not that of its own file; and
what it waits for before it can begin: every server at once, not the first alone.

Workers propose the layout of their own configuration, and all processes follow the one in force
(see `storage.LayoutRegistry`). When it moves, the parts of the process end, and begin again
under it: `Working.over` is their end.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from ..backoff import pause_s, stopped_within
from ..config import Config, ConfigError, Layout, LogEnd, layout_of, under_layout
from ..errors import StartError, Trouble, Unavailable
from ..events import span_text
from ..kafka import FirstTimes, kafka_settings, topic_retention
from ..panes import HOUR_MS
from ..plan import Plan
from ..storage import Generation, InForce, LayoutRegistry, Layouts, Namespace, StoredLayout
from ..worker import Needed, shortfalls

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 2.0
PROPOSE_EVERY_S: Final = 10.0


@dataclass(frozen=True, eq=False)
class Working:
    """A configuration with the layout in force."""

    config: Config
    generation: Generation
    """Number 0: Redis has not said yet which one is in force."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when another one is in force, or the process is to stop."""

    @property
    def in_force(self) -> InForce:
        """The layout, as lanes store it."""
        now = self.generation
        return InForce(self.config.lane_plan, now.number, now.digest, now.text)


class Following:
    """Follows the layout in force in one namespace."""

    def __init__(self, config: Config, registry: LayoutRegistry, stop: asyncio.Event) -> None:
        self._own = layout_of(config)
        self._config = config
        self._registry = registry
        self._stop = stop
        self._proposed_s = -PROPOSE_EVERY_S
        self._said = ""
        self.now = Working(config, Generation(0, self._own.digest, self._own.text))

    @property
    def says(self) -> str:
        """What is to be said of it, for readiness; "" where the process works under its own."""
        now = self.now.generation
        if now.digest == self._own.digest:
            return ""
        return (
            f"works under generation {now.number} of the layout, {now.digest}, which is not that of"
            f" this process's configuration, {self._own.digest}"
        )

    def layouts(self, working: Working) -> Layouts:
        """The layouts for the worker's lanes."""
        return Layouts(working.in_force, self._plan_of, self._found)

    def _plan_of(self, stored: StoredLayout) -> Plan:
        try:
            return under_layout(self._config, Layout(stored.digest, stored.text)).lane_plan
        except (ConfigError, ValueError) as error:
            raise Unavailable(f"the layout of the lane cannot be read: {error}") from error

    async def _found(self, stored: StoredLayout) -> None:
        found = Generation(stored.generation, stored.digest, stored.text)
        await self._registry.restore(found)

    async def propose(self) -> None:
        """Propose the layout of the configuration, and follow the one in force. Raises Unavailable,
        and StartError where this program does not know all of that."""
        self._proposed_s = time.monotonic()
        found = await self._registry.propose(self._own.digest, self._own.text)
        if (now := self.now.generation).number > found.number:
            found = await self._registry.restore(now)
        self._take(found)

    async def look(self) -> None:
        """Follow the layout in force. Raises as `propose` does."""
        found = await self._registry.in_force()
        if found is not None and found.number >= self.now.generation.number:
            self._take(found)

    def _take(self, found: Generation) -> None:
        now = self.now
        if found == now.generation:
            return
        is_same = found.digest == now.generation.digest
        config = now.config if is_same else self._under(found)
        if is_same and not now.generation.number:
            self.now = Working(config, found, now.over)
            return
        log.info("another layout is in force", generation=found.number, digest=found.digest)
        self.now = Working(config, found)
        if self._stop.is_set():
            self.now.over.set()
        now.over.set()

    def _under(self, found: Generation) -> Config:
        if found.digest == self._own.digest:
            return self._config
        try:
            return under_layout(self._config, Layout(found.digest, found.text))
        except (ConfigError, ValueError) as error:
            raise StartError(
                f"generation {found.number} of the layout is in force, and this release cannot work"
                f" under it: {error}. Deploy the release first, then the configuration; or put"
                " another layout in force: relevanced layout use --config FILE"
            ) from error

    async def follow(self, *, proposes: bool) -> None:
        """Follow until the process is to stop. Raises StartError in a worker, which proposes; other
        processes go on under what they know."""
        while not await stopped_within(self._stop, LOOK_EVERY_S):
            due = time.monotonic() - self._proposed_s >= PROPOSE_EVERY_S
            await self.step(proposes=proposes, due=due)

    async def step(self, *, proposes: bool = False, due: bool = False) -> None:
        """Look once, or propose where that is due. Raises as `follow` does."""
        try:
            await (self.propose() if proposes and due else self.look())
        except Unavailable as error:
            log.debug("the layout in force is not known", reason=str(error))
        except StartError as error:
            if proposes:
                raise
            if self._said != str(error):
                log.error("another layout is in force", reason=str(error))
            self._said = str(error)

    async def end_with_the_process(self) -> None:
        """End what works when the process is to stop."""
        await self._stop.wait()
        self.now.over.set()


class HistoryCheck:
    """One check, beside the worker: nothing waits for it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._task: asyncio.Task[None] | None = None
        self.missing = ""
        """What would be missing after a loss, once that is known; "" where nothing would."""

    def begin(self, first_times: FirstTimes, lanes: int) -> None:
        """Ask Kafka in a task."""
        self._task = asyncio.create_task(self._check(first_times, lanes))

    async def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _check(self, first_times: FirstTimes, lanes: int) -> None:
        """Log the result in one line. Never raises what Kafka answers."""
        config, now_ms = self._config, int(time.time() * 1000)
        kept = await topic_retention(kafka_settings(config), first_times, lanes, now_ms)
        found = shortfalls(config.start, kept, needed_history(config))
        self.missing = "; ".join(found)
        start = config.start
        write = log.warning if found else log.info
        write(
            "what a lost Redis would be filled with",
            kafka_start=start.value if isinstance(start, LogEnd) else f"{span_text(start.ms)} ago",
            topics_keep={topic: one.words() for topic, one in sorted(kept.items())},
            missing=found or "nothing",
        )


def needed_history(config: Config) -> Needed:
    """How far back the records of this configuration matter."""
    timing = config.timing
    return Needed(config.plan.history_hours * HOUR_MS, timing.base_ms + timing.settle_ms)


ASK_EVERY_S = 2.0


class RedisAnswer:
    """Whether Redis answers, while Kafka is still waited for."""

    def __init__(self, show: Callable[[Trouble | None], None]) -> None:
        """`show` is told what is wrong with it, and None once nothing is."""
        self.missing = ""
        """Why it does not; empty where it does, or where it was not asked yet."""
        self._trouble: Trouble = "other"
        self._show = show

    def note(self, error: Unavailable) -> None:
        """Note that it does not answer; logs the first time, and another kind of trouble."""
        if not self.missing or error.trouble != self._trouble:
            log.warning("waiting for Redis", reason=str(error))
        self.missing, self._trouble = str(error), error.trouble
        self._show(error.trouble)

    def answers(self) -> None:
        """Note that it does."""
        self.missing = ""
        self._show(None)

    async def proposed(self, propose: Callable[[], Awaitable[None]], stop: asyncio.Event) -> bool:
        """Propose the layout; returns whether Redis answered before the process is to stop. Raises
        StartError."""
        failures = 0
        while not stop.is_set():
            try:
                await propose()
                self.answers()
                return True
            except Unavailable as error:
                failures += 1
                self.note(error)
                await stopped_within(stop, pause_s(failures, random.random()))
        return False

    async def registered(self, namespace: Namespace, lanes: int, stop: asyncio.Event) -> int | None:
        """Register the number of lanes; returns how many there were when the namespace was made, or
        None where the process is to stop before Redis answers."""
        failures = 0
        while not stop.is_set():
            try:
                return (await namespace.register(lanes)).at_start
            except Unavailable as error:
                failures += 1
                self.note(error)
                await stopped_within(stop, pause_s(failures, random.random()))
        return None


def waiting_text(kafka: str | None, redis: str) -> str:
    """What is waited for. `kafka` and `redis` say why each does not answer; `kafka` is None where
    it does, and `redis` is empty where it does or nobody knows.

    >>> waiting_text("no broker answers", "connection refused")
    'waiting for Kafka: no broker answers; waiting for Redis: connection refused'
    >>> waiting_text("no broker answers", "")
    'waiting for Kafka: no broker answers'
    >>> waiting_text(None, "")
    'waiting for Redis'
    """
    if kafka is None:
        return f"waiting for Redis: {redis}" if redis else "waiting for Redis"
    return f"waiting for Kafka: {kafka}" + (f"; waiting for Redis: {redis}" if redis else "")
