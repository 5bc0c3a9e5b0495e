"""Watches whether Redis may evict keys: state that it deletes is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from ...backoff import stopped_within
from ...telemetry import EVICTS_ANY_KEY, Telemetry

LOOK_EVERY_S: Final = 10.0

logger = structlog.get_logger(__name__)


async def watch_eviction(
    ask_policy: Callable[[], Awaitable[str | None]], telemetry: Telemetry, stop: asyncio.Event
) -> None:
    """Export the eviction policy of Redis, and warn of one that loses state. Checked again and
    again: another server may take over."""
    last: str | None = None
    while True:
        policy = await ask_policy()
        if policy is not None and policy != last:
            last = policy
            telemetry.set_eviction_policy(policy)
            if policy.startswith(EVICTS_ANY_KEY):
                logger.warning(
                    "Redis may evict state: set maxmemory-policy to noeviction or volatile-lru",
                    policy=policy,
                )
        if await stopped_within(stop, LOOK_EVERY_S):
            return
