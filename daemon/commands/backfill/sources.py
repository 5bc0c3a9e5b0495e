"""Where the events of a backfill come from."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from rich.progress import Progress

from ...config.settings import Config
from ...kafka.lane_log import LaneLogs
from ...kafka.settings import kafka_settings
from ...lane import row_set
from ...lane.lane import Lane
from ...panes import HOUR_MS
from ..from_kafka.hour_rows import plan_of_hours
from ..from_kafka.lanes import made_again
from ..recorded.pipeline import replayed
from .staging import Staging

Applied = Callable[[float], Awaitable[None]]


class KafkaSource:
    """The records that Kafka has of the input topics. Raises Unavailable, StartError, LogChanged
    and OverflowError."""

    words = "Kafka"

    def __init__(self, config: Config) -> None:
        self._config = config

    async def count(self, staging: Staging, applied: Applied) -> None:
        """See `run.Source`."""
        plan = plan_of_hours(self._config.plan)
        async with LaneLogs(kafka_settings(self._config)) as logs:
            for number in range(logs.lanes):
                read_ms = int(time.time() * 1000)
                each = partial(_of_lane, applied, number, logs.lanes)
                again = await made_again(
                    self._config, logs, number, plan, staging.span, staging, each
                )
                staging.finish(again.lane, again.first_ms, read_ms if again.is_read else None)
                await each(1.0)


async def _of_lane(applied: Applied, number: int, lanes: int, share: float) -> None:
    await applied((number + share) / lanes)


class FilesSource:
    """Recorded events, in the order of their time. Raises OSError, UnknownTopic, NoRoom and
    OverflowError."""

    def __init__(
        self, config: Config, files: Sequence[str], bars: Progress, *, kcat: bool, topic: str | None
    ) -> None:
        self.words = files[0] if len(files) == 1 else f"{len(files)} files"
        self._config, self._files, self._bars = config, files, bars
        self._kcat, self._topic = kcat, topic

    async def count(self, staging: Staging, applied: Applied) -> None:
        """See `run.Source`. What is ready is stored at the end: meanwhile it stays in memory, as
        small as it is stored."""
        watching = _PastHours(staging)
        found = replayed(
            self._files,
            self._config,
            self._bars,
            as_is=False,
            looks=watching,
            kcat=self._kcat,
            topic=self._topic,
        )
        staging.finish(found.lane, watching.first_ms, None)
        await applied(1.0)


class _PastHours:
    """Takes over past hours of the lane of a replay."""

    apart_ms = HOUR_MS

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self.first_ms: int | None = None
        """The hour in which the files begin may lack what was before; None before any event."""

    def take(self, lane: Lane) -> None:
        """See `pipeline.Watching`."""
        if self.first_ms is None and lane.settled_before is not None and lane.hours:
            self.first_ms = row_set.open_hour(min(lane.hours), lane.plan) + lane.plan.hour_ms
        self._staging.past_hours(lane, self.first_ms)
