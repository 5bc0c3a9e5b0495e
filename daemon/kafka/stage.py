"""The stage of `lanes = "rekey"`: reads the input topics as a group of its own, and sends their
events to the topic that lanes read.

How far a source was sent stands in the group, with what the rules need to go on (see
`worker.rekeying`). It is committed once all that was sent up to there is acknowledged. Whatever
fails makes the sources of this process begin anew from there, and lanes drop what they have.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from ..backoff import pause_s, stopped_within
from ..config import Start
from ..errors import RecordRefused, Unavailable
from ..events import Decoder
from ..lane import WAY_OUT
from ..telemetry import ADVICE, KafkaFault, NoteFault, RateLimit, ignore_fault
from ..worker import (
    DeadLetter,
    DeadLetterTopic,
    RefusedParts,
    RefusedRecordsLog,
    SourceRun,
    Targets,
    state_in,
)
from . import aiokafka_patches
from .aiokafka_patches import client_of
from .client import KafkaSettings, consumer_arguments, stop_client
from .offsets import IdleLogs, Record, is_at_end
from .partition_faults import Pulse
from .partitioners import JAVA, PARTITIONERS
from .resuming import in_time, no_coordinator
from .stage_clients import StageProducer, StageReader
from .stage_offsets import Beginnings, Noted, beginnings, first_of, place_text, store_note
from .topic_ids import Fence, fetch_by_id
from .topic_partition import TopicPartition
from .topics import Diagnosis, NoteCounts, fault_of, ignore_counts

STOPPED_PAUSE_S: Final = 60.0
NOTE_EVERY_S: Final = 3600.0
"""Kafka forgets what a group stores with a topic that it does not read, after some days."""
WATCH_S: Final = 1.0
COMMIT_EVERY_S: Final = 1.0
ENDS_EVERY_S: Final = 5.0
"""How often sources say that they are at their ends."""
TURN_MESSAGES: Final = 500
"""After so many records and messages, of some 6 µs each, others get their turn. Lanes beside it are
to find as many at once: however small a batch is, it costs a millisecond."""

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class StagePorts:
    """What the stage needs."""

    settings: KafkaSettings
    """Of the input topics, and of the group of the stage."""
    topic: str
    """That it writes."""
    partitions: int
    """Of that topic."""
    base_ms: int
    decoder: Decoder
    """One that passes on what any layout may need."""
    start: Start
    """Where a source begins that nobody has sent anything of."""
    letters: DeadLetterTopic | None = None
    refused: RefusedRecordsLog = field(default_factory=RefusedRecordsLog)
    show_lag: Callable[[str, int, int | None], None] = lambda topic, partition, records: None
    """Takes how many records of a source are not sent yet; None: this process sends none."""
    show_stopped: Callable[[str, int, bool], None] = lambda topic, partition, stopped: None
    """Takes a source that is not read on, or is again."""
    note_sent: Callable[[str, int], None] = lambda topic, events: None
    note_letters: Callable[[int], None] = lambda count: None
    note: NoteFault = ignore_fault
    note_counts: NoteCounts = ignore_counts


class RekeyStage:
    """The sources that the group assigns to this process."""

    def __init__(self, ports: StagePorts) -> None:
        assert ports.decoder.limits.passes_on
        aiokafka_patches.install()
        self._ports = ports
        self._own = [TopicPartition(ports.topic, number) for number in range(ports.partitions)]
        self._noted: Noted | None = None
        self._noted_s = 0.0
        self._producer = StageProducer(ports.settings, ports.topic)
        self._consumer: Any = None
        self._diagnosis = Diagnosis(ports.settings, ports.note, ports.note_counts)
        self._pulse = Pulse(time.monotonic())
        self._generation = 0
        """Grows with every rebalance."""
        self._to_begin = set[TopicPartition]()
        self._runs: dict[TopicPartition, SourceRun] = {}
        self._fence: Fence = {}
        self._committed: dict[TopicPartition, tuple[int, str]] = {}
        self._letters: list[DeadLetter] = []
        self._failures = 0
        self._idle = IdleLogs(ports.settings.idle_after_s)
        self._ends_said_s = self._settled_s = -COMMIT_EVERY_S
        self._look_s = 0.0
        """When sources that are stopped are looked at again."""
        self._reader = StageReader(ports.note)
        self._said = RateLimit[str]()
        self.stopped: dict[TopicPartition, str] = {}
        """Why a source is not read on, until an operator does something."""
        self.waits = ""
        """Why nothing is sent now; "" where something is."""
        self.remark = ""
        """What is worth knowing, though all is sent."""

    @property
    def says(self) -> str:
        """What keeps sources from being sent: for readiness."""
        stopped = (f"{place_text(place)}: {why}" for place, why in sorted(self.stopped.items()))
        obstacle = self._diagnosis.obstacle
        missing = "" if obstacle is None else obstacle.reason
        return "; ".join(filter(None, [*stopped, missing, self.waits]))

    async def run(self, stop: asyncio.Event) -> None:
        """Send until the process is to stop."""
        try:
            await self._producer.start()
            await self._connect(stop)
            while not stop.is_set():
                try:
                    is_stuck = await self._watched_turn()
                except (Unavailable, RecordRefused, KafkaError) as error:
                    self._begin_anew(error)
                    await self._producer.fit(error)
                    await stopped_within(stop, pause_s(self._failures, 0.5))
                    is_stuck = self._is_stuck()
                if is_stuck:
                    self._ports.note("stuck")
                    logger.warning("the stage connects anew", advice=ADVICE["stuck"])
                    await self._disconnect()
                    await self._connect(stop)
            if self._consumer is not None and not self._failures:
                await self._settle(self._generation)
        except (Unavailable, RecordRefused, KafkaError) as error:
            logger.info("what was sent last comes again", reason=str(error))
        finally:
            await self._close()

    async def _watched_turn(self) -> bool:
        """Take a turn; returns whether the consumer shows no sign of life, and is to be replaced:
        it may wait for its group without end."""
        turn = asyncio.ensure_future(self._turn())
        try:
            while not (is_stuck := self._is_stuck()):
                if (await asyncio.wait({turn}, timeout=WATCH_S))[0]:
                    await turn
                    break
        finally:
            turn.cancel()
            await asyncio.wait({turn})
        return is_stuck

    async def _connect(self, stop: asyncio.Event) -> None:
        self._pulse = Pulse(time.monotonic())
        while self._consumer is None and not stop.is_set():
            consumer = AIOKafkaConsumer(**consumer_arguments(self._ports.settings))
            try:
                await consumer.start()
                fetch_by_id(client_of(consumer), self._fence)
                consumer.subscribe(self._ports.settings.topics, listener=_Assigned(self, consumer))
                self._consumer = consumer
            except KafkaError as error:
                self._begin_anew(error)
                await stop_client(aiokafka_patches.stop(consumer))
                await stopped_within(stop, pause_s(self._failures, 0.5))

    def _is_stuck(self) -> bool:
        if (consumer := self._consumer) is None:
            return False
        answered_ms = {place: consumer.last_poll_timestamp(place) for place in self._runs}
        session_s = self._ports.settings.session_timeout_s
        return self._pulse.is_stuck(answered_ms, time.monotonic(), session_s)

    async def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        self.assign(())
        if consumer is not None:
            await stop_client(aiokafka_patches.stop(consumer))

    async def _close(self) -> None:
        await self._diagnosis.stop()
        await self._disconnect()
        await self._producer.stop()

    def assign(self, assigned: Iterable[TopicPartition], *, waits: bool = False) -> None:
        """Take over what a rebalance assigned: all of it begins at what is committed. `waits`: it
        is not known yet."""
        self._generation += 1
        self._pulse.waits = waits
        for place in self._runs.keys() | self._to_begin | self.stopped.keys():
            self._ports.show_lag(*place, None)
        self._runs.clear()
        self._letters.clear()
        self.stopped.clear()
        self._to_begin = set(assigned)

    def _begin_anew(self, error: Exception) -> None:
        self._failures += 1
        is_unsent = isinstance(error, (Unavailable, RecordRefused))
        fault: KafkaFault = "unsent" if is_unsent else fault_of(error)
        advice = "" if fault == "unreadable" else ADVICE[fault]  # a rebalance, or a log's start
        reason = f"{type(error).__name__}: {error}"
        self.waits = f"{reason}. {advice}".rstrip()
        if times := self._said.due(reason, 1, time.monotonic()):
            logger.warning("sources are sent again", reason=reason, times=times, advice=advice)
            if advice:
                self._ports.note(fault)
        self._to_begin |= self._runs.keys()
        for place in self._runs:  # how far it is behind is not known until it begins again
            self._ports.show_lag(*place, None)
        self._runs.clear()
        self._letters.clear()

    # Turns

    async def _turn(self) -> None:
        self._diagnose()
        generation = self._generation
        if self._to_begin:
            found = await self._found(self._to_begin, generation)
            if found is not None:
                await self._begin(found, generation)
            elif generation == self._generation:
                self._say_waits()
        if self.stopped and time.monotonic() >= self._look_s:
            self._look_s = time.monotonic() + STOPPED_PAUSE_S
            found = None
            with suppress(Unavailable):  # the others go on
                found = await self._found(self.stopped.keys() - self._runs.keys(), generation)
            if found is not None:
                await self._begin(found, generation)
        polled = await self._reader.poll(self._consumer, self._runs)
        if generation != self._generation:
            return  # what was polled may be sent by another process, or from an earlier place
        for place, records in polled.items():
            await self._send(place, records, generation)
        if self._reader.unreadable:
            await self._stop_unreadable(self._reader.unreadable, generation)
        await self._say_ends()
        if time.monotonic() - self._settled_s >= COMMIT_EVERY_S:
            await self._settle(generation)

    async def _send(
        self, place: TopicPartition, records: Sequence[Record], generation: int
    ) -> None:
        sent = turn = 0
        for record in records:
            run = self._runs.get(place)
            if run is None or generation != self._generation:
                return
            at_ms = None if record.timestamp < 0 else record.timestamp
            refusals = RefusedParts()
            decoded = chain.from_iterable(self._ports.decoder.slices_of(record))
            for message in run.read(record.offset, at_ms, decoded, refusals.note):
                await self._producer.send(message)
                turn = await _give_way(turn + 1)
            sent += refusals.taken
            if letter := refusals.letter(record):
                self._letters.append(letter)
            turn = await _give_way(turn + 1)
        self._ports.note_sent(place.topic, sent)

    async def _stop_unreadable(self, why: Mapping[TopicPartition, str], generation: int) -> None:
        """Leave sources where they cannot be read on; what they had before is committed, or each
        look at them would send it again."""
        await self._settle(generation)
        for place in why.keys() & self._runs.keys():
            del self._runs[place]
            self._stop(place, why[place])

    def _diagnose(self) -> None:
        """Look for input topics that are gone, now and then: nothing else tells it."""
        consumer, topics = self._consumer, self._ports.settings.topics
        none = not self._runs and not self.stopped
        self._diagnosis.check_if(none or not all(map(consumer.partitions_for_topic, topics)))

    async def _say_ends(self) -> None:
        """Say which sources are at their ends, and for which of these there was nothing for long;
        show how far all are."""
        if time.monotonic() - self._ends_said_s < ENDS_EVERY_S:
            return
        self._ends_said_s, now_ms = time.monotonic(), int(time.time() * 1000)
        consumer, at_end = self._consumer, dict[TopicPartition, int]()
        for place in list(self._runs):
            position, end = await consumer.position(place), consumer.highwater(place)
            if end is not None:
                self._ports.show_lag(*place, max(end - position, 0))
            if is_at_end(position, end, consumer.last_poll_timestamp(place), now_ms):
                at_end[place] = position
        idle = self._idle.find(at_end, time.monotonic())
        for place in at_end:
            if (run := self._runs.get(place)) is not None:
                for message in run.at_end(now_ms, is_idle=place in idle):
                    await self._producer.send(message)

    async def _settle(self, generation: int) -> None:
        """Commit how far everything is that was sent, once it is acknowledged."""
        points = {place: run.to_commit for place, run in self._runs.items()}
        await self._producer.flush()  # first: letters that are sent twice are twice in their topic
        letters, self._letters = self._letters, []
        if letters:
            self._ports.refused.log(letters, time.monotonic())
            if self._ports.letters is not None:
                await self._ports.letters.publish(letters)
                self._ports.note_letters(len(letters))
        self._settled_s = now_s = time.monotonic()
        await self._commit(points, generation)
        if self._noted is not None and now_s - self._noted_s >= NOTE_EVERY_S:
            self._noted_s = now_s
            await store_note(self._consumer, self._own, self._noted)
        self._failures = 0
        if not self._to_begin:
            self.waits = ""
        read = self._runs.keys() - self._reader.unreadable.keys()
        for place in self.stopped.keys() & read:  # it could be read again
            del self.stopped[place]
            self._ports.show_stopped(*place, False)

    async def _commit(
        self, points: Mapping[TopicPartition, tuple[int, str]], generation: int
    ) -> None:
        new = {place: at for place, at in points.items() if self._committed.get(place) != at}
        if new and generation == self._generation:
            await in_time(self._consumer.commit(new), no_coordinator)
            self._committed |= new

    # Where sources begin

    async def _found(
        self, places: Collection[TopicPartition], generation: int
    ) -> Beginnings | None:
        start, topics = self._ports.start, self._ports.settings.topics
        return await beginnings(
            self._consumer,
            sorted(places),
            topics,
            self._own,
            start,
            int(time.time() * 1000),
            lambda: generation == self._generation,
        )

    async def _begin(self, found: Beginnings, generation: int) -> None:
        if generation != self._generation:
            return
        consumer, ports = self._consumer, self._ports
        self._noted, self._noted_s = found.noted, time.monotonic()
        self._say_growth(found.noted.partitions)
        targets = self._targets(found.noted.partitions)
        for place, at in found.begins.items():
            if at.life:
                self._fence[place] = at.life
            state = state_in(at.metadata)
            self._runs[place] = SourceRun(
                *place, at.offset, state, targets, lost_from=at.lost_from, life=at.life
            )
            ports.show_lag(*place, found.ends[place] - at.offset)
            consumer.seek(place, at.offset)
        consumer.resume(*found.begins)
        for place, why in found.stopped.items():
            self._stop(place, why)
        self._to_begin -= found.ends.keys()
        for run in [self._runs[place] for place in found.begins]:
            for message in run.begin():
                await self._producer.send(message)
        if found.begins:
            logger.info("sources are sent", sources=found.offsets)

    def _say_waits(self) -> None:
        """Say what nothing is sent before."""
        waits = (
            "no source is sent before it is stored where all begin. The process that has"
            f" {place_text(first_of(self._ports.settings.topics))} stores it: it must run, and"
            " reach Kafka and all topics"
        )
        # At a first start all others wait for a moment: it is told where that lasts.
        if waits == self.waits and (times := self._said.due(waits, 1, time.monotonic())):
            logger.warning("the stage waits", reason=waits, times=times)
        self.waits = waits

    def _say_growth(self, divided: int) -> None:
        topic, partitions = self._ports.topic, self._ports.partitions
        self.remark = (
            f"topic {topic} has {partitions} partitions, and events are divided among {divided} of"
            f" them, as at first: another lane would not have their impressions. {WAY_OUT}"
            if partitions > divided
            else ""
        )
        if self.remark and self._said.due(self.remark, 1, time.monotonic()):
            logger.warning("partitions of the stage stay empty", reason=self.remark)

    def _targets(self, partitions: int) -> Targets:
        ports, consumer = self._ports, self._consumer
        sources = {t: len(consumer.partitions_for_topic(t) or ()) for t in ports.settings.topics}
        most, needed_of = self._producer.most_bytes, ports.decoder.limits.needed_of
        return Targets(partitions, PARTITIONERS[JAVA], sources, ports.base_ms, most, needed_of)

    def _stop(self, place: TopicPartition, why: str) -> None:
        """Leave a source; it is looked at again now and then, as its log may come back."""
        self._consumer.pause(place)
        self._look_s = time.monotonic() + STOPPED_PAUSE_S
        self._ports.show_stopped(*place, True)
        if self.stopped.get(place) != why:
            logger.error("source stopped", topic=place.topic, partition=place.partition, reason=why)
        self.stopped[place] = why


async def _give_way(done: int) -> int:
    """Let others have their turn after so much; returns how much was done since."""
    if done < TURN_MESSAGES:
        return done
    await asyncio.sleep(0)
    return 0


class _Assigned(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """What aiokafka calls in a rebalance."""

    def __init__(self, stage: RekeyStage, consumer: Any) -> None:
        self._stage, self._consumer = stage, consumer

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._stage.assign((), waits=True)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        # Before a record can pass; see `member`. The stage seeks and resumes.
        self._consumer.pause(*assigned)
        for place in assigned:
            self._consumer.seek(place, 0)
        self._stage.assign(assigned)
