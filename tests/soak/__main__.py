"""`make soak`: hours of event time in minutes; checks that memory, keys, tasks and sockets stay
flat.

python -m tests.soak [--seed N] [--hours N]

Runs twice: with a fixed set of segment values, then with new ones all the time. The exit code is 1
if a quantity grows by more than its bound, or if something is left behind.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.services.fixtures import this_machines_broker
from tests.services.redis_server import RedisServer, binaries
from tests.soak.run import Soak, soak

KINDS = {"the same segments all the time": None, "a new segment every 30 s": 30}


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Hours of event time in minutes.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--hours", type=float, default=12)
    given = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return 0 if asyncio.run(run(given.seed, given.hours)) else 1


async def run(seed: int, hours: float) -> bool:
    print(f"soak: SEED={seed} HOURS={hours:g}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    broker = this_machines_broker(directory / "kafka")
    passed = True
    try:
        await asyncio.to_thread(broker.start)
        for index, (title, every_s) in enumerate(KINDS.items()):
            inner = directory / str(index)
            inner.mkdir()
            redis = RedisServer(str(binaries()["valkey"]), inner / "redis")
            await asyncio.to_thread(redis.start)
            print(f"\n{title}:", flush=True)
            try:
                settings = Soak(hours, seed + index, new_value_every_s=every_s)
                result = await soak(settings, inner, broker, redis)
            finally:
                redis.kill()
            print(result.text(), flush=True)
            passed = passed and result.passed
    finally:
        await asyncio.to_thread(broker.close)
    return passed


if __name__ == "__main__":
    sys.exit(main())
