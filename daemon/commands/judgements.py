"""`relevanced judgements`: checks files of judgements, puts them in place, lists what they lack."""

from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import combinations

import click
import numpy as np

from relevanced.metrics import Floats, cohen_kappa, krippendorff_alpha

from ..changes import sentences
from ..config import Config
from ..files import content
from ..http import (
    JUDGED_PATH,
    MISSING_PATH,
    MOST_PAIRS,
    BadRequest,
    Judged,
    LaneDatedFiles,
    UnjudgedItem,
    UnjudgedItems,
    for_raters,
    table_text as csv_of,
)
from ..judgements import (
    DEFAULT_MAX_GRADE,
    HIGHEST_GRADE,
    MOST_FILE_BYTES,
    FaultyJudgements,
    Judgements,
    Reader,
    grades_by_rater,
    read,
    read_raters,
)
from ..recompute.tables import table_text
from . import options
from .daemon_client import Daemon, daemon_at, url_option, window_option
from .dated_files import (
    add_options,
    check_lanes,
    check_paths,
    exit_with,
    fault_lines,
    lane_options,
    paths_argument,
    put_in_place,
)


@click.command("missing")
@url_option
@options.config_option("Ask at the address of this configuration's http.listen instead.", None)
@window_option
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_PAIRS),
    default=1000,
    show_default=True,
    help="Most rows.",
)
@options.output_option("How the items are printed.", "table", "json", "csv")
def missing_command(
    url: str | None, config_file: str | None, window: str, limit: int, output: str
) -> None:
    """Print the items that were shown most for judged queries and are not judged.

    The CSV has an empty column `rating`: filled in, it is a file of judgements. Needs
    judgements.missing = true in the daemon's configuration.
    """
    daemon, given = daemon_at(url, config_file), {"window": window, "limit": str(limit)}
    daemon.print_list(
        MISSING_PATH, given, output, UnjudgedItems, missing_table, _missing_csv, _more
    )


def _missing_csv(found: UnjudgedItems) -> bytes:
    try:
        return csv_of(for_raters(found), "rows", UnjudgedItem)
    except BadRequest as error:
        raise click.ClickException(str(error)) from None


def missing_table(found: UnjudgedItems) -> str:
    """The rows of an answer, what they leave out, and what is to be said of them."""
    rows = [
        (sentences.printable(row.query), sentences.printable(row.docid), f"{row.impressions:,}")
        for row in found.rows
    ]
    rows += [
        (f"(rare: fewer than {found.min_users} users)", "", f"{found.rare:,}"),
        ("(other)", "", f"{found.other:,}"),
        ("all", "", f"{found.whole:,}"),
    ]
    title = f"items without a judgement, {found.from_} to {found.until}"
    return table_text(title, ("query", "item"), ("shown",), rows, _notes(found))


def _notes(found: UnjudgedItems) -> Iterator[str]:
    yield f"Of lists of judged queries, the first {found.depth:,} places."
    if not found.hours:
        yield "Not counted for a whole hour yet: ask again later, or for --window now."
    missing = max((row.missing_at_most for row in found.rows), default=0)
    if missing:
        yield f"Up to {missing:,} searches with an item may be missing, at most in its hours."
    if found.unlisted_at_most:
        times = "once" if found.unlisted_at_most == 1 else f"{found.unlisted_at_most:,} times"
        yield f"An item that is not listed was shown at most {times}."
    if found.lost_hours:
        why = "Redis lost it, or a partition went quiet"
        yield f"A part of {found.lost_hours} hours is missing: {why}."
    if more := _more(found):
        yield more


def _more(found: UnjudgedItems) -> str:
    """How many rows follow, and how to see them; "" where none do."""
    left = found.listed - len(found.rows)
    return f"{left:,} more: --limit" if left else ""


_max_grade = click.option(
    "--max-grade",
    type=click.FloatRange(0, HIGHEST_GRADE, min_open=True),
    default=HIGHEST_GRADE,
    show_default=True,
    help="Highest grade of the scale; a higher one is a fault, as is one above judgements.max_grade"
    " of a configuration that is given.",
)


@click.group("judgements")
def judgements_command() -> None:
    """Check files of judgements, put them in place, and list what they lack.

    A file is TREC qrels (a query of several words stands in double quotes), CSV by any separator
    with the columns query, docid and rating, or JSON of the Search Relevance Workbench, Quepid or
    RRE; each may be compressed with gzip.
    """


