"""`relevanced eval`: score TREC runs against judgements, with the metrics of the catalog."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypeVar, get_args

import click

from relevanced.metrics import Metric, Need

from ..commands import options
from .trec import (
    DEFAULT_METRICS,
    WRITERS,
    EvaluationError,
    EvaluationReport,
    Missing,
    Negative,
    Policies,
    RunFile,
    ScoredRun,
    Ties,
    TrecError,
    Undefined,
    UnknownMetrics,
    apparent_kind,
    asked_metrics,
    compare_runs,
    coverage_remarks,
    parse_known,
    parse_qrels,
    parse_run,
    parse_subtopics,
    score_run,
)

MAX_FAULTS_SHOWN: Final = 20
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
    help="A metric such as nDCG@10 or 'P(rel=2)@5'. May be repeated, or name several metrics"
    f" separated by commas or blanks.  [default: {' '.join(DEFAULT_METRICS)}]",
)
@click.option("-q", "--per-query", is_flag=True, help="Also print the value of every query.")
@click.option(
    "--compare",
    is_flag=True,
    help="Also compare each further run with the first, over the same queries as the means: wins,"
    " ties, losses, p-values. Differences are run minus first, whichever is better.",
)
@options.output_option("Output format.", "table", "json", "csv")
@click.option(
    "--plot", metavar="FILE.png|svg", help="Draw the precision-recall curves to this file."
)
@click.option(
    "-l",
    "--relevant-from",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Lowest grade that counts as relevant.",
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
    help="Ideal list of an nDCG whose name does not state one: all judged items of the query, as in"
    " trec_eval, or the returned items, as in the daemon.",
)
@click.option(
    "--ties",
    type=_choice(Ties),
    default="item",
    show_default=True,
    help="Order of results with equal scores: by item id, descending (trec_eval); by the rank"
    " column; or as in the file.",
)
@click.option(
    "--missing",
    type=_choice(Missing),
    default="skip",
    show_default=True,
    help="Judged queries without results: left out (trec_eval), scored as empty lists"
    " (trec_eval -c), or an error.",
)
@click.option(
    "--undefined",
    type=_choice(Undefined),
    default="zero",
    show_default=True,
    help="Queries for which a metric is undefined: count as 0 in means and comparisons (trec_eval),"
    " or are left out, and how many are left is printed.",
)
@click.option(
    "--negative",
    type=_choice(Negative),
    default="unjudged",
    show_default=True,
    help="Items with a negative grade, for Bpref: treated as unjudged (trec_eval), or as judged not"
    " relevant. They have no gain, and Judged counts them, in either case.",
)
@click.option(
    "-M",
    "--most-results",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use only the first N results of each query.  [default: all]",
)
@click.option(
    "--micro",
    is_flag=True,
    help="Also print micro averages (of the counts of all queries added up) of metrics of sets.",
)
@click.option(
    "--collection-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Items that could have been returned, for SetAccuracy, Fallout, Generality and Utility.",
)
@click.option(
    "--known",
    "known_file",
    type=FILE,
    metavar="FILE",
    help="Items that the user knew before, as lines `query item`, for Coverage and Novelty.",
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
    micro: bool,
    collection_size: int | None,
    known_file: str | None,
) -> None:
    """Score TREC run files against judgements, with the metrics of the daemon.

    QRELS contains lines `query iteration item grade` (of diversity tracks `query subtopic item
    grade`), CSV with the columns query, docid and rating (BEIR: query-id, corpus-id, score), or
    JSON as `judgements` reads it; each RUN lines `query Q0 item rank score tag`. A request of
    Elastic's _rank_eval and its answer join by the ids of the requests. A query of several words
    stands in double quotes; files may be compressed with gzip. Grades with decimals count as they
    are, and as relevant from --relevant-from on. Results are ordered by score; the rank column is
    used with --ties rank only. The gain of nDCG is 2^grade - 1; that of trec_eval is
    nDCG(gain=linear).
    """
    given: dict[Need, object] = {"collection": collection_size, "known": known_file}
    try:
        metrics = asked_metrics(
            metric_names,
            relevant_from=relevant_from,
            max_grade=max_grade,
            ideal=ideal,
            given=["subtopics", *(need for need, value in given.items() if value is not None)],
        )
    except UnknownMetrics as error:
        raise click.BadParameter(str(error), param_hint="'-m'") from error
    if micro and all(metric.entry.pooled is None for metric in metrics.values()):
        rule = "only of metrics of sets, such as SetP and SetR: name one with -m"
        raise click.BadParameter(rule, param_hint="'--micro'")
    policies = Policies(ties, missing, undefined, negative, most_results, collection_size)
    scored = _score_all(qrels_file, run_files, list(metrics.values()), policies, known_file)
    compared = compare_runs(scored, list(metrics.values()), undefined) if compare else []
    click.echo(
        WRITERS[output](EvaluationReport(metrics, policies, scored, micro, compared), per_query)
    )
    if output != "table":  # which has them below
        for remark in coverage_remarks(scored, missing):
            click.echo(remark, err=True)
    if plot is not None:
        _plot(scored, plot, relevant_from)


def _score_all(
    qrels_file: str,
    run_files: Sequence[str],
    metrics: Sequence[Metric],
    policies: Policies,
    known_file: str | None,
) -> list[ScoredRun]:
    """Score all runs; exits with code 2 if a file has faults."""
    faults: list[str] = []
    qrels = _parse(parse_qrels, qrels_file, "judgements", faults)
    runs = [_parse(parse_run, file, "results", faults) for file in run_files]
    known = None if known_file is None else _parse(parse_known, known_file, "known", faults)
    subtopics = None
    if qrels is not None and any(metric.needs == "subtopics" for metric in metrics):
        subtopics = _parse(parse_subtopics, qrels_file, "judgements", faults)
    if qrels is None or faults:
        _exit_with(faults)
    names = _run_names([run for run in runs if run is not None], run_files)
    try:
        return [
            score_run(
                qrels,
                run,
                metrics,
                policies,
                name=name,
                file=file,
                known=known,
                subtopics=subtopics,
            )
            for run, name, file in zip(runs, names, run_files)
            if run is not None
        ]
    except EvaluationError as error:
        _exit_with([str(error)])


def _parse(
    parser: Callable[[bytes, str], Parsed], file: str, kind: str, faults: list[str]
) -> Parsed | None:
    data = Path(file).read_bytes()
    try:
        return parser(data, file)
    except TrecError as error:
        apparent = apparent_kind(data)
        if apparent is None or kind in (apparent, "known"):
            faults += [str(fault) for fault in error.faults]
        else:
            order = "judgements come first, then runs: QRELS RUN..."
            faults.append(f"{file}: looks like {apparent}, not {kind}: {order}")
        return None


def _exit_with(faults: Sequence[str]) -> NoReturn:
    for fault in faults[:MAX_FAULTS_SHOWN]:
        click.echo(fault, err=True)
    if len(faults) > MAX_FAULTS_SHOWN:
        click.echo(f"and {len(faults) - MAX_FAULTS_SHOWN} more", err=True)
    raise SystemExit(USAGE_EXIT)


def _run_names(runs: Sequence[RunFile], files: Sequence[str]) -> list[str]:
    """The tags of the runs, or the names of their files where two runs have the same tag."""
    tags = [run.tag for run in runs]
    if len(set(tags)) == len(tags):
        return tags
    names = [Path(file).name for file in files]
    return names if len(set(names)) == len(names) else list(files)


def _plot(scored: Sequence[ScoredRun], path: str, relevant_from: float) -> None:
    from .trec.plot import plot  # matplotlib is optional, and slow to load

    try:
        plot(scored, path, relevant_from=relevant_from)
    except (OSError, ValueError) as error:
        _exit_with([f"--plot {path}: {error}"])
