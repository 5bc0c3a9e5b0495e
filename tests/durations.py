"""Seconds of each test file, measured by `make durations`, and how they share the tests out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.run_report import Seconds
from tests.targets import Target

PATH: Final = Path(__file__).parent / "durations.json"
UNKNOWN_S: Final = 2.0
"""What a file is taken to need that was not measured yet."""
OVER_FULL: Final = 1.05
"""A run may get so much more than its share before servers are started in another one."""
LEAST_S: Final = 0.05
"""What each file costs though its tests take no time: it is imported."""

UNMEASURED: Final = {"test": ["rest"], "rest": ["test"], "all": list[str]()}
"""The fields that a run of a target says nothing of."""

Durations = dict[str, Seconds]


def load(path: Path = PATH) -> Durations:
    return msgspec.json.decode(path.read_bytes(), type=Durations)


def encode(durations: Durations) -> bytes:
    """One line per file, so that a change shows which."""
    rounded = {
        file: Seconds(round(found.test, 1), round(found.rest, 1), found.servers)
        for file, found in sorted(durations.items())
    }
    lines = [
        f"{msgspec.json.encode(file).decode()}: {msgspec.json.encode(found).decode()}"
        for file, found in rounded.items()
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def renewed(
    known: Mapping[str, Seconds], found: Mapping[str, Seconds], target: Target, files: Sequence[str]
) -> Durations:
    """What is known of these files, with what a run of the target measured of them."""
    of_target = {
        file: msgspec.structs.replace(
            found[file],
            **{one: getattr(known.get(file, Seconds()), one) for one in UNMEASURED[target]},
        )
        for file in found
    }
    return {file: seconds for file, seconds in {**known, **of_target}.items() if file in files}


def seconds_of(file: str, target: Target, durations: Mapping[str, Seconds]) -> float:
    """What the tests of a file take that belong to the target."""
    if file not in durations:
        return UNKNOWN_S
    found = durations[file]
    wanted = {"test": found.test, "rest": found.rest, "all": found.test + found.rest}
    return max(wanted[target], LEAST_S)


def shares(
    files: Sequence[str], runs: int, target: Target, durations: Mapping[str, Seconds]
) -> list[list[str]]:
    """The files of each run, so that all take about as long.

    The longest file first, each to the run that has least so far. Files that need Kafka go to one
    run as long as it has room for them, so that one broker serves them all.
    """
    cost = {file: seconds_of(file, target, durations) for file in files}
    with_servers = [file for file in files if file in durations and durations[file].servers]
    room = sum(cost.values()) / runs * OVER_FULL
    taken, found = [0.0] * runs, [list[str]() for _ in range(runs)]

    def put(run: int, file: str) -> None:
        found[run].append(file)
        taken[run] += cost[file]

    run = 0
    for file in with_servers:
        if run + 1 < runs and taken[run] + cost[file] > room:
            run += 1
        put(run, file)
    for file in sorted({*files} - {*with_servers}, key=lambda one: (-cost[one], one)):
        put(taken.index(min(taken)), file)
    return [sorted(share) for share in found if share]
