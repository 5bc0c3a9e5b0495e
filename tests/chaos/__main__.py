"""`make chaos`: rounds of faults on real servers, and whether a number was lost or doubled.

    python -m tests.chaos [--seed N] [--rounds N]

Round r takes the seed N + r, so that one that fails can be had again alone. The last line tells the
result; the exit code is 1 where a round failed.
"""

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import structlog

from tests.chaos.play import play
from tests.chaos.round import Account, RoundFailed
from tests.chaos.schedule import Plan, plan
from tests.chaos.stage import Stage


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description="Faults on real servers.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells every outage that we make
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    good = asyncio.run(run(directory, given.seed, given.rounds))
    if good:
        shutil.rmtree(directory)
    else:
        print(f"logs of workers and servers: {directory}", file=sys.stderr)
    return 0 if good else 1


async def run(directory: Path, seed: int, rounds: int) -> bool:
    """Play the rounds; False at the first that fails."""
    print(f"chaos: SEED={seed} ROUNDS={rounds}", flush=True)
    faults = lost = doubled = 0
    async with Stage(directory) as stage:
        for number in range(rounds):
            began_s = time.monotonic()
            planned = plan(seed + number)
            try:
                account = await play(stage, planned, directory / f"round-{planned.seed}")
            except RoundFailed as error:
                return tell_failure(planned, str(error))
            except Exception as error:
                error.add_note(f"in round {planned.seed}")
                raise
            faults, lost = faults + account.faults, lost + account.lost
            doubled += account.doubled
            if not account.good:
                first = [] if account.first is None else [str(account.first)]
                counted = f"{account.lost} events lost, {account.doubled} doubled"
                return tell_failure(planned, "\n".join([*first, *account.problems, counted]))
            tell_round(planned, account, time.monotonic() - began_s)
            shutil.rmtree(directory / f"round-{planned.seed}")
    print(f"chaos: {rounds} rounds, {faults} faults, {lost} lost, {doubled} doubled")
    return True


def tell_round(planned: Plan, account: Account, took_s: float) -> None:
    """One line of a good round."""
    struck = f"{account.faults} of {len(planned.faults)} struck"
    kinds = ", ".join(fault.kind for fault in planned.faults)
    told = f"round {planned.seed}: {account.records} records, {took_s:.0f} s, {struck}: {kinds}"
    missed = f" (missed: {', '.join(account.missed)})" if account.missed else ""
    print(told + missed, flush=True)


def tell_failure(planned: Plan, why: str) -> bool:
    """Say what failed, and how to have it again."""
    print(f"round {planned.seed} failed: {planned.topics} topics, {planned.workers} workers,")
    print(f"  start {planned.start}, appendfsync {planned.fsync}, serves {planned.serves}")
    for fault in planned.faults:
        print(f"  {fault}")
    print(why)
    print(f"chaos: failed; again: make chaos SEED={planned.seed} ROUNDS=1", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
