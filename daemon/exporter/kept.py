"""What an exporter keeps in the store, or reads of it beside the lanes.

Markers are read again when they changed, filled hours once, as they never change, examples of
queries when an hour is over, and tables of queries when somebody asks.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import msgspec
import structlog

from ..changes import MOST_MARKERS, Marker, expired, ordered
from ..errors import Damaged, Unavailable
from ..plan import Plan
from ..queries import Example
from ..storage import (
    Filling,
    Head,
    QueryHead,
    StoredPast,
    queries_hour_key,
    row_pages,
    whole_or_damaged,
)
from ..views import LaneHours, LaneView, QueryPages, QueryWindow, window_of
from .baselines import DAY
from .sample_series import exemplar_of

log = structlog.get_logger(__name__)


class StoredMarkers(Protocol):
    """What is read at once."""

    @property
    def tag(self) -> bytes:
        """Differs after every change."""

    @property
    def markers(self) -> Sequence[bytes]:
        """One after the other, in no order."""


class MarkerStore(Protocol):
    """Where the markers are stored. All methods raise Unavailable."""

    async def tag(self) -> bytes | None:
        """The tag of the state; None where there never were markers, or they are lost."""

    async def read(self) -> StoredMarkers | None:
        """All of them; None as for `tag`."""

    async def add(self, name: str, marker: bytes, most: int) -> bytes | bool:
        """Store one: True; False where there are `most`; the stored one of this name if any."""

    async def remove(self, names: Iterable[str]) -> int:
        """Remove the markers of these names."""

    async def put_back(self, markers: Mapping[str, bytes]) -> bool:
        """Store these, unless there are markers."""


def packed_markers(marker: Marker) -> bytes:
    """The marker as JSON."""
    return msgspec.json.encode(marker)


def unpacked(stored: Iterable[bytes]) -> tuple[Marker, ...]:
    """The markers of their bytes, by time. One that cannot be read, such as one of a later
    version, is left out and said."""
    found = []
    for each in stored:
        try:
            found.append(msgspec.json.decode(each, type=Marker))
        except msgspec.DecodeError as error:
            log.warning("a stored marker cannot be read", reason=str(error))
    return ordered(found)


class KeptMarkers:
    """The markers of one namespace, for one exporter."""

    def __init__(self, store: MarkerStore, keep_ms: int) -> None:
        self.known: tuple[Marker, ...] = ()
        self._store = store
        self._keep_ms = keep_ms
        self._tag: bytes | None = None

    async def refresh(self, now_ms: int, leads: bool) -> tuple[Marker, ...]:
        """Read what changed, and return all. The exporter that leads removes those that are too
        old, and puts back what Redis lost. Raises Unavailable."""
        tag = await self._store.tag()
        if tag is None and self._tag is not None:
            await self._lost(leads)
        elif tag != self._tag:
            await self._read()
        old = expired(self.known, now_ms, self._keep_ms)
        if old and leads:
            await self._store.remove(old)
        return tuple(marker for marker in self.known if marker.id not in old)

    async def store(self, markers: Iterable[Marker]) -> None:
        """Store markers that the exporter found itself. Raises Unavailable."""
        for marker in markers:
            if await self._store.add(marker.id, packed_markers(marker), MOST_MARKERS) is True:
                log.info("a new version was seen", version=marker.text)

    async def _read(self) -> None:
        stored = await self._store.read()
        if stored is not None:
            self._tag, self.known = stored.tag, unpacked(stored.markers)

    async def _lost(self, leads: bool) -> None:
        if leads:
            log.warning("Redis lost the markers: they are stored again", markers=len(self.known))
            await self._store.put_back({marker.id: packed_markers(marker) for marker in self.known})
            await self._read()


class Past(Protocol):
    """Where filled hours are stored. All methods raise Unavailable and Damaged."""

    async def fillings(self) -> Mapping[int, Filling]:
        """What is published, by number."""

    async def load(self, filling: Filling) -> StoredPast:
        """A filling with its rows."""


class PastReads:
    """The filled hours of one namespace, for one exporter."""

    def __init__(self, past: Past, plan: Plan) -> None:
        self._past = past
        self._keep_ms = (plan.history_hours + DAY) * plan.hour_ms  # with a day for clocks
        self._known: dict[str, StoredPast | None] = {}
        """By id; None: it cannot be read, and is left out."""

    async def refresh(self, now_ms: int) -> tuple[StoredPast, ...]:
        """Read what is new, and return all, in the order in which it was published. Raises
        Unavailable."""
        try:
            fillings = [*(await self._past.fillings()).values()]
        except Damaged as error:
            log.error("the filled hours cannot be read: they are left out", reason=str(error))
            fillings = []
        for filling in fillings:
            if filling.id not in self._known:
                self._known[filling.id] = await self._load(filling, now_ms)
        self._known = {filling.id: self._known[filling.id] for filling in fillings}
        return tuple(past for past in self._known.values() if past is not None)

    async def _load(self, filling: Filling, now_ms: int) -> StoredPast | None:
        try:
            past = await self._past.load(filling)
        except Damaged as error:
            if filling.until_ms < now_ms - self._keep_ms:
                return None  # it has expired
            log.error("filled hours are left out: fill them again", reason=str(error))
            return None
        if past.lost:
            log.error("Redis lost rows of filled hours: these are left out", hours=len(past.lost))
        return past


TRIES: Final = 5
"""The open hour may be stored anew between the reads of a lane's head and of its parts."""
AT_ONCE: Final = 4
"""So many lanes are read at once."""
WindowOf: TypeAlias = Callable[[Sequence[LaneHours]], QueryWindow]


