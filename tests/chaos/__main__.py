"""`make chaos`: rounds of faults on real servers; checks that no event was lost or counted twice.

    python -m tests.chaos [--seed N] [--rounds N] [--minutes N]

Round r has the seed N + r, so that a failed round can be repeated alone. Once so many minutes have
passed, no further round begins. The last line states the result; the exit code is 1 if a round
failed.
"""

import argparse
import asyncio
import logging
import math
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import structlog

from relevanced.daemon.lane import chain
from tests.chaos.play import play
from tests.chaos.round import RoundFailed, RoundResult
from tests.chaos.schedule import Plan, plan
from tests.chaos.stage import Stage


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description="Faults on real servers.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=math.inf)
    given = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(
        logging.CRITICAL
    )  # it logs every outage that the faults cause
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    passed = asyncio.run(run(directory, given.seed, given.rounds, given.minutes))
    if passed:
        shutil.rmtree(directory)
    else:
        print(f"logs of workers and servers: {directory}", file=sys.stderr)
    return 0 if passed else 1


async def run(directory: Path, seed: int, rounds: int, minutes: float) -> bool:
    """Play the rounds; returns False at the first one that fails."""
    print(f"chaos: SEED={seed} ROUNDS={rounds}", flush=True)
    last_s = time.monotonic() + 60 * minutes
    played = faults = lost = doubled = silent = 0
    sent = Counter[str]()
    async with Stage(directory) as stage:
        for index in range(rounds):
            began_s = time.monotonic()
            if played and began_s > last_s:
                break
            planned = plan(seed + index)
            try:
                result = await play(stage, planned, directory / f"round-{planned.seed}")
            except RoundFailed as error:
                return report_failure(planned, str(error))
            except Exception as error:
                error.add_note(f"in round {planned.seed}")
                raise
            played, faults, lost = played + 1, faults + result.faults, lost + result.lost
            doubled, silent = doubled + result.doubled, silent + result.silent
            sent += result.sent
            if not result.passed:
                first = [] if result.first is None else [str(result.first)]
                counted = f"{result.lost} events lost, {result.doubled} doubled, "
                counted += f"{result.silent} lanes silently different"
                return report_failure(planned, "\n".join([*first, *result.problems, counted]))
            report_round(planned, result, time.monotonic() - began_s)
            shutil.rmtree(directory / f"round-{planned.seed}")
    print(
        f"chaos: {played} rounds, {faults} faults, {lost} lost, {doubled} doubled, {silent} silent;"
        f" stages sent {sent[chain.REPEAT]} repeats and {sent[chain.EARLY]} early"
    )
    return True


def report_round(planned: Plan, result: RoundResult, took_s: float) -> None:
    """Print a line about a round that passed."""
    struck = f"{result.faults} of {len(planned.faults)} struck"
    kinds = ", ".join(fault.kind for fault in planned.faults)
    read = f"{result.records} records, lanes {planned.lanes}"
    if result.sent:
        read += f" ({result.sent[chain.REPEAT]} repeats, {result.sent[chain.EARLY]} early)"
    line = f"round {planned.seed}: {read}, {took_s:.0f} s, {struck}: {kinds}"
    missed = f" (missed: {', '.join(result.missed)})" if result.missed else ""
    print(line + missed, flush=True)


def report_failure(planned: Plan, why: str) -> bool:
    """Print what failed and how to repeat it; returns False."""
    print(f"round {planned.seed} failed: {planned.topics} topics, {planned.workers} workers,")
    print(f"  lanes {planned.lanes}, start {planned.start}, appendfsync {planned.fsync},")
    print(f"  serves {planned.serves}")
    for fault in planned.faults:
        print(f"  {fault}")
    print(why)
    print(f"chaos: failed; to repeat: make chaos SEED={planned.seed} ROUNDS=1", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
