"""What a process does for its namespace beside the flow, until it is told to stop."""

import asyncio
import random
from collections.abc import Callable
from typing import Final

import structlog

from ...backoff import finished_before_stop, pause_s, stopped_within
from ...errors import Unavailable
from ...telemetry.process import EVICTS_ANY_KEY, Telemetry
from .lane_store import LaneStore
from .namespace import Namespace

log = structlog.get_logger(__name__)

SIGN_OF_LIFE_EVERY_S: Final = 10.0
SWEEP_EVERY_S: Final = 1.0
"""How often to see whether a lane was claimed that may have keys of a former life."""


async def show_life(
    namespace: Namespace, lanes: Callable[[], int | None], keep_ms: int, stop: asyncio.Event
) -> None:
    """Keep the namespace, and remove those that nobody has written to for `keep_ms`."""
    while True:
        try:
            known = lanes()
            if known is not None:  # more by now, or forgotten by a server that was emptied
                await namespace.register(known)
            now_ms = await namespace.now_ms()
            await namespace.sign_of_life(now_ms)
            removed = await namespace.remove_silent(now_ms - keep_ms)
            if removed:
                log.info("old namespaces removed", namespaces=removed)
        except Unavailable as error:
            log.debug("no sign of life written", reason=str(error))
        if await stopped_within(stop, SIGN_OF_LIFE_EVERY_S):
            return


async def sweep_lanes(store: LaneStore, stop: asyncio.Event) -> None:
    """Remove what is left of lanes that Redis lost in part. A large server takes a while to look
    through: what is not done when the process is told to stop, the next owner does."""
    failures = 0

    async def sweep() -> None:
        removed = await store.sweep()
        if removed:
            log.warning("keys of lost lanes removed", keys=removed)

    while True:
        try:
            await finished_before_stop(sweep(), stop)
            failures = 0
        except Unavailable as error:
            failures += 1
            log.debug("keys of lost lanes not removed yet", reason=str(error))
        wait_s = SWEEP_EVERY_S + (pause_s(failures, random.random()) if failures else 0.0)
        if await stopped_within(stop, wait_s):
            return


async def watch_eviction(namespace: Namespace, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Show what Redis may evict, and warn of a policy that loses state. Another server may take the
    place of this one, so it is asked again and again."""
    known: str | None = None
    while True:
        policy = await namespace.eviction_policy()
        if policy is not None and policy != known:
            known = policy
            telemetry.set_eviction_policy(policy)
            if policy.startswith(EVICTS_ANY_KEY):
                log.warning(
                    "Redis may evict state: set maxmemory-policy to noeviction or volatile-lru",
                    policy=policy,
                )
        if await stopped_within(stop, SIGN_OF_LIFE_EVERY_S):
            return
