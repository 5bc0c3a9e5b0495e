"""A process that cannot begin names everything that it waits for."""

import asyncio
import time
from pathlib import Path

from tests.services.daemons import Daemon

TOML = """
[kafka]
bootstrap_servers = ["127.0.0.1:1"]
[redis]
url = "redis://127.0.0.1:1/0"
"""
PATIENCE_S = 60.0


async def test_kafka_and_redis_are_both_named_where_both_are_away(tmp_path: Path) -> None:
    """Nothing listens at port 1."""
    daemon = Daemon(tmp_path, TOML, "worker")
    try:
        deadline = time.monotonic() + PATIENCE_S
        wanted = ("waiting for Kafka: ", "waiting for Redis: ", "127.0.0.1:1")
        while not all(text in daemon.readiness() for text in wanted):
            assert time.monotonic() < deadline, daemon.readiness() + daemon.log()
            await asyncio.sleep(0.2)
        while not all(text in daemon.log() for text in ("waiting for Kafka", "waiting for Redis")):
            assert time.monotonic() < deadline, daemon.log()
            await asyncio.sleep(0.2)
    finally:
        daemon.close()
