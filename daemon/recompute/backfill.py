"""What `relevanced backfill` does: it finds what the lanes lack, counts it and publishes it."""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from rich.progress import Progress

from ..config import Config, layout_of
from ..errors import Damaged
from ..events import timestamp_text
from ..lane import kept_rows
from ..panes import HOUR_MS, pane_start
from ..plan import Plan
from ..storage import (
    Client,
    Filling,
    Generation,
    InForce,
    LayoutRegistry,
    Namespace,
    PastStore,
    StoredPast,
    filling_hour_key,
    names_key,
    namespace,
    pack_page,
    packed_filling,
)
from ..views import ALWAYS, HourSources, LaneView, Mirror, covered
from ..worker import configure_allocator
from .backfill_report import Filled, range_of
from .driver import LATEST_MS, LaneDriver, Settled
from .files import FileEvents, file_lane
from .from_kafka import Show, lanes_from_kafka
from .hour_rows import plan_of_hours
from .redis_client import connected, whole_lanes
from .whole_hours import ImpressionsByHour, whole_hours


@dataclass
class Staging:
    """Takes over the hours that begin in a span, of one lane after the other."""

    id: str
    plan: Plan
    span: range
    """Of starts, in ms."""
    ready: dict[str, bytes] = field(default_factory=dict)
    """Key → value: what is to be stored. The caller takes it out."""
    keys: int = 0
    """How many values there were."""
    first_ms: int = 0
    """Earlier hours are not whole: of some lane not all of their events are known."""
    settled_ms: int = LATEST_MS
    """Hours that end later may lack feedback that has not come yet."""
    part: int = 0
    """The lane."""
    seen_ms: int = LATEST_MS
    """Start of the first hour with an impression."""
    whole: Set[int] | None = None
    """Starts of the hours that are whole; None: all from the first one on."""

    def take(self, settled: Settled) -> None:
        """See `LaneSink`."""
        for start, rows in settled.hours(settled.lane):
            if start in self.span:
                self.seen_ms = min(self.seen_ms, start)
                for page in rows.page_numbers:
                    key = filling_hour_key(self.id, self.part, start, page)
                    self._put(key, pack_page(rows.page(page)))

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`: hours that feedback may still change are left out."""
        self.take(settled)
        if settled.has_events:
            self.first_ms = max(self.first_ms, settled.whole_ms)
            self.settled_ms = min(self.settled_ms, settled.final_ms)
        groupings, segments = settled.lane.plan.grouping_names, settled.lane.segments.names
        names = tuple((groupings[of], segment) for of, segment in segments)
        self._put(names_key(self.id, self.part), packed_filling(names))
        self.part += 1

    def _put(self, key: str, value: bytes) -> None:
        self.ready[key] = value
        self.keys += 1

    @property
    def filled(self) -> range:
        """From the first to the last hour that is whole in every lane, by their starts, from the
        first with an impression on. Those in `left_out` are not."""
        hours = self._known_from(self.seen_ms)
        if self.whole is None:
            return hours
        whole = [start for start in hours if start in self.whole]
        length = self.plan.hour_ms
        return range(whole[0], whole[-1] + length, length) if whole else range(0, 0, length)

    @property
    def left_out(self) -> Sequence[int]:
        """The starts of the hours that may lack events, after that in which the source begins."""
        whole = self.whole
        hours = self._known_from(self.span.start)
        return () if whole is None else [start for start in hours if start not in whole]

    def _known_from(self, first_ms: int) -> range:
        length = self.plan.hour_ms
        first = max(-(-self.first_ms // length) * length, first_ms)
        return range(first, min(self.settled_ms // length * length, self.span.stop), length)


DAY_MS: Final = 24 * HOUR_MS
SIGN_EVERY_S: Final = 10.0
STAGE_EVERY_BYTES: Final = 1 << 20


class BackfillRefused(Exception):
    """A backfill that cannot be done, with the reason and the way out."""


class HoursSource(Protocol):
    """Where the events come from."""

    words: str
    """For people."""

    async def count(self, staging: Staging, applied: Show) -> None:
        """Count the events; `staging` takes over past hours, and `applied` takes the share of
        what was read, now and then."""


@dataclass(frozen=True)
class HoursToFill:
    """The hours that begin in [from_ms, to_ms); None: as far back as hours are kept, and up to
    now."""

    from_ms: int | None
    to_ms: int | None
    replaces: bool = False
    """Whether hours that earlier runs filled are counted again, and take their place."""


def hours_asked_for(asked: HoursToFill, plan: Plan, kept_ms: int, now_ms: int) -> range:
    """The starts of the hours that are over and kept. Raises BackfillRefused where none is."""
    hour_ms = plan.hour_ms
    until = min(now_ms, now_ms if asked.to_ms is None else asked.to_ms)

    def hours_from(first_ms: int) -> range:
        return range(pane_start(first_ms + hour_ms - 1, hour_ms), until - hour_ms + 1, hour_ms)

    from_ms = 0 if asked.from_ms is None else asked.from_ms
    if starts := hours_from(max(kept_ms, from_ms)):
        return starts
    if not hours_from(from_ms):
        raise BackfillRefused("no whole hour that is over lies between --from and --to")
    kept = timestamp_text(kept_ms)
    raise BackfillRefused(f"hours that begin before {kept} are kept no longer (history.days)")


def lacking_of(hours: range, sources: HourSources) -> range:
    """From the first to the last of some hours of which something is missing."""
    lacking = [start for start in hours if not sources.known(start).all()]
    return range_of(lacking, hours.step) if lacking else range(0)


def filled_already(staging: Staging, sources: HourSources) -> Sequence[int]:
    """The starts of the hours that a source has whole, and of which earlier runs filled what the
    lanes lack."""
    left_out = set(staging.left_out)
    whole = (start for start in staging.filled if start not in left_out)
    return [start for start in whole if sources.filled(start).any()]


class Backfill:
    """One run, on the namespace of a configuration."""

    def __init__(self, config: Config, client: Client) -> None:
        self._config, self._plan = config, config.plan
        self._name = namespace(config)
        self._client = client
        self._namespace = Namespace(client, config.redis.namespace, self._name)
        self._past = PastStore(client, self._name)
        self._staged_s = time.monotonic()

    async def run(
        self, asked: HoursToFill, source: HoursSource, show: Callable[[float], None]
    ) -> Filled:
        """Fill what is missing of the hours that are asked for. Raises Refused, and what the source
        raises."""
        generation = await self._in_force()
        if not await self._past.begin():
            raise BackfillRefused(
                "another backfill is under way in this namespace: wait for its end"
            )
        try:
            hours, sources = await self._hours(asked)
            missing = lacking_of(hours, sources)
            filled = Filled(self._plan, missing, source.words)
            if missing:
                filled = await self._fill(
                    generation, missing, sources, source, show, asked.replaces
                )
            is_cut = asked.from_ms is not None and asked.from_ms < sources.kept_ms
            return replace(filled, asked=hours, is_cut=is_cut)
        finally:
            await self._past.end()

    async def _in_force(self) -> Generation:
        if not self._plan.history_hours:
            raise BackfillRefused("history.days is 0: no hours are kept")
        generation = await LayoutRegistry(self._client, self._name).in_force()
        if generation is None:
            raise BackfillRefused(
                "no worker has registered under this configuration yet: start one first"
            )
        own = layout_of(self._config)
        if generation.digest != own.digest:
            raise BackfillRefused(
                f"generation {generation.number} of the layout is in force, and this configuration"
                " has another layout: deploy it first, or take the one of the workers"
            )
        return generation

    async def _hours(self, asked: HoursToFill) -> tuple[range, HourSources]:
        """The hours that are asked for, and what is there and stays. Raises BackfillRefused."""
        past = [] if asked.replaces else await self._fillings()
        sources = HourSources.of(await self._views(), past, self._plan)
        now_ms, kept_ms = await self._namespace.now_ms(), sources.kept_ms
        if kept_ms == ALWAYS and asked.from_ms is None:  # no lane has settled yet
            kept_ms = kept_rows.kept_from(now_ms, self._plan)
        return hours_asked_for(asked, self._plan, kept_ms, now_ms), sources

    async def _views(self) -> Sequence[LaneView]:
        """The lanes with all that decides which hours they have, and no rows."""
        views = list[LaneView]()
        async for lane, delta in whole_lanes(self._client, self._config):
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
        source: HoursSource,
        show: Callable[[float], None],
        replaces: bool,
    ) -> Filled:
        staging = Staging(secrets.token_hex(8), self._plan, missing)

        async def applied(share: float) -> None:
            show(share)
            await self._stage(staging)

        try:
            await source.count(staging, applied)
            filling = self._filling(generation, staging, source, replaces)
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
        lacking = sum(not sources.known(start).all() for start in missing)
        return Filled(
            self._plan,
            missing,
            source.words,
            staging.filled,
            earlier,
            gained,
            lacking,
            staging.left_out,
            filled_already(staging, sources),
        )

    def _filling(
        self, generation: Generation, staging: Staging, source: HoursSource, replaces: bool
    ) -> Filling:
        in_force = InForce(self._plan, generation.number, generation.digest, generation.text)
        filled = staging.filled
        first, until = filled.start, max(filled.start, filled.stop)
        return Filling(
            staging.id,
            in_force.stored(),
            self._plan.grouping_ids,
            first,
            until,
            source.words,
            staging.keys,
            without=tuple(start for start in staging.left_out if start in filled),
            replaces=replaces,
        )

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
    asked: HoursToFill,
    source: HoursSource,
    show: Callable[[float], None],
) -> Filled:
    """Run it. Raises Refused, Unavailable, Damaged, and what the source raises."""

    async def run() -> Filled:
        async with connected(config) as client:
            return await Backfill(config, client).run(asked, source, show)

    return asyncio.run(run())


class KafkaHours:
    """The records that Kafka has of the input topics. Raises Unavailable, StartError, LogChanged,
    RecordsGone and OverflowError."""

    words = "Kafka"

    def __init__(self, config: Config) -> None:
        self._config = config

    async def count(self, staging: Staging, applied: Show) -> None:
        """See `HoursSource`."""
        plan = plan_of_hours(self._config.plan)
        lanes = lanes_from_kafka(self._config, plan, staging.span, staging, applied)
        async for driver, clock_ms in lanes:
            driver.finish_at(clock_ms)


class FileHours:
    """Recorded events, in the order of their time. `are_whole`: no event is missing from the hour
    after their first on. Raises OSError, UnknownTopic, NoRoom and OverflowError."""

    def __init__(
        self,
        config: Config,
        files: Sequence[str],
        bars: Progress,
        *,
        kcat: bool,
        topic: str | None,
        are_whole: bool = False,
    ) -> None:
        self.words = files[0] if len(files) == 1 else f"{len(files)} files"
        self._config, self._are_whole = config, are_whole
        self._events = FileEvents(config, files, bars, kcat=kcat, topic=topic)

    async def count(self, staging: Staging, applied: Show) -> None:
        """See `HoursSource`. What is ready is stored at the end: meanwhile it stays in memory, as
        small as it is stored."""
        configure_allocator()
        lane = file_lane(self._config, self._config.plan.without_judgements)
        impressions, hour_ms = ImpressionsByHour(), lane.plan.hour_ms
        driver = LaneDriver(lane, impressions, staging)
        self._events.apply_to(driver, apart_ms=HOUR_MS)
        driver.finish_at(None)
        staging.first_ms = min(impressions.counts, default=LATEST_MS) + hour_ms
        if not self._are_whole:
            staging.whole = whole_hours(impressions.counts, hour_ms)
        await applied(1.0)
