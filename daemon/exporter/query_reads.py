"""Reads tables of queries from the store when somebody asks for them."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from ..errors import Unavailable
from ..plan import Plan
from ..storage import query_examples
from ..storage.head import Head
from ..storage.query_head import QueryHead, hour_key
from .query_pages import QueryTables
from .query_windows import LaneHours, QueryWindow

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

    def add(self, head: QueryHead, window: QueryWindow, values: Mapping[str, bytes | None]) -> None:
        """Add the values of a lane."""
        self.lost |= window.starts & set(head.lost)
        for start in sorted(window.starts & head.hours.keys()):
            value = values[hour_key(start)]
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
            value = values[query_examples.hour_key(start)]
            if value is None:
                self.lost_examples.add(start)
            else:
                self.closed_examples[start].append(value)

    def tables(self, plan: Plan) -> QueryTables:
        """All of it."""
        return QueryTables(
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
    ) -> tuple[QueryWindow, QueryTables]:
        """Read the hours of a window and its usual ones, of all lanes, or the hours of the window
        with their examples. Raises Unavailable and Damaged."""
        async with self._one_at_a_time:
            heads = [await self.store.head(lane) for lane in lanes]
            known = [hours_of(lane, head) for lane, head in zip(lanes, heads, strict=True)]
            window = window_of([one for one in known if one is not None])
            if examples:
                window = QueryWindow(window.hours)
            found = _Found(examples)
            gate = asyncio.Semaphore(AT_ONCE)

            async def read_one(lane: LaneHours) -> None:
                async with gate:
                    await self._read_lane(lane, window, found)

            await asyncio.gather(*(read_one(one) for one in known if one is not None))
            return window, found.tables(plan)

    async def _read_lane(self, lane: LaneHours, window: QueryWindow, found: "_Found") -> None:
        for _ in range(TRIES):
            starts = sorted(window.starts & lane.head.hours.keys())
            is_open = lane.head.hour_ms in window.starts
            parts = lane.head.part_keys if is_open else []
            kept = window.starts & lane.head.examples.keys() if found.with_examples else ()
            keys = [*map(hour_key, starts), *parts, *map(query_examples.hour_key, kept)]
            values = await self.store.values(lane.lane, keys)
            open_parts = [values[key] for key in parts]
            if None not in open_parts:
                break
            again = hours_of(lane.lane, await self.store.head(lane.lane))
            if again is None:
                return
            lane = again
        else:
            raise Unavailable(f"lane {lane.lane}: its open hour changes as fast as it is read")
        found.add(lane.head, window, values)


def hours_of(lane: int, head: Head | None) -> LaneHours | None:
    """What a lane has of tables; None where it has none, or nothing of it has settled yet."""
    if head is None or head.queries is None or head.state.settled_before is None:
        return None
    return LaneHours(lane, head.queries, head.state.settled_before)
