"""How often a quiet shop's headline turns red, in simulated weeks:

python -m tests.bench.quiet_weeks                      # takes long; or some of it:
python -m tests.bench.quiet_weeks --weeks 2 --per-hour 5000 --seed 7

An episode is an unbroken row of looks at which anything is named. Its length is what people wait
until they read again that nothing is worse.
"""

import argparse
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.poisson import per_thousand
from tests.daemon.changes.shops import Shop, Watch

KNOWN_DAYS: Final = 22
PER_HOUR: Final = (1_000, 5_000, 20_000)
LOOKS_AN_HOUR: Final = 6
MOST_A_WEEK: Final = 0.5
"""Of a shop with 26 segments and 7 metrics."""


@dataclass(frozen=True)
class Episode:
    """Something was named of a shop where nothing broke."""

    named: str
    hours: float


def week(per_hour: float, seed: int, hours: int = 168) -> Sequence[Episode]:
    """The episodes of a week, after three that are known."""
    watch = Watch(Shop(KNOWN_DAYS + hours / 24 + 1, per_hour, seed))
    found: list[Episode] = []
    was_red = False
    for look in range(hours * LOOKS_AN_HOUR):
        seen = watch.look(KNOWN_DAYS * 24 + look / LOOKS_AN_HOUR)
        news = [story for story in seen.open if not story.fall.is_standing(seen.end_ms or 0)]
        if news:
            grouping, _, metric = news[0].fall.series
            named = f"{metric} of {grouping} {' and '.join(sorted(news[0].segments))}"
            before = found.pop() if was_red else Episode(named, 0.0)
            found.append(Episode(before.named, before.hours + 1 / LOOKS_AN_HOUR))
        was_red = bool(news)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--weeks", type=int, default=8, help="of each rate")
    parser.add_argument("--per-hour", type=float, nargs="*", default=PER_HOUR)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    total = 0
    for per_hour in given.per_hour:
        of_rate: list[Episode] = []
        for each in range(given.weeks):
            of_rate += week(per_hour, given.seed + each)
        total += len(of_rate)
        print(f"{per_hour:7,.0f}/h: {len(of_rate)} in {given.weeks} weeks {of_rate}", flush=True)
    weeks = given.weeks * len(given.per_hour)
    print(f"{total} episodes in {weeks} weeks: {per_thousand(total, weeks)} per 1,000")
    return int(total > MOST_A_WEEK * weeks + 2)


if __name__ == "__main__":
    sys.exit(main())
