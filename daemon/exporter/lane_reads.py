"""Reading every lane of a namespace: what changed of each, and which are damaged.

A damaged lane is not read. What this process read of it before is a right copy, as of then, and
goes on to be summed; without a copy there is no sum, because one without the lane would be smaller
than the traffic.
"""

import asyncio
from typing import Final, Protocol, TypeAlias

from ..errors import Damaged
from ..plan import Plan
from ..storage.store import DamagedLane, LaneDelta, Store
from ..telemetry.process import Telemetry
from .mirror import Mirror

LANES_AT_ONCE: Final = 16

Reads: TypeAlias = list[tuple[Mirror, LaneDelta | None]]
"""What changed of each lane; None where it is damaged and its copy stays as it is."""


class Lanes(Protocol):
    """What a namespace knows of its lanes. All methods raise Unavailable."""

    async def lanes(self) -> int:
        """The number of lanes."""

    async def begun(self) -> frozenset[int]:
        """The lanes that have begun, as far as that is noted."""


class LaneReads:
    """The mirrors of one process, and what is wrong with the lanes that it cannot read."""

    def __init__(self, store: Store, lanes: Lanes, plan: Plan, telemetry: Telemetry) -> None:
        self._store = store
        self._lanes = lanes
        self._plan = plan
        self._telemetry = telemetry
        self.mirrors: dict[int, Mirror] = {}
        """The lanes that were read, damaged ones included where they were whole before. One without
        a head was read, but what was read is not applied yet."""
        self.damaged: dict[int, str] = {}
        """Lane → what is missing of it."""
        self.count = 0
        """The number of lanes, those included that were never claimed."""

    def forget(self) -> None:
        """Drop all copies: another process serves the scores."""
        self.mirrors.clear()
        self._note({})

    @property
    def without_copy(self) -> list[int]:
        """The damaged lanes of which this process has no copy."""
        return sorted(self.damaged.keys() - self._copies())

    def _copies(self) -> set[int]:
        return {lane for lane, mirror in self.mirrors.items() if mirror.head is not None}

    async def read(self) -> Reads:
        """What changed of every lane that was ever claimed. Raises Unavailable."""
        count = max(await self._lanes.lanes(), max(self.mirrors, default=-1) + 1)
        self.count = count
        # Asked first: a lane that begins meanwhile has a head by the time it is noted.
        begun = await self._lanes.begun() | self._copies()
        gate = asyncio.Semaphore(LANES_AT_ONCE)
        damaged = dict[int, str]()

        async def read(lane: int) -> tuple[Mirror, LaneDelta | None]:
            mirror = self.mirrors.get(lane) or Mirror(lane, self._plan)
            try:
                async with gate:
                    delta = await self._store.read(
                        lane, mirror.token, mirror.sequence, len(mirror.names)
                    )
            except Damaged as error:
                damaged[lane] = str(error)
                return mirror, None
            if delta is None and lane in begun:
                damaged[lane] = str(DamagedLane(lane, "its head is gone"))
            return mirror, delta

        reads = await asyncio.gather(*(read(lane) for lane in range(count)))
        self._note(damaged)
        self.mirrors |= {mirror.lane: mirror for mirror, delta in reads if delta is not None}
        return [(m, delta) for m, delta in reads if delta is not None or m.head is not None]

    def _note(self, damaged: dict[int, str]) -> None:
        for lane in self.damaged.keys() - damaged.keys():
            self._telemetry.lane_damaged.labels(str(lane)).set(0)
        for lane in damaged:
            self._telemetry.lane_damaged.labels(str(lane)).set(1)
        self.damaged = damaged
