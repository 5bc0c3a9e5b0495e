"""Waiting that ends when the process is told to stop."""

import asyncio
from contextlib import suppress


async def stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the process is told to stop. True where it was."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
