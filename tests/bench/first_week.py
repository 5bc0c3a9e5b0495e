"""How often the headline of a quiet shop is red in its first week, where the hours of a day differ:

python -m tests.bench.first_week                       # takes a minute; or fewer, of a seed:
python -m tests.bench.first_week --runs 2 --seed 7

From the second day on the hours of yesterday tell the shape of a day. Exits with 1 where more than
MOST of the looks since then are red.
"""

import argparse
import secrets
import sys
from typing import Final

import numpy as np

from relevanced.metrics import Integers
from tests.daemon.changes.shops import Fault, Shop, Traffic, Watch

SECOND_DAY_H: Final = 25
END_H: Final = 7 * 24
SHAPE: Final = 0.1
"""By how much the best hour exceeds the mean, beyond what every shop has."""
PER_HOUR: Final = (5_000, 20_000)
MOST: Final = 0.01


def shaped(traffic: Traffic, at: tuple[Integers, Integers]) -> None:
    """The hours of a day differ more than usual."""
    of_day = np.sin(2 * np.pi * (traffic.hours[at[0]] - 6) / 24)
    traffic.found[at] *= 1 + SHAPE * of_day


def looks(per_hour: float, seed: int, hours: range) -> list[bool]:
    """Whether the headline is red at each of these hours; the shop begins at 0."""
    shop = Shop(hours[-1] / 24 + 1, per_hour, seed, [Fault(shaped, 0, hours[-1] + 24)])
    watch = Watch(shop)
    return [bool(watch.look(hour).open) for hour in hours]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="of each rate")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    found: list[bool] = []
    for per_hour in PER_HOUR:
        for each in range(given.runs):
            of_run = looks(per_hour, given.seed + each, range(SECOND_DAY_H, END_H))
            print(f"{per_hour:7,.0f}/h: {sum(of_run)} of {len(of_run)} looks are red", flush=True)
            found += of_run
    print(f"{sum(found)} of {len(found)}")
    return int(sum(found) > MOST * len(found))


if __name__ == "__main__":
    sys.exit(main())
