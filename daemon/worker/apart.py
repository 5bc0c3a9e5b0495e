"""Taking the records of a suspect batch one by one, each with a commit of its own (see
`suspicion`)."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import structlog

from . import batch as batches
from .batch import DeadLetter
from .committer import Committer
from .ownership import OwnedLane, Ownership
from .source import Source
from .suspicion import MARKS, Records, is_to_pass_over, one_by_one

log = structlog.get_logger(__name__)

REASON = "stalls"
"""Of a dead letter: work on the record takes so long that its lane is lost."""

Process: TypeAlias = Callable[[OwnedLane, Records, Mapping[str, int]], Awaitable[list[DeadLetter]]]
"""Applies records to a lane in memory; returns their dead letters."""


class Singly:
    """Takes suspect batches of lanes."""

    def __init__(
        self, source: Source, ownership: Ownership, committer: Committer, process: Process
    ) -> None:
        self._source = source
        self._ownership = ownership
        self._committer = committer
        self._process = process

    async def take(self, owned: OwnedLane, batch: Records, next_offsets: Mapping[str, int]) -> None:
        """Process and commit a batch of a lane whose mark makes it suspect: record by record as far
        as the mark reaches, and then the rest. Ends early where the lane is lost."""
        mark, number = owned.claimed.stall, owned.claimed.lane.number
        assert mark is not None
        log.warning("records are taken one by one", lane=number, until=mark.until)
        for records, offsets in one_by_one(mark, batch, next_offsets):
            began_s = time.perf_counter()
            try:
                async with self._source.batch_in_hand():
                    if is_to_pass_over(mark, records):
                        letters = [_passed_over(owned, records, offsets)]
                    else:
                        letters = await self._process(owned, records, offsets)
            except OverflowError as error:
                await self._ownership.halt(number, error)
                return
            await self._committer.commit(owned, letters, None, began_s)
            if self._ownership.lanes.get(number) is not owned:
                return


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
