"""The requests of a worker's commits, recorded, and done again by a server that does nothing else.

How long a script blocks the server is what it takes of the processor. The server's own clock cannot
tell: on a machine whose cores are all busy a script also waits for its turn, and then a single
RENAME takes milliseconds by that clock.
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
    """What a worker sends until it is through with its topic, in the order of its sending."""
    topic = await stage.topic(job.traffic)
    stage.redis.flush()
    async with Proxy(*stage.redis.ports) as proxy:
        with stage.worker(job, topic, stage.name(), redis_url=proxy.url) as worker:
            await worker.follow(job.traffic.records)
            return [request for request in proxy.requests if command(request) in WRITING]


def times_us(server: RedisServer, requests: Sequence[bytes]) -> list[float]:
    """Processor time of the server for each request, reading and answering it included."""
    server.flush()
    connection = redis.Connection(port=server.port)
    times = []
    for request in requests:
        began_s = processor_s(server.pid)
        connection.send_packed_command([request])
        # that a script is unknown is an answer too: its text follows
        with suppress(redis.exceptions.NoScriptError):
            connection.read_response()
        times.append((processor_s(server.pid) - began_s) * 1e6)
    connection.disconnect()
    return times


def command(request: bytes) -> bytes:
    """The first word of a request as it is on the wire."""
    return request.split(b"\r\n", 3)[2].upper()
