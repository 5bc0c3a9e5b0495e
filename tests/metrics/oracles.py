"""The definition of every metric, slow and obvious: one list at a time, in plain Python.

`ORACLES` maps a family of the catalog to its definition; None stands for undefined. Fractions keep
what is a ratio of counts exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Lists, Metric

Number = float | Fraction


@dataclass(frozen=True)
class Plain:
    """One list in plain Python values."""

    grades: list[float | None]
    """None for an unjudged item."""
    pool: list[float]
    collection: int
    known: list[bool]
    known_relevant: int
    first_feedback_s: float | None
    weights: list[float] | None = None
    """By rank, more than there are items; None where propensities are unknown."""
    subtopics: list[list[float]] = field(default_factory=list)
    """Of each item shown, its grades for the subtopics of the query."""
    pool_subtopics: list[list[float]] = field(default_factory=list)
    """The same of all judged items."""


@dataclass(frozen=True)
class Task:
    """One list and one metric, with the terms of most definitions."""

    plain: Plain
    metric: Metric

    @property
    def k(self) -> int:
        return len(self.plain.grades) if self.metric.k is None else self.metric.k

    @property
    def gains(self) -> list[float]:
        return [grade or 0.0 for grade in self.plain.grades]

    @property
    def hits(self) -> list[bool]:
        return [gain >= self.metric.number("rel") for gain in self.gains]

    @property
    def relevant(self) -> int:
        """R: relevant items in the pool."""
        return sum(grade >= self.metric.number("rel") for grade in self.plain.pool)

    @property
    def cells(self) -> tuple[int, int, int, int]:
        """a, b, c, d of the fourfold table."""
        a = sum(self.hits)
        b = len(self.hits) - a
        c = self.relevant - a
        return a, b, c, self.plain.collection - a - b - c


def share(part: Number, whole: Number, otherwise: float | None = None) -> Number | None:
    return otherwise if whole == 0 else Fraction(part) / Fraction(whole)


def precision(task: Task) -> Number | None:
    shown = task.metric.k is None or task.metric.word("variant") == "shown"
    divisor = min(task.k, len(task.hits)) if shown else task.k
    return share(sum(task.hits[: task.k]), divisor, 0.0)


def recall(task: Task) -> Number | None:
    return share(sum(task.hits[: task.k]), task.relevant, 0.0)


def f_of(p: Number | None, r: Number | None, beta: float) -> float:
    if not p or not r:
        return 0.0
    return float((1 + beta**2) * float(p) * float(r) / (beta**2 * float(p) + float(r)))


def reciprocal_rank(task: Task) -> Number:
    ranks = [rank for rank, hit in enumerate(task.hits[: task.k], start=1) if hit]
    return Fraction(1, ranks[0]) if ranks else 0


def precisions_at_hits(task: Task) -> list[Fraction]:
    hits = task.hits[: task.k]
    return [Fraction(sum(hits[:rank]), rank) for rank in range(1, len(hits) + 1) if hits[rank - 1]]


def interpolated(task: Task, level: Fraction) -> Number:
    hits = task.hits[: task.k]
    reached = [
        Fraction(sum(hits[:rank]), rank)
        for rank in range(1, len(hits) + 1)
        if task.relevant and Fraction(sum(hits[:rank]), task.relevant) >= level
    ]
    return max(reached, default=Fraction(0))


def average_precision(task: Task) -> Number | None:
    variant = task.metric.word("variant")
    if variant == "11pt":
        return sum(Fraction(interpolated(task, Fraction(i, 10))) for i in range(11)) / 11
    points = precisions_at_hits(task)
    return share(sum(points), len(points) if variant == "returned" else task.relevant, 0.0)


def r_precision(task: Task) -> Number | None:
    return share(sum(task.hits[: task.relevant]), task.relevant, 0.0)


def bpref(task: Task) -> Number | None:
    variant, big_r = task.metric.word("variant"), task.relevant
    big_n = sum(grade < task.metric.number("rel") for grade in task.plain.pool)
    most = big_r + 10 if variant == "10" else big_r
    worst = min(big_r, big_n) if variant == "latest" else most
    total, above = Fraction(0), 0
    for grade, hit in zip(task.plain.grades, task.hits):
        if hit:
            total += 1 - (Fraction(min(above, most), worst) if above else 0)
        elif grade is not None:
            above += 1
    return share(total, big_r, 0.0)


def rank_biased_precision(task: Task) -> float:
    p = task.metric.number("p")
    return sum((1 - p) * p**i for i, hit in enumerate(task.hits[: task.k]) if hit)


def gain_of(grade: float, gain: str) -> float:
    return max(grade, 0.0) if gain == "linear" else 2.0 ** max(grade, 0.0) - 1


def dcg_of(grades: list[float], task: Task, gain: str, base: float | None) -> float:
    """base None: no discount; 0: log2(i + 1); else Järvelin and Kekäläinen's."""
    total = 0.0
    for rank, grade in enumerate(grades[: task.k if task.metric.k else None], start=1):
        if base is None:
            divisor = 1.0
        elif base == 0:
            divisor = math.log2(rank + 1)
        else:
            divisor = 1.0 if rank < base else math.log(rank, base)
        total += gain_of(grade, gain) / divisor
    return total


