"""What judged quality costs: workers without and with [judgements] take turns on the same traffic.

Impressions have one of a million queries by Zipf's law, each a list that nobody has seen before: no
score of a list is remembered. One file judges no query that is searched, so that all that is paid
is the key of each query and a look-up; another one the most frequent queries, half of all searches.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from relevanced.daemon.judgements import add
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.query_cost import ON
from tests.bench.stage import Job, Stage
from tests.bench.traffic import CATALOGUE, Traffic, query_text

QUERIES: Final = 1_000_000
ROUNDS: Final = 3
MIXED: Final = Traffic(records=1_600_000, queries=QUERIES)
SHARE: Final = 0.5
"""Of the searches, those whose query the second file judges."""
GOALS: Final = {"half": 1.35, "both": 1.5}
JUDGED_ITEMS: Final = 50
"""Judged items of a query."""


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """Worker with judgements ÷ without, where no query is judged and where half of them are; and
    where half of them are and queries are kept."""
    traffic = replace(MIXED, records=effort.of(MIXED.records))
    ranks = judged_ranks(SHARE)
    sections = {
        "off": "",
        "none": _section(stage.directory / "none", [f"nobody searches {n}" for n in range(ranks)]),
        "half": _section(stage.directory / "half", map(query_text, range(ranks))),
    }
    sections["both"] = ON + sections["half"]
    us: dict[str, list[float]] = {name: [] for name in sections}
    for _ in range(effort.rounds(ROUNDS)):
        for name, section in sections.items():
            us[name].append(await _worker_us(stage, traffic, section))
    await stage.forget(traffic)
    return PartResult(_findings(us))


def _findings(us: dict[str, list[float]]) -> list[Finding]:
    off = us["off"]
    words = {
        "none": "worker, no search judged: with judgements ÷ without",
        "half": f"worker, {SHARE:.0%} of the searches judged, each list new: with ÷ without",
        "both": "the same with `[queries]` as well ÷ without both",
    }
    ratios = [
        ratio(f"judged.{name}", text, list(zip(us[name], off, strict=True)), GOALS.get(name))
        for name, text in words.items()
    ]
    return [*ratios, number("judged.off_us", "the same without judgements", off, "µs/event")]


def judged_ranks(share: float) -> int:
    """How many of the most frequent queries make up this share of the searches."""
    sums = list(accumulate(1 / rank for rank in range(1, QUERIES + 1)))
    return next(rank for rank, found in enumerate(sums, 1) if found >= share * sums[-1])


def _section(directory: Path, queries: Iterable[str]) -> str:
    """The section of a directory with one file, which judges these queries."""
    directory.mkdir()
    source = directory.with_suffix(".csv")
    with source.open("w") as file:
        print("query,docid,rating", file=file)
        for rank, query in enumerate(queries):
            for item in range(JUDGED_ITEMS):
                sku = (rank * JUDGED_ITEMS + item) % CATALOGUE
                print(f"{query},sku-{sku:05},{item % 4}", file=file)
    add(directory, source, 0, 0)
    return f'[judgements]\ndirectory = "{directory}"\n'


async def _worker_us(stage: Stage, traffic: Traffic, section: str) -> float:
    topic = await stage.topic(traffic)
    stage.redis.flush()
    with stage.worker(Job(traffic, more=section), topic, stage.name()) as worker:
        return (await worker.measured(traffic.records)).cpu_us
