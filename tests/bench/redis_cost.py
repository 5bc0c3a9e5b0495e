"""What a worker asks of Redis: processor time, bytes, commands, and how long it blocks.

The server's own clock and counters tell. Requests are measured in a run of their own, because
keeping their log costs the server time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.cpu import Stretch
from tests.bench.effort import Effort
from tests.bench.findings import Finding, Found, number
from tests.bench.stage import Job, Running, Stage
from tests.bench.traffic import Traffic

ROUNDS: Final = 3
LOGGED_RECORDS: Final = 200_000
LOGGED_REQUESTS: Final = 100_000
EVENTS_PER_S: Final = 50_000
GOAL_US: Final = 0.15
GOAL_OPEN_BYTES: Final = 80.0
GOAL_BLOCKING_US: Final = 1000.0


@dataclass(frozen=True)
class Round:
    """One run over the topic."""

    stretch: Stretch
    commands_per_event: float
    script_p99_us: float
    script_longest_us: float
    open_bytes: float
    row_bytes: float


async def measure(stage: Stage, effort: Effort) -> Found:
    """Server time per event, and the sizes of what is stored and sent."""
    traffic = Traffic(records=effort.of(2_000_000))
    rounds = [await _round(stage, traffic) for _ in range(effort.rounds(ROUNDS))]
    requests = await _script_requests(stage, effort)
    at_rate = [one.commands_per_event * EVENTS_PER_S for one in rounds]
    blocking = [one.script_longest_us for one in rounds]
    findings: list[Finding] = [
        number(
            "redis.server_us",
            "server, batches of 10,000",
            [one.stretch.redis_us for one in rounds],
            "µs/event",
            GOAL_US,
        ),
        number(
            "redis.open_bytes",
            "stored, per open impression",
            [one.open_bytes for one in rounds],
            "B",
            GOAL_OPEN_BYTES,
            compared=True,
        ),
        number(
            "redis.row_bytes",
            "stored, per row of a pane",
            [one.row_bytes for one in rounds],
            "B",
            compared=True,
        ),
        number("redis.commands", f"commands at {EVENTS_PER_S:,} events/s", at_rate, "/s"),
        number("redis.script_bytes", "largest script call", [max(requests)], "B"),
        number(
            "redis.script_p99_us",
            "script, 99 % are shorter",
            [one.script_p99_us for one in rounds],
            "µs",
        ),
        number("redis.script_longest_us", "longest script", blocking, "µs", GOAL_BLOCKING_US),
    ]
    return Found(findings)


async def _round(stage: Stage, traffic: Traffic) -> Round:
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic), topic, stage.name()) as worker:
        server = worker.redis
        server.config_set("latency-tracking-info-percentiles", "50 99 100")
        server.config_resetstat()
        stretch = await worker.measured(traffic.records)
        script = server.info("latencystats")["latency_percentiles_usec_evalsha"]
        open_bytes = sum(_bytes_of(worker, "open:*")) / await worker.open_impressions()
        panes = {key.rsplit(b":", 1)[0] for key in _keys(worker, "rows:*")}
        rows = sum(
            (server.hlen(f"{{{worker.prefix}:{lane}}}:names") + 1)
            * sum(pane.startswith(f"{{{worker.prefix}:{lane}}}".encode()) for pane in panes)
            for lane in range(traffic.partitions)
        )
        return Round(
            stretch,
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
    """That came in from others, over all of their connections."""
    own = str(server.client_id())
    return sum(int(one["tot-cmds"]) for one in server.client_list() if one["id"] != own)


async def _script_requests(stage: Stage, effort: Effort) -> list[int]:
    """Bytes of each script call of a short run."""
    traffic = Traffic(records=effort.of(LOGGED_RECORDS))
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic), topic, stage.name()) as worker:
        server = worker.redis
        server.config_set("commandlog-large-request-max-len", LOGGED_REQUESTS)
        server.config_set("commandlog-request-larger-than", 1)
        try:
            await worker.follow(traffic.records)
            log = server.execute_command("COMMANDLOG", "GET", "-1", "large-request")
        finally:
            server.config_set("commandlog-request-larger-than", -1)
            server.execute_command("COMMANDLOG", "RESET", "large-request")
    return [entry[2] for entry in log if entry[3][0].upper() == b"EVALSHA"]