class StoredQueries(Protocol):
    """Where tables of queries are stored. All methods raise Unavailable."""

    async def head(self, lane: int) -> Head | None:
        """The head of a lane. Raises Damaged."""

    async def values(self, lane: int, keys: Sequence[str]) -> dict[str, bytes | None]:
        """The values of these keys of a lane; None for those that are not there."""


@dataclass
class _Found:
    """What was read so far."""

    with_examples: bool
    hours: dict[int, list[list[bytes]]] = field(default_factory=lambda: defaultdict(list))
    lost: set[int] = field(default_factory=set)
    closed_examples: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    open_hours: dict[int, list[list[bytes]]] = field(default_factory=lambda: defaultdict(list))
    lost_examples: set[int] = field(default_factory=set)

    def add(self, lane: LaneHours, window: QueryWindow, values: Mapping[str, bytes | None]) -> None:
        """Add the values of a lane."""
        head = lane.head
        self.lost |= window.starts & lane.lost
        for start in sorted(window.starts & head.hours.keys()):
            value = values[queries_hour_key(start)]
            if value is None:
                self.lost.add(start)
            else:
                self.hours[start].append([value])
        parts = [value for key in head.part_keys if (value := values.get(key)) is not None]
        if parts and head.hour_ms is not None:
            self.hours[head.hour_ms].append(parts)
            self.open_hours[head.hour_ms].append(parts)
        if self.with_examples:
            self._add_examples(head, window, values)

    def _add_examples(
        self, head: QueryHead, window: QueryWindow, values: Mapping[str, bytes | None]
    ) -> None:
        self.lost_examples |= window.starts & set(head.lost_examples)
        for start in sorted(window.starts & head.examples.keys()):
            value = values[row_pages.examples_hour_key(start)]
            if value is None:
                self.lost_examples.add(start)
            else:
                self.closed_examples[start].append(value)

    def tables(self, plan: Plan) -> QueryPages:
        """All of it."""
        return QueryPages(
            plan,
            self.hours,
            frozenset(self.lost),
            self.closed_examples,
            self.open_hours,
            frozenset(self.lost_examples),
        )


