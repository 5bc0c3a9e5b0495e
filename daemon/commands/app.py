"""The only module that wires the daemon: a configuration becomes clients, a worker, an exporter and
an HTTP server.

Every other module takes its collaborators as arguments, Kafka and Redis as ports. So the worker
knows neither, each room can be tested without a server, and the demo runs the same worker on a
source of its own. Which parts a process has, and in which order they start and end, is read here
and nowhere else.

Tasks of a running process: the worker (unless its role is exporter), the exporter (unless its role
is worker), upkeep of Redis, and two watches on the event loop, of which one informs systemd. The
first to fail ends all. SIGINT and SIGTERM end all in order: the batch in hand is committed, the
group left, the lease given back, the connections closed.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeAlias

import structlog

from ..backoff import finished_before_stop, stopped_within
from ..config import ONE, Config, book_of, lane_decoder_of
from ..errors import StartError
from ..exporter import Condition, ExampleReads, Exporter, KeptMarkers, PastReads, Published
from ..extras import lacking
from ..http import HttpServer, ListenError, MarkerRules, MarkerSettings, Role
from ..recompute.libraries import class_libraries, library_of
from ..recompute.redis_client import client_of, connected
from ..recompute.schema_registry import filler_of
from ..recompute.serving import stopping_on_signals
from ..storage import (
    LaneStore,
    LayoutRegistry,
    MarkerLog,
    Namespace,
    PastStore,
    QueryStore,
    StallMark,
    close,
    namespace,
    show_life,
    sweep_lanes,
    watch_eviction,
)
from ..telemetry import Telemetry, is_asked_for, unsupported, watch_stalls
from ..worker import (
    Beginning,
    DeadLetterTopic,
    Ownership,
    Pace,
    Ports,
    Process,
    Source,
    StallWatch,
    Worker,
    process_memory,
)
from .group_membership import Joining
from .layout_in_force import Following, HistoryCheck, RedisAnswer, Working, waiting_text
from .process_limits import raise_bound_of_open_files, turn_off_core_dumps
from .systemd import keep_informed
from .worker_conditions import (
    CoreWatch,
    FeedbackWatch,
    JoinWatch,
    rank_watch,
    unreadable_topics,
    visitor_watch,
    warn_of_records,
    worker_conditions,
)

if TYPE_CHECKING:
    from ..kafka import RekeyStage
    from ..telemetry.otlp import Tracer

log = structlog.get_logger(__name__)


class Service:
    """One running process, and what its parts share."""

    def __init__(self, config: Config, role: Role) -> None:
        self.config = config
        self.role = role
        self.stop = asyncio.Event()
        self.telemetry = Telemetry(version("relevanced"), role)
        self.tracer = None if role == "exporter" else tracer_of(os.environ)
        if self.tracer is not None:
            self.telemetry.span = self.tracer.span
        self.book = book_of(config)
        self.telemetry.schemas.set_function(lambda: len(self.book))
        asked = self.telemetry.registry_asked
        self.schemas = None if role == "exporter" else filler_of(config, self.book, asked)
        self.http = HttpServer(self.telemetry, role)
        self.redis = client_of(config, partial(self.telemetry.token_asked, "redis"))
        self.namespace = Namespace(
            self.redis, config.redis.namespace, namespace(config), config.kafka.topics
        )
        self.joining = Joining(
            config, self.namespace, self.telemetry.kafka_fault, self.telemetry.kept_out
        )
        self.store = LaneStore(self.redis, self.namespace.name)
        self.markers = MarkerLog(self.redis, self.namespace.name)
        self.http.queries = QueryStore(self.redis, self.namespace.name)
        self.keep_markers_ms = config.history.days * 86_400_000
        self.ownership: Ownership | None = None
        self.worker: Worker | None = None
        self.stage: "RekeyStage | None" = None
        """Of `lanes = "rekey"`, while it runs."""
        self.lanes: Callable[[], int | None] = lambda: None
        """The number of lanes, once Kafka has answered."""
        self.obstacle: Callable[[], str | None] = lambda: "it was not asked yet"
        """What keeps the input topics from being read; None where nothing does."""
        self.watches: Mapping[str, FeedbackWatch] = {
            "ranks": rank_watch(),
            "joins": JoinWatch(),
            "visitors": visitor_watch(),
        }
        self.core = CoreWatch()
        self.redis_answer = RedisAnswer(self.telemetry.kept_out)
        self.history = HistoryCheck(config)
        registry = LayoutRegistry(self.redis, self.namespace.name)
        self.following = Following(config, registry, self.stop)
        self.show_settings(config)

    def show_settings(self, config: Config) -> None:
        """Serve what is known of a configuration without any event."""
        self.http.markers = MarkerSettings(
            self.markers,
            MarkerRules(
                [metric.name for metric in config.plan.metrics],
                config.plan.grouping_names,
                self.keep_markers_ms,
            ),
        )
        change_settings = config.resolved_changes
        floors = {(f.metric, f.grouping, f.segment): f.floor for f in change_settings.score_floors}
        self.telemetry.judged_by(
            change_settings.numbers, change_settings.metric_drift_ratios, floors
        )
        links = config.links
        self.telemetry.links_to(links.runbook_address, links.page, links.dashboards)

    async def _write_mark(self, lane: int, token: str, sequence: int, mark: StallMark) -> bool:
        """Mark a batch that takes too long: called by another thread, in an event loop of its
        own."""
        async with connected(self.config) as client:
            return await LaneStore(client, self.namespace.name).mark(lane, token, sequence, mark)

    def swap(self, published: Published) -> None:
        """Publish what the exporter made: from now on it is served."""
        self.http.published = published

    def conditions(self) -> Sequence[Condition]:
        """What the readiness depends on, but for what the exporter itself adds."""
        watched = [Condition("web_config", True, self.http.unread)] * bool(
            self.config.http.web_config
        )
        return [*watched, *self._conditions_of_worker()]

    def _conditions_of_worker(self) -> Sequence[Condition]:
        if self.role == "exporter":
            return []
        if self.worker is None or self.ownership is None:
            refusal = self.joining.refusal
            waiting_for = waiting_text(self.obstacle(), self.redis_answer.missing)
            waiting = Condition("started", False, refusal or waiting_for)
            return [waiting, Condition("group", not refusal, refusal)]
        brokers = self.config.kafka.bootstrap_servers
        missing = self.history.missing
        outcomes = {name: watch.text for name, watch in self.watches.items()}
        conditions = worker_conditions(self.worker, self.ownership, missing, brokers, outcomes)
        layout, core = self.following.says, self.core.text
        if self.stage is not None:
            says = self.stage.says
            conditions = [*conditions, Condition("stage", not says, says or self.stage.remark)]
        return [*conditions, Condition("layout", True, layout), Condition("core", True, core)]

    def leave(self) -> None:
        """Work on no lane any more."""
        self.lanes = lambda: None
        self.worker = self.ownership = None
        self.telemetry.owned_lanes.set(0)

    def unreadable(self) -> tuple[tuple[str, ...], str]:
        """(topics without one event, though records were read, what to say of them)."""
        if self.ownership is None:
            return (), ""
        return unreadable_topics(self.ownership, self.config.kafka.bootstrap_servers)

    def wrong_outcomes(self) -> list[str]:
        """What to say of most feedback, once, when it begins to be wrong."""
        owned = {} if self.ownership is None else self.ownership.lanes
        now_s, lanes = time.monotonic(), [one.claimed.lane for one in owned.values()]
        if self.config.kafka.lanes == ONE:
            self.core.look(now_s, time.process_time())
        return [watch.text for watch in self.watches.values() if watch.look(lanes, now_s)]

    def make_worker(
        self,
        source: Source,
        beginning: Beginning,
        letters: DeadLetterTopic | None,
        working: Working,
    ) -> Worker:
        """Make the worker that reads this source under a layout, until that is over."""
        config = working.config
        ports = Ports(
            source,
            self.store,
            letters,
            self.schemas,
            library_of(config),
            class_libraries(config),
            config.limits.max_future_ms,
        )
        process = Process(self.telemetry, time.time, working.over, config.log.record_values)
        layouts = self.following.layouts(working)
        self.ownership = Ownership(ports, process, layouts, beginning)
        self.worker = Worker(
            ports,
            process,
            self.ownership,
            lane_decoder_of(config, self.book),
            Pace(config.kafka.max_batch_records, config.kafka.commit_interval_ms / 1000),
            process_memory.memory_bound(config.worker.max_memory_mib),
            StallWatch(self._write_mark, config.kafka.session_timeout_s / 3),
        )
        return self.worker

    def make_exporter(self, working: Working) -> Exporter:
        """Make the exporter of this namespace under a layout, until that is over."""
        config = working.config
        return Exporter(
            self.store,
            self.namespace,
            config.plan,
            self.telemetry,
            self,
            working.over,
            change_settings=config.resolved_changes,
            markers=KeptMarkers(self.markers, self.keep_markers_ms),
            version_attribute=config.segments.version_attribute,
            former=self.http.published,
            past=PastReads(PastStore(self.redis, self.namespace.name), config.plan),
            examples=ExampleReads(QueryStore(self.redis, self.namespace.name), config.plan),
        )


def tracer_of(environment: Mapping[str, str]) -> "Tracer | None":
    """Return what sends spans, where the environment asks for it; None, with a line in the log,
    where this installation or program cannot: the work does not need them."""
    if not is_asked_for(environment):
        return None
    if (reason := unsupported(environment)) is None:
        try:
            from ..telemetry.otlp import Tracer  # the libraries are optional, and slow to load

            return Tracer(version("relevanced"))
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "opentelemetry":
                raise
            reason = lacking("otel")
        except ValueError as error:
            reason = f"OTEL_*: {error}"
    log.warning("no traces are sent", reason=reason)
    return None


Job: TypeAlias = Callable[[Service], Awaitable[None]]


async def serve(service: Service, job: Job | None) -> int:
    """`serve_until_stopped`, with the log line of what keeps it from starting; returns the exit
    code."""
    try:
        await serve_until_stopped(service, job)
    except (ListenError, StartError) as error:
        log.error("cannot run", reason=str(error))
        return 1
    unmet = [one for one in service.http.published.conditions if not one.ok]
    log.info(
        "stopped", **({"not_ready": [one.detail or one.name for one in unmet]} if unmet else {})
    )
    return 0


async def serve_until_stopped(service: Service, job: Job | None) -> None:
    """Serve HTTP, do the job, and export where that is the role, until a signal stops the process.
    Raises ListenError and StartError."""
    http = service.config.http
    raise_bound_of_open_files()
    turn_off_core_dumps()
    try:
        await service.http.start(http.host, http.port, http.web_config)
        log.info(
            "serving",
            url=f"{service.http.scheme}://{http.host}:{service.http.port}",
            namespace=service.namespace.name,
        )
        with stopping_on_signals(service.stop):
            await _run_parts(service, job)
    finally:
        await service.http.stop()
        if service.schemas is not None:
            await service.schemas.close()
        await close(service.redis)
        if service.tracer is not None:
            service.tracer.end()


async def _run_parts(service: Service, job: Job | None) -> None:
    """Run all tasks of the process. The first that ends stops the others; what it raised is
    raised."""
    namespace, stop = service.namespace, service.stop
    parts: list[Awaitable[None]] = [
        _exporting(service),
        service.following.follow(proposes=job is not None),
        service.following.end_with_the_process(),
        watch_eviction(namespace.eviction_policy, service.telemetry, stop),
    ]
    if job is not None:
        keep_ms = service.config.redis.keep_s * 1000
        parts += [
            job(service),
            show_life(namespace, lambda: service.lanes(), keep_ms, stop),
            sweep_lanes(service.store, stop),
            warn_of_records(service.unreadable, service.wrong_outcomes, stop),
        ]
        if service.schemas is not None:
            parts.append(service.schemas.watch(stop))
    watches = {
        asyncio.create_task(watch_stalls(service.telemetry.note_stall)),
        asyncio.create_task(keep_informed(lambda: service.http.published)),
    }
    tasks = [asyncio.ensure_future(_then_stop(part, service.stop)) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.wait({*watches, *tasks})


async def _then_stop(part: Awaitable[None], stop: asyncio.Event) -> None:
    try:
        await part
    finally:
        stop.set()


async def _exporting(service: Service) -> None:
    """Run the exporter; in a process that is only a worker, publish its readiness."""
    if service.role != "worker":
        await finished_before_stop(service.following.step(), service.stop)
        while not service.stop.is_set():
            working = service.following.now
            service.show_settings(working.config)
            await service.make_exporter(working).run()
        return
    while not await stopped_within(service.stop, 1.0):
        service.swap(Published(conditions=tuple(service.conditions())))
