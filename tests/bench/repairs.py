"""What is said of a fault from its onset to its end, in simulated shops:

python -m tests.bench.repairs                                  # takes long; or some of it:
python -m tests.bench.repairs --runs 2 --broken 60 --per-hour 5000 --seed 7 --fault "ranking DE"

Prints for each run when the fault was named, when nothing was named any more, counted from the
repair, when the segment that carried it had recovered, and the looks at which a segment was named
that did not carry it. Exits with 1 where fewer than 95 in 100 runs end well.
"""

import argparse
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from relevanced.daemon.changes import Story
from tests.daemon.changes.shops import Fault, Shop, Watch, fewer, index, ranking, tracker

DE: Final = {0: "DE"}
FR: Final = {0: "FR"}
IOS: Final = {1: "ios"}
DE_IOS: Final = {0: "DE", 1: "ios"}
WHOLE: Final[Mapping[int, str]] = {}
Segments: TypeAlias = frozenset[str]
BROKEN_MIN: Final = (8, 30, 120, 600)
PER_HOUR: Final = (1_000, 5_000, 20_000)
KNOWN_DAYS: Final = 22
AFTER_REPAIR_H: Final = 0.75
"""Until then what was broken is still in what has settled: the fault is rightly named."""
MOST_MORE_H: Final = 2.0
"""All is over at most so long after the carrier is."""
LEAST_GOOD: Final = 0.95


@dataclass(frozen=True)
class Kind:
    """A fault, and the segments that carry it."""

    faults: Callable[[float, float], Sequence[Fault]]
    """From the hours at which it begins and is repaired; some are repaired in parts."""
    carriers: Segments


def _one(play: object, where: Mapping[int, str]) -> Callable[[float, float], Sequence[Fault]]:
    return lambda begin_h, end_h: [Fault(play, begin_h, end_h, where)]  # type: ignore[arg-type]


KINDS: Final[Mapping[str, Kind]] = {
    "ranking DE": Kind(_one(ranking(0.6, 0.15), DE), frozenset({"DE"})),
    "ranking ios": Kind(_one(ranking(0.5, 0.12), IOS), frozenset({"ios"})),
    "ranking DE,ios": Kind(_one(ranking(0.8, 0.3), DE_IOS), frozenset({"DE,ios", "DE", "ios"})),
    "ranking all": Kind(_one(ranking(0.35, 0.08), WHOLE), frozenset({"all"})),
    "index DE": Kind(_one(index(0.2), DE), frozenset({"DE"})),
    "index all": Kind(_one(index(0.15), WHOLE), frozenset({"all"})),
    "tracker DE": Kind(_one(tracker(0.5), DE), frozenset({"DE"})),
    "tracker all": Kind(_one(tracker(0.25), WHOLE), frozenset({"all"})),
    "DE and FR at once, DE repaired": Kind(
        lambda begin_h, end_h: [
            Fault(ranking(0.6, 0.15), begin_h, end_h, DE),
            Fault(ranking(0.6, 0.15), begin_h, end_h + 6, FR),
        ],
        frozenset({"DE", "FR"}),
    ),
    "FR breaks before DE is repaired": Kind(
        lambda begin_h, end_h: [
            Fault(ranking(0.6, 0.15), begin_h, end_h, DE),
            Fault(ranking(0.6, 0.15), end_h - 0.1, end_h + 6, FR),
        ],
        frozenset({"DE", "FR"}),
    ),
    "DE deeper within the whole, which is repaired": Kind(
        lambda begin_h, end_h: [
            Fault(ranking(0.25, 0.05), begin_h, end_h),
            Fault(ranking(0.6, 0.15), begin_h, end_h + 6, DE),
        ],
        frozenset({"DE", "all"}),
    ),
    "half repaired": Kind(
        lambda begin_h, end_h: [
            Fault(ranking(0.6, 0.15), begin_h, end_h, DE),
            Fault(ranking(0.3, 0.07), end_h, end_h + 8, DE),
        ],
        frozenset({"DE"}),
    ),
    "a repair that fails": Kind(
        lambda begin_h, end_h: [
            Fault(ranking(0.6, 0.15), begin_h, end_h, DE),
            Fault(ranking(0.6, 0.15), end_h + 1, end_h + 6, DE),
        ],
        frozenset({"DE"}),
    ),
    "a slow fall and a slow repair": Kind(
        lambda begin_h, end_h: [
            Fault(ranking(0.6 * part, 0.15 * part), begin_h + at / 2, begin_h + (at + 1) / 2, DE)
            for at, part in enumerate((0.25, 0.5, 0.75, *(1.0,) * 16, 0.75, 0.5, 0.25))
        ],
        frozenset({"DE"}),
    ),
    "mix": Kind(_one(fewer(0.65), {0: "US"}), frozenset({"all"})),
}


