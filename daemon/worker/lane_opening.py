"""How a lane is opened: where it begins or goes on, and what must be committed before any record.

In one order only: starting offsets, claim, load, rebuild, seek. The claim stores the starting
offsets, so that even a crash before the first commit loses nothing; only the offsets that are
stored with the state say where to seek. Records that Kafka has deleted before they were read are
counted here.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from ..config import LogEnd, Start
from ..errors import Lost, Unavailable
from ..storage import (
    ClaimedLane,
    Layouts,
    LogMarks,
    confirm,
    first_marks,
    plan_commit,
    plan_repair,
    with_ids,
)
from .changed_logs import LastLogs, count_lost, open_logs
from .source import LogChanged
from .taking_over import LostState, Ports, Process, Recovery, skipped

log = structlog.get_logger(__name__)

VERIFY_EVERY_S: Final = 60.0
"""How often the keys of a lane are checked."""
STOPPED_PAUSE_S: Final = 60.0
"""How long until a lane is tried again that is stopped for its state or a record."""


@dataclass(frozen=True)
class Beginning:
    """Where lanes begin that have no stored offsets yet."""

    start: Start
    initial_lanes: int
    """How many lanes there were when the namespace was made. A partition added later is read from
    its beginning."""


@dataclass
class Attempt:
    """What is known of a lane between two attempts to open it."""

    failures: int = 0
    due_s: float = 0.0
    """When it may be tried again, by the monotonic clock."""
    stopped: str | None = None
    """Why it is stopped: it continues only once its logs change, or an operator decides."""
    logs: LastLogs | None = None
    """Of a lane that is stopped because of its logs."""
    logs_until_s: float = 0.0
    """When the store is asked again for them, by the monotonic clock: it may be restored."""
    confirm_first: bool = False
    """The store answered `lost`: the group must confirm this process before it claims the lane
    again."""
    durable_offsets: Mapping[str, int] = field(default_factory=dict)
    """Those of the lane when this process last owned it."""
    loss_noted: bool = False
    """What the store lost was counted: once, until the lane has another commit."""


@dataclass
class OwnedLane:
    """A lane in this process's memory."""

    claimed: ClaimedLane
    checked_s: float
    """When the owner was last compared with the store's, by the monotonic clock."""
    durable_offsets: Mapping[str, int]
    """Its offsets at the last commit that the store confirmed."""
    verified_s: float = 0.0
    """When its keys were last checked, by the monotonic clock."""


class LaneOpening:
    """Opens the lanes of one worker."""

    def __init__(
        self, ports: Ports, process: Process, layouts: Layouts, beginning: Beginning
    ) -> None:
        self._source = ports.source
        self._store = ports.store
        self._recovery = Recovery(ports, process, layouts)
        self._lost_state = LostState(ports.source, process.telemetry, process.clock)
        self._beginning = beginning
        self._clock = process.clock

    def commit_confirmed(self, lane: int) -> None:
        """Note that the store confirmed a commit: what it loses from now on is another loss."""
        self._recovery.begun_anew.discard(lane)

    async def open(self, lane: int, attempt: Attempt) -> ClaimedLane:
        """Claim the lane, and return it ready to read on.

        Raises LogChanged, Damaged, OverflowError, LaneLost, Unavailable, Lost.
        """
        added_later = lane >= self._beginning.initial_lanes
        start = LogEnd.EARLIEST if added_later else self._beginning.start
        # Asked first: of a topic that is recreated in between, the old id is stored, and noticed.
        logs = first_marks(await self._source.topic_ids(lane))
        begin = await self._source.starting_offsets(lane, start, int(self._clock() * 1000))
        claimed = await self._recovery.take(lane, begin, start, logs)
        if begin.keys() - claimed.lane.offsets.keys():  # partitions that came since
            earliest = await self._source.starting_offsets(lane, LogEnd.EARLIEST, 0)
            claimed.added = {n: earliest[n] for n in begin if n not in claimed.lane.offsets}
            claimed.lane.offsets |= claimed.added
        stored = dict(claimed.logs)
        unread = (
            skipped(claimed.lane.offsets, attempt.durable_offsets) if claimed.sequence == 0 else {}
        )
        if not attempt.loss_noted and lane not in self._recovery.begun_anew:
            known = attempt.durable_offsets
            attempt.loss_noted = await self._lost_state.note(claimed, start, known)
        is_counted = attempt.loss_noted or lane in self._recovery.begun_anew
        begins_after_loss = is_counted and claimed.sequence == 0
        claimed.logs = with_ids(claimed.logs, logs)
        try:
            gaps = await open_logs(self._source, self._store, claimed)
        except LogChanged:
            attempt.logs = LastLogs(dict(claimed.lane.offsets), dict(claimed.logs))
            attempt.logs_until_s = time.monotonic() + STOPPED_PAUSE_S
            raise
        try:
            gaps = Counter(unread) + gaps
            await self._first_commit(claimed, gaps, stored, at_once=begins_after_loss)
        except (Unavailable, Lost):
            await self._source.close(lane)
            raise
        if begins_after_loss:  # what is lost from now on is another loss
            attempt.loss_noted, attempt.durable_offsets = False, dict(claimed.lane.offsets)
            self._recovery.begun_anew.discard(lane)
        log.info(
            "lane owned", lane=lane, sequence=claimed.sequence, impressions=len(claimed.lane.open)
        )
        return claimed

    async def _first_commit(
        self, claimed: ClaimedLane, gaps: Mapping[str, int], stored: LogMarks, *, at_once: bool
    ) -> None:
        """Commit at once what no record may ever come to be committed with: counts of records that
        will never be read, marks of logs that are not stored yet, where the lane begins logs that
        it got since, hours that are lost, and the whole lane where it goes to another layout.
        `at_once`: also where there is nothing of this. A lane whose loss is counted needs a commit:
        each owner that finds it without one counts that loss again."""
        lane = claimed.lane
        is_known = claimed.logs == stored and (claimed.layouts_stored or not claimed.sequence)
        has_news = gaps or not is_known or lane.has_lost_hours or claimed.added
        if not has_news and not at_once:
            return
        if gaps and lane.chain is not None:
            lane.chain.note_gap()
        for name, records in gaps.items():
            count_lost(lane, name, records)
        commit = await asyncio.to_thread(plan_repair if claimed.outdated else plan_commit, claimed)
        if await self._store.commit(commit) in ("lost", "damaged"):
            raise Lost  # the next attempt claims it again, and finds out
        confirm(claimed, commit)
