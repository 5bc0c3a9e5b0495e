"""What a worker is wired to: the outside world, and the process that it runs in."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..events.types import LogRecord
from ..judgements.classes import QueryClasses
from ..judgements.grades import Judgements
from ..schemas.types import SchemaId
from ..storage.store import Store
from ..telemetry.process import Telemetry
from .batch import DeadLetter
from .source import Source
from .watched_directory import Directory


class DeadLetters(Protocol):
    """Where dead letters go."""

    async def publish(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when all are acknowledged. Raises Unavailable."""


class Schemas(Protocol):
    """Where the schemas come from that records name."""

    def unknown(self, records: Mapping[str, Sequence[LogRecord]]) -> set[SchemaId]:
        """Return the schemas that must be fetched before these records (by topic) are decoded."""

    async def fetch(self, wanted: set[SchemaId]) -> None:
        """Return when each of these can be decoded by, or is known not to be there; removes them
        from the set, also where it raises RegistryUnavailable."""


@dataclass(frozen=True)
class Ports:
    """The outside world of a worker."""

    source: Source
    store: Store
    dead_letters: DeadLetters | None = None
    """None: dead letters are only counted and logged."""
    schemas: Schemas | None = None
    """None: there is nothing to fetch."""
    judgements: Directory[Judgements] | None = None
    """The directory of judgements; None: this process has none."""
    classes: Mapping[str, Directory[QueryClasses]] = field(default_factory=dict)
    """The directory of files of classes of each attribute that is derived by files."""
    max_future_ms: int = 0
    """How far ahead of its record an event may be."""


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
