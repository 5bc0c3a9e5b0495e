"""The cost of rendering /metrics off the event loop, and that of prometheus_client for the same
samples.

    python -m tests.bench.exposition_cost SAMPLES

measures in its own process and prints JSON.
"""

import asyncio
import gc
import itertools
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
import numpy as np
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric as SeriesFamily
from prometheus_client.registry import Collector

from relevanced.daemon.exporter import (
    Exposition,
    MeasureScores,
    Published,
    clicks_measure,
    exposition,
    publish,
)
from relevanced.daemon.plan import ALL, COUNT_COLUMNS, Plan
from relevanced.daemon.timing import timing
from relevanced.daemon.views import (
    LaneView,
    Names,
    PreviousSelection,
    Selection,
    Snapshot,
    counters_of,
    scores,
    selection,
    snapshot,
)
from relevanced.metrics import parse
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.stage import Stage, run_python
from tests.bench.traffic import SEED
from tests.lane_views import pages_of, read_text

SAMPLES: Final = (10_000, 100_000)
ROUNDS: Final = 5
GOAL_RATIO: Final = 8.0
GOAL_STALL_MS: Final = 20.0
HEARTBEAT_S: Final = 0.001
NOW_MS: Final = 1_795_176_000_000
NAMES: Final = ("P@1", "P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10")
SAMPLES_PER_SEGMENT: Final = 181
"""As measured with the plan below: 3 windows in 2 views, 7 metrics, and the counters."""


class Measured(msgspec.Struct):
    """The measurements of one size of text, a value for each round."""

    samples: int
    text_bytes: int
    render_ms: list[float]
    """CPU time of rendering the text in both formats."""
    publish_ms: list[float]
    """Wall time in a thread from the rows to everything that is served."""
    stall_ms: list[float]
    """Longest delay of the event loop meanwhile."""
    beside_python_ms: list[float]
    """Longest delay of the event loop beside a thread that runs plain Python for as long: the
    cost of any thread."""
    beside_nothing_ms: list[float]
    """Longest delay of the event loop beside a thread that sleeps for as long: the cost of the
    machine."""
    peer_ms: list[float]
    """CPU time of prometheus_client for the text in one format."""


class FamiliesOf(Collector):
    """The families of a text, as objects of prometheus_client."""

    def __init__(self, text: bytes) -> None:
        self._families = read_text(text)

    def collect(self) -> Iterable[SeriesFamily]:
        return self._families


async def measure(_stage: Stage, effort: Effort) -> PartResult:
    """The findings at 10,000 and at 100,000 samples."""
    findings: list[Finding] = []
    for wanted in effort.first(SAMPLES):
        count = effort.of(wanted)
        printed = await run_python("-m", "tests.bench.exposition_cost", str(count))
        findings += _findings(wanted, msgspec.json.decode(printed, type=Measured))
    return PartResult(findings)


def _findings(wanted: int, got: Measured) -> list[Finding]:
    key, at = f"exposition.samples_{wanted}", f"{got.samples:,} samples"
    pairs = list(zip(got.peer_ms, got.render_ms, strict=True))
    goal = GOAL_RATIO if wanted == max(SAMPLES) else None
    return [
        ratio(
            f"{key}.ratio",
            f"prometheus_client ÷ ours (both formats), {at}",
            pairs,
            goal,
            higher_is_better=True,
        ),
        number(f"{key}.publish_ms", f"from rows to page, in a thread, {at}", got.publish_ms, "ms"),
        # A delay caused by the work itself occurs in every round: the median leaves out others.
        number(
            f"{key}.stall_ms",
            f"worst stall of the event loop meanwhile, {at}",
            got.stall_ms,
            "ms",
            GOAL_STALL_MS,
        ),
        number(
            f"{key}.stall_beside_python_ms",
            "the same beside a thread of plain Python",
            got.beside_python_ms,
            "ms",
        ),
        number(
            f"{key}.stall_beside_nothing_ms",
            "the same beside a thread that sleeps",
            got.beside_nothing_ms,
            "ms",
        ),
        number(f"{key}.bytes", f"size of the page, {at}", [got.text_bytes], "B", compared=True),
    ]


def plan(samples: int) -> Plan:
    """A plan whose segments give about `samples` samples."""
    return Plan(
        timing=timing([("5m", 300), ("1h", 3600), ("24h", 86400)], 1800, 60),
        metrics=tuple(parse(name) for name in NAMES),
        groupings=(("country",), ("device",), ("country", "device")),
        grades={"click": 1.0},
        max_segments=max(1, round(samples / SAMPLES_PER_SEGMENT / 3)),
    )


