"""Score runs against judgements, by policies for what the files leave open, and compare them.

qrels, run ─▶ align (ties, cut, missing queries) ─▶ lists ─▶ metrics ─▶ values and means per run
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics import (
    GEOMETRIC_FLOOR,
    Comparison,
    Direction,
    Floats,
    Lists,
    Mean,
    Metric,
    compare,
    geometric,
    macro,
    parse,
)

from .asked_metrics import Undefined, is_geometric, undefined_of
from .formats import Known, Qrels, Result, RunFile, Subtopics

Ties: TypeAlias = Literal["item", "rank", "file"]
Missing: TypeAlias = Literal["skip", "zero", "refuse"]
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
    collection_size: int | None = None
    """Number of items that could have been returned; None where it is not known."""


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
    micro: Mapping[str, float]
    """Of metrics that are of counts: the value of the counts of all queries added up."""
    lists: Lists
    judged_queries: int
    """Queries that have judgements."""
    without_results: int
    """Those of them for which the run has no results."""
    without_judgements: int
    """Queries for which the run has results and that nothing is judged for: not scored."""


def score_run(
    qrels: Qrels,
    run: RunFile,
    metrics: Sequence[Metric],
    policies: Policies,
    *,
    name: str,
    file: str,
    known: Known | None = None,
    subtopics: Subtopics | None = None,
) -> ScoredRun:
    """Compute the metrics of one run. Raises EvaluationError."""
    queries, lists = align_run(qrels, run, policies, file, known, subtopics)
    before = None if known is None else [known.get(query, set()) for query in queries]
    values, micro = dict[str, Floats](), dict[str, float]()
    try:
        for metric in metrics:
            given = lists
            if before is not None and metric.needs == "known":
                least, of = metric.number("rel"), zip(queries, before)
                counts = [sum(qrels[q].get(i, 0) >= least for i in items) for q, items in of]
                given = replace(lists, known_relevant=np.array(counts, np.int64))
            values[metric.name] = metric.values(given)
            pooled = metric.micro(given)
            if pooled is not None:
                micro[metric.name] = pooled
    except ValueError as error:
        raise EvaluationError(f"{file}: {error}") from error
    means = {
        metric.name: (geometric if is_geometric(metric) else macro)(
            values[metric.name], undefined_of(metric, policies.undefined)
        )
        for metric in metrics
    }
    return ScoredRun(
        name,
        file,
        queries,
        values,
        means,
        micro,
        lists,
        judged_queries=len(qrels),
        without_results=len(qrels.keys() - run.results.keys()),
        without_judgements=len(run.results.keys() - qrels.keys()),
    )


def align_run(
    qrels: Qrels,
    run: RunFile,
    policies: Policies,
    file: str = "the run",
    known: Known | None = None,
    subtopics: Subtopics | None = None,
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
    shown = [ordered_items(run.results.get(query, []), policies) for query in queries]
    of_shown = of_pool = None
    if subtopics is not None:
        of_shown, of_pool = _by_subtopic([subtopics[query] for query in queries], shown)
    size = policies.collection_size
    before = None if known is None else [known.get(query, set()) for query in queries]
    return queries, Lists.of(
        [[grade_of.get(item) for item in items] for items, grade_of in zip(shown, judged)],
        pool=[list(grade_of.values()) for grade_of in judged],
        assessed=[[item in qrels[query] for item in items] for query, items in zip(queries, shown)],
        collection_size=None if size is None else [size] * len(queries),
        known=None if before is None else [[i in b for i in s] for s, b in zip(shown, before)],
        known_relevant=None if before is None else [0] * len(queries),
        subtopics=of_shown,
        pool_subtopics=of_pool,
    )


def _by_subtopic(
    judged: Sequence[Mapping[str, Mapping[str, float]]], shown: Sequence[Sequence[str]]
) -> tuple[Floats, Floats]:
    """The grades of the items shown and of all judged ones, by subtopic of each query. Of judged
    items of equal worth ndeval takes the greatest id first."""
    pools = [sorted(of_query, reverse=True) for of_query in judged]
    names = [sorted({name for of in of_query.values() for name in of}) for of_query in judged]
    most = max(map(len, names), default=0)

    def grades(lists: Sequence[Sequence[str]]) -> Floats:
        found = np.zeros((len(lists), max(map(len, lists), default=0), most))
        for query, items in enumerate(lists):
            for rank0, item in enumerate(items):
                for name, grade in judged[query].get(item, {}).items():
                    found[query, rank0, names[query].index(name)] = grade
        return found

    return grades(shown), grades(pools)


def _judged(grades: Mapping[str, float], negative: Negative) -> dict[str, float]:
    if negative == "nonrelevant":
        return {item: float(max(grade, 0)) for item, grade in grades.items()}
    return {item: float(grade) for item, grade in grades.items() if grade >= 0}


def ordered_items(results: Sequence[Result], policies: Policies) -> list[str]:
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


Better: TypeAlias = Literal["higher", "lower", "neither"]

_BETTER: Final[dict[Direction, Better]] = {"up": "higher", "down": "lower", "none": "neither"}


@dataclass(frozen=True)
class RunComparison:
    """One run compared with the first by one metric. Differences are run minus first."""

    run: str
    against: str
    metric: Metric
    better: Better
    """Which value is the better one. A win is a query where the run has it; where neither is
    better, a query where the run has the higher one."""
    left_out: int
    """Queries that one of the two means counts, or both, and that are no pair: only one run has
    them, or the metric is undefined there and undefined values are left out."""
    comparison: Comparison


def compare_runs(
    runs: Sequence[ScoredRun], metrics: Sequence[Metric], undefined: Undefined
) -> list[RunComparison]:
    """Compare every further run with the first, by the same values as their means: an undefined one
    is 0, or leaves its pair out."""
    return [_compared(run, runs[0], metric, undefined) for run in runs[1:] for metric in metrics]


def _compared(
    run: ScoredRun, first: ScoredRun, metric: Metric, undefined: Undefined
) -> RunComparison:
    undefined = undefined_of(metric, undefined)
    mine, theirs = _by_query(run, metric, undefined), _by_query(first, metric, undefined)
    shared = [query for query in mine if query in theirs]
    found = compare(_array(mine, shared), _array(theirs, shared))
    better = _BETTER[metric.direction]
    if better == "lower":
        found = replace(found, wins=found.losses, losses=found.wins)
    left_out = len(mine.keys() | theirs.keys()) - found.pairs
    return RunComparison(run.name, first.name, metric, better, left_out, found)


def _by_query(run: ScoredRun, metric: Metric, undefined: Undefined) -> dict[str, float]:
    """The values that the mean of the run is over."""
    values = list(zip(run.queries, run.values[metric.name].tolist()))
    if is_geometric(metric):
        return {query: math.log(max(value, GEOMETRIC_FLOOR)) for query, value in values}
    if undefined == "zero":
        return {query: 0.0 if value != value else value for query, value in values}
    return {query: value for query, value in values if value == value}


def _array(values: dict[str, float], queries: Sequence[str]) -> Floats:
    return np.array([values[query] for query in queries], dtype=np.float64)


JUDGED: Final = parse("Judged@10")
LESS_JUDGED: Final = 0.9
"""Below this part of the share of another run, judgements may know one ranker and not the other."""


def _less_judged(runs: Sequence[ScoredRun]) -> Iterator[str]:
    """A sentence for each run of whose items fewer are judged than of those of the first, or more,
    by the queries that both have."""
    first, *others = ((run.file, _shares_judged(run)) for run in runs)
    for other in others:
        shared = [query for query in other[1] if query in first[1]]
        if not shared:
            continue
        both = ((sum(of[query] for query in shared), file) for file, of in (first, other))
        (less, of_less), (more, of_more) = sorted(both)
        if less < LESS_JUDGED * more:
            less_text, more_text = (f"{each / len(shared):.0%}"[:-1] for each in (less, more))
            yield (
                f"{of_less}: {less_text} % of the first {JUDGED.k} items are judged,"
                f" {more_text} % of those of {of_more}: the others count as irrelevant, so"
                f" {of_less} may be better than it looks."
            )


def _shares_judged(run: ScoredRun) -> dict[str, float]:
    """Of the queries of which any item is shown."""
    shares = zip(run.queries, JUDGED.values(run.lists).tolist())
    return {query: share for query, share in shares if share == share}


def coverage_remarks(runs: Sequence[ScoredRun], missing: Missing) -> Iterator[str]:
    """A sentence for each way in which runs and judgements do not cover one another."""
    for run in runs:
        if run.without_results:
            share = f"{run.without_results:,} of {run.judged_queries:,} judged queries"
            rest = (
                "left out of the means; --missing zero counts them as empty lists"
                if missing == "skip"
                else "counted as empty lists"
            )
            yield f"{run.file}: no results for {share}: {rest}."
        if run.without_judgements:
            noun = "query" if run.without_judgements == 1 else "queries"
            count = f"{run.without_judgements:,} {noun}"
            yield f"{run.file}: results of {count} without judgements: not scored."
    yield from _less_judged(runs)
