"""Batches that are not processed in turn with those of other lanes, but by a task of their own:
those that must wait for schemas or dated files, and those whose records are taken one by
one, each with a commit of its own (see `suspicion`).
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

import structlog

from ..schemas.types import SchemaId
from ..storage.stall_mark import StallMark
from ..telemetry.process import Telemetry
from . import batch as batches
from .batch import DeadLetter
from .committer import Committer
from .file_uses import classes_use, judgements_use
from .file_waits import FileWaits
from .ownership import OwnedLane, Ownership
from .ports import Ports, Process
from .schema_waits import SchemaWaits
from .suspicion import MARKS, Records, is_suspect, is_to_pass_over, one_by_one
from .watched_directory import WatchedDirectory

log = structlog.get_logger(__name__)

REASON: Final = "stalls"
"""Of a dead letter: work on the record takes so long that its lane is lost."""

Apply: TypeAlias = Callable[[OwnedLane, Records, Mapping[str, int]], Awaitable[list[DeadLetter]]]
"""Applies records to a lane in memory; returns their dead letters."""


class Apart:
    """Takes batches of single lanes apart from the others."""

    def __init__(
        self,
        ports: Ports,
        process: Process,
        ownership: Ownership,
        committer: Committer,
        apply: Apply,
    ) -> None:
        self._source = ports.source
        self._ownership = ownership
        self._committer = committer
        self._apply = apply
        self._waits = SchemaWaits(ports.schemas, process.stop)
        self.files = FileWaits(
            _directories(ports, process.telemetry),
            lambda: [owned.claimed.lane for owned in ownership.lanes.values()],
            process.stop,
        )

    @property
    def waiting_for(self) -> dict[str, str]:
        """What does not answer, or is not there → which lanes wait for what: for readiness."""
        return self._waits.waiting_for | self.files.waiting_for

    def step(
        self, owned: OwnedLane, batch: Records, next_offsets: Mapping[str, int]
    ) -> Coroutine[Any, Any, None] | None:
        """What takes this batch apart from those of other lanes; None if it can be taken in turn
        with them."""
        wanted = self._waits.unknown(batch)
        is_ready = self.files.prepare(owned.claimed.lane, batch)
        if not wanted and is_ready and _suspicion(owned) is None:
            return None
        return self._take(owned, batch, next_offsets, wanted)

    async def _take(
        self,
        owned: OwnedLane,
        batch: Records,
        next_offsets: Mapping[str, int],
        wanted: set[SchemaId],
    ) -> None:
        """Process and commit a batch, once the schemas that it names are fetched, and the files are
        there that grade and class it. Ends early where the lane is lost, or the process is to stop
        before: then nothing of it is applied."""
        number = owned.claimed.lane.number
        if wanted and not await self._waits.fetched(number, wanted):
            await self._leave(owned)
            return
        if not await self.files.given(owned.claimed.lane, batch):
            await self._leave(owned)
            return
        mark, parts = _suspicion(owned), [(batch, next_offsets)]
        if mark is not None:
            log.warning("records are taken one by one", lane=number, until=mark.until)
            parts = list(one_by_one(mark, batch, next_offsets))
        for records, offsets in parts:
            began_s = time.perf_counter()
            try:
                async with self._source.batch_in_hand():
                    if self._ownership.lanes.get(number) is not owned:
                        return
                    if mark is not None and is_to_pass_over(mark, records):
                        letters = [_passed_over(owned, records, offsets)]
                    else:
                        letters = await self._apply(owned, records, offsets)
            except OverflowError as error:
                await self._ownership.halt(number, error)
                return
            await self._committer.commit(owned, letters, None, began_s)
            if self._ownership.lanes.get(number) is not owned:
                return

    async def _leave(self, owned: OwnedLane) -> None:
        """Forget a lane of which a batch is not applied: no later one of it may be polled."""
        number = owned.claimed.lane.number
        if self._ownership.lanes.get(number) is owned:
            self._ownership.forget(number)
            await self._source.close(number)


def _directories(ports: Ports, telemetry: Telemetry) -> list[WatchedDirectory[Any]]:
    """The directories of dated files that lanes may need."""
    of_classes = (
        WatchedDirectory(classes_use(attribute, telemetry), directory, ports.max_future_ms)
        for attribute, directory in ports.classes.items()
    )
    judgements = judgements_use(telemetry)
    return [WatchedDirectory(judgements, ports.judgements, ports.max_future_ms), *of_classes]


def _suspicion(owned: OwnedLane) -> StallMark | None:
    """The mark that makes the next records of the lane suspect, if there is one."""
    mark = owned.claimed.stall
    return mark if is_suspect(mark, owned.claimed.lane.offsets) else None


def _passed_over(owned: OwnedLane, records: Records, next_offsets: Mapping[str, int]) -> DeadLetter:
    """Move the lane past a record without reading it; returns its dead letter."""
    ((topic, (record,)),) = records.items()
    lane = owned.claimed.lane
    batches.begin(lane)
    lane.count("rejected", REASON)
    batches.end(lane, next_offsets)
    log.error(
        "record passed over: work on it took so long that the lane was lost, each time",
        topic=topic,
        partition=record.partition,
        offset=record.offset,
        reason=REASON,
    )
    detail = f"{MARKS} owners of its lane lost it while they worked on this record alone"
    return DeadLetter(record, REASON, detail)
