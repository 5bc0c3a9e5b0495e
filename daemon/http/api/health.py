"""The state of the pipeline: this process, and all the traffic if it serves scores."""

from typing import Literal, TypeAlias

import msgspec

from ...events import timestamp_text
from ...exporter import CatchUpProgress, Condition, Published
from ...plan import Plan
from ...queries import HASHED, days_to_keep
from ...telemetry import ProcessStatus
from ...views import NOW, WINDOWS, Events
from .query_lists import UNIT_RANGE

Role: TypeAlias = Literal["all", "worker", "exporter"]


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric that is kept."""

    metric: str
    direction: Literal["up", "down", "none"]
    """Which way is better."""
    meaning: str
    """What a value says, in words."""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One window that is kept."""

    window: str
    seconds: int
    pane_seconds: int


class KeptQueries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of queries."""

    text: Literal["plain", "hashed"]
    by: str | None
    """The grouping that has tables of its own."""
    min_users: int
    """From so many users of a day on a text is shown."""
    windows: tuple[str, ...]
    compared_windows: tuple[str, ...]
    """Those for which enough days are kept to say what is usual."""
    compared_metrics: tuple[str, ...]
    """Those by which losses are known."""


class Partition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition that this process reads."""

    topic: str
    partition: int
    lag_records: int


class Work(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What this process itself reads and writes; an exporter does neither."""

    lag_records: int
    partitions: tuple[Partition, ...]
    owned_lanes: int
    stopped_lanes: tuple[int, ...]
    """Lanes that cannot go on without help."""
    commits: dict[str, int]
    """Outcome → commits."""
    batches: int
    batch_seconds: float | None
    """Mean time of a batch; null before the first."""
    last_poll: str | None
    """When Kafka last answered."""
    open_impressions: int
    waiting_feedback: int


class CatchingUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a namespace is that has not caught up with its logs yet."""

    behind_seconds: float | None
    """From the lane furthest behind to now; null while a lane has read nothing."""
    remaining_seconds: float | None
    """At the speed of the last minute; null where that is not known, or nothing moves."""
    words: str


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One process: its readiness, its work, and what it knows of all the traffic."""

    role: Role
    version: str
    now: str
    """This process's clock."""
    ready: bool
    conditions: tuple[Condition, ...]
    scores: Literal["served", "not_yet", "elsewhere"]
    as_of: str | None
    behind_seconds: float | None
    """From as_of to now."""
    catching_up: CatchingUp | None
    """null once the namespace has caught up, and in a process that reads no lanes."""
    recording: str | None
    """The files that are served by `relevanced replay --serve`, and when they end; null for live
    traffic."""
    settling_seconds: int | None
    """From live to settled."""
    metrics: tuple[Measured, ...]
    windows: tuple[Kept, ...]
    judged_metrics: tuple[str, ...]
    """Those that are scored by judgements; none where nothing is judged."""
    queries: KeptQueries | None
    """null where no queries are kept."""
    events: Events | None
    gap_records: int
    """Records that were lost before they were read."""
    segment_overflow: int
    """Impressions counted in `other`: no more segments of their grouping are admitted."""
    snapshot_seconds: float
    """How long the last snapshot took, without reading it."""
    snapshot_errors: int
    runbook: str | None
    """Address of the runbook: `links.runbook`, else `/runbook` of `links.page`. null where neither
    is set: `/runbook` of this server."""
    work: Work


def health(
    published: Published, status: ProcessStatus, role: Role, version: str, now_ms: int
) -> Health:
    """The health of this process now."""
    reading, report = published.reading, published.report
    as_of_ms = None if reading is None else reading.snapshot.as_of_ms
    counts = {} if reading is None else reading.snapshot.counts
    return Health(
        role=role,
        version=version,
        now=timestamp_text(now_ms),
        ready=published.ready,
        conditions=published.conditions,
        scores=_scores_served(role, published),
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        behind_seconds=None if as_of_ms is None else (now_ms - as_of_ms) / 1000,
        catching_up=_catching_up(published.catching_up),
        recording=published.recording,
        settling_seconds=None if reading is None else reading.plan.timing.settle_ms // 1000,
        metrics=() if reading is None else _metrics(reading.plan),
        windows=() if reading is None else _windows(reading.plan),
        judged_metrics=() if reading is None else _judged_metrics(reading.plan),
        queries=None if reading is None else _queries(reading.plan),
        events=None if report is None else report.events,
        gap_records=sum(counts.get("gap_records", {}).values()),
        segment_overflow=sum(counts.get("segment_overflow", {}).values()),
        snapshot_seconds=status.snapshot_duration_s,
        snapshot_errors=status.snapshot_errors,
        runbook=status.runbook or None,
        work=_work(status),
    )


def _scores_served(role: Role, published: Published) -> Literal["served", "not_yet", "elsewhere"]:
    if role == "worker":
        return "elsewhere"
    return "not_yet" if published.reading is None else "served"


def _catching_up(progress: CatchUpProgress | None) -> CatchingUp | None:
    if progress is None:
        return None
    behind_ms, remaining_ms = progress.behind_ms, progress.remaining_ms
    return CatchingUp(
        None if behind_ms is None else behind_ms / 1000,
        None if remaining_ms is None else remaining_ms / 1000,
        progress.words(),
    )


def _work(status: ProcessStatus) -> Work:
    lags = sorted(status.lag_records.items())
    return Work(
        lag_records=sum(status.lag_records.values()),
        partitions=tuple(Partition(topic, index, lag) for (topic, index), lag in lags),
        owned_lanes=status.owned_lanes,
        stopped_lanes=status.stopped_lanes,
        commits=dict(status.commits),
        batches=status.batches,
        batch_seconds=status.batches_s / status.batches if status.batches else None,
        last_poll=timestamp_text(int(status.last_poll_s * 1000)) if status.last_poll_s else None,
        open_impressions=status.open_impressions,
        waiting_feedback=status.waiting_feedback,
    )


def _metrics(plan: Plan) -> tuple[Measured, ...]:
    return tuple(
        Measured(metric.name, metric.direction, metric.entry.meaning) for metric in plan.metrics
    )


def _windows(plan: Plan) -> tuple[Kept, ...]:
    return tuple(
        Kept(span.name, span.length_ms // 1000, span.pane_ms // 1000)
        for span in plan.timing.windows
    )


def _judged_metrics(plan: Plan) -> tuple[str, ...]:
    return () if plan.judged is None else tuple(metric.name for metric in plan.judged.metrics)


def _queries(plan: Plan) -> KeptQueries | None:
    kept = plan.queries
    if kept is None:
        return None
    compared = [n for n, hours in WINDOWS.items() if n == NOW or days_to_keep(hours) <= kept.days]
    return KeptQueries(
        text="hashed" if kept.text == HASHED else "plain",
        by=kept.by,
        min_users=kept.min_users,
        windows=tuple(WINDOWS),
        compared_windows=tuple(compared),
        compared_metrics=tuple(m.name for m in plan.metrics if m.entry.range == UNIT_RANGE),
    )
