"""`relevanced run`: a worker on Kafka, an exporter, or both."""

import asyncio
from collections.abc import Awaitable

import structlog

from ..backoff import finished_before_stop
from ..config import Config
from ..errors import StartError
from ..http import Role
from ..kafka import KafkaProducer, KafkaSettings, KafkaSource, kafka_settings
from ..recompute.clients import faults_of_files
from ..worker import Beginning, DeadLetterTopic, Source, memory
from .app import Service, serve
from .following import ASK_EVERY_S

log = structlog.get_logger(__name__)


def run(config: Config, role: Role) -> int:
    """Run the daemon until a signal stops it; returns the exit code."""
    memory.configure_allocator()
    memory.freeze_startup_objects()
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
    faults = [] if role == "exporter" else await asyncio.to_thread(faults_of_files, config)
    if faults:
        log.error("cannot run", reason="files cannot be read", faults=faults)
        return 1
    return await serve(service, None if role == "exporter" else work_on_kafka)


async def work_on_kafka(service: Service) -> None:
    """Join the group and move the lanes forward until the process is to stop."""
    settings = kafka_settings(service.config)
    source = KafkaSource(settings, service.telemetry.kafka_fault, service.telemetry.topics_found)
    service.obstacle = lambda: source.obstacle or "its topics are looked up"
    answer, stop = service.redis_answer, service.stop
    proposing = asyncio.create_task(answer.proposed(service.following.propose, stop))
    watching = asyncio.create_task(answer.watch(service.namespace.stored_selection, stop))
    try:
        # A worker that cannot work under the layout in force ends before it joins the group; but
        # where Redis does not answer, Kafka is asked meanwhile.
        await asyncio.wait({proposing}, timeout=ASK_EVERY_S)
        if proposing.done() and not proposing.result():
            return
        if not await finished_before_stop(source.start(), stop):
            return
        watching.cancel()
        service.obstacle = lambda: None
        await _work(service, settings, source, proposing)
    finally:
        watching.cancel()
        proposing.cancel()


async def _work(
    service: Service, settings: KafkaSettings, source: KafkaSource, proposing: Awaitable[bool]
) -> None:
    """Move the lanes of a source that has joined its group, once the layout in force is known, then
    leave the group."""
    config = service.config
    letters = producer = None
    try:
        if not await proposing:
            return
        if config.events.dead_letter_topic is not None:
            producer = KafkaProducer(settings)
            if not await finished_before_stop(producer.start(), service.stop):
                return
            letters = DeadLetterTopic(producer, config.events.dead_letter_topic)
        initial_lanes = await service.redis_answer.registered(
            service.namespace, source.partition_count, service.stop
        )
        if initial_lanes is not None:
            service.lanes = lambda: source.partition_count
            beginning = Beginning(config.start, initial_lanes)
            service.history.begin(source.first_times, source.partition_count)
            await _until_stopped(service, source, beginning, letters)
    finally:
        await service.history.stop()
        await source.stop()
        if producer is not None:
            await producer.stop()


async def _until_stopped(
    service: Service, source: Source, beginning: Beginning, letters: DeadLetterTopic | None
) -> None:
    """Run a worker under each layout that comes into force."""
    while not service.stop.is_set():
        await service.make_worker(source, beginning, letters, service.following.now).run()
        if service.ownership is not None and not service.stop.is_set():
            await service.ownership.close_all()
