"""How often a steady query is said to have lost, how often broken ones are named, and how often the
range of what the first ten carry contains it.

    python -m tests.bench.query_losses [--runs N] [--seed N]

Simulated windows of an hour with their usual, as tests/daemon/queries/query_traffic.py describes
them. Fails if undisturbed traffic has more than 1 % of its queries in the list, if fewer than 19 of
20 windows name nine of ten broken queries among the first ten, or if fewer than 8 of 10 ranges
contain the true part.
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
DAYS: Final = (
    Traffic(1_000, hours=24, memory=12.0),
    Traffic(10_000, hours=24, memory=12.0),
    Traffic(10_000, hours=24, memory=96.0),
    replace(STEEP, searches=10_000, hours=24, memory=48.0),
)
"""A tenth of the windows: they have so many more searches."""
USERS: Final = (
    Traffic(1_000, in_a_row=3),
    Traffic(10_000, memory=12.0, in_a_row=3),
    Traffic(10_000, hours=24, memory=12.0, in_a_row=3),
)
"""Each user searches three times for the same text."""
FALLS: Final = (
    Traffic(10_000, memory=12.0, whole=0.9),
    Traffic(10_000, memory=12.0, whole=0.9, in_a_row=3),
    Traffic(10_000, hours=24, memory=12.0, whole=0.97),
    Traffic(10_000, memory=12.0, whole=0.9, broken_searches=30),
    Traffic(10_000, memory=12.0, whole=0.9, broken_searches=100, left=0.5),
    Traffic(10_000, memory=12.0, broken_searches=100, left=0.5),
)
"""What the first ten carry must be within its range."""
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
LEAST_COVERED: Final = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="windows of each kind")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    rng = np.random.default_rng(given.seed)
    failed = False
    for traffic in (*QUIET, *DAYS, *USERS, *BROKEN, *HARDER, *FALLS):
        found = claims(traffic, max(given.runs // (1 if traffic.hours == 1 else 10), 1), rng)
        print(row(traffic, found), flush=True)
        failed |= traffic.whole == 1.0 and found.quiet > MOST_QUIET
        failed |= traffic in BROKEN and misses(found.named)
        failed |= traffic in FALLS and found.covered < LEAST_COVERED
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
    if traffic in FALLS:
        true, said, least, most = np.median(found.carried, axis=0)
        text = f"carry {true:.1%}, said {said:.1%} ({least:.1%} to {most:.1%})"
        return f"{row_start(traffic)}: {text}, {found.covered:.0%} of {len(found.carried)} ranges"
    if not traffic.broken_searches:
        return f"{row_start(traffic)}: {quiet}"
    return f"{row_start(traffic)}: {named_text(found.named)}; others {quiet}"


def row_start(traffic: Traffic) -> str:
    """What is simulated."""
    kind = f"{traffic.searches:,} an hour, drift {traffic.drift}, Zipf {traffic.zipf}"
    kind += f", {traffic.days} days of {traffic.hours} h, memory {traffic.memory:g} h"
    kind += f", {traffic.in_a_row} in a row" * (traffic.in_a_row > 1)
    kind += f", all to {traffic.whole:g}" * (traffic.whole < 1)
    if traffic.broken_searches:
        kind += f", ten of {traffic.broken_searches} searches to {traffic.left:g}"
    return kind


def named_text(named: Sequence[int]) -> str:
    """How many of the ten are among the first ten."""
    nine = np.mean(np.array(named) >= 9)
    return f"named {np.mean(named):.2f}, nine in {nine:.0%} of {len(named)} runs"


if __name__ == "__main__":
    main()
