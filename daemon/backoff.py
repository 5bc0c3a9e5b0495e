"""Pauses between attempts: how long, and waits that end when the process stops."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final


async def stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    """Wait for `seconds` or until `stop` is set; returns whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()


async def finished_before_stop(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Run the work to its end, or cancel it when `stop` is set; returns whether it ended. Raises
    what the work raises."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return False
    await task
    return True


FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0


def doubled_s(failures: int, first_s: float, longest_s: float) -> float:
    """Return the seconds to wait after this many failures in a row (≥ 1): `first_s`, doubled by
    every further failure, at most `longest_s`.
    """
    return min(first_s * 2.0 ** min(failures - 1, 30), longest_s)


def pause_s(failures: int, random_fraction: float) -> float:
    """Return the seconds to wait after this many failures in a row (≥ 1): doubled by each, at most
    10 s, and of that between half and all.

    `random_fraction` in 0…1 spreads the tries of many processes that failed at the same moment.
    """
    return doubled_s(failures, FIRST_PAUSE_S, LONGEST_PAUSE_S) * (0.5 + random_fraction / 2)
