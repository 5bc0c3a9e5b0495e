"""Records the requests of a worker's commits, and replays them on a server that does nothing else.

The time for which a script blocks the server is its CPU time. The server's own clock does not
measure that: on a machine whose cores are all busy, a script also waits for a core, and then even a
single RENAME takes milliseconds by that clock.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import redis

from tests.bench.cpu import processor_s
from tests.bench.stage import Job, Stage
from tests.services.proxy import Proxy
from tests.services.redis_server import RedisServer

WRITING: Final = (b"SET", b"EVALSHA", b"EVAL")
SCRIPTS: Final = (b"EVALSHA", b"EVAL")


async def recorded(stage: Stage, job: Job) -> list[bytes]:
    """The writing requests of a worker over a whole topic, in the order in which it sends them."""
    topic = await stage.topic(job.traffic)
    stage.redis.flush()
    async with Proxy(*stage.redis.ports) as proxy:
        with stage.worker(job, topic, stage.name(), redis_url=proxy.url) as worker:
            await worker.follow(job.traffic.records)
            return [request for request in proxy.requests if command(request) in WRITING]


def times_us(server: RedisServer, requests: Sequence[bytes]) -> list[float]:
    """CPU time of the server for each request in µs, including reading and answering it."""
    server.flush()
    connection = redis.Connection(port=server.port)
    times = []
    for request in requests:
        began_s = processor_s(server.pid)
        connection.send_packed_command([request])
        # NOSCRIPT is a valid answer: the worker then sent EVAL with the text.
        with suppress(redis.exceptions.NoScriptError):
            connection.read_response()
        times.append((processor_s(server.pid) - began_s) * 1e6)
    connection.disconnect()
    return times


def command(request: bytes) -> bytes:
    """The command name of a request in the wire protocol."""
    return request.split(b"\r\n", 3)[2].upper()
