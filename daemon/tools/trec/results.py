"""Score runs against judgements, by policies for what the files leave open, compare them, and print
the evaluation.

qrels, run ─▶ align (ties, cut, missing queries) ─▶ lists ─▶ metrics ─▶ values and means per run
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
)

from .trec import Asked, Known, Qrels, Result, RunFile, is_geometric, metric_meanings

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
) -> ScoredRun:
    """Compute the metrics of one run. Raises EvaluationError."""
    queries, lists = align_run(qrels, run, policies, file, known)
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


def undefined_of(metric: Metric, undefined: Undefined) -> Undefined:
    """What becomes of queries for which the metric is undefined: where less is better they are
    left out, as 0 would be the best value."""
    return "skip" if metric.direction == "down" else undefined


def align_run(
    qrels: Qrels,
    run: RunFile,
    policies: Policies,
    file: str = "the run",
    known: Known | None = None,
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
    size = policies.collection_size
    before = None if known is None else [known.get(query, set()) for query in queries]
    return queries, Lists.of(
        [[grade_of.get(item) for item in items] for items, grade_of in zip(shown, judged)],
        pool=[list(grade_of.values()) for grade_of in judged],
        assessed=[[item in qrels[query] for item in items] for query, items in zip(queries, shown)],
        collection_size=None if size is None else [size] * len(queries),
        known=None if before is None else [[i in b for i in s] for s, b in zip(shown, before)],
        known_relevant=None if before is None else [0] * len(queries),
    )


def _judged(grades: Mapping[str, int], negative: Negative) -> dict[str, float]:
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


def coverage_remarks(runs: Sequence[ScoredRun], missing: Missing) -> Iterator[str]:
    """A sentence for each way in which a run and the judgements do not cover one another."""
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


MEAN_LABEL: Final = "all"
"""The query column of a mean, as in the output of trec_eval."""
MICRO_LABEL: Final = "micro"
"""The query column of a micro average."""
SCORED_LABEL: Final = "scored"
"""The query column of the number of queries that a mean is over."""
_COMPARED: Final = (
    ("pairs", "d"),
    ("wins", "d"),
    ("ties", "d"),
    ("losses", "d"),
    ("mean_difference", "+.4f"),
    ("t_test_p", ".4f"),
    ("sign_test_p", ".4f"),
    ("randomisation_p", ".4f"),
)
_LEFT_OUT: Final = (
    "left_out: queries that count for a mean above but make no pair, because one of the two runs\n"
    "lacks them or their value is undefined. Wins, differences and p-values are of the pairs."
)


@dataclass(frozen=True)
class EvaluationReport:
    """Everything that is printed."""

    metrics: Asked
    policies: Policies
    runs: Sequence[ScoredRun]
    micro: bool
    """Whether micro averages are printed."""
    comparisons: Sequence[RunComparison]


def evaluation_table(found: EvaluationReport, per_query: bool) -> str:
    """A column for each run; a line for each metric, or for each metric and query. Below it what
    the names mean and what was left out, then the comparisons."""
    runs, skips = found.runs, found.policies.undefined == "skip"
    lines = [["metric", "query", *(run.name for run in runs)]]
    for name, metric in found.metrics.items():
        for query, values in _values(runs, metric, per_query):
            lines.append([name, query, *map(_decimals, values)])
        if found.micro and metric.name in runs[0].micro:
            averages = [_decimals(run.micro[metric.name]) for run in runs]
            lines.append([name, MICRO_LABEL, *averages])
        means = [run.means[metric.name] for run in runs]
        if skips or any(mean.scored < mean.lists for mean in means):
            scored = [str(mean.scored) for mean in means]
            lines.append([name, SCORED_LABEL, *scored])
    lines.append(["queries", "", *(str(len(run.queries)) for run in runs)])
    parts = [_columns(lines, words=2)]
    if said := [*coverage_remarks(runs, found.policies.missing), *metric_meanings(found.metrics)]:
        parts.append("\n".join(said))
    if found.comparisons:
        parts.append(_columns(list(_comparison_lines(found)), words=4))
        if any(entry.left_out for entry in found.comparisons):
            parts.append(_LEFT_OUT)
    return "\n\n".join(parts)


def evaluation_csv(found: EvaluationReport, per_query: bool) -> str:
    """Columns run, metric, query, value, scored, full_name. The mean has query `all`, a micro
    average `micro`; the mean has in
    `scored` the number of queries that it is over; undefined values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", "metric", "query", "value", "scored", "full_name"])
    for name, metric in found.metrics.items():
        for query, values in _values(found.runs, metric, per_query):
            for run, value in zip(found.runs, values):
                if value is None:
                    continue
                text = _exact(value)
                scored = run.means[metric.name].scored if query == MEAN_LABEL else ""
                writer.writerow([run.name, name, query, text, scored, metric.full_name])
        for run in found.runs if found.micro else ():
            if metric.name in run.micro:
                text = _exact(run.micro[metric.name])
                writer.writerow([run.name, name, MICRO_LABEL, text, "", metric.full_name])
    return out.getvalue().rstrip("\n")


