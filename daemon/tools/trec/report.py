"""Print an evaluation, as a table, CSV or JSON."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from relevanced.metrics import Metric

from .asked_metrics import Asked, metric_meanings
from .results import Policies, RunComparison, ScoredRun, coverage_remarks

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