def normalised(task: Task, base: float | None) -> float | None:
    pool = task.plain.pool if task.metric.word("ideal") == "pool" else task.gains
    gain = task.metric.word("gain")
    ideal = dcg_of(sorted(pool, reverse=True), task, gain, base)
    return dcg_of(task.gains, task, gain, base) / ideal if ideal else None


def expected_reciprocal_rank(task: Task) -> float:
    total, reaching = 0.0, 1.0
    for rank, gain in enumerate(task.gains[: task.k], start=1):
        stop = gain_of(gain, "exponential") / 2 ** task.metric.number("max_grade")
        discount = (
            1 / rank if task.metric.word("discount") == "reciprocal" else 1 / math.log2(rank + 1)
        )
        total += discount * reaching * stop
        reaching *= 1 - stop
    return total


def set_precision(task: Task) -> Number | None:
    a, b, _, _ = task.cells
    return share(a, a + b, 0.0)


def set_recall(task: Task) -> Number | None:
    a, _, c, _ = task.cells
    return share(a, a + c, 0.0)


def e_measure(task: Task) -> float:
    b = task.metric.number("b")
    beta = 1 / b if task.metric.word("stress") == "precision" else b
    return 1 - f_of(set_precision(task), set_recall(task), beta)


def of_cells(formula: Callable[[int, int, int, int], Number | None]) -> "Oracle":
    return lambda task: formula(*task.cells)


def utility(task: Task) -> float:
    return sum(task.metric.number(key) * cell for key, cell in zip("abcd", task.cells))


def novelty(task: Task) -> Number | None:
    known = sum(hit and known for hit, known in zip(task.hits, task.plain.known))
    return share(sum(task.hits) - known, sum(task.hits))


def coverage(task: Task) -> Number | None:
    known = sum(hit and known for hit, known in zip(task.hits, task.plain.known))
    return share(known, task.plain.known_relevant)


def weighted_sum(task: Task, values: list[float], divisor: Callable[[int], float]) -> float | None:
    """Sum over ranks of value x weight of the rank / divisor of the rank; None without weights."""
    weights = task.plain.weights
    if weights is None:
        return None
    ranks = range(min(task.k, len(values)))
    return sum(weights[rank0] * values[rank0] / divisor(rank0 + 1) for rank0 in ranks)


def ips_precision(task: Task) -> float | None:
    divisor = len(task.hits) or 1 if task.metric.k is None else task.k
    return weighted_sum(task, [float(hit) for hit in task.hits], lambda rank: divisor)


def ips_dcg(task: Task) -> float | None:
    base = task.metric.number("jk")
    values = [gain_of(gain, task.metric.word("gain")) for gain in task.gains]
    if base:
        return weighted_sum(task, values, lambda rank: 1.0 if rank < base else math.log(rank, base))
    return weighted_sum(task, values, lambda rank: math.log2(rank + 1))


def clicks(task: Task, k: int) -> int:
    return sum(gain > 0 for gain in task.gains[:k])


def first_click_rank(task: Task) -> int | None:
    return next((rank for rank, gain in enumerate(task.gains, start=1) if gain > 0), None)


def abandonment(task: Task) -> float | None:
    return float(first_click_rank(task) is None) if task.gains else None


def roc_area(task: Task) -> Number | None:
    above = [not other for at, hit in enumerate(task.hits) if hit for other in task.hits[at + 1 :]]
    return share(sum(above), sum(task.hits) * (len(task.hits) - sum(task.hits)))


def rank_biased_residual(task: Task) -> float:
    p, shown = task.metric.number("p"), task.plain.grades[: task.k]
    return 1 - sum((1 - p) * p**at for at, grade in enumerate(shown) if grade is not None)


def judged(task: Task) -> Number | None:
    shown = task.plain.grades[: task.k]
    return share(sum(grade is not None for grade in shown), len(shown))


Oracle = Callable[[Task], Number | None]

