"""What judged scores say of a change when part of what is shown is not judged:

python -m tests.bench.unjudged                   # 30 worlds, two depths of pools; takes minutes
python -m tests.bench.unjudged --worlds 4 --seed 7

A world has 300 queries of 60 items with known grades. A pool of the old ranker's first items is
judged. What changes then is known: its true effect is nDCG@10 by all grades. For each kind of
change: how often the score alone (an item without a judgement counts 0), the condensed list, bpref,
and the score together with its best case call a fall or a rise, and how often wrongly. Exits with 1
where the pair calls one wrongly.
"""

import argparse
import secrets
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.judgements import judged_plan, score
from relevanced.metrics import Booleans, Floats, Integers

QUERIES, ITEMS, DEPTH = 300, 60, 10
GRADES: Final = (0.60, 0.20, 0.13, 0.07)
"""Shares of the items that have the grades 0 to 3."""
LISTS: Final = 4_000
NOISE: Final = 1.3
"""Of the old ranker, in grades."""
BEYOND: Final = 4.0
"""A change is called beyond so many standard errors."""
IS_STEADY: Final = 2.0
"""A true change within so many is none."""
DESIGN_EFFECT: Final = 2.0
POOLS: Final = (14, 40)
ALONE: Final = ("0", "condensed", "bpref")
PAIR: Final = "0 & best case"
PLAN: Final = judged_plan(["nDCG@10", "Bpref"], relevant_from=1, max_grade=3)
CONDENSED: Final = judged_plan(["nDCG@10"], relevant_from=1, max_grade=3, unjudged="skip")
TRUE: Final = judged_plan(["nDCG@10"], relevant_from=1, max_grade=3)
NAMES: Final = [f"d{item}" for item in range(ITEMS)]

Verdict: TypeAlias = str


@dataclass(frozen=True)
class Case:
    """What is shown after a change, and what is known of it."""

    name: str
    order: Floats
    """(queries, items) by which items are ranked."""
    grades: Integers
    judged: Booleans


@dataclass(frozen=True)
class Seen:
    """The lists of one side: mean and standard error of each reading."""

    means: dict[str, float]
    errors: dict[str, float]
    share: float


@dataclass
class Found:
    """One kind of change, over all worlds."""

    true: list[float]
    shares: list[float]
    moved: dict[str, list[float]]
    verdicts: dict[str, Counter[Verdict]]
    wrong: Counter[str]
    right: int = 0
    """Called rightly by the score alone."""
    held_back: int = 0
    """Those of them that the pair does not tell."""


def world(rng: np.random.Generator, pool: int) -> tuple[Case, list[Case]]:
    """What was shown before, and the changes."""
    shape = (QUERIES, ITEMS)
    grades: Integers = rng.choice(4, size=shape, p=GRADES).astype(np.int64)
    old = grades + NOISE * rng.standard_normal(shape)
    judged: Booleans = rng.random(shape) < 0.05
    np.put_along_axis(judged, np.argsort(-old, axis=1)[:, :pool], True, axis=1)
    other = rng.standard_normal(shape)
    before = Case("before", old, grades, judged)
    found = [
        Case(name, grades + noise * other, grades, judged)
        for name, noise in (
            ("another ranker, better", 1.05),
            ("another ranker, as good", 1.3),
            ("another ranker, worse", 1.6),
            ("another ranker, much worse", 2.2),
        )
    ]
    found.append(Case("nothing", old, grades, judged))
    found.append(Case("noisier", old + 0.8 * rng.standard_normal(shape), grades, judged))
    found.append(Case("tuned", grades + 0.85 * (old - grades), grades, judged))
    top = np.argsort(-old, axis=1)[:, :DEPTH]
    shuffled = old.copy()
    values = rng.permuted(np.take_along_axis(old, top, axis=1), axis=1)
    np.put_along_axis(shuffled, top, values, axis=1)
    found.append(Case("the first ten shuffled", shuffled, grades, judged))
    lost = old.copy()
    lost[:, ::2] -= 3
    found.append(Case("half of the items sink", lost, grades, judged))
    return before, [*found, *_new_items(rng, before, top)]


def _new_items(rng: np.random.Generator, before: Case, top: NDArray[np.int64]) -> Iterator[Case]:
    """Items that nobody has judged take the place of others."""
    old, grades, judged = before.order, before.grades, before.judged

    def replaced(name: str, new: Booleans, of: Integers, shown_as: Floats) -> Case:
        order = np.where(new, shown_as + NOISE * rng.standard_normal(old.shape), old)
        return Case(name, order, np.where(new, of, grades), judged & ~new)

    for share in (0.02, 0.05, 0.1):
        new = rng.random(old.shape) < share
        alike = rng.permutation(grades.reshape(-1)).reshape(old.shape)
        yield replaced(f"{share:.0%} of the items are new", new, alike, alike)
    new = rng.random(old.shape) < 0.05
    best, worst = np.full_like(grades, 3), np.zeros_like(grades)
    yield replaced("5% new items, all very good", new, best, best)
    yield replaced("5% junk pushed up", new, worst, np.full(old.shape, 2.5))
    first = np.zeros(old.shape, np.bool_)
    np.put_along_axis(first, top[:, :3], rng.random((QUERIES, 3)) < 0.25, axis=1)
    yield Case("good new items in first places", old, grades, judged & ~first)


