"""`make trial`: installations of relevanced are broken one by one; checks which alerts come, when
and with which text.

    python -m tests.trial [--together N] [SCENARIO ...]

Kafka, Redis, Prometheus, Alertmanager and the daemons are real, and the rules and routes are the
shipped ones. Shortened are the interval of evaluation (15 s) and, in all scenarios but one, the
attribution window (2 min). The weeks before the trial are searched at once, with the times of their
events. Each line of the log is a step of an alert; at the end stands what was wrong. What was as
expected is kept in outcomes.json, of which the table of the guide is made.
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from tests.services.fixtures import this_machines_broker
from tests.services.redis_server import RedisServer, one_binary
from tests.trial import outcomes
from tests.trial.expected import EXPECTED
from tests.trial.monitoring import Monitoring, monitoring
from tests.trial.outcomes import Outcome
from tests.trial.scenarios import SCENARIOS
from tests.trial.sighting import Log, Sighting
from tests.trial.stage import Stage
from tests.trial.traffic import encoded_past
from tests.trial.verdict import faults, late_ends

TOGETHER: Final = 12
SETTING_UP: Final = 2
"""Installations that read their history at a time."""
WATCHDOG: Final = "RelevancedWatchdog"


def main() -> int:
    parser = argparse.ArgumentParser(prog="trial", description="Which alerts come, and when.")
    parser.add_argument("--together", type=int, default=TOGETHER, help="scenarios at a time")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    given = parser.parse_args()
    strangers = set(given.scenarios) - SCENARIOS.keys()
    if strangers:
        parser.error(f"{', '.join(sorted(strangers))}: must be of {', '.join(SCENARIOS)}")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    directory = Path(tempfile.mkdtemp(prefix="trial-"))
    print(f"trial: logs of all processes in {directory}", flush=True)
    try:
        code = run(directory, given.scenarios or list(SCENARIOS), given.together)
    except KeyboardInterrupt:
        os._exit(130)  # not waiting for what sleeps; all processes die with this one
    if code == 0:
        shutil.rmtree(directory)
    return code


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {line}", flush=True)


class Teller:
    """Prints each step of an alert with the scenario that it belongs to."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.ended: set[str] = set()
        """Scenarios whose processes are removed, which is an alert of no interest."""

    def __call__(self, sighting: Sighting) -> None:
        scenario = self._scenario(sighting)
        if sighting.name != WATCHDOG and scenario not in self.ended:
            say(f"{scenario:<22} {sighting.told()}")

    def _scenario(self, sighting: Sighting) -> str:
        for stage in self.stages:
            if sighting.installation in stage.identities:
                return stage.name
        return "nobody's"


def run(directory: Path, names: Sequence[str], together: int) -> int:
    """Play the scenarios, the longest first; returns the exit code."""
    teller = Teller()
    log = Log(teller)
    with ExitStack() as ends:
        kafka = this_machines_broker(directory / "kafka")
        ends.callback(kafka.close)
        kafka.start()
        redis = RedisServer(one_binary(), directory / "redis", {"appendonly": "yes"})
        ends.callback(redis.kill)
        redis.start()
        watching = ends.enter_context(monitoring(directory / "monitoring", log))
        start_ms = int(time.time() * 1000)
        encoded_past(start_ms)
        turns = threading.Semaphore(SETTING_UP)
        base = Stage("", directory, kafka, redis, watching, log, ends, start_ms, turns)
        ordered = sorted(names, key=lambda name: -EXPECTED[name].minutes)
        with ThreadPoolExecutor(together) as pool:
            results = dict(zip(ordered, pool.map(lambda name: played(base, name, teller), ordered)))
        results["rules"] = rule_faults(watching, log, teller.stages)
    outcomes.renew_guide()
    return verdict(results)


def played(base: Stage, name: str, teller: Teller) -> list[str]:
    """The faults of one scenario."""
    with ExitStack() as ends:
        stage = replace(base, name=name, ends=ends)
        teller.stages.append(stage)
        try:
            stage.takes_turn()
            say(f"{name:<22} begins")
            SCENARIOS[name](stage)
            say(f"{name:<22} is broken since {time.time() - stage.broken_s:.0f} s, is watched")
            time.sleep(max(0.0, stage.broken_s + EXPECTED[name].minutes * 60 - time.time()))
            seen = [each for each in stage.log.of(stage.identities) if each.at_s >= stage.began_s]
            found = faults(seen, EXPECTED[name], stage.broken_s)
            found += late_ends(seen, EXPECTED[name], stage.repaired_s)
            if not found:
                outcomes.store(
                    {name: Outcome.of(seen, EXPECTED[name], stage.broken_s, stage.repaired_s)}
                )
        except Exception:
            found = [f"the scenario itself failed: {traceback.format_exc()}"]
        teller.ended.add(name)
        say(f"{name:<22} ends: {'as expected' if not found else f'{len(found)} faults'}")
    return found


def rule_faults(watching: Monitoring, log: Log, stages: Sequence[Stage]) -> list[str]:
    """What belongs to no scenario: rules that fail, alerts of nobody."""
    known = {identity for stage in stages for identity in stage.identities}
    return watching.failed_rules() + [
        f"belongs to no installation: {sighting.told()}"
        for sighting in log.sightings
        if sighting.step == "firing"
        and sighting.installation not in known
        and sighting.name != WATCHDOG
    ]


def verdict(results: dict[str, list[str]]) -> int:
    """Print the faults of each scenario; returns the exit code."""
    print("\nscenario               verdict")
    for name, found in results.items():
        print(f"{name:<22} {'as expected' if not found else ''}".rstrip())
        for fault in found:
            print(f"    {fault}")
    wrong = sum(1 for found in results.values() if found)
    print(f"\ntrial: {len(results) - wrong} of {len(results)} as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
