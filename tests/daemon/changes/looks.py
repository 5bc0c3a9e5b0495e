"""The cost of looking often: how often lane `hour` begins to call what did not change.

python -m tests.daemon.changes.looks                     # takes minutes; sizes can be given:
python -m tests.daemon.changes.looks --series 1000 --pane 10 --seed 7
"""

import argparse
import secrets
from collections.abc import Sequence

import numpy as np

from relevanced.daemon.changes import HOUR_MS, ScoreNoise, ScoreTimeline, called, sides
from relevanced.metrics import Floats
from tests.daemon.changes.sites import drifts

MEAN = 0.7
NIGHT = 0.4
"""Least traffic as a share of the mean."""
PANES_MS = 2 * HOUR_MS


def false_calls(
    per_hour: float,
    series: int,
    hours: int,
    z: Sequence[float],
    seed: int,
    *,
    pane_s: int = 120,
    look_every: int = 1,
    noise: ScoreNoise = ScoreNoise(),  # noqa: B008
    true_design_effect: float = 1.2,
) -> dict[float, int]:
    """Threshold → how often it began to be crossed, over so many hours of Bernoulli scores with
    nights, a daily shape of 2 % and drift, looked at each time that some panes have settled."""
    rng = np.random.default_rng(seed)
    pane_ms = pane_s * 1000
    panes = hours * HOUR_MS // pane_ms
    scored, sums = _panes(per_hour, series, panes, pane_ms, true_design_effect, rng)
    per = HOUR_MS // pane_ms
    whole_hours = [values.reshape(-1, per, series).sum(axis=1) for values in (scored, sums)]
    began = dict.fromkeys(z, 0)
    last = {limit: np.zeros(series, bool) for limit in z}
    for end in range(per, panes + 1, look_every):
        timeline = _kept(scored, sums, whole_hours, end, pane_ms)
        found = sides(timeline, np.ones(series), noise)
        for limit in z:
            now = called(timeline, found, -limit).called
            began[limit] += int((now & ~last[limit]).sum())
            last[limit] = now
    return began


def _panes(
    per_hour: float,
    series: int,
    panes: int,
    pane_ms: int,
    design_effect: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    hour = (np.arange(panes) * pane_ms / HOUR_MS)[:, None] + rng.uniform(0, 24, series)
    traffic = 1 + (1 - NIGHT) * np.sin(2 * np.pi * hour / 24)
    scored = rng.poisson(per_hour * pane_ms / HOUR_MS * traffic).astype(np.float64)
    drift = drifts(np.full(panes, pane_ms / HOUR_MS), series, rng)
    level = MEAN * (1 + 0.02 * np.sin(2 * np.pi * hour / 24 + 1)) * (1 + 0.006 * drift)
    sums = rng.binomial(scored.astype(np.int64), np.clip(level, 0, 1)).astype(np.float64)
    sums += (sums - scored * level) * (np.sqrt(design_effect) - 1)
    return scored, sums


def _kept(
    scored: Floats, sums: Floats, hours: list[Floats], end: int, pane_ms: int
) -> ScoreTimeline:
    """What is kept when so many panes have settled: panes of two hours, and the hours before."""
    per = HOUR_MS // pane_ms
    edge = -(-max(end - PANES_MS // pane_ms, 0) // per)
    first = max(edge - 14 * 24, 0)
    starts = np.concatenate(
        [np.arange(first, edge) * HOUR_MS, np.arange(edge * per, end) * pane_ms]
    ).astype(np.int64)
    kept = [
        np.concatenate([whole[first:edge], values[edge * per : end]])
        for whole, values in zip(hours, (scored, sums), strict=True)
    ]
    ends = np.append(starts[1:], end * pane_ms)
    hourly = np.arange(len(starts)) < edge - first
    return ScoreTimeline(starts, ends, kept[0], kept[1], kept[1], hourly)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--weeks", type=int, default=1)
    parser.add_argument("--pane", type=int, default=120, help="seconds between two looks")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    thresholds = (4.5, 5.0, 5.5, 6.0)
    weeks = options.series * options.weeks
    print(f"seed {seed}, {weeks} series-weeks each, a look every {options.pane} s\n")
    print(
        "| scored an hour | false calls per 1,000 series-weeks at z "
        + ", ".join(map(str, thresholds))
    )
    print("|---|---|")
    for per_hour in (1_000, 10_000, 100_000):
        began = false_calls(
            per_hour, options.series, options.weeks * 168, thresholds, seed, pane_s=options.pane
        )
        rates = ", ".join(f"{began[z] * 1000 / weeks:.1f}" for z in thresholds)
        print(f"| {per_hour:,} | {rates} |", flush=True)


if __name__ == "__main__":
    main()