def seen(rng: np.random.Generator, case: Case, known: Case) -> Seen:
    """Lists of the traffic, as its readings have them. `known`: whose judgements are in force."""
    traffic = 1 / np.arange(1, QUERIES + 1)
    queries = rng.choice(QUERIES, size=LISTS, p=traffic / traffic.sum())
    order = case.order[queries] + 0.25 * rng.standard_normal((LISTS, ITEMS))
    ranked = np.argsort(-order, axis=1)[:, :DEPTH]
    shown = [[NAMES[item] for item in of_list] for of_list in ranked.tolist()]
    of_file = _by_query(known.grades, known.judged & case.judged)
    of_all = _by_query(case.grades, np.ones_like(case.judged))
    by_file, whole = [of_file[n] for n in queries.tolist()], [of_all[n] for n in queries.tolist()]
    found = score(shown, by_file, PLAN)
    columns = {
        "true": score(shown, whole, TRUE).scores[:, 0],
        "0": found.scores[:, 0],
        "best case": found.best_case[:, 0],
        "bpref": found.scores[:, 1],
        "condensed": score(shown, by_file, CONDENSED).scores[:, 0],
    }
    means = {name: float(np.nanmean(each)) for name, each in columns.items()}
    errors = {
        name: float(np.nanstd(each) * np.sqrt(DESIGN_EFFECT / np.isfinite(each).sum()))
        for name, each in columns.items()
    }
    return Seen(means, errors, float(found.judged_places.sum() / found.places.sum()))


def _by_query(grades: Integers, judged: Booleans) -> list[dict[str, float]]:
    return [
        {NAMES[item]: float(of_query[item]) for item in np.flatnonzero(is_judged).tolist()}
        for of_query, is_judged in zip(grades, judged, strict=True)
    ]


def verdict(z: Sequence[float]) -> Verdict:
    """What readings say together, each as a change in errors."""
    if all(each < -BEYOND for each in z):
        return "fall"
    if all(each > BEYOND for each in z):
        return "rise"
    return "cannot tell" if any(abs(each) > BEYOND for each in z) else "steady"


def run(worlds: int, pool: int, seed: int) -> dict[str, Found]:
    """Kind of change → what is said of it."""
    found: dict[str, Found] = {}
    for number in range(worlds):
        rng = np.random.default_rng([seed, number])
        before, cases = world(rng, pool)
        was = seen(rng, before, before)
        for case in cases:
            now = seen(rng, case, before)
            of = found.setdefault(
                case.name, Found([], [], defaultdict(list), defaultdict(Counter), Counter())
            )
            moved = {name: now.means[name] - was.means[name] for name in now.means}
            z = {
                name: by / np.hypot(was.errors[name], now.errors[name])
                for name, by in moved.items()
            }
            of.true.append(moved["true"])
            of.shares.append(now.share)
            for name, by in moved.items():
                of.moved[name].append(by)
            said = {name: verdict([z[name]]) for name in ALONE}
            said[PAIR] = verdict([z["0"], z["best case"]])
            truth = {"fall": z["true"] < -IS_STEADY, "rise": z["true"] > IS_STEADY}
            for name, words in said.items():
                of.verdicts[name][words] += 1
                of.wrong[name] += not truth.get(words, True)
            is_right = truth.get(said["0"], False)
            of.right += is_right
            of.held_back += is_right and said[PAIR] != said["0"]
    return found


def report(found: dict[str, Found]) -> Iterator[str]:
    """A line for each kind of change."""
    yield f"{'what happened':32}{'judged':>7}{'true':>7}" + "".join(
        f"{name:>11}" for name in (*ALONE, "best case")
    )
    for name, of in found.items():
        moved = "".join(f"{np.mean(of.moved[each]):>+11.3f}" for each in (*ALONE, "best case"))
        yield f"{name:32}{np.mean(of.shares):>7.0%}{np.mean(of.true):>+7.3f}{moved}"
        for each in (*ALONE, PAIR):
            words = ", ".join(f"{word} {n}" for word, n in of.verdicts[each].most_common())
            wrong = f"  ({of.wrong[each]} wrong)" if of.wrong[each] else ""
            yield f"    by {each:14} {words}{wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    wrong: Counter[str] = Counter()
    changes = right = held_back = 0
    for pool in POOLS:
        print(f"\nThe first {pool} items of the old ranker are judged, {given.worlds} worlds")
        found = run(given.worlds, pool, given.seed)
        for line in report(found):
            print(line)
        for of in found.values():
            changes += len(of.true)
            wrong += of.wrong
            right, held_back = right + of.right, held_back + of.held_back
    said = ", ".join(f"{name} {wrong[name]}" for name in (*ALONE, PAIR))
    print(f"\nOf {changes} simulated changes called wrongly: by {said}.")
    print(f"Of {right} that the score alone calls rightly the pair cannot tell {held_back}.")
    return 1 if wrong[PAIR] else 0


if __name__ == "__main__":
    sys.exit(main())