class QueryReads:
    """Reads tables of queries, for one request at a time."""

    def __init__(self, store: StoredQueries) -> None:
        self.store = store
        self._one_at_a_time = asyncio.Lock()

    async def read(
        self, lanes: Sequence[int], plan: Plan, window_of: WindowOf, *, examples: bool = False
    ) -> tuple[QueryWindow, QueryPages]:
        """Read the hours of a window and its usual ones, of these lanes, all of which have events
        or lost some, or the hours of the window with their examples. Raises Unavailable and
        Damaged."""
        async with self._one_at_a_time:
            heads = [await self.store.head(lane) for lane in lanes]
            known = [hours_of(*each, plan) for each in zip(lanes, heads, strict=True)]
            window = window_of(known)
            if examples:
                window = QueryWindow(window.hours)
            found = _Found(examples)
            gate = asyncio.Semaphore(AT_ONCE)

            async def read_one(lane: LaneHours) -> None:
                async with gate:
                    await self._read_lane(lane, window, found, plan)

            await asyncio.gather(*map(read_one, known))
            return window, found.tables(plan)

    async def _read_lane(
        self, lane: LaneHours, window: QueryWindow, found: "_Found", plan: Plan
    ) -> None:
        for _ in range(TRIES):
            starts = sorted(window.starts & lane.head.hours.keys())
            is_open = lane.head.hour_ms in window.starts
            parts = lane.head.part_keys if is_open else []
            kept = window.starts & lane.head.examples.keys() if found.with_examples else ()
            keys = [*map(queries_hour_key, starts), *parts, *map(row_pages.examples_hour_key, kept)]
            values = await self.store.values(lane.lane, keys)
            open_parts = [values[key] for key in parts]
            if None not in open_parts:
                break
            lane = hours_of(lane.lane, await self.store.head(lane.lane), plan)
            if lane.settled_before is None:
                raise Unavailable(f"lane {lane.lane}: its tables are gone")
        else:
            raise Unavailable(f"lane {lane.lane}: its open hour changes as fast as it is read")
        found.add(lane, window, values)


def hours_of(lane: int, head: Head | None, plan: Plan) -> LaneHours:
    """What a lane has of tables that has counted events, or lost some."""
    if head is None:
        return LaneHours.of(lane, None, None, 0, None, plan)
    lost_before_ms = head.whole_from(plan.timing.base_ms)
    if lost_before_ms is not None and not any(head.counts.get("events", {}).values()):
        return LaneHours.begun_anew(lane, lost_before_ms, plan)
    state = head.state
    return LaneHours.of(
        lane, head.queries, state.settled_before, state.expires_ms, head.idle_ms, plan
    )


def hours_of_view(view: LaneView, plan: Plan) -> LaneHours:
    """The same of a view."""
    if view.lost_before_ms is not None and not view.has_events:
        return LaneHours.begun_anew(view.lane, view.lost_before_ms, plan)
    return LaneHours.of(
        view.lane, view.queries, view.settled_before, view.expires_ms, view.idle_ms, plan
    )


class ExampleReads:
    """The exemplar of one namespace, for one exporter: of the last hour that all lanes have closed,
    so that a later one is never earlier, which Prometheus would drop."""

    def __init__(self, store: StoredQueries, plan: Plan) -> None:
        self._store, self._plan = store, plan
        self._held: Sequence[tuple[int, int]] = ()
        """(lane, start of the hour) of what was read."""
        self._exemplar = ""

    async def refresh(self, views: Iterable[LaneView]) -> str:
        """Read it where the hour is another one; "" for none. Raises Unavailable."""
        lanes = [hours_of_view(view, self._plan) for view in views if view.has_or_lost_events]
        # The window has no hour whose examples are ordered by another metric.
        hours = window_of(lanes, "1h", self._plan.hour_ms).hours
        held = [(one.lane, at) for at in hours for one in lanes if at in one.head.examples]
        if held != self._held:
            examples = [each for key in held for each in await self._examples(*key)]
            self._exemplar = exemplar_of(examples, self._plan.metrics[0])
            self._held = held
        return self._exemplar

    async def _examples(self, lane: int, start: int) -> list[Example]:
        key, queries = row_pages.examples_hour_key(start), self._plan.queries
        data = (await self._store.values(lane, [key]))[key]
        if data is None or queries is None:
            return []
        try:
            with whole_or_damaged(f"lane {lane}, examples of queries of {start}"):
                hour = row_pages.unpacked_hour(data)
        except Damaged as error:
            log.error("no exemplar is taken of these examples", reason=str(error))
            return []
        is_shown = hour.min_users >= queries.min_users
        return [each for _, of_key in hour.examples for each in of_key] if is_shown else []
