"""The stage of `lanes = "rekey"`: reads the input topics as a group of its own, and sends their
events to the topic that lanes read.

How far a source was sent stands in the group, with what the rules need to go on (see
`worker.rekeying`). It is committed once all that was sent up to there is acknowledged. Whatever
fails makes the sources of this process begin anew from there, and lanes drop what they have.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from ..backoff import pause_s, stopped_within
from ..config import Start
from ..errors import RecordRefused, StartError, Unavailable
from ..events import Decoder
from ..storage import LogMark
from ..telemetry import RateLimit
from ..worker import (
    DeadLetter,
    DeadLetterTopic,
    LogChanged,
    Message,
    RefusedParts,
    RefusedRecordsLog,
    SourceRun,
    Targets,
    state_in,
)
from . import aiokafka_patches
from .aiokafka_patches import client_of
from .client import KafkaProducer, KafkaSettings, consumer_arguments, stop_client
from .partitions import IdleLogs, Record, is_at_end, resume_offset
from .resuming import ids_by_leader, log_bounds, require_same_topic, starting_offsets
from .topic_ids import Fence, fetch_by_id
from .topic_partition import TopicPartition
from .topics import JAVA, PARTITIONERS, create_topic, wait_for_topics

POLL_MS: Final = 200
MOST_RECORDS: Final = 2_000
COMMIT_EVERY_S: Final = 1.0
IDLE_EVERY_S: Final = 5.0
"""How often an idle source says that it still is."""
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
    start: Start
    """Where a source begins that nobody has sent anything of."""
    letters: DeadLetterTopic | None = None
    refused: RefusedRecordsLog = field(default_factory=RefusedRecordsLog)
    show_lag: Callable[[str, int, int | None], None] = lambda topic, partition, records: None
    """Takes how many records of a source are not sent yet; None: this process sends none."""
    show_stopped: Callable[[str, int], None] = lambda topic, partition: None
    """Takes a source that is not read on."""
    note_letters: Callable[[int], None] = lambda count: None


class RekeyStage:
    """The sources that the group assigns to this process."""

    def __init__(self, ports: StagePorts) -> None:
        aiokafka_patches.install()
        self._ports = ports
        self._producer = KafkaProducer(ports.settings)
        self._consumer: Any = None
        self._generation = 0
        """Grows with every rebalance."""
        self._to_begin = set[TopicPartition]()
        self._runs: dict[TopicPartition, SourceRun] = {}
        self._fence: Fence = {}
        self._committed: dict[TopicPartition, tuple[int, str]] = {}
        self._letters: list[DeadLetter] = []
        self._failures = 0
        self._idle = IdleLogs(ports.settings.idle_after_s)
        self._idle_said_s = self._settled_s = -COMMIT_EVERY_S
        self._said = RateLimit[str]()
        self.stopped: dict[TopicPartition, str] = {}
        """Why a source is not read on, until an operator does something."""
        self.waits = ""
        """Why nothing is sent now; "" where something is."""

    @property
    def says(self) -> str:
        """What keeps sources from being sent: for readiness."""
        stopped = (f"{place_text(place)}: {why}" for place, why in sorted(self.stopped.items()))
        return "; ".join([*stopped, *([self.waits] if self.waits else [])])

    async def run(self, stop: asyncio.Event) -> None:
        """Send until the process is to stop."""
        try:
            await self._connect(stop)
            while not stop.is_set():
                try:
                    await self._turn()
                    self._failures, self.waits = 0, ""
                except (Unavailable, RecordRefused, KafkaError) as error:
                    self._begin_anew(f"{type(error).__name__}: {error}")
                    await stopped_within(stop, pause_s(self._failures, 0.5))
            if self._consumer is not None and not self._failures:
                await self._settle(self._generation)
        except (Unavailable, RecordRefused, KafkaError) as error:
            logger.info("what was sent last comes again", reason=str(error))
        finally:
            await self._close()

    async def _connect(self, stop: asyncio.Event) -> None:
        await self._producer.start()
        while self._consumer is None and not stop.is_set():
            consumer = AIOKafkaConsumer(**consumer_arguments(self._ports.settings))
            try:
                await consumer.start()
                fetch_by_id(client_of(consumer), self._fence)
                consumer.subscribe(self._ports.settings.topics, listener=_Assigned(self, consumer))
                self._consumer = consumer
            except KafkaError as error:
                self._begin_anew(str(error))
                await stop_client(aiokafka_patches.stop(consumer))
                await stopped_within(stop, pause_s(self._failures, 0.5))

    async def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_client(aiokafka_patches.stop(consumer))
        await self._producer.stop()

    def assign(self, assigned: Iterable[TopicPartition]) -> None:
        """Take over what a rebalance assigned: all of it begins at what is committed."""
        self._generation += 1
        for place in self._runs | self.stopped:
            self._ports.show_lag(*place, None)
        self._runs.clear()
        self._letters.clear()
        self.stopped.clear()
        self._to_begin = set(assigned)

    def _begin_anew(self, reason: str) -> None:
        self._failures += 1
        self.waits = reason
        if records := self._said.due(reason, 1, time.monotonic()):
            logger.warning("sources are sent again", reason=reason, times=records)
        self._to_begin |= self._runs.keys()
        self._runs.clear()
        self._letters.clear()

    # Turns

    async def _turn(self) -> None:
        if self._to_begin:
            await self._begin(self._generation)
        generation = self._generation
        polled = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=MOST_RECORDS)
        if generation != self._generation:
            return  # what was polled may be sent by another process, or from an earlier place
        for place, records in polled.items():
            await self._send(place, records, generation)
        await self._say_idle()
        if time.monotonic() - self._settled_s >= COMMIT_EVERY_S:
            await self._settle(generation)

    async def _send(
        self, place: TopicPartition, records: Sequence[Record], generation: int
    ) -> None:
        turn = 0
        for record in records:
            run = self._runs.get(place)
            if run is None or generation != self._generation:
                return
            at_ms = None if record.timestamp < 0 else record.timestamp
            refusals = RefusedParts()
            decoded = chain.from_iterable(self._ports.decoder.slices_of(record))
            for message in run.read(record.offset, at_ms, refusals.noting(decoded)):
                await self._produce(message)
                turn += 1
            if letter := refusals.letter(record):
                self._letters.append(letter)
            turn += 1
            if turn >= TURN_MESSAGES:
                turn = 0
                await asyncio.sleep(0)

    async def _produce(self, message: Message) -> None:
        await self._producer.send(
            self._ports.topic,
            message.value,
            timestamp_ms=message.timestamp_ms,
            partition=message.partition,
        )

    async def _say_idle(self) -> None:
        """Say of which sources there was nothing for long, and show how far all are."""
        if time.monotonic() - self._idle_said_s < IDLE_EVERY_S:
            return
        self._idle_said_s, now_ms = time.monotonic(), int(time.time() * 1000)
        consumer, at_end = self._consumer, dict[TopicPartition, int]()
        for place in list(self._runs):
            position, end = await consumer.position(place), consumer.highwater(place)
            if end is not None:
                self._ports.show_lag(*place, max(end - position, 0))
            if is_at_end(position, end, consumer.last_poll_timestamp(place), now_ms):
                at_end[place] = position
        for place in self._idle.find(at_end, time.monotonic()) & self._runs.keys():
            for message in self._runs[place].idle(now_ms):
                await self._produce(message)

    async def _settle(self, generation: int) -> None:
        """Commit how far everything is that was sent, once it is acknowledged."""
        points = {place: run.point for place, run in self._runs.items()}
        letters, self._letters = self._letters, []
        if letters:
            self._ports.refused.log(letters, time.monotonic())
            if self._ports.letters is not None:
                await self._ports.letters.publish(letters)
                self._ports.note_letters(len(letters))
        await self._producer.flush()
        self._settled_s = time.monotonic()
        await self._commit(points, generation)

    async def _commit(
        self, points: Mapping[TopicPartition, tuple[int, str]], generation: int
    ) -> None:
        new = {place: at for place, at in points.items() if self._committed.get(place) != at}
        if new and generation == self._generation:
            await self._consumer.commit(new)
            self._committed |= new

    # Where sources begin

    async def _begin(self, generation: int) -> None:
        places = sorted(self._to_begin)
        consumer, client = self._consumer, client_of(self._consumer)
        bounds = await log_bounds(consumer, places)
        # After the bounds: see `topic_ids`.
        ids = await ids_by_leader(
            client, [TopicPartition(t, 0) for t in self._ports.settings.topics]
        )
        known, stored = await self._known(places, {topic: id_ for (topic, _), id_ in ids.items()})
        logs = {place: place_text(place) for place in places}
        first = await starting_offsets(consumer, logs, self._ports.start, int(time.time() * 1000))
        if generation != self._generation:
            return
        targets = self._targets()
        begun = dict[TopicPartition, tuple[int, str]]()
        for place in places:
            offset, metadata = stored.get(place, (first[logs[place]], ""))
            of_topic = known.get(place.topic), ids.get(TopicPartition(place.topic, 0))
            try:
                offset = source_offset(
                    place, offset, (bounds[0][place], bounds[1][place]), *of_topic
                )
            except StartError as error:
                self._stop(place, str(error))
                continue
            if of_topic[1] is not None:
                self._fence[place] = of_topic[1]
            self._runs[place] = SourceRun(*place, offset, state_in(metadata), targets)
            begun[place] = self._runs[place].point
        # Before anything is sent: where a source began must not be asked for again.
        await self._commit(begun, generation)
        if generation != self._generation:
            return  # while the broker was away: what is assigned now is still to begin
        for place, (offset, _) in begun.items():
            consumer.seek(place, offset)
        consumer.resume(*begun)
        self._to_begin.clear()
        logger.info("sources are sent", sources={logs[p]: at for p, (at, _) in begun.items()})

    async def _known(
        self, places: Sequence[TopicPartition], ids: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[TopicPartition, tuple[int, str]]]:
        """Return the ids of the topics that were sent, and what is committed of these sources.

        With a topic Kafka deletes what groups have committed of it. So the ids are committed with
        the topic that the stage writes, once they are known.
        """
        own = TopicPartition(self._ports.topic, 0)
        coordinator = self._consumer._coordinator
        found = await coordinator.fetch_committed_offsets([*places, own])
        stored = {p: (at.offset, at.metadata) for p, at in found.items() if at.offset >= 0}
        _, text = stored.pop(own, (0, ""))
        known = msgspec.json.decode(text or "{}", type=dict[str, str])
        if ids.keys() - known.keys():
            noted = OffsetAndMetadata(0, msgspec.json.encode({**ids, **known}).decode())
            assignment = self._consumer._subscription.subscription.assignment
            await coordinator.commit_offsets(assignment, {own: noted})
        return known, stored

    def _targets(self) -> Targets:
        ports, consumer = self._ports, self._consumer
        sources = {t: len(consumer.partitions_for_topic(t) or ()) for t in ports.settings.topics}
        return Targets(ports.partitions, PARTITIONERS[JAVA], sources, ports.base_ms)

    def _stop(self, place: TopicPartition, why: str) -> None:
        self.stopped[place] = why
        self._ports.show_stopped(*place)
        logger.error("source stopped", topic=place.topic, partition=place.partition, reason=why)


def place_text(place: TopicPartition) -> str:
    """The name of a source for people."""
    return f"{place.topic}[{place.partition}]"


def source_offset(
    place: TopicPartition,
    offset: int,
    bounds: tuple[int, int],
    known_id: str | None,
    topic_id: str | None,
) -> int:
    """Where a source is read on that was read up to this offset; its log has these bounds, and its
    topic this id. Raises StartError where that is not the log that was sent: lanes would take its
    first records for ones that they have."""
    try:
        require_same_topic(place, offset, LogMark(known_id), topic_id)
        found, gone = resume_offset(place, offset, *bounds, topic_id)
    except LogChanged as error:
        raise StartError(f"{error.why} Set [rekey] topic to a new name") from error
    if gone:
        logger.error(
            "records lost before they were read",
            topic=place.topic,
            partition=place.partition,
            records=gone,
        )
    return found


class _Assigned(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """What aiokafka calls in a rebalance."""

    def __init__(self, stage: RekeyStage, consumer: Any) -> None:
        self._stage, self._consumer = stage, consumer

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._stage.assign(())

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        # Before a record can pass; see `member`. The stage seeks and resumes.
        self._consumer.pause(*assigned)
        for place in assigned:
            self._consumer.seek(place, 0)
        self._stage.assign(assigned)


async def make_stage_topic(settings: KafkaSettings, topic: str, partitions: int) -> None:
    """Create the topic that the stage writes, unless it is there; else say the command that does,
    once. `settings`: of the input topics, which are waited for."""
    await wait_for_topics(settings)
    try:
        await create_topic(settings, topic, partitions=partitions)
    except (KafkaError, OSError) as error:
        logger.warning(
            "the topic of the stage is not created by this process",
            topic=topic,
            reason=f"{type(error).__name__}: {error}",
            advice=f"If it does not exist: kafka-topics --bootstrap-server"
            f" {settings.bootstrap_servers} --create --topic {topic} --partitions {partitions}."
            " Allow this user to write to it.",
        )
