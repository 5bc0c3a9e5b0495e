"""CPU time per event of a worker over a prepared topic, divided by that of the floor.

The floor and the worker take turns: A B A B …
"""

from dataclasses import dataclass, replace
from typing import Final

from tests.bench.cpu import Usage
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic

MAIN_BATCH: Final = 10_000
BATCHES: Final = (MAIN_BATCH, 1_000, 2_000, 40_000)
GOAL: Final = 1.5
STALL: Final = "relevanced_event_loop_stall_seconds"
STALL_GOAL_S: Final = 0.1
ROUNDS: Final = 3
FEWEST_BATCHES: Final = 5
OTHERS: Final = 4
"""With other batch sizes, one in this many records of the topic is read."""


@dataclass(frozen=True)
class Pair:
    """The usage of worker and floor over the same records."""

    worker: Usage
    floor: Usage
    stall_s: float
    """The longest stall of the worker's event loop."""


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """Worker ÷ floor at several batch sizes."""
    traffic = Traffic(records=effort.of(2_000_000))
    findings: list[Finding] = []
    notes: list[str] = []
    for batch in effort.first(BATCHES):
        upto = traffic.records if batch == MAIN_BATCH else traffic.records // OTHERS
        if upto < batch * FEWEST_BATCHES and not effort.is_smoke:
            notes.append(f"batches of {batch:,}: {upto:,} records are too few to say")
            continue
        pairs = [await _pair(stage, traffic, batch, upto) for _ in range(effort.rounds(ROUNDS))]
        findings += _findings(batch, pairs)
    return PartResult(findings, notes=notes)


async def _pair(stage: Stage, traffic: Traffic, batch: int, upto: int) -> Pair:
    topic = await stage.topic(traffic)
    floor = await stage.floor(topic, upto, batch)
    stage.redis.flush()
    job = replace(Job(traffic), batch=batch)
    with stage.worker(job, topic, stage.name()) as worker:
        measured = await worker.measured(upto)
        return Pair(measured, floor, worker.daemon.series(STALL))


def _findings(batch: int, pairs: list[Pair]) -> list[Finding]:
    at, key = f"batches of {batch:,}", f"end_to_end.batch_{batch}"
    costs = [(pair.worker.cpu_us, pair.floor.cpu_us) for pair in pairs]
    goal = GOAL if batch == MAIN_BATCH else None
    findings = [ratio(f"{key}.to_floor", f"worker ÷ floor, {at}", costs, goal)]
    if batch == MAIN_BATCH:
        findings += [
            number(f"{key}.worker_us", f"worker, {at}", [cost for cost, _ in costs], "µs/event"),
            number(f"{key}.floor_us", f"floor, {at}", [cost for _, cost in costs], "µs/event"),
            number(
                f"{key}.stall_s",
                f"worst stall of the event loop at full load, {at}",
                [pair.stall_s for pair in pairs],
                "s",
                STALL_GOAL_S,
            ),
        ]
    return findings