@dataclass(frozen=True)
class Run:
    """What was said of one fault; hours, of which all but the first count from the repair."""

    named_h: float | None
    """From the onset to the first look that names anything."""
    over_h: float | None
    """Until nothing is named any more; None where something is to the end."""
    carrier_h: float | None
    """Until all segments that carried it have recovered by RR and Success."""
    innocents: tuple[tuple[float, str], ...]
    """(when, which segment) for each look that names another one; the whole contains them, and
    their cells fell with them."""
    path: tuple[tuple[float, str], ...]
    """(when, the headline's subject) for each look at which that is another one than before."""

    @property
    def is_good(self) -> bool:
        """Whether nobody was misled: too small to be named at all counts as good."""
        if self.innocents:
            return False
        if self.named_h is None:
            return True
        if self.carrier_h is None:  # what is over for all is over for the carrier
            return True
        return self.over_h is not None and self.over_h <= self.carrier_h + MOST_MORE_H


def run(
    kind: Kind, per_hour: float, broken_min: float, seed: int, hours_after: float = 30.0
) -> Run:
    """Break a shop, repair it, and look on until `hours_after` the repair."""
    rng = np.random.default_rng(seed)
    begin_h = KNOWN_DAYS * 24 + float(rng.uniform(0, 5 * 24))
    faults = kind.faults(begin_h, begin_h + broken_min / 60)
    end_h = max(fault.end_h for fault in faults)
    shop = Shop(KNOWN_DAYS + 9, per_hour, seed, faults)
    watch, named_h, over_h, carrier_h = Watch(shop), None, None, None
    innocents: list[tuple[float, str]] = []
    path: list[tuple[float, str]] = []
    for hour in _looks(begin_h, end_h, end_h + hours_after):
        found = watch.look(hour)
        as_of_ms = found.end_ms or 0
        news = [story for story in found.open if not story.fall.is_standing(as_of_ms)]
        after_h = round(hour - end_h, 2)
        if news and named_h is None and hour >= begin_h:
            named_h = round(hour - begin_h, 2)
        over_h = None if news else after_h if over_h is None else over_h
        innocents += [
            (after_h, segment)
            for segment in _named(news)
            if not _carries(segment, kind.carriers) and hour >= begin_h
        ]
        subject = _subject(news)
        if hour >= begin_h and subject != (path[-1][1] if path else ""):
            path.append((after_h, subject))
        if carrier_h is None and after_h > 0 and _has_recovered(watch, kind.carriers):
            carrier_h = after_h
    return Run(named_h, over_h, carrier_h, tuple(innocents), tuple(path))


def _looks(begin_h: float, end_h: float, until_h: float) -> Iterator[float]:
    """Every ten minutes around onset and repair, every half hour between and behind."""
    hour = begin_h - 1
    while hour < until_h:
        yield hour
        near = hour < begin_h + 2 or end_h - 0.6 < hour < end_h + 4
        hour += 1 / 6 if near else 0.5


def _named(news: Sequence[Story]) -> Segments:
    return frozenset(segment for story in news[:1] for segment in story.segments)


def _carries(segment: str, carriers: Segments) -> bool:
    """Whether it is one of them, a cell of one, which fell with it, or the whole."""
    return segment == "all" or not carriers.isdisjoint((segment, *segment.split(",")))


def _subject(news: Sequence[Story]) -> str:
    if not news:
        return ""
    grouping, _, metric = news[0].fall.series
    return f"{metric} of {grouping} {' and '.join(sorted(news[0].segments))}"


def _has_recovered(watch: Watch, carriers: Segments) -> bool:
    falls = [
        fall
        for fall in watch.publisher.told.falls
        if fall.series[1] in carriers and fall.series[2] in ("RR@10", "Success@10")
    ]
    return bool(falls) and all(fall.recovered_ms is not None for fall in falls)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1, help="of each row")
    parser.add_argument("--broken", type=float, nargs="*", default=BROKEN_MIN, help="minutes")
    parser.add_argument("--per-hour", type=float, nargs="*", default=PER_HOUR)
    parser.add_argument("--fault", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--after", type=float, default=30.0, help="hours to look on")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    good = total = 0
    for name in given.fault:
        for per_hour in given.per_hour:
            for broken_min in given.broken:
                for each in range(given.runs):
                    made = run(KINDS[name], per_hour, broken_min, given.seed + each, given.after)
                    good, total = good + made.is_good, total + 1
                    verdict = "good" if made.is_good else "BAD "
                    print(
                        f"{verdict} {name:15} {per_hour:7,.0f}/h broken {broken_min:4.0f} min:"
                        f" named {made.named_h} h, over {made.over_h} h, carrier {made.carrier_h} h"
                        f" {made.path}",
                        flush=True,
                    )
    print(f"{good} of {total} runs end well")
    return int(good < LEAST_GOOD * total)


if __name__ == "__main__":
    sys.exit(main())
