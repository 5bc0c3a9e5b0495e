"""CPU time per event of a worker over a prepared topic, divided by that of the floor.

The floor and the worker take turns: A B A B … With batches of the usual size, a worker with all
partitions as one lane takes its turn, too, and one with a stage that divides events among lanes;
then its lanes alone, over what was sent.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from relevanced.daemon.config import ONE, REKEY
from tests.bench.cpu import Usage
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic

MAIN_BATCH: Final = 10_000
BATCHES: Final = (MAIN_BATCH, 1_000, 2_000, 40_000)
GOALS: Final = {MAIN_BATCH: 1.5, 2_000: 1.8, 1_000: 2.5}
ONE_GOAL: Final = 1.1
"""One lane of all partitions ÷ a lane of each."""
STAGE_GOAL: Final = 10.0
"""A stage and its lanes ÷ a lane of each: 6 on a quiet machine. What else runs leaves lanes less at
once."""
QUIET: Final = Traffic(records=12_000, events_per_second=1 / 7)
"""Most of a day."""
QUIET_GOAL: Final = 1.5
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
    one: Usage | None = None
    """Of the worker where all partitions are one lane, if it was measured."""
    rekeyed: tuple[Usage, Usage] | None = None
    """Of one with a stage and its lanes, and of one with lanes alone, likewise."""


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
    findings.append(await _quiet(stage, effort))
    return PartResult(findings, notes=notes)


async def _quiet(stage: Stage, effort: Effort) -> Finding:
    """The cost of an event of a day with few of them ÷ of as many within seconds."""
    us: dict[Traffic, list[float]] = {}
    for _ in range(effort.rounds(ROUNDS)):
        for traffic in (QUIET, replace(QUIET, events_per_second=Traffic.events_per_second)):
            topic = await stage.topic(traffic)
            usage, _ = await _worker(stage, Job(traffic), topic, traffic.records)
            us.setdefault(traffic, []).append(usage.cpu_us)
    quiet, dense = us.values()
    words = f"an event each {1 / QUIET.events_per_second:.0f} s ÷ as many at once, catching up"
    return ratio("end_to_end.quiet", words, list(zip(quiet, dense, strict=True)), QUIET_GOAL)


async def _pair(stage: Stage, traffic: Traffic, batch: int, upto: int) -> Pair:
    topic = await stage.topic(traffic)
    floor = await stage.floor(topic, upto, batch)
    job = replace(Job(traffic), batch=batch)
    one = rekeyed = None
    if batch == MAIN_BATCH:
        one, _ = await _worker(stage, replace(job, kafka_lanes=ONE), topic, upto)
        rekeyed = await _rekeyed(stage, replace(job, kafka_lanes=REKEY), topic, upto)
    worker, stall_s = await _worker(stage, job, topic, upto)
    return Pair(worker, floor, stall_s, one, rekeyed)


async def _worker(stage: Stage, job: Job, topic: str, upto: int) -> tuple[Usage, float]:
    """The usage of a worker, and the longest stall of its event loop."""
    stage.redis.flush()
    with stage.worker(job, topic, stage.name()) as worker:
        return await worker.measured(upto), worker.daemon.series(STALL)


async def _rekeyed(stage: Stage, job: Job, topic: str, upto: int) -> tuple[Usage, Usage]:
    """The usage of a worker with a stage, and of its lanes alone: they begin anew, and the stage
    has sent everything."""
    name, found = stage.name(), []
    async with stage.sent_topic(job, topic, name):
        for _ in range(2):
            stage.redis.flush()
            with stage.worker(job, topic, name) as worker:
                found.append(await worker.measured(upto))
                await asyncio.to_thread(worker.daemon.terminate)
    return found[0], found[1]


def _findings(batch: int, pairs: list[Pair]) -> list[Finding]:
    at, key = f"batches of {batch:,}", f"end_to_end.batch_{batch}"
    costs = [(pair.worker.cpu_us, pair.floor.cpu_us) for pair in pairs]
    findings = [ratio(f"{key}.to_floor", f"worker ÷ floor, {at}", costs, GOALS.get(batch))]
    if batch == MAIN_BATCH:
        lanes = [(pair.one.cpu_us, pair.worker.cpu_us) for pair in pairs if pair.one is not None]
        words = "one lane of all partitions ÷ a lane of each"
        findings += [
            ratio("end_to_end.one_to_partition", words, lanes, ONE_GOAL),
            *_of_stage(pairs),
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


def _of_stage(pairs: list[Pair]) -> list[Finding]:
    both = [(pair.rekeyed, pair.worker.cpu_us) for pair in pairs if pair.rekeyed is not None]
    costs = [(whole.cpu_us, worker_us) for (whole, _), worker_us in both]
    words = "a stage and its lanes ÷ a lane of each"
    shares = [(whole.cpu_us - lanes.cpu_us, whole.cpu_us) for (whole, lanes), _ in both]
    return [
        ratio("end_to_end.rekey_to_partition", words, costs, STAGE_GOAL),
        ratio("end_to_end.stage_share", "all but its lanes alone ÷ a stage and its lanes", shares),
    ]
