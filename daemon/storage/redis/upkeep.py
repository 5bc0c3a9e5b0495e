"""Tasks of a process for its namespace beside the pipeline, until the process stops."""

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
"""How often to check for a claimed lane that may have keys of an earlier one."""


async def show_life(
    namespace: Namespace, lanes: Callable[[], int | None], keep_ms: int, stop: asyncio.Event
) -> None:
    """Write the namespace's sign of life, and remove namespaces without one for `keep_ms`."""
    said: str | None = None
    while True:
        try:
            count = lanes()
            if count is not None:
                # Again each time: partitions may be added, and a server may be emptied.
                await namespace.register(count)
            now_ms = await namespace.now_ms()
            if await namespace.return_after_silence(now_ms):
                log.info("this namespace was succeeded and is deployed again: it catches up anew")
            await namespace.sign_of_life(now_ms)
            successor = (await namespace.term()).successor
            if successor is not None and successor != said:
                log.warning("another namespace serves the scores: stop these daemons", by=successor)
            said = successor
            removed = await namespace.remove_silent(now_ms - keep_ms)
            if removed:
                log.info("old namespaces removed", namespaces=removed)
        except Unavailable as error:
            log.debug("no sign of life written", reason=str(error))
        if await stopped_within(stop, SIGN_OF_LIFE_EVERY_S):
            return


async def sweep_lanes(store: LaneStore, stop: asyncio.Event) -> None:
    """Remove keys of lanes that Redis lost in part. Scanning a large server takes a while: what is
    not done when the process stops is left to the next owner."""
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
    """Export the eviction policy of Redis, and warn of one that loses state. Checked again and
    again: another server may take over."""
    last: str | None = None
    while True:
        policy = await namespace.eviction_policy()
        if policy is not None and policy != last:
            last = policy
            telemetry.set_eviction_policy(policy)
            if policy.startswith(EVICTS_ANY_KEY):
                log.warning(
                    "Redis may evict state: set maxmemory-policy to noeviction or volatile-lru",
                    policy=policy,
                )
        if await stopped_within(stop, SIGN_OF_LIFE_EVERY_S):
            return
