"""Reads tables of queries from the store when somebody asks for them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from ..errors import Unavailable
from ..plan import Plan
from ..storage.head import Head
from ..storage.queries import hour_key
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


class QueryReads:
    """Reads tables of queries, for one request at a time."""

    def __init__(self, store: StoredQueries) -> None:
        self.store = store
        self._one_at_a_time = asyncio.Lock()

    async def read(
        self, lanes: Sequence[int], plan: Plan, window_of: WindowOf
    ) -> tuple[QueryWindow, QueryTables]:
        """Read the hours of a window and its usual ones, of all lanes. Raises Unavailable and
        Damaged."""
        async with self._one_at_a_time:
            heads = [await self.store.head(lane) for lane in lanes]
            known = [hours_of(lane, head) for lane, head in zip(lanes, heads, strict=True)]
            window = window_of([one for one in known if one is not None])
            found: dict[int, list[list[bytes]]] = {}
            lost: set[int] = set()
            gate = asyncio.Semaphore(AT_ONCE)

            async def read_one(lane: LaneHours) -> None:
                async with gate:
                    await self._read_lane(lane, window, found, lost)

            await asyncio.gather(*(read_one(one) for one in known if one is not None))
            return window, QueryTables(plan, found, frozenset(lost))

    async def _read_lane(
        self,
        lane: LaneHours,
        window: QueryWindow,
        found: dict[int, list[list[bytes]]],
        lost: set[int],
    ) -> None:
        for _ in range(TRIES):
            starts = sorted(window.starts & lane.head.hours.keys())
            is_open = lane.head.hour_ms in window.starts
            parts = lane.head.part_keys if is_open else []
            values = await self.store.values(lane.lane, [*map(hour_key, starts), *parts])
            open_parts = [values[key] for key in parts]
            if None not in open_parts:
                break
            again = hours_of(lane.lane, await self.store.head(lane.lane))
            if again is None:
                return
            lane = again
        else:
            raise Unavailable(f"lane {lane.lane}: its open hour changes as fast as it is read")
        lost |= window.starts & set(lane.head.lost)
        for start in starts:
            value = values[hour_key(start)]
            if value is None:
                lost.add(start)
            else:
                found.setdefault(start, []).append([value])
        if open_parts and lane.head.hour_ms is not None:
            found.setdefault(lane.head.hour_ms, []).append([v for v in open_parts if v is not None])


def hours_of(lane: int, head: Head | None) -> LaneHours | None:
    """What a lane has of tables; None where it has none, or nothing of it has settled yet."""
    if head is None or head.queries is None or head.state.settled_before is None:
        return None
    return LaneHours(lane, head.queries, head.state.settled_before)
