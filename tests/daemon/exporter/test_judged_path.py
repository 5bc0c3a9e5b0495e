"""From lists to what is served: what a lane grades and an exporter serves is what `relevanced eval`
says of the same lists."""

import json
import random
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.http import judged
from relevanced.daemon.judgements import Judgements, Timeline
from relevanced.daemon.lane import Grader, QueryKeys, ShownLists
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import BY_JUDGEMENTS
from relevanced.daemon.views import WHOLE, LaneFiles, LaneRows, LaneView, Names
from tests.judged_lanes import NOON, PLAN, entry, judged_reading
from tests.lane_views import pages_of

QUERIES: Final = 60
ITEMS: Final = [f"d{number}" for number in range(25)]
FILE: Final = entry(NOON - 10 * HOUR_MS)


def lists(seed: int) -> tuple[dict[str, dict[str, float]], list[tuple[str, list[str]]]]:
    """(query → item → grade, (query, list) of one search for each query)."""
    draw = random.Random(seed)
    grades, shown = {}, []
    for number in range(QUERIES):
        items = draw.sample(ITEMS, draw.randint(1, 12))
        grades[f"q{number}"] = {item: float(draw.randint(0, 3)) for item in items}
        grades[f"q{number}"][items[0]] = float(draw.randint(1, 3))
        shown.append((f"q{number}", draw.sample(ITEMS, draw.randint(1, 15))))
    return grades, shown


def evaluated(
    grades: dict[str, dict[str, float]], shown: list[tuple[str, list[str]]], folder: Path
) -> dict[str, float]:
    qrels, run = folder / "qrels.txt", folder / "run.txt"
    qrels.write_text(
        "".join(f"{q} 0 {d} {g:g}\n" for q, items in grades.items() for d, g in items.items())
    )
    run.write_text(
        "".join(
            f"{q} Q0 {d} {rank} {100 - rank} tag\n"
            for q, items in shown
            for rank, d in enumerate(items, 1)
        )
    )
    asked = [part for name in ("nDCG@10", "P@5", "Judged@10") for part in ("-m", name)]
    found = CliRunner().invoke(
        cli, ["eval", str(qrels), str(run), *asked, "--max-grade", "3", "--output", "json"]
    )
    assert found.exit_code == 0, found.output
    (of_run,) = json.loads(found.stdout)["runs"]
    return {one["metric"]: one["mean"] for one in of_run["metrics"]}


def served(
    grades: dict[str, dict[str, float]], shown: list[tuple[str, list[str]]]
) -> dict[str, float]:
    """Metric → mean over an hour, of searches that a lane graded in three batches."""
    assert PLAN.judged is not None
    grader = Grader(PLAN.judged, PLAN.timing)
    times = np.array([NOON - HOUR_MS + number * 50_000 for number in range(len(shown))], np.int64)
    keys = QueryKeys()
    panes: dict[tuple[int, int], np.ndarray] = {}
    for batch in np.array_split(np.arange(len(shown)), 3):
        graded = grader.grade(
            ShownLists(
                queries=keys.numbers_of([shown[index][0] for index in batch]),
                keys=keys,
                times_ms=times[batch],
                watermarks_ms=times[batch] - 1000,
                texts_at=lambda indices, of=batch: [  # type: ignore[misc]
                    json.dumps(shown[of[n]][1]).encode() for n in indices
                ],
                before={},
            ),
            Timeline((FILE,)),
            {FILE: Judgements(grades)},
        )
        for at, row in zip(times[batch].tolist(), graded.rows, strict=True):
            for index, window in enumerate(PLAN.timing.windows):
                key = index, pane_start(at, window.pane_ms)
                panes[key] = panes.get(key, np.zeros_like(row)) + row
    view = LaneView(
        lane=0,
        token="t",
        sequence=1,
        names=Names([WHOLE]),
        panes={},
        totals={},
        counts={"events": {"impression": 1}},
        watermark_ms=NOON + PLAN.timing.lateness_ms,
        rows={
            BY_JUDGEMENTS: LaneRows(
                {key: pages_of(row[None]) for key, row in panes.items()},
                files=LaneFiles(0, (FILE,)),
            )
        },
    )
    found = judged(judged_reading(view), {"window": ["1h"]})
    assert {one.scored for one in found.scores} == {QUERIES}
    return {one.judged_metric: one.mean or 0.0 for one in found.scores}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_served_is_what_eval_says_of_the_same_lists(seed: int, tmp_path: Path) -> None:
    grades, shown = lists(seed)
    of_eval, of_daemon = evaluated(grades, shown, tmp_path), served(grades, shown)
    assert of_daemon["P@5"] == pytest.approx(of_eval["P@5"], abs=1e-6)
    assert of_daemon["Judged@10"] == pytest.approx(of_eval["Judged@10"], abs=1e-6)
    assert of_daemon["nDCG(ideal=pool)@10"] == pytest.approx(of_eval["nDCG@10"], abs=1e-6)