judgements_command.add_command(missing_command)


@judgements_command.command("check")
@paths_argument
@_max_grade
@lane_options
def check(
    paths: tuple[str, ...], max_grade: float, url: str | None, config_file: str | None
) -> None:
    """Check files, or directories of them: every fault with its file and line.

    Of a directory all that its index lists is read and compared with the hash. With --url or
    --config, a running daemon says which lanes have adopted or refused each file, or will. The exit
    code is 2 where there is a fault, or a lane refuses a file.
    """
    config = options.read(config_file, {}, takes_sources=True) if config_file else None
    check_paths(paths, _reader(max_grade, config))
    if (url or config_file) and (refused := check_lanes(paths, url, config_file, _lanes)):
        exit_with(refused)


@judgements_command.command("add")
@add_options
@click.option(
    "--max-grade",
    type=click.FloatRange(0, HIGHEST_GRADE, min_open=True),
    help="Highest grade of the scale that the lanes read: a higher one is a fault. Default:"
    f" judgements.max_grade of the configuration, {DEFAULT_MAX_GRADE:g} without one.",
)
def add_file(
    file: str,
    start_ms: int,
    directory: str,
    config_file: str | None,
    past: bool,
    max_grade: float | None,
) -> None:
    """Put a copy of FILE in place, in force for events from a time on.

    It is checked first. Only then the index of the directory lists it, with the hash of its bytes,
    and only what is listed is read. A file is never changed: a correction is another file.
    """
    config = options.read(config_file, {}, takes_sources=True)
    # Lanes take no batch from the start of a file on that they cannot read.
    most = config.judgements.max_grade if max_grade is None else max_grade
    read = _reader(most, config if config_file else None)
    put_in_place(read, file, start_ms, directory, config, past=past)


@judgements_command.command("agreement")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@_max_grade
def agreement(files: tuple[str, ...], max_grade: float) -> None:
    """Print how far raters agree: each FILE is of one rater, or one FILE has several grades of a
    pair, of which the first is of the first rater, and so on.

    Kappa and alpha are 1 where all agree and 0 where they agree as often as by chance. `squared`:
    a disagreement counts as the square of the difference of its grades.
    """
    try:
        found = [
            read_raters(BytesIO(content(file, MOST_FILE_BYTES)), file, max_grade) for file in files
        ]
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    except FaultyJudgements as error:
        exit_with(fault_lines(error.faults, error.more))
    lines = [*_agreements(grades_by_rater(found))]
    if not lines:
        exit_with(["no pair of a query and an item has two grades"])
    click.echo("\n".join(lines))


def _agreements(grades: Floats) -> Iterator[str]:
    """A line for each two raters with pairs in common, and one for all."""
    raters = grades.shape[1]
    for first, second in combinations(range(raters), 2):
        both = ~np.isnan(grades[:, [first, second]]).any(axis=1)
        one, other = grades[both, first], grades[both, second]
        if len(one):
            same = f"{(one == other).mean():.1%} the same"
            kappas = (cohen_kappa(one, other, quadratic=squared) for squared in (False, True))
            kappa = "kappa {}, squared {}".format(*map(_decimals, kappas))
            yield f"raters {first + 1} and {second + 1}: {len(one):,} pairs, {same}, {kappa}"
    several = (~np.isnan(grades)).sum(axis=1) > 1
    if several.any():
        alphas = (krippendorff_alpha(grades, interval=squared) for squared in (False, True))
        alpha = "alpha {}, squared {}".format(*map(_decimals, alphas))
        yield f"all raters: {int(several.sum()):,} pairs with several grades, {alpha}"


def _decimals(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{value:.3f}"


def _lanes(daemon: Daemon) -> Sequence[LaneDatedFiles]:
    return daemon.fetched(f"{JUDGED_PATH}?grouping=all", Judged).lanes


def _reader(max_grade: float, config: Config | None) -> Reader[Judgements]:
    """Reads judgements of a scale; what lanes of the configuration cannot read is a fault."""
    if config is not None:
        max_grade = min(max_grade, config.judgements.max_grade)
    return partial(read, max_grade=max_grade)
