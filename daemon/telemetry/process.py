"""The series that a process exposes of itself, in a registry of its own: one `Telemetry` is passed
to everything that counts. Its status, which the API reports, is made of the same values.

Names, labels and help come from the one table of families. Nothing here is shared between
processes.
"""

import asyncio
import math
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest as generate_text
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from .families import FAMILIES
from .kafka_faults import ADVICE, KafkaFault
from .tracing import StartSpan, off

WINDOW_S: Final = 60.0
INTERVAL_S: Final = 0.1


class LongestStall:
    """The longest stall of the last minute. Safe to read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stalls: deque[tuple[float, float]] = deque()
        """(when, how long), the longest first: a stall goes as soon as a later one is as long."""

    def note(self, now_s: float, stall_s: float) -> None:
        """Note a stall that ended now."""
        with self._lock:
            while self._stalls and self._stalls[-1][1] <= stall_s:
                self._stalls.pop()
            self._stalls.append((now_s, stall_s))
            self._forget(now_s)

    def seconds(self, now_s: float) -> float:
        """The longest stall in seconds; 0 where none was noted."""
        with self._lock:
            self._forget(now_s)
            return self._stalls[0][1] if self._stalls else 0.0

    def _forget(self, now_s: float) -> None:
        while self._stalls and self._stalls[0][0] <= now_s - WINDOW_S:
            self._stalls.popleft()


async def watch_stalls(note: Callable[[float], None], interval_s: float = INTERVAL_S) -> None:
    """Note by how many seconds the event loop wakes this task too late, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        note(max(0.0, loop.time() - due_s))


@dataclass(frozen=True)
class ProcessStatus:
    """What this process does, at one instant. A process that reads no events leaves its work at 0.

    Read from the same objects that `/metrics` is rendered from, so that the two always agree.
    """

    lag_records: Mapping[tuple[str, int], int]
    """(topic, partition) → records that have not been read yet"""
    owned_lanes: int
    stopped_lanes: tuple[int, ...]
    """Lanes that cannot go on without help."""
    commits: Mapping[str, int]
    """Outcome → commits"""
    batches: int
    batches_s: float
    """Time of all batches together."""
    last_poll_s: float
    """Unix time when Kafka last answered; 0 is never."""
    open_impressions: int
    waiting_feedback: int
    snapshot_duration_s: float
    """Time that the last snapshot took; 0 before the first."""
    snapshot_errors: int
    runbook: str
    """Where people on call read the runbook; empty where that is not set."""


# Typed here: the library leaves them without types.
_omit_created: Callable[[], None] = disable_created_metrics
_openmetrics_text: Callable[[Collector], bytes] = generate_openmetrics

COMMIT_OUTCOMES: Final = ("applied", "already", "lost", "damaged")
REGISTRY_OUTCOMES: Final = ("ok", "missing", "failed")
TOKEN_OUTCOMES: Final = ("ok", "failed")
REBUILT_FROM: Final = ("kafka_start", "stored_offsets")
BATCH_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
EVICTS_ANY_KEY: Final = "allkeys-"
"""Policies of Redis that begin like this remove keys that have no time to live."""