def evaluation_json(found: EvaluationReport, per_query: bool) -> str:
    """One object with policies, runs and comparisons; undefined values are null."""
    names = {metric.name: name for name, metric in found.metrics.items()}
    return json.dumps(
        {
            "policies": asdict(found.policies),
            "runs": [_run_object(run, found, per_query) for run in found.runs],
            "comparisons": [
                {"run": entry.run, "against": entry.against}
                | {"metric": names[entry.metric.name], "full_name": entry.metric.full_name}
                | {"better": entry.better, "left_out": entry.left_out}
                | {key: _finite(value) for key, value in asdict(entry.comparison).items()}
                for entry in found.comparisons
            ],
        },
        indent=2,
        allow_nan=False,
    )


WRITERS: Final[Mapping[str, Callable[[EvaluationReport, bool], str]]] = {
    "table": evaluation_table,
    "json": evaluation_json,
    "csv": evaluation_csv,
}
"""By the kind of output; the second argument says whether the values of queries are printed."""


def _run_object(run: ScoredRun, found: EvaluationReport, per_query: bool) -> dict[str, object]:
    metrics = []
    for name, metric in found.metrics.items():
        mean = run.means[metric.name]
        entry: dict[str, object] = {
            "metric": name,
            "full_name": metric.full_name,
            "mean": _finite(mean.value),
            "scored": mean.scored,
            "queries": mean.lists,
        }
        if found.micro and metric.name in run.micro:
            entry["micro"] = _finite(run.micro[metric.name])
        if per_query:
            values = run.values[metric.name].tolist()
            entry["per_query"] = {
                query: _finite(value) for query, value in zip(run.queries, values)
            }
        metrics.append(entry)
    coverage = {
        "judged_queries": run.judged_queries,
        "without_results": run.without_results,
        "without_judgements": run.without_judgements,
    }
    return {"run": run.name, "file": run.file, **coverage, "metrics": metrics}


def _values(
    runs: Sequence[ScoredRun], metric: Metric, per_query: bool
) -> Iterator[tuple[str, list[float | None]]]:
    """Yield (query, values by run); None for a run without the query. The mean comes last."""
    if per_query:
        queries = list(dict.fromkeys(query for run in runs for query in run.queries))
        by_run = [dict(zip(run.queries, run.values[metric.name].tolist())) for run in runs]
        for query in queries:
            yield query, [values.get(query) for values in by_run]
    yield MEAN_LABEL, [run.means[metric.name].value for run in runs]


def _comparison_lines(found: EvaluationReport) -> Iterator[list[str]]:
    names = {metric.name: name for name, metric in found.metrics.items()}
    yield ["metric", "run", "against", "better", "left_out", *(key for key, _ in _COMPARED)]
    for entry in found.comparisons:
        cells = [
            "-" if math.isnan(value) else format(value, style)
            for key, style in _COMPARED
            for value in [getattr(entry.comparison, key)]
        ]
        words = [names[entry.metric.name], entry.run, entry.against, entry.better]
        yield [*words, str(entry.left_out), *cells]


def _columns(lines: Sequence[Sequence[str]], words: int) -> str:
    """Align columns: the first ones, which are words, to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def _exact(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _decimals(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