def lane(of: Plan) -> LaneView:
    """A lane with as many values in each grouping as get series, and traffic in every window."""
    random = np.random.default_rng(SEED)
    names = [(ALL, ALL)]
    for grouping, joined in itertools.product(of.grouping_names[1:], range(of.max_segments)):
        names.append((grouping, ",".join(f"value-{joined}" for _ in grouping.split(","))))
    rows = np.zeros((of.max_segments, of.row_width), np.int64)
    scored = random.integers(10, 10_000, of.max_segments)
    rows[:, : len(COUNT_COLUMNS)] = scored[:, None]
    for position in range(len(of.metrics)):
        values = random.random(of.max_segments)
        column = of.metric_column(position)
        rows[:, column] = scored
        rows[:, column + 1] = values * scored * 1_000_000
        rows[:, column + 2] = values * scored * 900_000
    whole = rows.sum(axis=0, keepdims=True)
    pages = pages_of(np.concatenate([whole, *[rows] * len(of.groupings)]))
    settled_ms = NOW_MS - of.timing.settle_ms
    panes = {
        (position, time_ms - time_ms % window.pane_ms): pages
        for position, window in enumerate(of.timing.windows)
        for time_ms in (NOW_MS, settled_ms)
    }
    counts = {"events": {"impression": 1}}
    return LaneView(0, "t", 1, Names(names), panes, pages, counts, watermark_ms=NOW_MS)


def published(view: LaneView, of: Plan) -> Published:
    """Everything that the exporter publishes for a lane."""
    whole = snapshot.evaluate([view], of)
    gauges = selection.busiest(whole, of)
    texts = rendered(view, whole, gauges, of)
    return publish(texts, scores.report(whole, gauges, of), of, ())


def rendered(view: LaneView, whole: Snapshot, gauges: Selection, of: Plan) -> Exposition:
    """Both texts of a snapshot."""
    counters, _ = counters_of(whole, gauges, of, PreviousSelection())
    shown = MeasureScores(clicks_measure(of), [view], whole, gauges)
    traffic = exposition.render_traffic(whole, counters, of)
    return exposition.joined(exposition.render_windows(shown), traffic)


def processor_ms(work: Callable[[], object]) -> float:
    """CPU time of one call in ms, without garbage collection."""
    gc.collect()
    gc.disable()
    begun = time.process_time()
    work()
    gc.enable()
    return (time.process_time() - begun) * 1000


def plain_python(seconds: float) -> None:
    """Run plain Python, which holds the interpreter lock for its full switch interval."""
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        pass


async def beside_heartbeat(
    work: Callable[[], object], swap: Callable[[object], None] = lambda _: None
) -> tuple[float, float]:
    """(duration of the work in a thread, longest delay of the event loop), both in ms.

    `swap` gets the result of the work, on the event loop.
    """
    latest_s = 0.0
    begun_s = time.perf_counter()
    working = asyncio.create_task(asyncio.to_thread(work))
    while not working.done():
        due_s = time.perf_counter() + HEARTBEAT_S
        await asyncio.sleep(HEARTBEAT_S)
        latest_s = max(latest_s, time.perf_counter() - due_s)
    took_s = time.perf_counter() - begun_s
    swap(working.result())
    latest_s = max(latest_s, time.perf_counter() - begun_s - took_s)
    return took_s * 1000, latest_s * 1000


def measure_stalls(got: Measured, view: LaneView, of: Plan, served: list[object]) -> None:
    """Measure one round. As in the exporter, the new text replaces the one served before."""

    def swap(new: object) -> None:
        served[:] = [new]

    took_ms, stall_ms = asyncio.run(beside_heartbeat(lambda: published(view, of), swap))
    got.publish_ms.append(took_ms)
    got.stall_ms.append(stall_ms)
    for late_ms, other in (
        (got.beside_python_ms, plain_python),
        (got.beside_nothing_ms, time.sleep),
    ):
        late_ms.append(asyncio.run(beside_heartbeat(partial(other, took_ms / 1000)))[1])


def main() -> None:
    of = plan(int(sys.argv[1]))
    view = lane(of)
    whole = snapshot.evaluate([view], of)
    gauges = selection.busiest(whole, of)
    text = b"".join(rendered(view, whole, gauges, of).text)
    collector = FamiliesOf(text)
    samples = sum(not line.startswith(b"#") for line in text.splitlines())
    got = Measured(samples, len(text), [], [], [], [], [], [])
    served: list[object] = []
    for _ in range(ROUNDS):
        got.render_ms.append(processor_ms(lambda: rendered(view, whole, gauges, of)))
        got.peer_ms.append(processor_ms(lambda: generate_latest(collector)))
        measure_stalls(got, view, of, served)
    sys.stdout.buffer.write(msgspec.json.encode(got))


if __name__ == "__main__":
    main()
