"""Offline evaluation: runs against judgements by stated rules. Pure.

qrels, run ─▶ align (ties, cut, missing queries) ─▶ lists ─▶ metrics ─▶ values and means per run
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics import Comparison, Lists, Mean, Metric, compare, macro
from relevanced.metrics.lists import Floats

from .trec import Qrels, Result, Run

Ties: TypeAlias = Literal["item", "rank", "file"]
Missing: TypeAlias = Literal["skip", "zero", "refuse"]
Undefined: TypeAlias = Literal["zero", "skip"]
Negative: TypeAlias = Literal["unjudged", "nonrelevant"]

DEFAULT_METRICS: Final = (
    "AP",
    "nDCG@10",
    "P@10",
    "R@100",
    "RR",
    "Rprec",
    "Bpref",
    "Judged@10",
)


class EvaluationError(Exception):
    """The files cannot be evaluated as asked; the text says why, and by which rule."""


@dataclass(frozen=True)
class Policies:
    """What to do where the files leave it open. The defaults are trec_eval's."""

    ties: Ties = "item"
    """Order of equal scores: `item`, its id descending; `rank`, that column; `file`, as read."""
    missing: Missing = "skip"
    """A judged query without results: left out, an empty list, or refused."""
    undefined: Undefined = "zero"
    """A query for which a metric is undefined: counts as 0 in the mean, or is left out of it."""
    negative: Negative = "unjudged"
    """A negative grade: as if nobody had judged, or judged not relevant."""
    most_results: int | None = None
    """Results of a query that count."""


@dataclass(frozen=True)
class Scored:
    """What one run scored."""

    name: str
    file: str
    queries: tuple[str, ...]
    """The judged queries that count, in the judgements' order."""
    values: Mapping[str, Floats]
    """Metric's name -> (queries,); NaN where undefined."""
    means: Mapping[str, Mean]
    lists: Lists


@dataclass(frozen=True)
class Compared:
    """One run against the first one by one metric: a win is a query where it is better."""

    run: str
    against: str
    metric: str
    comparison: Comparison


def score(
    qrels: Qrels, run: Run, metrics: Sequence[Metric], policies: Policies, *, name: str, file: str
) -> Scored:
    """The metrics of one run. Raises EvaluationError."""
    queries, lists = align(qrels, run, policies, file)
    try:
        values = {metric.name: metric.values(lists) for metric in metrics}
    except ValueError as error:
        raise EvaluationError(f"{file}: {error}") from error
    means = {key: macro(found, policies.undefined) for key, found in values.items()}
    return Scored(name, file, queries, values, means, lists)


def align(
    qrels: Qrels, run: Run, policies: Policies, file: str = "the run"
) -> tuple[tuple[str, ...], Lists]:
    """The judged queries that count and the lists that the run shows for them.

    Results of queries that nobody judged are left out, as trec_eval does. Raises EvaluationError.
    """
    lacking = [query for query in qrels if query not in run.results]
    if lacking and policies.missing == "refuse":
        some = ", ".join(lacking[:5])
        raise EvaluationError(
            f"{file}: no results for {len(lacking)} of {len(qrels)} judged queries ({some}):"
            " must have results for all, unless missing queries are skipped or zero"
        )
    left_out = set(lacking) if policies.missing == "skip" else set()
    queries = tuple(query for query in qrels if query not in left_out)
    if not queries:
        raise EvaluationError(f"{file}: has no result for any judged query")
    judged = [_judged(qrels[query], policies.negative) for query in queries]
    grades = [
        [known.get(item) for item in ordered(run.results.get(query, []), policies)]
        for query, known in zip(queries, judged)
    ]
    return queries, Lists.of(grades, pool=[list(known.values()) for known in judged])


def _judged(grades: Mapping[str, int], negative: Negative) -> dict[str, float]:
    if negative == "nonrelevant":
        return {item: float(max(grade, 0)) for item, grade in grades.items()}
    return {item: float(grade) for item, grade in grades.items() if grade >= 0}


def ordered(results: Sequence[Result], policies: Policies) -> list[str]:
    """The items from the highest score down, ties by the rule, cut where the policies cut."""
    if policies.ties == "item":
        best_first = sorted(results, key=lambda result: result.item, reverse=True)
    elif policies.ties == "rank":
        best_first = sorted(results, key=_rank)
    else:
        best_first = list(results)
    # The sort is stable: what scores the same keeps the order just made.
    best_first.sort(key=lambda result: -result.score)
    return [result.item for result in best_first[: policies.most_results]]


def _rank(result: Result) -> int:
    try:
        return int(result.rank)
    except ValueError:
        raise EvaluationError(
            f"rank={result.rank} of item {result.item}: must be a whole number to settle ties"
        ) from None


def compare_runs(runs: Sequence[Scored], metrics: Sequence[Metric]) -> list[Compared]:
    """Every further run against the first, over the queries that both have."""
    return [
        Compared(run.name, runs[0].name, metric.name, compare(*_paired(run, runs[0], metric)))
        for run in runs[1:]
        for metric in metrics
    ]


def _paired(run: Scored, first: Scored, metric: Metric) -> tuple[Floats, Floats]:
    """The values of the queries that both have, turned so that more is better."""
    places = {query: place for place, query in enumerate(first.queries)}
    shared = [place for place, query in enumerate(run.queries) if query in places]
    others = [places[run.queries[place]] for place in shared]
    sign = -1.0 if metric.direction == "down" else 1.0
    mine = np.asarray(run.values[metric.name][shared], dtype=np.float64)
    theirs = np.asarray(first.values[metric.name][others], dtype=np.float64)
    return sign * mine, sign * theirs
