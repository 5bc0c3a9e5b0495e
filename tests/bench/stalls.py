"""The longest time for which records that are built to be expensive keep a worker's event loop."""

import asyncio
from typing import Final

from relevanced.daemon.events import decoder
from tests.bench.effort import Effort
from tests.bench.findings import PartResult, number
from tests.bench.stage import Stage
from tests.fuzz.stalls import worked
from tests.fuzz.test_bombs import NATIVE, UBI
from tests.fuzz.test_stalls import LIMITS, MAX_STALL_S, PLAN, RECORD_BYTES

RECORDS: Final = 3
BOMBS: Final = [("native", bomb) for bomb in NATIVE.values()] + [("ubi", b) for b in UBI.values()]


async def measure(_stage: Stage, effort: Effort) -> PartResult:
    """The longest stall of all kinds of records, each in a batch of its own."""
    stalls_ms = await asyncio.to_thread(_stalls_ms, effort.of(RECORD_BYTES))
    words = "longest stall of the event loop by records of a megabyte"
    goal_ms = MAX_STALL_S * 1000
    return PartResult([number("stalls.worst_ms", words, [max(stalls_ms)], "ms", goal_ms)])


def _stalls_ms(size: int) -> list[float]:
    return [
        worked([bomb(size)] * RECORDS, decoder(name, LIMITS), PLAN).stall_s * 1000
        for name, bomb in BOMBS
    ]
