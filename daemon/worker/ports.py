"""What a worker is wired to: the outside world, and the process that it runs in."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..storage.store import Store
from ..telemetry.process import Telemetry
from .batch import DeadLetter
from .source import Source


class DeadLetters(Protocol):
    """Where dead letters go."""

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when all are acknowledged. Raises Unavailable."""


@dataclass(frozen=True)
class Ports:
    """The outside world of a worker."""

    source: Source
    store: Store
    dead_letters: DeadLetters | None = None
    """None: dead letters are only counted and logged."""


@dataclass(frozen=True)
class Process:
    """The process that a worker runs in."""

    telemetry: Telemetry
    clock: Callable[[], float]
    """Seconds since the epoch."""
    stop: asyncio.Event
    """Set when the process is to end."""
    log_record_values: bool = False
    """Whether the log may show values of records."""
