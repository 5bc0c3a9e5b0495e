"""How often a steady query is said to have lost, and how often broken ones are named.

    python -m tests.bench.query_losses [--runs N] [--seed N]

Simulated windows of an hour with their usual, as tests/daemon/queries/query_traffic.py describes
them. Fails if undisturbed traffic has more than 1 % of its queries in the list, or if fewer than 19
of 20 windows name nine of ten broken queries among the first ten.
"""

import argparse
import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tests.daemon.queries.query_traffic import Claims, Traffic, claims, simulate_hours
from tests.daemon.queries.traffic_tables import named_by_tables

STEEP: Final = Traffic(50_000, zipf=1.1, drift=0.3, rate_deviation=0.25)
QUIET: Final = (
    Traffic(1_000),
    Traffic(10_000),
    Traffic(50_000),
    Traffic(50_000, days=3),
    STEEP,
)
BROKEN: Final = tuple(
    Traffic(searches, broken_searches=each, left=left)
    for searches in (10_000, 50_000)
    for each, left in ((100, 0.0), (300, 0.5))
)
"""These must be named."""
HARDER: Final = (
    Traffic(10_000, broken_searches=100, left=0.25),
    Traffic(50_000, broken_searches=100, left=0.25),
    Traffic(50_000, broken_searches=100, left=0.5),
    Traffic(50_000, broken_searches=30),
    replace(STEEP, broken_searches=100),
)
"""For these the figures are shown and nothing is promised."""
LANES: Final = (1, 16)
"""The same through the lanes' own tables, which are cut."""
MOST_QUIET: Final = 0.01
LEAST_RUNS: Final = 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="windows of each kind")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    rng = np.random.default_rng(given.seed)
    failed = False
    for kinds, must in ((QUIET, False), (BROKEN, True), (HARDER, False)):
        for traffic in kinds:
            found = claims(traffic, given.runs, rng)
            print(row(traffic, found), flush=True)
            failed |= found.quiet > MOST_QUIET
            failed |= must and misses(found.named)
    for traffic in BROKEN:
        for lanes in LANES:
            named = [
                named_by_tables(simulate_hours(traffic, rng), lanes, rng)
                for _ in range(max(given.runs // 5, 1))
            ]
            print(f"{row_start(traffic)}, tables of {lanes} lanes: {named_text(named)}", flush=True)
            failed |= misses(named)
    if failed:
        raise SystemExit("the list of losses is not what it promises")


def misses(named: Sequence[int]) -> bool:
    """Whether fewer windows than promised name nine, beyond what chance explains."""
    runs = len(named)
    expected, error = runs * (1 - LEAST_RUNS), math.sqrt(runs * LEAST_RUNS * (1 - LEAST_RUNS))
    return sum(count < 9 for count in named) > expected + 3 * error


def row(traffic: Traffic, found: Claims) -> str:
    """One line of the table."""
    quiet = f"listed {found.quiet:.2%} (worst {found.worst_quiet:.2%}), sure {found.sure:.3%}"
    if not traffic.broken_searches:
        return f"{row_start(traffic)}: {quiet}"
    return f"{row_start(traffic)}: {named_text(found.named)}; others {quiet}"


def row_start(traffic: Traffic) -> str:
    """What is simulated."""
    kind = f"{traffic.searches:,} an hour, drift {traffic.drift}, Zipf {traffic.zipf}"
    kind += f", {traffic.days} days"
    if traffic.broken_searches:
        kind += f", ten of {traffic.broken_searches} searches to {traffic.left:g}"
    return kind


def named_text(named: Sequence[int]) -> str:
    """How many of the ten are among the first ten."""
    nine = np.mean(np.array(named) >= 9)
    return f"named {np.mean(named):.2f}, nine in {nine:.0%} of {len(named)} runs"


if __name__ == "__main__":
    main()
