"""How the cost per event of a worker grows with one quantity at a time.

Each point is a worker of its own on a topic of its own; the points of a curve take turns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

import numpy as np

from tests.bench.effort import Effort
from tests.bench.findings import Curve, Finding, PartResult, number
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic

ROUNDS: Final = 2
RECORDS: Final = 200_000
LINEAR: Final = 1.0
SIX_WINDOWS: Final = ("5m", "15m", "1h", "6h", "12h", "24h")
FAMILIES: Final = ("P", "Success", "RR", "ERR", "nDCG", "AP")
METRICS: Final = tuple(f"{family}@{k}" for k in (10, 1, 3, 5) for family in FAMILIES)


def _of_segments(count: int, plain: Traffic) -> Job:
    """A job with `count` segments: `all`, and one for each country."""
    traffic = replace(plain, countries=count - 1)
    return Job(traffic, groupings=(("country",),), max_segments=10_000)


LINES: Final[Mapping[str, tuple[str, Sequence[float], Callable[[float, Traffic], Job]]]] = {
    "segments": (
        "segments",
        (10, 50, 150, 500, 1500, 5000),
        lambda x, plain: _of_segments(round(x), plain),
    ),
    "metrics": (
        "metrics",
        (1, 2, 4, 8, 16, 24),
        lambda x, plain: Job(plain, metrics=METRICS[: round(x)]),
    ),
    "windows": (
        "windows",
        (1, 2, 3, 4, 6),
        lambda x, plain: Job(plain, windows=SIX_WINDOWS[: round(x)]),
    ),
    "partitions": (
        "partitions",
        (1, 4, 16, 64),
        lambda x, plain: Job(replace(plain, partitions=round(x))),
    ),
    "feedback": (
        "feedback per impression",
        (0.125, 0.25, 0.5, 1, 2, 4, 8),
        lambda x, plain: Job(replace(plain, feedback_per_impression=x)),
    ),
}


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """A curve and its slope for each quantity."""
    plain = Traffic(records=effort.of(RECORDS))
    curves = [await _line(stage, effort, name, plain) for name in effort.first(list(LINES))]
    return PartResult([slope(curve) for curve in curves], curves)


async def _line(stage: Stage, effort: Effort, name: str, plain: Traffic) -> Curve:
    words, points, job_of = LINES[name]
    xs = effort.ends(points)
    costs: dict[float, list[float]] = {x: [] for x in xs}
    for _ in range(effort.rounds(ROUNDS)):
        for x in xs:
            costs[x].append(await _cost_us(stage, job_of(x, plain)))
    for traffic in {job_of(x, plain).traffic for x in xs} - {plain}:
        await stage.forget(traffic)
    return curve_of(name, words, xs, [median(costs[x]) for x in xs])


async def _cost_us(stage: Stage, job: Job) -> float:
    topic = await stage.topic(job.traffic)
    stage.redis.flush()
    with stage.worker(job, topic, stage.name()) as worker:
        return (await worker.measured(job.traffic.records)).cpu_us


def curve_of(name: str, words: str, xs: Sequence[float], costs_us: Sequence[float]) -> Curve:
    """The points, with the slope of the regression line through their logarithms."""
    fitted = float(np.polyfit(np.log(xs), np.log(costs_us), 1)[0])
    return Curve(name, words, tuple(xs), tuple(costs_us), fitted)


def slope(curve: Curve) -> Finding:
    """The slope of the curve; its points are in the results and in the plot."""
    words = f"cost per event against {curve.words}, exponent"
    return number(f"growth.{curve.name}", words, [curve.slope], "", LINEAR)
