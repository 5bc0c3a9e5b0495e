"""What attributes cost that are derived from queries: workers without and with one take turns over
the same traffic. With one, there is its grouping as well: what it divides is part of the cost.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from relevanced.daemon.judgements import add, read_classes
from tests.bench.effort import Effort
from tests.bench.findings import Finding, ratio
from tests.bench.stage import GROUPINGS, Job, Stage
from tests.bench.traffic import Traffic, query_text

ROUNDS: Final = 3
HEAD: Final = 1_000
CLASSED: Final = 100_000
"""Queries of the file of classes: the most frequent ones."""
ATTRIBUTE: Final = "derived"
WORDS: Final = "words = [1, 2, 3]"
REGEX: Final = r"regex = { part = '\b\d{5,}$', shoes = '(?i)\bshoes\b', tech = '\b(laptop|tv)\b' }"


async def findings(stage: Stage, effort: Effort, traffic: Traffic) -> list[Finding]:
    """Worker with an attribute that is derived by words, by patterns, and by a file ÷ without."""
    traffic = replace(traffic, records=effort.of(traffic.records))
    rules = {
        "words": (WORDS, "words"),
        "regex": (REGEX, "3 regular expressions"),
        "files": (_files(stage.directory / "classes"), f"a file of {CLASSED:,} queries"),
    }
    jobs = {"off": Job(traffic)} | {name: _job(traffic, rule) for name, (rule, _) in rules.items()}
    us: Mapping[str, list[float]] = {name: [] for name in jobs}
    for _ in range(effort.rounds(ROUNDS)):
        for name, job in jobs.items():
            us[name].append(await _worker_us(stage, job))
    await stage.forget(traffic)
    return [
        ratio(
            f"queries.derived_{name}",
            f"worker with an attribute of queries by {words} ÷ without",
            list(zip(us[name], us["off"], strict=True)),
        )
        for name, (_, words) in rules.items()
    ]


def _job(traffic: Traffic, rule: str) -> Job:
    section = f'[[derive]]\nattribute = "{ATTRIBUTE}"\n{rule}\n'
    return Job(traffic, groupings=(*GROUPINGS, (ATTRIBUTE,)), more=section)


def _files(directory: Path) -> str:
    """The rule of a directory with one file, in force at all times."""
    directory.mkdir()
    source = directory.with_suffix(".csv")
    with source.open("w") as file:
        print("query,class", file=file)
        for rank in range(CLASSED):
            print(f"{query_text(rank)},{'head' if rank < HEAD else 'torso'}", file=file)
    add(directory, source, 0, 0, read_classes)
    return f'directory = "{directory}"'


async def _worker_us(stage: Stage, job: Job) -> float:
    topic = await stage.topic(job.traffic)
    stage.redis.flush()
    with stage.worker(job, topic, stage.name()) as worker:
        return (await worker.measured(job.traffic.records)).cpu_us
