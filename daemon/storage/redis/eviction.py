"""Watches whether Redis may evict keys: state that it deletes is lost."""

import asyncio
from typing import Final, Protocol

import structlog

from ...backoff import stopped_within
from ...telemetry import EVICTS_ANY_KEY, Telemetry

LOOK_EVERY_S: Final = 10.0

logger = structlog.get_logger(__name__)


class HasPolicy(Protocol):
    """What knows the eviction policy of the server."""

    async def eviction_policy(self) -> str | None: ...  # noqa: D102


async def watch_eviction(server: HasPolicy, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Export the eviction policy of Redis, and warn of one that loses state. Checked again and
    again: another server may take over."""
    last: str | None = None
    while True:
        policy = await server.eviction_policy()
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
