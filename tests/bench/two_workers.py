"""Two workers compared with one by CPU time per event, because the broker uses the same cores."""

import signal
from contextlib import ExitStack
from typing import Final

from tests.bench.cpu import processor_s
from tests.bench.effort import Effort
from tests.bench.findings import PartResult, ratio
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic

RECORDS: Final = 1_000_000
ROUNDS: Final = 3


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """CPU time of two workers ÷ that of one, over the same traffic."""
    traffic = Traffic(records=effort.of(RECORDS))
    pairs = [
        (await _cost_us(stage, traffic, 2), await _cost_us(stage, traffic, 1))
        for _ in range(effort.rounds(ROUNDS))
    ]
    return PartResult([ratio("two_workers.to_one", "two workers ÷ one, CPU per event", pairs)])


async def _cost_us(stage: Stage, traffic: Traffic, workers: int) -> float:
    """CPU time per event in µs. The workers own their lanes before the first record, and are
    stopped while the topic is filled."""
    topic, name = await stage.empty_topic(traffic.partitions), stage.name()
    stage.redis.flush()
    job = Job(traffic)
    with ExitStack() as stack:
        running = [stack.enter_context(stage.worker(job, topic, name)) for _ in range(workers)]
        await running[0].owned_by(running)
        for worker in running:
            worker.daemon.process.send_signal(signal.SIGSTOP)
        await stage.fill(topic, traffic)
        before_s = sum(processor_s(worker.pid) for worker in running)
        for worker in running:
            worker.daemon.process.send_signal(signal.SIGCONT)
        await running[0].follow(traffic.records)
        used_s = sum(processor_s(worker.pid) for worker in running) - before_s
    await stage.broker.delete_topic(topic)
    return used_s / traffic.records * 1e6
