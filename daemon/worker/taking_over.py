"""Taking over a lane: claim, verify, load, rebuild; what the store lost of it, and what happens
where it is damaged.

A damaged lane that nobody has in memory begins anew by itself where its logs are those in which it
began, and still have every record since: the numbers come out the same. Otherwise only an operator
can choose between a backup and what the logs still have; until then the lane is stopped.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from ..config import Ago, LogEnd, Start
from ..errors import Damaged, Unavailable
from ..events import LogRecord, timestamp_text
from ..judgements import Directory, Judgements, QueryClasses
from ..lane import latest, topic_of
from ..schemas import SchemaId
from ..storage import (
    LAYOUTS_KEY,
    ClaimedLane,
    DamagedLane,
    Head,
    LaneStart,
    Layouts,
    LogMarks,
    Store,
    blob_keys,
    ids_of,
    is_past,
    layouts_of,
    lose_hours,
    missing_keys,
    rebuild,
    start_of,
    whole_or_damaged,
)
from ..telemetry import Telemetry
from .batch import DeadLetter
from .source import Source


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


log = structlog.get_logger(__name__)

READ_AT_ONCE: Final = 2
"""Lanes that are loaded at a time: the next one while one is rebuilt. With more the first would
wait for the bytes of all."""


def log_holds(earliest: Mapping[str, int], start: Mapping[str, int]) -> bool:
    """Whether logs that begin at `earliest` still have every record from `start` on."""
    return all(topic in start and offset <= start[topic] for topic, offset in earliest.items())


class Recovery:
    """Takes over lanes for one worker."""

    def __init__(self, ports: Ports, process: Process, layouts: Layouts) -> None:
        self._store = ports.store
        self._source = ports.source
        self._layouts = layouts
        self._telemetry = process.telemetry
        self._clock = process.clock
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._rebuilding = asyncio.Lock()
        self.begun_anew: set[int] = set()
        """Damaged lanes that begin anew here, until their first commit: their loss is counted."""

    async def take(
        self, lane: int, begin: Mapping[str, int], start: Start, logs: LogMarks
    ) -> ClaimedLane:
        """Become the writer of a lane, which begins at `begin` in these logs if it was never
        claimed; `start` is the setting that this follows from.

        Raises Damaged where an operator must decide, Lost, Unavailable, LaneLost."""
        try:
            head = await self._store.claim(lane, secrets.token_hex(8), begin, logs)
            return await self._read(lane, head, list(begin))
        except DamagedLane as damage:
            return await self._begin_anew(lane, damage, start, logs)

    async def _begin_anew(
        self, lane: int, damage: DamagedLane, setting: Start, logs: LogMarks
    ) -> ClaimedLane:
        """Begin a damaged lane where it began before. What the logs no longer have of it is lost,
        and counted as a gap when they are opened; of logs that took the place of others, nothing
        can be."""
        now_ms = int(self._clock() * 1000)
        earliest = await self._source.starting_offsets(lane, LogEnd.EARLIEST, now_ms)
        start = damage.start
        if start is None and setting is LogEnd.EARLIEST:
            start = LaneStart(dict.fromkeys(earliest, 0), ids_of(logs))  # no lane began earlier
        is_known = start is not None and start.is_in(logs)
        known = start.offsets if start is not None and is_known else {}
        if not log_holds(earliest, known) and not await self._store.may_begin_anew(lane):
            raise damage
        begin = {topic: known.get(topic, first) for topic, first in earliest.items()}
        lost = [name for name, first in earliest.items() if known.get(name, -1) < first]
        # What it had lost before stays lost, also where its logs have all since it began.
        before_ms = None if start is None else start.since_ms
        first_ms = await self._whole_from(lane, lost, now_ms) if lost else None
        since_ms = latest((before_ms, first_ms))
        token = secrets.token_hex(8)
        head = await self._store.begin_anew(lane, damage.token, token, begin, logs, since_ms)
        self.begun_anew.add(lane)
        self._telemetry.lanes_begun_anew.inc()
        log.error("a damaged lane begins anew", lane=lane, reason=str(damage), offsets=begin)
        return await self._read(lane, head, list(begin))

    async def _whole_from(self, lane: int, logs: Sequence[str], now_ms: int) -> int:
        """The instant, by the Kafka timestamps of records, from which on these logs have all of a
        lane."""
        first_times = await self._source.first_times(lane)
        return max(first_times.get(topic_of(log), now_ms) for log in logs)

    async def _read(self, lane: int, head: Head, topics: Sequence[str]) -> ClaimedLane:
        """The lane as its last commit left it, without the hours of which pages are missing."""
        missing = await self._store.verify(lane, head.token, head.sequence)
        past = [key for key in missing if is_past(head, key)]
        if len(past) < len(missing):
            raise DamagedLane(lane, missing_keys(missing), head.token, start_of(head))
        async with self._reading:
            names, blobs = await self._store.load(lane, head, blob_keys)
            try:
                claimed = await self._rebuilt(lane, head, topics, names, blobs)
            except Damaged as error:
                what = f"a part cannot be read ({error.__cause__!r})"
                raise DamagedLane(lane, what, head.token, start_of(head)) from error
        lose_hours(claimed.lane, past)
        return claimed

    async def _rebuilt(
        self,
        lane: int,
        head: Head,
        topics: Sequence[str],
        names: Mapping[str, bytes],
        blobs: Mapping[str, bytes | None],
    ) -> ClaimedLane:
        with whole_or_damaged(f"lane {lane}, {LAYOUTS_KEY}"):
            stored = layouts_of(blobs)
        await self._layouts.follow(stored)
        async with self._rebuilding:  # one at a time: threads would only take turns
            return await asyncio.to_thread(rebuild, lane, self._layouts, topics, head, names, blobs)


log = structlog.get_logger(__name__)


class LostState:
    """Counts the lanes whose state was lost, and says from where each is rebuilt.

    A worker that owned the lane before knows it. One that did not asks the consumer group, which
    has a hint of how far some worker had come, outside Redis.
    """

    def __init__(self, source: Source, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._source = source
        self._telemetry = telemetry
        self._clock = clock

    async def note(
        self, claimed: ClaimedLane, start: Start, durable_offsets: Mapping[str, int]
    ) -> bool:
        """Count and log the lane if the store has no state of it, or older state than it had
        confirmed, where `durable_offsets` are those that this process knows. Returns whether it
        was lost."""
        offsets = dict(claimed.lane.offsets)
        lane_log = log.bind(lane=claimed.lane.number, offsets=offsets)
        if claimed.sequence > 0:
            to_read_again = Counter(durable_offsets) - Counter(offsets)
            if to_read_again:
                self._telemetry.lane_state_lost.labels("stored_offsets").inc()
                lane_log.warning(
                    "the store has older state of the lane: reading again from its offsets",
                    records_again=dict(to_read_again),
                )
            return bool(to_read_again)
        known = durable_offsets or await self._of_the_group(claimed.lane.number)
        if not any(known.values()):
            lane_log.info("lane begins")
            return False
        await self._note_whole(claimed, start, known)
        return True

    async def _note_whole(
        self, claimed: ClaimedLane, start: Start, known: Mapping[str, int]
    ) -> None:
        lane, offsets = claimed.lane.number, claimed.lane.offsets
        from_ms = rebuilt_from_ms(start, await self._first_times(lane), int(self._clock() * 1000))
        self._telemetry.lane_state_lost.labels("kafka_start").inc()
        self._telemetry.lane_rebuilt_from_s.labels(str(lane)).set(from_ms / 1000)
        older = "what is older is gone" if any(offsets.values()) else "and its log has all of it"
        log.error(
            f"the store lost the lane: it is read again, {older}",
            lane=lane,
            offsets=dict(offsets),
            rebuilt_from=timestamp_text(from_ms),
            records_again=dict(Counter(known) - Counter(offsets)),
        )

    async def _of_the_group(self, lane: int) -> Mapping[str, int]:
        try:
            return await self._source.group_offsets(lane)
        except Unavailable as error:
            log.warning("not known if the lane had state before", lane=lane, reason=str(error))
            return {}

    async def _first_times(self, lane: int) -> Mapping[str, int]:
        try:
            return await self._source.first_times(lane)
        except Unavailable:
            return {}


def rebuilt_from_ms(start: Start, first_times_ms: Mapping[str, int], now_ms: int) -> int:
    """The instant, by the Kafka timestamps of records, from which a lane that begins anew at
    `start` has every record; the clock where its logs are empty."""
    if start is LogEnd.LATEST:
        return now_ms
    logs_ms = max(first_times_ms.values(), default=now_ms)
    return max(now_ms - start.ms, logs_ms) if isinstance(start, Ago) else logs_ms


def skipped(begin: Mapping[str, int], durable_offsets: Mapping[str, int]) -> dict[str, int]:
    """How many records of each topic lie between the last offsets of a lane that the store lost and
    where it begins anew. With `start = "latest"` nobody reads them."""
    return {
        topic: begin[topic] - durable
        for topic, durable in durable_offsets.items()
        if begin[topic] > durable
    }
