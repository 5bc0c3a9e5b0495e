"""Says in the log, within a minute, that the records of a topic are no events."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import structlog

from ..backoff import stopped_within

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 5.0
LOOKS: Final = 3
"""So often in a row the same topics must be unreadable: the first records may be old ones."""

Unreadable: TypeAlias = tuple[tuple[str, ...], str]
"""(topics, what to say of them)."""


class Warnings:
    """Which topics were said to be unreadable."""

    def __init__(self) -> None:
        self._seen: tuple[str, ...] = ()
        self._looks = 0

    def due(self, topics: tuple[str, ...]) -> bool:
        """Note what a look found; returns whether it is to be said now: once, as long as the same
        topics are unreadable."""
        self._looks = self._looks + 1 if topics == self._seen else 1
        self._seen = topics
        return bool(topics) and self._looks == LOOKS


async def warn_of_unreadable(unreadable: Callable[[], Unreadable], stop: asyncio.Event) -> None:
    """Look until the process is to stop."""
    warnings = Warnings()
    while not await stopped_within(stop, LOOK_EVERY_S):
        topics, text = unreadable()
        if warnings.due(topics):
            log.warning("topics cannot be read", reason=text)
