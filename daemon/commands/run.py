"""`relevanced run`: a worker on Kafka, an exporter, or both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from ..backoff import finished_before_stop
from ..config import Config, decoder_of, stage_decoder_of
from ..errors import OtherRedis, StartError
from ..http import Role
from ..kafka import (
    Diagnosis,
    KafkaProducer,
    KafkaSettings,
    KafkaSource,
    RekeyStage,
    StagePorts,
    kafka_settings,
    make_stage_topic,
    stage_settings,
)
from ..storage import lane_topics
from ..worker import Beginning, DeadLetterTopic, RefusedRecordsLog, Source, process_memory
from .app import Service, serve
from .copartitioning import FirstLook, look_at_places
from .layout_in_force import ASK_EVERY_S

log = structlog.get_logger(__name__)

LAST_SENDING_S: Final = 10.0


def run(config: Config, role: Role) -> int:
    """Run the daemon until a signal stops it; returns the exit code."""
    process_memory.configure_allocator()
    process_memory.freeze_startup_objects()
    return asyncio.run(_run(config, role))


async def _run(config: Config, role: Role) -> int:
    try:
        service = Service(config, role)
    except ValueError as error:
        # Only the Redis client knows which options a URL may have.
        log.error("cannot run", reason=str(error))
        return 2
    except StartError as error:
        log.error("cannot run", reason=str(error))
        return 1
    return await serve(service, None if role == "exporter" else work_on_kafka)


async def work_on_kafka(service: Service) -> None:
    """Join the group and move the lanes forward until the process is to stop; out of a group that
    belongs to another Redis, wait until it does not."""
    telemetry = service.telemetry
    settings = kafka_settings(service.config, partial(telemetry.token_asked, "kafka"))
    while not service.stop.is_set():
        source = KafkaSource(settings, telemetry.kafka_fault, telemetry.topics_found)
        service.obstacle = partial(_obstacle, service, source)
        try:
            if (ready := await _ready(service, settings, source)) is not None:
                await _work(service, settings, source, ready)
        except OtherRedis as error:
            service.joining.refuse(error)
        finally:
            service.leave()
            await source.stop()


def _obstacle(service: Service, source: KafkaSource, inputs: Diagnosis | None = None) -> str | None:
    """What is waited for. `inputs`: of the stage, if there is one."""
    missing = inputs.obstacle.reason if inputs is not None and inputs.obstacle else None
    looked_up = None if source.lane_count else "its topics are looked up"
    return missing or source.obstacle or service.joining.obstacle or looked_up


@dataclass(frozen=True)
class _Ready:
    """What is known once every server has answered."""

    beginning: Beginning
    note: str
    """What this process says to the group."""


async def _ready(service: Service, settings: KafkaSettings, source: KafkaSource) -> _Ready | None:
    """Wait until Kafka, the layout in force and Redis have answered, and the group is one of this
    Redis; None where the process is to stop before."""
    answer, stop = service.redis_answer, service.stop
    proposing = asyncio.create_task(answer.proposed(service.following.propose, stop))
    try:
        # A worker that cannot work under the layout in force ends at once; but where Redis does not
        # answer, Kafka is asked meanwhile.
        await asyncio.wait({proposing}, timeout=ASK_EVERY_S)
        if proposing.done() and not proposing.result():
            return None
        if not await finished_before_stop(_topics_there(service, settings, source), stop):
            return None
        if not await proposing:
            return None
    finally:
        proposing.cancel()
    lanes = await answer.registered(service.namespace, source.lane_count, stop)
    if lanes is None or (note := await service.joining.allowed(settings, answer, stop)) is None:
        return None
    return _Ready(Beginning(service.config.start, lanes), note)


async def _topics_there(service: Service, settings: KafkaSettings, source: KafkaSource) -> None:
    config, telemetry = service.config, service.telemetry
    if config.is_rekeyed:
        (topic,), of_inputs = lane_topics(config), stage_settings(config, settings)
        inputs = Diagnosis(of_inputs, telemetry.kafka_fault, telemetry.topics_found)
        service.obstacle = partial(_obstacle, service, source, inputs)
        await make_stage_topic(of_inputs, topic, config.rekey.partitions, inputs)
    await source.look_up()


def _stage(
    service: Service, settings: KafkaSettings, partitions: int, letters: DeadLetterTopic | None
) -> RekeyStage:
    """The stage that sends the input topics to so many partitions of its own."""
    config, telemetry = service.config, service.telemetry

    def show_lag(topic: str, partition: int, records: int | None) -> None:
        if records is None:
            telemetry.source_lost(topic, partition)
        else:
            telemetry.lag_records.labels(topic, str(partition)).set(records)

    return RekeyStage(
        StagePorts(
            settings=stage_settings(config, settings),
            topic=lane_topics(config)[0],
            partitions=partitions,
            base_ms=config.timing.base_ms,
            decoder=stage_decoder_of(config, service.book),
            start=config.input_start,
            letters=letters,
            refused=RefusedRecordsLog(config.log.record_values),
            show_lag=show_lag,
            show_stopped=lambda t, n, is_on: telemetry.source_stopped.labels(t, str(n)).set(is_on),
            note_sent=lambda topic, events: telemetry.rekeyed_events.labels(topic).inc(events),
            note_letters=telemetry.dead_letters.inc,
            note=telemetry.kafka_fault,
            note_counts=telemetry.topics_found,
        )
    )


@asynccontextmanager
async def _sending(
    service: Service, settings: KafkaSettings, partitions: int, letters: DeadLetterTopic | None
) -> AsyncIterator[None]:
    """Run the stage beside the block, where lanes read what it sends."""
    if not service.config.is_rekeyed:
        yield
        return
    stage = service.stage = _stage(service, settings, partitions, letters)
    stop = asyncio.Event()
    task = asyncio.create_task(stage.run(stop))
    task.add_done_callback(lambda _: service.stop.set())
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait({task}, timeout=LAST_SENDING_S)
        task.cancel()
        service.stage = None
        with suppress(asyncio.CancelledError):
            await task


async def _work(
    service: Service, settings: KafkaSettings, source: KafkaSource, ready: _Ready
) -> None:
    """Join the group, move the lanes forward, and leave."""
    config, stop = service.config, service.stop
    letters = producer = keeping = looking = None
    try:
        if config.events.dead_letter_topic is not None:
            producer = KafkaProducer(settings)
            if not await finished_before_stop(producer.start(), stop):
                return
            letters = DeadLetterTopic(producer, config.events.dead_letter_topic)
        if not await finished_before_stop(source.join(ready.note), stop):
            return
        keeping = asyncio.create_task(service.joining.keep(source, settings, ready.note))
        service.lanes = lambda: source.lane_count
        service.history.begin(source.first_times, source.lane_count)
        looking = asyncio.create_task(_look(service, settings, source.lane_count))
        async with _sending(service, settings, source.lane_count, letters):
            await _until_stopped(service, source, ready.beginning, letters)
    finally:
        if looking is not None:
            looking.cancel()
        if keeping is not None:
            keeping.cancel()
        await service.history.stop()
        await source.stop()
        if producer is not None:
            await producer.stop()


async def _look(service: Service, settings: KafkaSettings, lanes: int) -> None:
    """Say at the start whether feedback lies in other lanes than its impression, where a sample
    shows it. Records that name schemas are not looked at: these would have to be waited for."""
    if lanes < 2 or service.schemas is not None or service.config.is_rekeyed:
        return

    def note(look: FirstLook) -> None:
        if service.worker is not None:
            service.worker.misplaced.cores = look.cores if service.config.can_be_rekeyed else 0.0
            service.worker.misplaced.note(look.looked, look.found)
            if text := service.worker.misplaced.text:
                log.warning("feedback does not meet its impressions", reason=text)

    attribution_ms = service.config.timing.attribution_ms
    await look_at_places(settings, decoder_of(service.config), attribution_ms, note)


async def _until_stopped(
    service: Service, source: Source, beginning: Beginning, letters: DeadLetterTopic | None
) -> None:
    """Run a worker under each layout that comes into force."""
    while not service.stop.is_set():
        worker = service.make_worker(source, beginning, letters, service.following.now)
        try:
            await worker.run()
        finally:
            if service.ownership is not None and not service.stop.is_set():
                await service.ownership.close_all()