ORACLES: Final[dict[str, Oracle]] = {
    "P": precision,
    "R": recall,
    "F": lambda task: f_of(precision(task), recall(task), task.metric.number("beta")),
    "Success": lambda task: float(any(task.hits[: task.k])),
    "RR": reciprocal_rank,
    "AP": average_precision,
    "Rprec": r_precision,
    "BreakEven": r_precision,
    "IPrec": lambda task: interpolated(task, Fraction(task.metric.word("recall"))),
    "Bpref": bpref,
    "RBP": rank_biased_precision,
    "RBPResidual": rank_biased_residual,
    "AUC": roc_area,
    "Judged": judged,
    "CG": lambda task: sum(task.gains[: task.k]),
    "DCG": lambda task: dcg_of(
        task.gains, task, task.metric.word("gain"), task.metric.number("jk")
    ),
    "nCG": lambda task: normalised(task, None),
    "nDCG": lambda task: normalised(task, task.metric.number("jk")),
    "ERR": expected_reciprocal_rank,
    "alpha_nDCG": lambda task: alpha_ndcg(task),
    "ERR_IA": lambda task: err_ia(task),
    "IPS-P": ips_precision,
    "IPS-DCG": ips_dcg,
    "SetP": set_precision,
    "SetR": set_recall,
    "SetF": lambda task: f_of(set_precision(task), set_recall(task), task.metric.number("beta")),
    "SetE": e_measure,
    "SetAccuracy": of_cells(lambda a, b, c, d: share(a + d, a + b + c + d)),
    "Miss": of_cells(lambda a, b, c, d: share(c, a + c)),
    "FalseRate": of_cells(lambda a, b, c, d: share(b, a + b)),
    "Generality": of_cells(lambda a, b, c, d: share(a + c, a + b + c + d)),
    "Fallout": of_cells(lambda a, b, c, d: share(b, b + d)),
    "Coverage": coverage,
    "Novelty": novelty,
    "Utility": utility,
    "T11U": of_cells(lambda a, b, c, d: 2 * a - b),
    "T11F": lambda task: f_of(set_precision(task), set_recall(task), 0.5),
    "Clicks": lambda task: clicks(task, task.k),
    "ClickShare": lambda task: share(clicks(task, task.k), clicks(task, len(task.gains))),
    "FirstClickRank": first_click_rank,
    "Abandonment": abandonment,
    "ZeroResults": lambda task: float(not task.gains),
    "FirstFeedbackSeconds": lambda task: task.plain.first_feedback_s,
}


def covered(task: Task, items: list[list[float]]) -> list[set[int]]:
    """The subtopics that each item is relevant to."""
    least = task.metric.number("rel")
    return [{n for n, grade in enumerate(item) if grade >= least} for item in items]


def novel(task: Task, items: list[set[int]]) -> list[float]:
    """By rank: each subtopic counts (1 - alpha)^(items before that are relevant to it)."""
    left = 1 - task.metric.number("alpha")
    return [
        sum(left ** sum(subtopic in before for before in items[:rank0]) for subtopic in item)
        for rank0, item in enumerate(items)
    ]


def alpha_ndcg(task: Task) -> Number | None:
    rest, ideal = covered(task, task.plain.pool_subtopics), list[set[int]]()
    while rest:
        worth = [novel(task, [*ideal, item])[-1] for item in rest]
        ideal.append(rest.pop(worth.index(max(worth))))
    k = math.inf if task.metric.k is None else task.metric.k
    actual, best = (
        sum(g / math.log2(rank0 + 2) for rank0, g in enumerate(novel(task, of)) if rank0 < k)
        for of in (covered(task, task.plain.subtopics), ideal)
    )
    return None if best == 0 else actual / best


def err_ia(task: Task) -> Number | None:
    k, left = max(task.k, 1), 1 - task.metric.number("alpha")
    subtopics = set[int]().union(*covered(task, task.plain.pool_subtopics))
    gains = novel(task, covered(task, task.plain.subtopics))[:k]
    best = sum(len(subtopics) * left**rank0 / (rank0 + 1) for rank0 in range(k))
    actual = sum(gain / (rank0 + 1) for rank0, gain in enumerate(gains))
    return None if best == 0 else actual / best


def value(family: str, plain: Plain, metric: Metric) -> float:
    """The value of the metric by its definition; NaN where it is undefined."""
    defined = ORACLES[family](Task(plain, metric))
    if defined is None and dict(metric.settings).get("undefined") == "zero":
        return 0.0
    return math.nan if defined is None else float(defined)


def as_lists(rows: list[Plain]) -> Lists:
    """The rows as `Lists`."""
    most = max((len(row.weights or []) for row in rows), default=0) or max(
        (len(row.grades) + 1 for row in rows), default=1
    )
    weights = [row.weights or [math.nan] * most for row in rows]
    depth = max((len(row.grades) for row in rows), default=0)
    return Lists.of(
        [row.grades for row in rows],
        weights=np.array(weights, np.float64).reshape(len(rows), -1) if rows else np.ones((0, 1)),
        pool=[row.pool for row in rows],
        collection_size=[row.collection for row in rows],
        known=[row.known for row in rows],
        known_relevant=[row.known_relevant for row in rows],
        first_feedback_s=[row.first_feedback_s for row in rows],
        subtopics=by_subtopic([row.subtopics[: len(row.grades)] for row in rows], depth),
        pool_subtopics=by_subtopic([row.pool_subtopics for row in rows]),
    )


def by_subtopic(rows: list[list[list[float]]], depth: int = 0) -> Floats:
    """(rows, at least depth, subtopics), 0 where a row has none."""
    most = max((len(item) for row in rows for item in row), default=0)
    found = np.zeros((len(rows), max(depth, *map(len, rows), 0), most))
    for n, row in enumerate(rows):
        for rank0, item in enumerate(row):
            found[n, rank0, : len(item)] = item
    return found
