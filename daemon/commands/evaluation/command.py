"""`relevanced eval`: TREC runs against judgements, with the metrics of the catalog."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypeVar, get_args

import click

from relevanced.metrics import Metric, parse

from .. import options
from .results import (
    DEFAULT_METRICS,
    Compared,
    EvaluationError,
    Missing,
    Negative,
    Policies,
    Scored,
    Ties,
    Undefined,
    compare_runs,
    score,
)
from .text import as_csv, as_json, table
from .trec import Run, TrecError, parse_qrels, parse_run

FAULTS_SHOWN: Final = 20
USAGE_EXIT: Final = 2
FILE: Final = click.Path(exists=True, dir_okay=False)

Parsed = TypeVar("Parsed")


def _choice(kind: object) -> click.Choice[str]:
    return click.Choice([str(word) for word in get_args(kind)])


@click.command("eval")
@click.argument("qrels_file", metavar="QRELS", type=FILE)
@click.argument("run_files", metavar="RUN...", nargs=-1, required=True, type=FILE)
@click.option(
    "-m",
    "--metric",
    "metric_names",
    multiple=True,
    metavar="NAME",
    help="A metric such as nDCG@10 or 'P(rel=2)@5'; may be repeated, or hold several names with"
    f" blanks between.  [default: {' '.join(DEFAULT_METRICS)}]",
)
@click.option("-q", "--per-query", is_flag=True, help="Every query's value beside the mean.")
@click.option("--compare", is_flag=True, help="Each further run against the first, with p-values.")
@options.output_option("How the values are printed.", "table", "json", "csv")
@click.option("--plot", metavar="FILE.png|svg", help="Draw the precision-recall curves.")
@click.option(
    "-l",
    "--relevant-from",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Least grade that is relevant.",
)
@click.option(
    "--max-grade",
    type=click.FloatRange(0, min_open=True),
    default=4.0,
    show_default=True,
    help="Highest grade of the scale, for ERR (gdeval's is 4).",
)
@click.option(
    "--ideal",
    type=click.Choice(["pool", "list"]),
    default="pool",
    show_default=True,
    help="What nDCG takes for the best order where its name does not say: all judged items of the"
    " query, as trec_eval does, or the items returned, as the daemon does.",
)
@click.option(
    "--ties",
    type=_choice(Ties),
    default="item",
    show_default=True,
    help="Order of equal scores: item id descending (trec_eval), rank column, order of the file.",
)
@click.option(
    "--missing",
    type=_choice(Missing),
    default="skip",
    show_default=True,
    help="Judged queries without results: left out (trec_eval), an empty list (trec_eval -c),"
    " or refused.",
)
@click.option(
    "--undefined",
    type=_choice(Undefined),
    default="zero",
    show_default=True,
    help="Queries for which a metric is undefined: 0 in the mean (trec_eval), or left out of it.",
)
@click.option(
    "--negative",
    type=_choice(Negative),
    default="unjudged",
    show_default=True,
    help="Negative grades: as if unjudged (trec_eval), or judged not relevant.",
)
@click.option(
    "-M",
    "--most-results",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the first N results of a query count.  [default: all]",
)
def eval_command(
    qrels_file: str,
    run_files: tuple[str, ...],
    metric_names: tuple[str, ...],
    per_query: bool,
    compare: bool,
    output: str,
    plot: str | None,
    relevant_from: float,
    max_grade: float,
    ideal: str,
    ties: Ties,
    missing: Missing,
    undefined: Undefined,
    negative: Negative,
    most_results: int | None,
) -> None:
    """Score TREC run files against judgements, offline, with the daemon's own kernels.

    QRELS holds lines `query iteration item grade`, each RUN lines `query Q0 item rank score tag`;
    either may be compressed with gzip. Results stand in the order of their scores; the rank column
    counts for --ties rank alone. nDCG's gain is 2^grade - 1: trec_eval's is nDCG(gain=linear).
    """
    metrics = _metrics(metric_names, relevant_from, max_grade, ideal)
    policies = Policies(ties, missing, undefined, negative, most_results)
    scored = _scored(qrels_file, run_files, metrics, policies)
    compared = compare_runs(scored, metrics) if compare else []
    names = [metric.name for metric in metrics]
    click.echo(_text(output, scored, compared, policies, per_query, names))
    if plot is not None:
        _plot(scored, plot, relevant_from)


def _metrics(
    given: Sequence[str], relevant_from: float, max_grade: float, ideal: str
) -> list[Metric]:
    """The metrics that the names mean, each once. Raises click.BadParameter with every fault."""
    names = [name for text in given for name in text.split()] or list(DEFAULT_METRICS)
    metrics: dict[str, Metric] = {}
    faults = []
    for name in names:
        try:
            metric = parse(name, relevant_from=relevant_from, max_grade=max_grade, ideal=ideal)
        except ValueError as error:
            faults.append(str(error))
            continue
        refusal = metric.refusal(["pool"], carrier="judgements and runs")
        if refusal is None:
            metrics.setdefault(metric.name, metric)
        else:
            faults.append(refusal)
    if faults:
        raise click.BadParameter("\n".join(faults), param_hint="'-m'")
    return list(metrics.values())


def _scored(
    qrels_file: str, run_files: Sequence[str], metrics: Sequence[Metric], policies: Policies
) -> list[Scored]:
    """All runs' scores; ends the command with exit code 2 where a file is at fault."""
    faults: list[str] = []
    qrels = _parsed(parse_qrels, qrels_file, faults)
    runs = [_parsed(parse_run, file, faults) for file in run_files]
    if qrels is None or faults:
        _give_up(faults)
    names = _run_names([run for run in runs if run is not None], run_files)
    try:
        return [
            score(qrels, run, metrics, policies, name=name, file=file)
            for run, name, file in zip(runs, names, run_files)
            if run is not None
        ]
    except EvaluationError as error:
        _give_up([str(error)])


