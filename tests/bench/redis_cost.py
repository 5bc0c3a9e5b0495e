"""What a worker costs Redis: CPU time, bytes, commands, and how long scripts block the server.

The requests that write are recorded in a separate run and replayed on an idle server: that is their
cost where Redis has a core and its caches for itself. The duration of scripts by the server's clock
is reported as well; on busy cores it consists mostly of waiting for a core.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.bench.cpu import Usage
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number
from tests.bench.requests import SCRIPTS, command, recorded, times_us
from tests.bench.stage import POLL_OFTEN_S, POLL_SELDOM_S, Job, Running, Stage
from tests.bench.traffic import Traffic

ROUNDS: Final = 3
RECORDED: Final = 500_000
"""Records whose commits are recorded and replayed."""
EVENTS_PER_S: Final = 50_000
GOAL_US: Final = 0.15
GOAL_OPEN_BYTES: Final = 80.0
GOAL_BLOCKING_US: Final = 1000.0


@dataclass(frozen=True)
class Round:
    """One run over the topic."""

    usage: Usage
    commands_per_event: float
    script_p99_us: float
    script_longest_us: float
    open_bytes: float
    row_bytes: float


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """CPU time of the server per event, and the sizes of stored state and requests."""
    traffic = Traffic(records=effort.of(2_000_000))
    # A poll costs Redis as much as a command of the worker: few polls, but at least two.
    poll_s = POLL_OFTEN_S if effort.is_smoke else POLL_SELDOM_S
    rounds = [await _round(stage, traffic, poll_s) for _ in range(effort.rounds(ROUNDS))]
    requests = await recorded(stage, Job(Traffic(records=effort.of(RECORDED))))
    replayed_us = [np.array(times_us(stage.redis, requests)) for _ in range(effort.rounds(ROUNDS))]
    is_script = np.array([command(request) in SCRIPTS for request in requests])
    script_bytes = [len(request) for request in requests if command(request) in SCRIPTS]
    at_rate = [run.commands_per_event * EVENTS_PER_S for run in rounds]
    findings: list[Finding] = [
        number(
            "redis.server_us",
            "server, batches of 10,000",
            [run.usage.redis_us for run in rounds],
            "µs/event",
            GOAL_US,
        ),
        number(
            "redis.alone_us",
            "the same requests, done again by a server that has the machine for itself",
            [float(times.sum()) / effort.of(RECORDED) for times in replayed_us],
            "µs/event",
            GOAL_US,
        ),
        number(
            "redis.open_bytes",
            "stored, per open impression",
            [run.open_bytes for run in rounds],
            "B",
            GOAL_OPEN_BYTES,
            compared=True,
        ),
        number(
            "redis.row_bytes",
            "stored, per row of a pane",
            [run.row_bytes for run in rounds],
            "B",
            compared=True,
        ),
        number("redis.commands", f"commands at {EVENTS_PER_S:,} events/s", at_rate, "/s"),
        number("redis.script_bytes", "largest script call", [max(script_bytes)], "B"),
        number(
            "redis.script_longest_us",
            "longest script, processor time",
            [float(times[is_script].max()) for times in replayed_us],
            "µs",
            GOAL_BLOCKING_US,
        ),
        number(
            "redis.script_clock_p99_us",
            "script by the clock, beside the worker: 99 % are shorter",
            [run.script_p99_us for run in rounds],
            "µs",
        ),
        number(
            "redis.script_clock_longest_us",
            "longest script by the clock, beside the worker",
            [run.script_longest_us for run in rounds],
            "µs",
        ),
    ]
    return PartResult(findings)


async def _round(stage: Stage, traffic: Traffic, poll_s: float) -> Round:
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic), topic, stage.name()) as worker:
        server = worker.redis
        server.config_set("latency-tracking-info-percentiles", "50 99 100")
        server.config_resetstat()
        usage = await worker.measured(traffic.records, poll_s)
        script = server.info("latencystats")["latency_percentiles_usec_evalsha"]
        open_bytes = sum(_bytes_of(worker, "open:*")) / await worker.open_impressions()
        panes = {key.rsplit(b":", 1)[0] for key in _keys(worker, "rows:*")}
        rows = sum(
            (server.hlen(f"{{{worker.prefix}:{lane}}}:names") + 1)
            * sum(pane.startswith(f"{{{worker.prefix}:{lane}}}".encode()) for pane in panes)
            for lane in range(traffic.partitions)
        )
        return Round(
            usage,
            _commands(server) / traffic.records,
            script["p99"],
            script["p100"],
            open_bytes,
            sum(_bytes_of(worker, "rows:*")) / rows,
        )


def _keys(worker: Running, pattern: str) -> Iterator[bytes]:
    yield from worker.redis.scan_iter(f"{{{worker.prefix}:*}}:{pattern}", count=1000)


def _bytes_of(worker: Running, pattern: str) -> Iterator[int]:
    for key in _keys(worker, pattern):
        yield worker.redis.memory_usage(key) or 0


def _commands(server: Any) -> int:
    """The number of commands over all connections but this one."""
    own = str(server.client_id())
    return sum(int(c["tot-cmds"]) for c in server.client_list() if c["id"] != own)
