"""Impressions per second of every metric, and the ratio to pytrec_eval on the same lists.

    python tests/bench/metrics_speed.py [--impressions N] [--depth D]

Seeded lists of grades 0…3, most of them 0. pytrec_eval gets prepared dictionaries of the first
lists only, and only its evaluation is timed. The shortest of several rounds counts.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pytrec_eval

from relevanced.metrics import CATALOG, CLIP, Lists, Metric, parse

SEED: Final = 20_261_121
ROUNDS: Final = 5
GRADE_SHARES: Final = (0.7, 0.15, 0.1, 0.05)
MAX_GRADE: Final = 3
PEER_LISTS: Final = 200_000
PEER_MEASURES: Final = {
    "P": "P_10",
    "Success": "success_10",
    "RR": "recip_rank",
    "AP": "map_cut_10",
    "nDCG": "ndcg_cut_10",
    "R": "recall_10",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "SetP": "set_P",
    "SetR": "set_recall",
    "SetF": "set_F",
    "ERR": "ndcg_cut_10",
}
"""Family -> measure of pytrec_eval. It has no ERR; its other graded measure is used instead."""
AT_LEAST_50_TIMES: Final = ("P", "RR", "nDCG", "ERR")


def frozen_lists(count: int, depth: int) -> Lists:
    """Full lists of `depth` items, stored as by `Lists.of`; the pool is the items shown."""
    rng = np.random.default_rng(SEED)
    gains = rng.choice(len(GRADE_SHARES), size=(count, depth), p=GRADE_SHARES).astype(np.float64)
    subtopics = np.stack([gains > 0, gains > 1], axis=-1).astype(np.float64)
    return Lists(
        gains=np.asfortranarray(gains),
        lengths=np.full(count, depth, dtype=np.int64),
        judged=gains > 0,
        first_feedback_s=rng.exponential(20.0, count),
        weights=np.minimum(np.tile(np.arange(1.0, depth + 1.0), (count, 1)), CLIP),
        pool=gains,
        collection_size=np.full(count, 1000 * depth, dtype=np.int64),
        known=gains > 1,
        known_relevant=np.full(count, depth, dtype=np.int64),
        subtopics=subtopics,
        pool_subtopics=subtopics,
    )


def every_family() -> Iterator[tuple[str, Metric]]:
    """One metric of each family, cut at 10 if it takes @k."""
    for family, entry in CATALOG.items():
        cutoffs = {"rank": "@10", "recall": "@0.5", "none": ""}
        required = [f"{key}={p.default}" for key, p in entry.parameters.items() if p.required]
        brackets = f"({','.join(required)})" if required else ""
        yield family, parse(f"{family}{brackets}{cutoffs[entry.cutoff]}", max_grade=MAX_GRADE)


def best_seconds(work: Callable[[], object]) -> float:
    """The shortest of several rounds; the others were disturbed."""
    durations = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        durations.append(time.perf_counter() - started)
    return min(durations)


def peer_rates(lists: Lists) -> dict[str, float]:
    """Lists per second of pytrec_eval, by measure."""
    grades = lists.gains[:PEER_LISTS].astype(int).tolist()
    qrels = {str(q): {f"d{i}": g for i, g in enumerate(row)} for q, row in enumerate(grades)}
    run = {str(q): {f"d{i}": -float(i) for i in range(len(row))} for q, row in enumerate(grades)}
    rates = {}
    for measure in sorted(set(PEER_MEASURES.values())):
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {measure})
        rates[measure] = len(grades) / best_seconds(lambda: evaluator.evaluate(run))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--depth", type=int, default=10)
    options = parser.parse_args()
    lists = frozen_lists(options.impressions, options.depth)
    peers = peer_rates(lists)
    print(f"{options.impressions:,} impressions of depth {options.depth}")
    print(f"{'metric':24} {'impressions/s':>15} {'x pytrec_eval':>14}")
    too_slow = []
    for family, metric in every_family():
        rate = len(lists) / best_seconds(lambda: metric.values(lists))
        peer = peers.get(PEER_MEASURES.get(family, ""))
        ratio = f"{rate / peer:14.0f}" if peer else f"{'-':>14}"
        print(f"{metric.name:24} {rate:15,.0f} {ratio}")
        if peer and family in AT_LEAST_50_TIMES and rate < 50 * peer:
            too_slow.append(metric.name)
    if too_slow:
        raise SystemExit(f"less than 50 times as fast as pytrec_eval: {', '.join(too_slow)}")


if __name__ == "__main__":
    main()
