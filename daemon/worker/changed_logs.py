"""A lane whose log is not the one that it has read: what is stored of that, and how it goes on."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from msgspec.structs import replace

from ..errors import Lost
from ..lane import Lane, place_of
from ..storage import (
    ClaimedLane,
    LogMark,
    LogMarks,
    Store,
    confirm,
    plan_commit,
    plan_repair,
)
from .source import LogChanged, Source

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LastLogs:
    """The logs of a lane that is stopped because of them, and how far they were read."""

    offsets: Mapping[str, int]
    marks: LogMarks

    async def check(self, lane: int, source: Source, store: Store) -> None:
        """Return once these logs are back or others are accepted in their place; costs no claim
        and no load of the lane. Raises LogChanged, LaneLost, Unavailable."""
        try:
            await source.verify(lane, self.offsets, self.marks)
        except LogChanged as error:
            if not await is_accepted(store, lane, error):
                raise


async def is_accepted(store: Store, lane: int, error: LogChanged) -> bool:
    """Whether an operator let the lane begin the log that is there. Raises Unavailable."""
    accepted = await store.accepted_log(lane, error.log)
    return (
        accepted is not None
        and accepted.topic_id == error.found
        and accepted.offset == error.stored
    )


async def open_logs(source: Source, store: Store, claimed: ClaimedLane) -> Counter[str]:
    """Open the lane at its offsets, and at the start of those logs that were accepted; returns
    how many records of each log Kafka has deleted before they were read. The caller counts them,
    and commits that together with the new offsets.

    Raises LogChanged for a log that is another one and not accepted, LaneLost, Unavailable, Lost.
    """
    lane = claimed.lane
    rewritten = set[str]()
    while True:
        try:
            gone = await source.open(lane.number, lane.offsets, claimed.logs)
        except LogChanged as error:
            if not await is_accepted(store, lane.number, error):
                await _store_found(store, claimed, error)
                raise
            mark = claimed.logs.get(error.log, LogMark())
            if error.found and error.found == mark.topic_id:
                rewritten.add(error.log)  # What it deleted had been read, for all that is known.
            _begin_new_log(claimed, error)
            continue
        for name, mark in claimed.logs.items():
            claimed.logs[name] = replace(mark, found=None, unread=None)
        for name, records in gone.items():
            lane.offsets[name] += records
        return Counter({t: n for t, n in gone.items() if t not in rewritten})


def count_lost(lane: Lane, log_name: str, records: int) -> None:
    """Count records of a log that the lane will never read, and say so."""
    lane.count("gap_records", log_name, records)
    topic, partition = place_of(lane.number, log_name)
    log.error(
        "records lost before they were read",
        lane=lane.number,
        topic=topic,
        partition=partition,
        records=records,
    )


def _begin_new_log(claimed: ClaimedLane, error: LogChanged) -> None:
    """Let the lane begin the log that was found, and count how many records of the other one are
    known to have been left: whichever commit stores its mark stores that, too."""
    lane, log_name = claimed.lane, error.log
    mark = claimed.logs.get(log_name, LogMark())
    unread = error.unread if mark.unread is None else mark.unread
    lane.offsets[log_name] = 0
    if lane.chain is not None:
        lane.chain.note_gap()
    claimed.logs[log_name] = LogMark(error.found or None)
    claimed.stall, claimed.drop_stall = None, True
    lane.count("replaced_logs", log_name, 1)
    log.warning(
        "another log begun, as accepted",
        lane=lane.number,
        topic=error.topic,
        partition=error.partition,
        topic_id_before=mark.topic_id,
        topic_id=error.found or None,
        offset_before=error.stored,
        unread_before="unknown" if unread is None else f"at least {unread}",
    )
    if unread:
        count_lost(lane, log_name, unread)


async def _store_found(store: Store, claimed: ClaimedLane, error: LogChanged) -> None:
    """Store that another log was found, and how much of the lane's own is known to be left: when
    its worker is gone, nobody else knows. Raises Unavailable, Lost."""
    mark = claimed.logs.get(error.log, LogMark())
    unread = error.unread if mark.unread is None else mark.unread
    now = replace(mark, found=error.found, unread=unread)
    if now == mark:
        return
    claimed.logs[error.log] = now
    # Where the lane has gone to another layout, all of its rows are still stored under the old one.
    plan = plan_repair if claimed.outdated else plan_commit
    commit = await asyncio.to_thread(plan, claimed)
    if await store.commit(commit) not in ("applied", "already"):
        raise Lost
    confirm(claimed, commit)
