"""Print scored runs: a table for people, JSON and CSV for programs. Pure."""

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from .results import Policies, RunComparison, ScoredRun

MEAN_LABEL: Final = "all"
"""The query column of a mean, as in the output of trec_eval."""
_COMPARED: Final = (
    ("wins", "d"),
    ("ties", "d"),
    ("losses", "d"),
    ("mean_difference", "+.4f"),
    ("t_test_p", ".4f"),
    ("sign_test_p", ".4f"),
    ("randomisation_p", ".4f"),
)


def table(
    runs: Sequence[ScoredRun],
    comparisons: Sequence[RunComparison],
    *,
    per_query: bool,
    names: Sequence[str],
) -> str:
    """A column for each run; a line for each metric, or for each metric and query."""
    head = ["metric", "query", *(run.name for run in runs)]
    lines = [
        [name, query, *(_decimals(value) for value in values)]
        for name, query, values in _cells(runs, names, per_query)
    ]
    counts = ["queries", "", *(str(len(run.queries)) for run in runs)]
    text = _columns([head, *lines, counts])
    if comparisons:
        text += "\n\n" + _columns(list(_comparisons_lines(comparisons)))
    return text


def as_csv(runs: Sequence[ScoredRun], *, per_query: bool, names: Sequence[str]) -> str:
    """Columns run, metric, query, value; the mean has query `all`, undefined values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", "metric", "query", "value"])
    for name, query, values in _cells(runs, names, per_query):
        for run, value in zip(runs, values):
            if value is not None:
                writer.writerow([run.name, name, query, "" if math.isnan(value) else repr(value)])
    return out.getvalue().rstrip("\n")


def as_json(
    runs: Sequence[ScoredRun],
    comparisons: Sequence[RunComparison],
    policies: Policies,
    *,
    per_query: bool,
    names: Sequence[str],
) -> str:
    """One object with policies, runs and comparisons; undefined values are null."""
    return json.dumps(
        {
            "policies": asdict(policies),
            "runs": [_run_object(run, names, per_query) for run in runs],
            "comparisons": [
                {"run": entry.run, "against": entry.against, "metric": entry.metric}
                | {key: _finite(value) for key, value in asdict(entry.comparison).items()}
                for entry in comparisons
            ],
        },
        indent=2,
        allow_nan=False,
    )


def _run_object(run: ScoredRun, names: Sequence[str], per_query: bool) -> dict[str, object]:
    metrics = []
    for name in names:
        mean = run.means[name]
        entry: dict[str, object] = {
            "metric": name,
            "mean": _finite(mean.value),
            "scored": mean.scored,
            "queries": mean.lists,
        }
        if per_query:
            values = run.values[name].tolist()
            entry["per_query"] = {
                query: _finite(value) for query, value in zip(run.queries, values)
            }
        metrics.append(entry)
    return {"run": run.name, "file": run.file, "metrics": metrics}


def _cells(
    runs: Sequence[ScoredRun], names: Sequence[str], per_query: bool
) -> Iterator[tuple[str, str, list[float | None]]]:
    """Yield (metric, query, values by run); None for a run without the query. Means come last."""
    queries = list(dict.fromkeys(query for run in runs for query in run.queries))
    by_query = [
        {name: dict(zip(run.queries, run.values[name].tolist())) for name in names} for run in runs
    ]
    for name in names:
        for query in queries if per_query else []:
            yield name, query, [values[name].get(query) for values in by_query]
        yield name, MEAN_LABEL, [run.means[name].value for run in runs]


def _comparisons_lines(comparisons: Sequence[RunComparison]) -> Iterator[list[str]]:
    yield ["metric", "run", "against", *(key for key, _ in _COMPARED)]
    for entry in comparisons:
        cells = [
            "-" if math.isnan(value) else format(value, style)
            for key, style in _COMPARED
            for value in [getattr(entry.comparison, key)]
        ]
        yield [entry.metric, entry.run, entry.against, *cells]


def _columns(lines: Sequence[Sequence[str]]) -> str:
    """Align columns: words to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines)]
    words = 2 if lines[0][1] == "query" else 3
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def _decimals(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