def _parsed(parser: Callable[[bytes, str], Parsed], file: str, faults: list[str]) -> Parsed | None:
    try:
        return parser(Path(file).read_bytes(), file)
    except TrecError as error:
        faults += [str(fault) for fault in error.faults]
        return None


def _give_up(faults: Sequence[str]) -> NoReturn:
    for fault in faults[:FAULTS_SHOWN]:
        click.echo(fault, err=True)
    if len(faults) > FAULTS_SHOWN:
        click.echo(f"and {len(faults) - FAULTS_SHOWN} more", err=True)
    raise SystemExit(USAGE_EXIT)


def _run_names(runs: Sequence[Run], files: Sequence[str]) -> list[str]:
    """The runs' own tags; the files' names where tags would not tell the runs apart."""
    tags = [run.tag for run in runs]
    if len(set(tags)) == len(tags):
        return tags
    names = [Path(file).name for file in files]
    return names if len(set(names)) == len(names) else list(files)


def _text(
    output: str,
    scored: Sequence[Scored],
    compared: Sequence[Compared],
    policies: Policies,
    per_query: bool,
    names: Sequence[str],
) -> str:
    if output == "json":
        return as_json(scored, compared, policies, per_query=per_query, names=names)
    if output == "csv":
        return as_csv(scored, per_query=per_query, names=names)
    return table(scored, compared, per_query=per_query, names=names)


def _plot(scored: Sequence[Scored], path: str, relevant_from: float) -> None:
    try:
        draw = options.load("relevanced.daemon.commands.evaluation.plot:plot")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        _give_up(["--plot needs matplotlib: pip install 'relevanced[plot]'"])
    try:
        draw(scored, path, relevant_from=relevant_from)
    except (OSError, ValueError) as error:
        _give_up([f"--plot {path}: {error}"])
