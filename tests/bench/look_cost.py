"""What a look at all scores costs the exporter: CPU time, and its share of the time between looks.

python -m tests.bench.look_cost
"""

import time
from dataclasses import replace

import numpy as np

from relevanced.daemon.changes import ChangeSettings
from relevanced.daemon.exporter import CELLS_PER_MS, Basis, ChangeDetector
from relevanced.daemon.lane import Rows
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import pack_page
from relevanced.daemon.timing import timing
from relevanced.daemon.views import WHOLE, HourHistory, LaneView, Names, busiest, evaluate
from relevanced.metrics import parse
from tests.lane_views import NOW_MS, pages_of

METRICS = "Success@10 RR@10 nDCG@10 P@1 P@5 P@10 ERR@10 Abandonment nDCG@5 RR@5 P@3 P@20".split()
SIZES = ((8, 30, 1), (8, 30, 4), (12, 400, 1))
"""(metrics, segments, lanes)."""
LOOKS = 20


def plan_of(metrics: int, segments: int) -> Plan:
    return Plan(
        timing=timing([("5m", 300), ("1h", 3600), ("24h", 86400)], 1800, 60),
        metrics=tuple(parse(name) for name in METRICS[:metrics]),
        groupings=(("country",),),
        grades={"click": 1.0},
        max_segments=segments,
        history_hours=840,
    )


def rows_of(plan: Plan, segments: int, scale: float, rng: np.random.Generator) -> Rows:
    counts = rng.poisson(scale, segments + 1)
    counts[0] = counts[1:].sum()
    rows = np.zeros((segments + 1, plan.row_width), np.int64)
    rows[:, 0] = counts
    for index, metric in enumerate(plan.metrics):
        column = plan.metric_column(index)
        hits = rng.binomial(counts, 0.57) * metric.unit
        rows[:, column : column + 3] = np.stack([counts, hits, hits], axis=1)
    return rows


def lane_of(plan: Plan, segments: int, rng: np.random.Generator) -> LaneView:
    """35 days of hours, and all panes that are kept."""
    panes = {
        (index, start): pages_of(rows_of(plan, segments, span.pane_ms / HOUR_MS * 1_000, rng))
        for index, span in enumerate(plan.timing.windows)
        for start in range(plan.timing.dropped_before(span, NOW_MS), NOW_MS, span.pane_ms)
    }
    last = pane_start(NOW_MS, HOUR_MS)
    pages = pages_of(rows_of(plan, segments, 1_000, rng))
    packed = {page: pack_page(rows) for page, rows in pages.items()}
    return LaneView(
        lane=0,
        token="t",
        sequence=1,
        names=Names([WHOLE, *(("country", f"c{number}") for number in range(segments))]),
        panes=panes,
        totals={},
        counts={"events": {"impression": 1}},
        watermark_ms=NOW_MS,
        settled_before=NOW_MS - plan.timing.settle_ms,
        hours={last - n * HOUR_MS: dict(packed) for n in range(1, 839)},
    )


def measure(metrics: int, segments: int, lanes: int) -> str:
    """A row: CPU seconds of the first look and of the next ones, and their share."""
    plan, rng = plan_of(metrics, segments), np.random.default_rng(1)
    views = [lane_of(plan, segments, rng) for _ in range(lanes)]
    history = HourHistory(plan)
    history.take(views)
    basis = Basis(busiest(evaluate(views, plan), plan))
    judge = ChangeDetector(plan, ChangeSettings())
    took, last_ms = [], 0
    for look in range(LOOKS):
        moved = [replace(view, watermark_ms=NOW_MS + look * 120_000) for view in views]
        began = time.process_time()
        judge.look(moved, history, basis, NOW_MS + look * 120_000)
        took.append(time.process_time() - began)
        last_ms = max(judge.apart_ms, plan.timing.base_ms)
    later = float(np.median(took[LOOKS // 2 :]))
    share = later / (last_ms / 1000)
    return (
        f"| {metrics} × {segments}, {lanes} lanes | {took[0]:.2f} | {later:.3f}"
        f" | {last_ms / 1000:.0f} | {share:.1%} |"
    )


def main() -> None:
    print(f"a look per base pane, and at most {CELLS_PER_MS} cells a millisecond\n")
    print("| series | first look, CPU s | later looks, CPU s | apart, s | share of a CPU |")
    print("|---|---|---|---|---|")
    for size in SIZES:
        print(measure(*size), flush=True)


if __name__ == "__main__":
    main()
