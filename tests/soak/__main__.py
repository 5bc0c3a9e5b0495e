"""`make soak`: hours of event time in minutes; whether memory, keys, tasks or sockets grow.

    python -m tests.soak [--seed N] [--hours N]

Twice: with segment values that stay, then with some that are always new. Exit code 1 where
something grows by more than its bound, or is left behind.
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
    good = True
    try:
        await asyncio.to_thread(broker.start)
        for number, (title, every_s) in enumerate(KINDS.items()):
            inner = directory / str(number)
            inner.mkdir()
            redis = RedisServer(str(binaries()["valkey"]), inner / "redis")
            await asyncio.to_thread(redis.start)
            print(f"\n{title}:", flush=True)
            try:
                asked = Soak(hours, seed + number, new_value_every_s=every_s)
                account = await soak(asked, inner, broker, redis)
            finally:
                redis.kill()
            print(account.told(), flush=True)
            good = good and account.good
    finally:
        await asyncio.to_thread(broker.close)
    return good


if __name__ == "__main__":
    sys.exit(main())
