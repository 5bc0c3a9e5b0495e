"""Steps of work, with turns of other tasks in between."""

import asyncio
import time
from collections.abc import Iterator

from .pacing import TURN_S
from .stall_watch import Work


async def take(steps: Iterator[None], work: Work) -> float:
    """Take all steps, with turns of other tasks in between and after the last; returns the longest
    time between two turns."""
    began_s, longest_s = time.perf_counter(), 0.0
    for _ in steps:
        took_s = time.perf_counter() - began_s
        if took_s >= TURN_S:
            longest_s = max(longest_s, took_s)
            await others(work)
            began_s = time.perf_counter()
    longest_s = max(longest_s, time.perf_counter() - began_s)
    await others(work)
    return longest_s


async def others(work: Work) -> None:
    """Let other tasks have their turn, which does not count as this work."""
    work.pause()
    await asyncio.sleep(0)
    work.go_on()