class Telemetry:
    """This process's series. Safe to render from any thread while others count. And what begins its
    spans."""

    def __init__(self, version: str, role: str = "all") -> None:
        # `_created` series double the text and nobody here reads them. The switch is of the whole
        # process; its output is the same bytes from prometheus-client 0.20 on.
        _omit_created()
        self.version = version
        self.span: StartSpan = off
        self._registry = registry = CollectorRegistry()
        self._longest_stall = LongestStall()
        build = FAMILIES["relevanced_build_info"]
        info = Info(build.name.removesuffix("_info"), build.help, registry=registry)
        info.info({"version": version, "python": platform.python_version(), "role": role})
        self.batch_duration_s = _histogram("relevanced_batch_duration_seconds", registry)
        self.commits = _counter("relevanced_commits_total", registry)
        self.lag_records = _gauge("relevanced_lag_records", registry)
        self.partition_unreadable = _gauge("relevanced_partition_unreadable", registry)
        self._kafka_faults = _counter("relevanced_kafka_faults_total", registry)
        self._topic_partitions = _gauge("relevanced_topic_partitions", registry)
        self.watermark_s = _gauge("relevanced_partition_watermark_timestamp_seconds", registry)
        self.watermark_ahead_s = _gauge("relevanced_watermark_ahead_seconds", registry)
        self._kept_out = _gauge("relevanced_kept_out", registry)
        self.last_poll_s = _gauge("relevanced_last_poll_timestamp_seconds", registry)
        self.memory_bound_bytes = _gauge("relevanced_memory_bound_bytes", registry)
        self.memory_bound_bytes.set(math.inf)
        self.memory_bound_met = _gauge("relevanced_memory_bound_met", registry)
        self.open_impressions = _gauge("relevanced_open_impressions", registry)
        self.waiting_feedback = _gauge("relevanced_waiting_feedback", registry)
        self.owned_lanes = _gauge("relevanced_owned_lanes", registry)
        self.lane_stopped = _gauge("relevanced_lane_stopped", registry)
        self.lane_damaged = _gauge("relevanced_lane_damaged", registry)
        self.lane_repairs = _counter("relevanced_lane_repairs_total", registry)
        self.lanes_begun_anew = _counter("relevanced_lanes_begun_anew_total", registry)
        self.lane_state_lost = _counter("relevanced_lane_state_lost_total", registry)
        self.lane_rebuilt_from_s = _gauge(
            "relevanced_lane_rebuilt_from_timestamp_seconds", registry
        )
        self.lost_history_s = _gauge("relevanced_lost_history_seconds", registry)
        self.split_ids = _counter("relevanced_split_ids_total", registry)
        self.source_stopped = _gauge("relevanced_source_stopped", registry)
        self.rekeyed_events = _counter("relevanced_rekeyed_events_total", registry)
        self.rekey_messages = _counter("relevanced_rekey_messages_total", registry)
        self.lifted_partitions = _gauge("relevanced_lifted_partitions", registry)
        self.wrong_lane_feedback = _counter("relevanced_wrong_lane_feedback_total", registry)
        self.dead_letters = _counter("relevanced_dead_letters_total", registry)
        self.schemas = _gauge("relevanced_schemas", registry)
        self.registry_requests = _counter("relevanced_registry_requests_total", registry)
        self.mapped_records = _counter("relevanced_mapped_records_total", registry)
        self.mapped_slowly = _counter("relevanced_mapped_slowly_total", registry)
        self._token_requests = _counter("relevanced_token_requests_total", registry)
        self._token_expiry_s = _gauge("relevanced_token_expiry_timestamp_seconds", registry)
        self.exporter_lease_held = _gauge("relevanced_exporter_lease_held", registry)
        self._catching_up = _gauge("relevanced_catching_up", registry)
        self._superseded: Gauge | None = None
        self._catch_up_behind_s = _gauge("relevanced_catch_up_behind_seconds", registry)
        self.snapshot_s = _gauge("relevanced_snapshot_timestamp_seconds", registry)
        self.snapshot_duration_s = _gauge("relevanced_snapshot_duration_seconds", registry)
        self.snapshot_errors = _counter("relevanced_snapshot_errors_total", registry)
        self._stall = _gauge("relevanced_event_loop_stall_seconds", registry)
        self._settings = _gauge("relevanced_setting", registry)
        self._drift_ratios = _gauge("relevanced_drift_ratio", registry)
        self._score_floors = _gauge("relevanced_score_floor", registry)
        self._links = _gauge("relevanced_links_info", registry)
        self._judgements = _gauge("relevanced_judgements_info", registry)
        self._classes = _gauge("relevanced_query_classes_info", registry)
        self._class_files: dict[str, tuple[tuple[str, str, str], ...]] = {}
        self._may_evict = _gauge("relevanced_redis_may_evict_state", registry)
        for outcome in COMMIT_OUTCOMES:
            self.commits.labels(outcome)
        for rebuilt_from in REBUILT_FROM:
            self.lane_state_lost.labels(rebuilt_from)
        for outcome in REGISTRY_OUTCOMES:
            self.registry_requests.labels(outcome)
        for fault in ADVICE:
            self._kafka_faults.labels(fault)
        ProcessCollector(registry=registry)

    def set_eviction_policy(self, policy: str) -> None:
        """Show the `maxmemory-policy` of Redis, and whether it may evict state."""
        self._may_evict.clear()
        self._may_evict.labels(policy).set(policy.startswith(EVICTS_ANY_KEY))

    def kept_out(self, trouble: str | None) -> None:
        """Show what is wrong with Redis, for which this process takes no lane; None: nothing is."""
        self._kept_out.clear()
        if trouble is not None:
            self._kept_out.labels(trouble).set(1)

    def judged_by(
        self,
        settings: Mapping[str, float],
        drift_ratios: Mapping[str, float],
        floors: Mapping[tuple[str, str, str], float],
    ) -> None:
        """Show the settings of changes: numbers by name, drift by metric, and floors of scores by
        metric, grouping and segment."""
        for name, value in settings.items():
            self._settings.labels(name).set(value)
        for metric, ratio in drift_ratios.items():
            self._drift_ratios.labels(metric).set(ratio)
        for labels, floor in floors.items():
            self._score_floors.labels(*labels).set(floor)

    def set_catching_up(self, catching_up: bool, behind_ms: int | None) -> None:
        """Show whether the namespace is catching up, and how far it is behind; None: unknown."""
        self._catching_up.set(catching_up)
        unknown = math.nan if catching_up else 0.0
        self._catch_up_behind_s.set(unknown if behind_ms is None else behind_ms / 1000)

    def set_superseded(self, superseded: bool) -> None:
        """Show whether the namespace was succeeded or retired. Only from now on: the 0 of a process
        that does not know it, as workers and exporters without Redis, would deny what others
        said."""
        if self._superseded is None:
            self._superseded = _gauge("relevanced_superseded", self._registry)
        self._superseded.set(superseded)

    def links_to(self, runbook: str | None, page: str | None, dashboards: str | None) -> None:
        """Show the addresses that the texts of alerts link to."""
        self._links.labels(runbook or "", page or "", dashboards or "").set(1)

    def judgements_read(self, files: Iterable[tuple[str, str, str]]) -> None:
        """Show the files of judgements that this process has read: (name, SHA-256, start) each."""
        self._judgements.clear()
        for labels in files:
            self._judgements.labels(*labels).set(1)

    def classes_read(self, attribute: str, files: Iterable[tuple[str, str, str]]) -> None:
        """Show the same of the files of classes of an attribute."""
        self._class_files[attribute] = tuple(files)
        self._classes.clear()
        for name, of_attribute in self._class_files.items():
            for labels in of_attribute:
                self._classes.labels(name, *labels).set(1)

    def lane_closed(self, lane: int) -> None:
        """Forget the series of a lane that this process no longer writes. That it stopped stays."""
        for gauge in (
            self.open_impressions,
            self.waiting_feedback,
            self.lost_history_s,
            self.lifted_partitions,
        ):
            _remove(gauge, str(lane))

    def partition_lost(self, topic: str, partition: int) -> None:
        """Forget the series of a partition that this process no longer reads."""
        for gauge in (
            self.lag_records,
            self.watermark_s,
            self.watermark_ahead_s,
            self.partition_unreadable,
        ):
            _remove(gauge, topic, str(partition))

    def source_lost(self, topic: str, partition: int) -> None:
        """Forget the series of a partition that the stage of this process no longer reads."""
        for gauge in (self.lag_records, self.source_stopped):
            _remove(gauge, topic, str(partition))

    def topics_found(self, counts: Mapping[str, int]) -> None:
        """Show the number of partitions of each input topic, 0 where it has not been found."""
        for topic, count in counts.items():
            self._topic_partitions.labels(topic).set(count)

    def kafka_fault(self, fault: KafkaFault) -> None:
        """Count something wrong with the input topics."""
        self._kafka_faults.labels(fault).inc()

    def registry_asked(self, outcome: str) -> None:
        """Count a question to the schema registry: one of REGISTRY_OUTCOMES."""
        self.registry_requests.labels(outcome).inc()

    def token_asked(self, of: str, outcome: str, lifetime_s: float | None) -> None:
        """Count a request for a token of logins to Kafka or Redis: one of TOKEN_OUTCOMES, and how
        many seconds a new one lives."""
        for each in TOKEN_OUTCOMES:  # a first failure is seen to come after none
            self._token_requests.labels(of, each).inc(each == outcome)
        if lifetime_s is not None:
            self._token_expiry_s.labels(of).set(time.time() + lifetime_s)

    def note_stall(self, stall_s: float) -> None:
        """Note how long the event loop kept others waiting."""
        self._longest_stall.note(time.monotonic(), stall_s)

    def status(self) -> ProcessStatus:
        """The values that the API reports, as they are now. Safe from any thread."""
        lags = _values(self.lag_records)
        stopped = _values(self.lane_stopped)
        commits = _values(self.commits, "_total")
        return ProcessStatus(
            lag_records={(topic, int(index)): int(lag) for (topic, index), lag in lags.items()},
            owned_lanes=int(_total(self.owned_lanes)),
            stopped_lanes=tuple(sorted(int(lane) for (lane,), is_on in stopped.items() if is_on)),
            commits={outcome: int(count) for (outcome,), count in commits.items()},
            batches=int(_total(self.batch_duration_s, "_count")),
            batches_s=_total(self.batch_duration_s, "_sum"),
            last_poll_s=_total(self.last_poll_s),
            open_impressions=int(_total(self.open_impressions)),
            waiting_feedback=int(_total(self.waiting_feedback)),
            snapshot_duration_s=_total(self.snapshot_duration_s),
            snapshot_errors=int(_total(self.snapshot_errors, "_total")),
            runbook=next((runbook for runbook, *_ in _values(self._links)), ""),
        )

    def render(self, openmetrics: bool) -> bytes:
        """The whole text, with the `# EOF` of OpenMetrics. Takes milliseconds: meant for a
        thread."""
        self._stall.set(self._longest_stall.seconds(time.monotonic()))
        if openmetrics:
            return _openmetrics_text(self._registry)
        return generate_text(self._registry)


def _remove(gauge: Gauge, *labels: str) -> None:
    """Remove a series, where there is one: prometheus-client before 0.22 raises where there is not,
    as for a lane that is lost before its first record."""
    with suppress(KeyError):
        gauge.remove(*labels)


def _gauge(name: str, registry: CollectorRegistry) -> Gauge:
    family = FAMILIES[name]
    return Gauge(family.name, family.help, family.labels, registry=registry)


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    family = FAMILIES[name]
    return Counter(family.name, family.help, family.labels, registry=registry)


def _histogram(name: str, registry: CollectorRegistry) -> Histogram:
    family = FAMILIES[name]
    return Histogram(
        family.name, family.help, family.labels, registry=registry, buckets=BATCH_BUCKETS_S
    )


def _values(series: Collector, suffix: str = "") -> dict[tuple[str, ...], float]:
    """Label values → value; a counter or histogram needs the suffix of its samples."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in series.collect()
        for sample in family.samples
        if sample.name == family.name + suffix
    }


def _total(series: Collector, suffix: str = "") -> float:
    return sum(_values(series, suffix).values(), start=0.0)
