"""What a process waits for before it can begin: every server at once, not the first alone."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from ..backoff import pause_s, stopped_within
from ..errors import Unavailable
from ..storage.redis.namespace import Namespace

log = structlog.get_logger(__name__)

ASK_EVERY_S = 2.0


class RedisAnswer:
    """Whether Redis answers, while Kafka is still waited for."""

    def __init__(self) -> None:
        self.missing = ""
        """Why it does not; empty where it does, or where it was not asked yet."""

    def note(self, reason: str) -> None:
        """Note that it does not answer; logs the first time."""
        if not self.missing:
            log.warning("waiting for Redis", reason=reason)
        self.missing = reason

    async def watch(self, ask: Callable[[], Awaitable[object]], stop: asyncio.Event) -> None:
        """Ask until it answers or the process is to stop."""
        while True:
            try:
                await ask()
            except Unavailable as error:
                self.note(str(error))
            else:
                self.missing = ""
                return
            if await stopped_within(stop, ASK_EVERY_S):
                return

    async def proposed(self, propose: Callable[[], Awaitable[None]], stop: asyncio.Event) -> bool:
        """Propose the layout; returns whether Redis answered before the process is to stop. Raises
        StartError."""
        failures = 0
        while not stop.is_set():
            try:
                await propose()
                return True
            except Unavailable as error:
                failures += 1
                self.note(str(error))
                await stopped_within(stop, pause_s(failures, random.random()))
        return False

    async def registered(self, namespace: Namespace, lanes: int, stop: asyncio.Event) -> int | None:
        """Register the number of lanes; returns how many there were when the namespace was made, or
        None where the process is to stop before Redis answers."""
        failures = 0
        while not stop.is_set():
            try:
                return (await namespace.register(lanes)).at_start
            except Unavailable as error:
                failures += 1
                self.note(str(error))
                await stopped_within(stop, pause_s(failures, random.random()))
        return None


def waiting_text(kafka: str | None, redis: str) -> str:
    """What is waited for. `kafka` and `redis` say why each does not answer; `kafka` is None where
    it does, and `redis` is empty where it does or nobody knows.

    >>> waiting_text("no broker answers", "connection refused")
    'waiting for Kafka: no broker answers; waiting for Redis: connection refused'
    >>> waiting_text("no broker answers", "")
    'waiting for Kafka: no broker answers'
    >>> waiting_text(None, "")
    'waiting for Redis'
    """
    if kafka is None:
        return f"waiting for Redis: {redis}" if redis else "waiting for Redis"
    return f"waiting for Kafka: {kafka}" + (f"; waiting for Redis: {redis}" if redis else "")
