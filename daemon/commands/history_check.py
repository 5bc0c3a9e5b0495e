"""At the start: from where a lost Redis would be filled again, and what would be missing then."""

import asyncio
import time

import structlog

from ..config.loading import Config
from ..config.start import LogEnd
from ..events.timestamps import span_text
from ..kafka.retention import FirstTimes, retention
from ..kafka.settings import kafka_settings
from ..panes import HOUR_MS
from ..worker.reach import Needed, shortfalls

log = structlog.get_logger(__name__)


class HistoryCheck:
    """One check, beside the worker: nothing waits for it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._task: asyncio.Task[None] | None = None
        self.missing = ""
        """What would be missing after a loss, once that is known; "" where nothing would."""

    def begin(self, first_times: FirstTimes, lanes: int) -> None:
        """Ask Kafka in a task."""
        self._task = asyncio.create_task(self._check(first_times, lanes))

    async def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _check(self, first_times: FirstTimes, lanes: int) -> None:
        """Log the result in one line. Never raises what Kafka answers."""
        config, now_ms = self._config, int(time.time() * 1000)
        kept = await retention(kafka_settings(config), first_times, lanes, now_ms)
        found = shortfalls(config.start, kept, needed(config))
        self.missing = "; ".join(found)
        start = config.start
        write = log.warning if found else log.info
        write(
            "what a lost Redis would be filled with",
            kafka_start=start.value if isinstance(start, LogEnd) else f"{span_text(start.ms)} ago",
            topics_keep={topic: one.words() for topic, one in sorted(kept.items())},
            missing=found or "nothing",
        )


def needed(config: Config) -> Needed:
    """How far back the records of this configuration matter."""
    timing = config.timing
    return Needed(config.plan.history_hours * HOUR_MS, timing.base_ms + timing.settle_ms)
