"""What `relevanced backfill` does: finds what the lanes lack, counts it, and publishes it."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ...config.layout import layout_of
from ...config.settings import Config
from ...errors import Damaged
from ...exporter.coverage import ALWAYS
from ...exporter.lane_view import LaneView, covered
from ...exporter.mirror import Mirror
from ...exporter.past import HourSources
from ...lane import row_set
from ...panes import HOUR_MS, pane_start
from ...storage.layouts import InForce
from ...storage.past import Filling, StoredPast
from ...storage.redis.client import Client
from ...storage.redis.lane_store import LaneStore
from ...storage.redis.layout_registry import Generation, LayoutRegistry
from ...storage.redis.namespace import Namespace
from ...storage.redis.past_store import PastStore
from ...storage.schema import namespace
from ..redis_client import connected
from .staging import Staging
from .words import Filled

DAY_MS: Final = 24 * HOUR_MS
SIGN_EVERY_S: Final = 10.0
STAGE_EVERY_BYTES: Final = 1 << 20


class Refused(Exception):
    """A backfill that cannot be done, with the reason and the way out."""


class Source(Protocol):
    """Where the events come from."""

    words: str
    """For people."""

    async def count(self, staging: Staging, applied: Callable[[float], Awaitable[None]]) -> None:
        """Count the events; `staging` takes over past hours, and `applied` takes the share of
        what was read, now and then."""


@dataclass(frozen=True)
class Asked:
    """The hours that begin in [from_ms, to_ms); None: as far back as hours are kept, and up to
    now."""

    from_ms: int | None
    to_ms: int | None


class Backfill:
    """One run, on the namespace of a configuration."""

    def __init__(self, config: Config, client: Client) -> None:
        self._config, self._plan = config, config.plan
        self._name = namespace(config)
        self._client = client
        self._namespace = Namespace(client, config.redis.namespace, self._name)
        self._past = PastStore(client, self._name)
        self._staged_s = time.monotonic()

    async def run(self, asked: Asked, source: Source, show: Callable[[float], None]) -> Filled:
        """Fill what is missing of the hours that are asked for. Raises Refused, and what the source
        raises."""
        generation = await self._in_force()
        if not await self._past.begin():
            raise Refused("another backfill is under way in this namespace: wait for its end")
        try:
            missing, sources = await self._missing(asked)
            if not missing:
                return Filled(self._plan, missing, source.words)
            return await self._fill(generation, missing, sources, source, show)
        finally:
            await self._past.end()

    async def _in_force(self) -> Generation:
        if not self._plan.history_hours:
            raise Refused("history.days is 0: no hours are kept")
        generation = await LayoutRegistry(self._client, self._name).in_force()
        if generation is None:
            raise Refused("no worker has registered under this configuration yet: start one first")
        own = layout_of(self._config)
        if generation.digest != own.digest:
            raise Refused(
                f"generation {generation.number} of the layout is in force, and this configuration"
                " has another layout: deploy it first, or take the one of the workers"
            )
        return generation

    async def _missing(self, asked: Asked) -> tuple[range, HourSources]:
        """From the first to the last hour of which something is missing, and what is there."""
        sources = HourSources.of(await self._views(), await self._fillings(), self._plan)
        now_ms, hour_ms = await self._namespace.now_ms(), self._plan.hour_ms
        kept_ms = sources.kept_ms
        if kept_ms == ALWAYS and asked.from_ms is None:  # no lane has settled yet
            kept_ms = row_set.kept_from(now_ms, self._plan)
        first = max(kept_ms, 0 if asked.from_ms is None else asked.from_ms)
        until = min(now_ms, now_ms if asked.to_ms is None else asked.to_ms)
        starts = range(pane_start(first + hour_ms - 1, hour_ms), until - hour_ms + 1, hour_ms)
        lacking = [start for start in starts if not sources.known(start).all()]
        if not lacking:
            return range(0), sources
        return range(lacking[0], lacking[-1] + hour_ms, hour_ms), sources

    async def _views(self) -> Sequence[LaneView]:
        """The lanes with all that decides which hours they have, and no rows."""
        store, views = LaneStore(self._client, self._name), list[LaneView]()
        for lane in range(await self._namespace.lanes()):
            delta = await store.read(lane, "", None, 1)
            if delta is not None:
                mirror = Mirror(lane, self._plan)
                mirror.apply(delta)
                view, nothing = mirror.view(), dict[int, bytes]()
                starts = dict.fromkeys(view.hours, nothing)
                views.append(replace(view, panes={}, totals={}, hours=starts))
        return covered(views, self._plan)

    async def _fillings(self) -> list[StoredPast]:
        found = list[StoredPast]()
        for filling in (await self._past.fillings()).values():
            try:
                found.append(replace(await self._past.load(filling), parts=()))
            except Damaged:
                continue  # exporters leave it out, and it can be filled again
        return found

    async def _fill(
        self,
        generation: Generation,
        missing: range,
        sources: HourSources,
        source: Source,
        show: Callable[[float], None],
    ) -> Filled:
        staging = Staging(secrets.token_hex(8), self._plan, missing)

        async def applied(share: float) -> None:
            show(share)
            await self._stage(staging)

        try:
            await source.count(staging, applied)
            filling = self._filling(generation, staging, source)
            now = HourSources.of(sources.views, [*sources.past, _without_rows(filling)], self._plan)
            gained = {start: now.known(start) & ~sources.known(start) for start in staging.filled}
            gained = {start: cells for start, cells in gained.items() if cells.any()}
            if gained:
                await self._stage(staging, at_once=True)
                expires_ms = await self._expires_ms(staging.span.stop)
                await self._past.publish(filling, expires_ms)
            else:
                await self._past.discard(staging.id)
        except BaseException:
            await self._past.discard(staging.id)
            raise
        earlier = [past.filling for past in sources.past]
        return Filled(self._plan, missing, source.words, staging.filled, earlier, gained)

    def _filling(self, generation: Generation, staging: Staging, source: Source) -> Filling:
        in_force = InForce(self._plan, generation.number, generation.digest, generation.text)
        filled = staging.filled
        first, until = filled.start, max(filled.start, filled.stop)
        groupings = self._plan.grouping_ids
        layout = in_force.stored()
        return Filling(staging.id, layout, groupings, first, until, source.words, staging.keys)

    async def _stage(self, staging: Staging, *, at_once: bool = False) -> None:
        """Store what is ready: in portions, and often enough to remain the one that fills."""
        size = sum(map(len, staging.ready.values()))
        due = time.monotonic() - self._staged_s > SIGN_EVERY_S
        if at_once or due or size >= STAGE_EVERY_BYTES:
            blobs, staging.ready = staging.ready, {}
            expires = await self._expires_ms(staging.span.stop)
            await self._past.stage(staging.id, blobs, dict.fromkeys(blobs, expires))
            self._staged_s = time.monotonic()

    async def _expires_ms(self, until_ms: int) -> int:
        """The clock when hours up to there are kept no longer, with a day for clocks. Lanes that
        read an old log are behind the clock: from now on for as long at least."""
        last_ms = max(until_ms, await self._namespace.now_ms())
        return last_ms + self._plan.history_hours * self._plan.hour_ms + DAY_MS


def _without_rows(filling: Filling) -> StoredPast:
    return StoredPast(filling, (), frozenset())


def backfill(
    config: Config,
    asked: Asked,
    source: Source,
    show: Callable[[float], None],
) -> Filled:
    """Run it. Raises Refused, Unavailable, Damaged, and what the source raises."""

    async def run() -> Filled:
        async with connected(config) as client:
            return await Backfill(config, client).run(asked, source, show)

    return asyncio.run(run())
