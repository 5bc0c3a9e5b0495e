"""Score runs against judgements, by policies for what the files leave open. Pure.

qrels, run ─▶ align (ties, cut, missing queries) ─▶ lists ─▶ metrics ─▶ values and means per run
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from relevanced.metrics import Lists, Mean, Metric, macro
from relevanced.metrics.lists import Floats

from .trec import Qrels, Result, RunFile

Ties: TypeAlias = Literal["item", "rank", "file"]
Missing: TypeAlias = Literal["skip", "zero", "refuse"]
Undefined: TypeAlias = Literal["zero", "skip"]
Negative: TypeAlias = Literal["unjudged", "nonrelevant"]


class EvaluationError(Exception):
    """The files cannot be evaluated under these policies; the message names the rule."""


@dataclass(frozen=True)
class Policies:
    """How to treat what the files leave open. The defaults are those of trec_eval."""

    ties: Ties = "item"
    """Order of equal scores: by item id descending, by the rank column, or as in the file."""
    missing: Missing = "skip"
    """A judged query without results: left out, scored as an empty list, or an error."""
    undefined: Undefined = "zero"
    """A query for which a metric is undefined: 0 in the mean, or left out of it."""
    negative: Negative = "unjudged"
    """A negative grade, for Bpref: as if the item were unjudged, or judged not relevant. It is
    judged for Judged, and has no gain, in either case."""
    most_results: int | None = None
    """Keep only so many results of a query; None keeps all."""


@dataclass(frozen=True)
class ScoredRun:
    """One run with the values of its metrics."""

    name: str
    file: str
    queries: tuple[str, ...]
    """The judged queries that are scored, in the order of the judgements."""
    values: Mapping[str, Floats]
    """Metric's name -> (queries,); NaN where undefined."""
    means: Mapping[str, Mean]
    lists: Lists
    judged_queries: int
    """Queries that have judgements."""
    without_results: int
    """Those of them for which the run has no results."""
    without_judgements: int
    """Queries for which the run has results and that nothing is judged for: not scored."""


def score(
    qrels: Qrels,
    run: RunFile,
    metrics: Sequence[Metric],
    policies: Policies,
    *,
    name: str,
    file: str,
) -> ScoredRun:
    """Compute the metrics of one run. Raises EvaluationError."""
    queries, lists = align(qrels, run, policies, file)
    try:
        values = {metric.name: metric.values(lists) for metric in metrics}
    except ValueError as error:
        raise EvaluationError(f"{file}: {error}") from error
    means = {key: macro(of_queries, policies.undefined) for key, of_queries in values.items()}
    return ScoredRun(
        name,
        file,
        queries,
        values,
        means,
        lists,
        judged_queries=len(qrels),
        without_results=len(qrels.keys() - run.results.keys()),
        without_judgements=len(run.results.keys() - qrels.keys()),
    )


def align(
    qrels: Qrels, run: RunFile, policies: Policies, file: str = "the run"
) -> tuple[tuple[str, ...], Lists]:
    """The judged queries that are scored, and the result lists of the run for them.

    Results of queries without judgements are left out, as by trec_eval. Raises EvaluationError.
    """
    missing = [query for query in qrels if query not in run.results]
    if missing and policies.missing == "refuse":
        first_five = ", ".join(missing[:5])
        raise EvaluationError(
            f"{file}: no results for {len(missing)} of {len(qrels)} judged queries ({first_five}):"
            " with --missing refuse every judged query must have results"
        )
    left_out = set(missing) if policies.missing == "skip" else set()
    queries = tuple(query for query in qrels if query not in left_out)
    if not queries:
        raise EvaluationError(f"{file}: has no result for any judged query")
    judged = [_judged(qrels[query], policies.negative) for query in queries]
    shown = [ordered(run.results.get(query, []), policies) for query in queries]
    return queries, Lists.of(
        [[grade_of.get(item) for item in items] for items, grade_of in zip(shown, judged)],
        pool=[list(grade_of.values()) for grade_of in judged],
        assessed=[[item in qrels[query] for item in items] for query, items in zip(queries, shown)],
    )


def _judged(grades: Mapping[str, int], negative: Negative) -> dict[str, float]:
    if negative == "nonrelevant":
        return {item: float(max(grade, 0)) for item, grade in grades.items()}
    return {item: float(grade) for item, grade in grades.items() if grade >= 0}


def ordered(results: Sequence[Result], policies: Policies) -> list[str]:
    """The items by descending score, ties by the policy, cut at `most_results`."""
    if policies.ties == "item":
        best_first = sorted(results, key=lambda result: result.item, reverse=True)
    elif policies.ties == "rank":
        best_first = sorted(results, key=_rank)
    else:
        best_first = list(results)
    # The sort is stable: results with equal scores keep the order of the tie rule.
    best_first.sort(key=lambda result: -result.score)
    return [result.item for result in best_first[: policies.most_results]]


def _rank(result: Result) -> int:
    try:
        return int(result.rank)
    except ValueError:
        raise EvaluationError(
            f"rank={result.rank} of item {result.item}: must be a whole number to break ties"
        ) from None
