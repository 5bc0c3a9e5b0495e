"""What tables of queries cost: workers without and with them take turns over the same traffic.

Impressions have one of a million queries by Zipf's law, and one of a million users, so that nearly
all users of a batch differ. Memory and blocks are measured while no impression settles, stored rows
in hours that are over. Then a million impressions in one hour, each with a query of its own, and
last attributes that are derived from queries (`derived_cost`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from relevanced.daemon.storage import hour_of, rows_of, unpacked_hour
from tests.bench import derived_cost
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.memory import ALL_STAY_OPEN, MIB, all_open, resident
from tests.bench.stage import Job, Running, Stage
from tests.bench.traffic import NEW_QUERIES, Traffic

QUERIES: Final = 1_000_000
ROUNDS: Final = 3
MIXED: Final = Traffic(records=1_600_000, queries=QUERIES)
ALONE: Final = replace(MIXED, records=800_000, feedback_per_impression=0.0)
OPEN_IMPRESSIONS: Final = 500_000
HOURS: Final = 300_000
HOURS_S: Final = 12_000
"""More than three hours, in each at full scale about 6,000 impressions of a lane."""
NEW: Final = Traffic(
    records=1_100_000,
    queries=NEW_QUERIES,
    events_per_second=305.0,
    feedback_per_impression=0.1,
)
"""A million searches in an hour of event time."""
GOAL_WORKER: Final = 1.2
GOAL_OPEN_BYTES: Final = 24.0
GOAL_ROW_BYTES: Final = 64.0
OFF: Final = ""
WORKER: Final = "worker with `[queries]` ÷ without"
ON: Final = '[queries]\ntext = "plain"\n'
BY: Final = f'{ON}by = "country"\n'
STALL: Final = "relevanced_event_loop_stall_seconds"


@dataclass(frozen=True)
class Left:
    """What a worker holds after it has read a topic, and what Redis does."""

    resident: int
    open_impressions: int
    open_bytes: int
    """Of the blocks of open impressions."""
    query_bytes: int
    """Of tables of queries."""
    cpu_us: float
    stall_s: float


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """Worker with queries ÷ without, and the bytes of what is kept of them."""
    findings = [*await _times(stage, effort), *await _open(stage, effort)]
    findings.append(await _rows(stage, effort))
    findings += await _new(stage, effort)
    return PartResult([*findings, *await derived_cost.findings(stage, effort, MIXED)])


async def _times(stage: Stage, effort: Effort) -> list[Finding]:
    findings = list[Finding]()
    for name, traffic, words in (
        ("mixed", MIXED, "55 % impressions"),
        ("alone", ALONE, "impressions alone"),
    ):
        traffic = replace(traffic, records=effort.of(traffic.records))
        sections = (OFF, ON, BY) if name == "mixed" else (OFF, ON)
        us: dict[str, list[float]] = {section: [] for section in sections}
        for _ in range(effort.rounds(ROUNDS)):
            for section in sections:
                us[section].append(await _worker_us(stage, traffic, section))
        goal = GOAL_WORKER if name == "mixed" else None
        findings += [
            ratio(f"queries.{name}", f"{WORKER}, {words}", _pairs(us, ON), goal),
            number(f"queries.{name}_us", f"the same without queries, {words}", us[OFF], "µs/event"),
        ]
        if BY in us:
            with_by = "with a table by country"
            findings.append(ratio(f"queries.{name}_by", f"{WORKER}, {with_by}", _pairs(us, BY)))
        await stage.forget(traffic)
    return findings


def _pairs(us: dict[str, list[float]], section: str) -> list[tuple[float, float]]:
    return list(zip(us[section], us[OFF], strict=True))


async def _worker_us(stage: Stage, traffic: Traffic, section: str) -> float:
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic, more=section), topic, stage.name()) as worker:
        return (await worker.measured(traffic.records)).cpu_us


async def _open(stage: Stage, effort: Effort) -> list[Finding]:
    """Bytes per open impression, in the process and in the blocks of Redis."""
    traffic = replace(all_open(effort.of(OPEN_IMPRESSIONS)), queries=QUERIES)
    rounds = [
        [
            await _left(stage, Job(traffic, attribution=ALL_STAY_OPEN, more=section))
            for section in (OFF, ON)
        ]
        for _ in range(effort.rounds(ROUNDS))
    ]
    await stage.forget(traffic)
    count = rounds[0][0].open_impressions
    words = f"of queries and users, per open impression ({count:,} open)"

    def more(of: Callable[[Left], int]) -> list[float]:
        return [(of(on) - of(off)) / on.open_impressions for off, on in rounds]

    return [
        number(
            "queries.open_bytes",
            f"worker, {words}",
            more(lambda left: left.resident),
            "B",
            GOAL_OPEN_BYTES,
        ),
        number(
            "queries.block_bytes",
            f"stored, {words}",
            more(lambda left: left.open_bytes),
            "B",
            compared=True,
        ),
    ]


async def _rows(stage: Stage, effort: Effort) -> Finding:
    """Bytes per stored row of hours that are over."""
    records = max(effort.of(HOURS), HOURS // 20)
    traffic = Traffic(records=records, queries=QUERIES, events_per_second=records / HOURS_S)
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic, more=BY), topic, stage.name()) as worker:
        await worker.follow(traffic.records)
        size, rows = 0, 0
        for page in _pages(worker):
            size += len(page)
            rows += sum(len(rows_of(table).keys) for table in unpacked_hour(page).tables.values())
    await stage.forget(traffic)
    words = f"stored, per row of an hour that is over ({rows:,} rows)"
    return number("queries.row_bytes", words, [size / rows], "B", GOAL_ROW_BYTES, compared=True)


async def _new(stage: Stage, effort: Effort) -> list[Finding]:
    """A million queries in an hour, each new."""
    traffic = replace(NEW, records=effort.of(NEW.records))
    jobs = [Job(traffic, more=section) for section in (OFF, ON)]
    pairs = [
        (await _left(stage, jobs[0]), await _left(stage, jobs[1]))
        for _ in range(effort.rounds(ROUNDS))
    ]
    await stage.forget(traffic)
    words = f"{traffic.impressions:,} searches in an hour, each query new"
    return [
        ratio(
            "queries.new",
            f"{WORKER}, {words}",
            [(on.cpu_us, off.cpu_us) for off, on in pairs],
        ),
        number(
            "queries.new_mib",
            f"memory for the queries, {words}",
            [(on.resident - off.resident) / MIB for off, on in pairs],
            "MiB",
        ),
        number(
            "queries.new_redis",
            f"tables in Redis, {words}",
            [on.query_bytes / MIB for _, on in pairs],
            "MiB",
        ),
        number(
            "queries.new_stall_s", f"worst stall, {words}", [on.stall_s for _, on in pairs], "s"
        ),
    ]


async def _left(stage: Stage, job: Job) -> Left:
    topic = await stage.topic(job.traffic)
    stage.redis.flush()
    with stage.worker(job, topic, stage.name()) as worker:
        usage = await worker.measured(job.traffic.records)
        return Left(
            cpu_us=usage.cpu_us,
            open_impressions=await worker.open_impressions(),
            resident=resident(worker),
            open_bytes=_bytes(worker, "open:*"),
            query_bytes=_bytes(worker, "queries:*"),
            stall_s=worker.daemon.series(STALL),
        )


def _keys(worker: Running, pattern: str) -> Iterator[bytes]:
    yield from worker.redis.scan_iter(f"{{{worker.prefix}:*}}:{pattern}", count=1000)


def _bytes(worker: Running, pattern: str) -> int:
    return sum(worker.redis.strlen(key) for key in _keys(worker, pattern))


def _pages(worker: Running) -> Iterator[bytes]:
    """The stored hours that are over, of all lanes."""
    for key in _keys(worker, "queries:*"):
        if hour_of(key.decode().rpartition("}:")[2]) is not None:
            yield worker.redis.get(key)
