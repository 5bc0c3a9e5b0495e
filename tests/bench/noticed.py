"""Whether what a quiet headline says would have been noticed is noticed, in simulated shops:

python -m tests.bench.noticed                          # takes minutes; or some of it:
python -m tests.bench.noticed --runs 4 --days 22 --per-hour 5000 --seed 7

For each row the falls that the headline of a quiet shop tells; then the same shop with a fall of
that size and that begin. Exits with 1 where fewer than LEAST of them are noticed.
"""

import argparse
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from relevanced.daemon.changes import Noticed, noticed
from relevanced.metrics import Integers
from tests.daemon.changes.shops import BEGIN_MS, HOUR_MS, METRICS, Fault, Shop, Traffic, Watch

DAYS: Final = (0.25, 1.25, 3.25, 8.5, 22.5)
"""What is known: the day's hours only, yesterday too, some days, one week, three weeks."""
PER_HOUR: Final = (1_000, 5_000)
LEAST: Final = 0.85
"""The sentence promises nine of ten; a tenth of these are a few runs."""
TOLD: Final = METRICS.index("RR@10")
LOOKS_MIN: Final = range(24, -1, -4)
"""Before the end: a call has to hold for some looks."""


@dataclass(frozen=True)
class Told:
    """A fall that a quiet headline told, and whether it is noticed."""

    fall: Noticed
    age_h: float
    is_noticed: bool


def fewer_clicks(share: float) -> Callable[[Traffic, tuple[Integers, Integers]], None]:
    """RR and Success fall by this share."""

    def play(traffic: Traffic, at: tuple[Integers, Integers]) -> None:
        traffic.found[at] *= 1 - share

    return play


def run(days: float, per_hour: float, seed: int) -> Sequence[Told]:
    """The falls that are told when so many days are known, each tried."""
    end_h = days * 24
    quiet = Watch(Shop(days + 1, per_hour, seed)).look(end_h)
    assert quiet.end_ms is not None
    told = []
    for fall in noticed(quiet.noticeable, TOLD, quiet.end_ms):
        begin_h = (fall.begun_ms - BEGIN_MS) / HOUR_MS
        shop = Shop(days + 1, per_hour, seed, [Fault(fewer_clicks(fall.drop), begin_h, end_h + 1)])
        watch = Watch(shop)
        looks = [watch.look(end_h - minutes / 60) for minutes in LOOKS_MIN]
        is_noticed = bool(looks[-1].open)
        told.append(Told(fall, (quiet.end_ms - fall.begun_ms) / HOUR_MS, is_noticed))
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="of each row")
    parser.add_argument("--days", type=float, nargs="*", default=DAYS)
    parser.add_argument("--per-hour", type=float, nargs="*", default=PER_HOUR)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    found: list[Told] = []
    for days in given.days:
        for per_hour in given.per_hour:
            of_row = [
                told
                for each in range(given.runs)
                for told in run(days, per_hour, given.seed + each)
            ]
            found += of_row
            drops = sorted(told.fall.drop for told in of_row)
            ages = sorted(told.age_h for told in of_row)
            span = f"{drops[0]:.1%} to {drops[-1]:.1%}, {ages[0]:.1f} to {ages[-1]:.1f} h old"
            hits = sum(told.is_noticed for told in of_row)
            print(
                f"{days:5.2f} days {per_hour:7,.0f}/h: {hits} of {len(of_row)} noticed, {span}",
                flush=True,
            )
    hits = sum(told.is_noticed for told in found)
    print(f"{hits} of {len(found)} falls that were told are noticed")
    return int(hits < LEAST * len(found))


if __name__ == "__main__":
    sys.exit(main())
