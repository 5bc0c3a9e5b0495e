"""Waiting that ends when the process is told to stop."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


async def stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the process is told to stop. True where it was."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()


async def finished_before_stop(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Do the work, unless the process is told to stop before it is done. What the work raises is
    raised."""
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
