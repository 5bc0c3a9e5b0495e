"""`relevanced judgements` on the command line."""

from collections.abc import Sequence
from functools import partial

import click

from ...http.api.dated_files import LaneDatedFiles
from ...http.api.judged import PATH, Judged
from ...judgements.directory import Reader
from ...judgements.formats import read
from ...judgements.grades import HIGHEST_GRADE, Judgements
from ..asking import Daemon
from .dated_files import add_options, check_paths, exit_with, paths_argument, put_in_place
from .lanes import check_lanes, lane_options
from .missing import missing_command

_max_grade = click.option(
    "--max-grade",
    type=click.FloatRange(0, HIGHEST_GRADE, min_open=True),
    default=HIGHEST_GRADE,
    show_default=True,
    help="Highest grade of the scale; a higher one is a fault.",
)


@click.group("judgements")
def judgements_command() -> None:
    """Check files of judgements, put them in place, and list what they lack.

    A file is TREC qrels (a query of several words stands in double quotes), CSV with the columns
    query, docid and rating, or JSON lines of the Search Relevance Workbench.
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
    check_paths(paths, _reader(max_grade))
    if (url or config_file) and (refused := check_lanes(paths, url, config_file, _lanes)):
        exit_with(refused)


@judgements_command.command("add")
@add_options
@_max_grade
def add_file(
    file: str,
    start_ms: int,
    directory: str,
    config_file: str | None,
    past: bool,
    max_grade: float,
) -> None:
    """Put a copy of FILE in place, in force for events from a time on.

    It is checked first. Only then the index of the directory lists it, with the hash of its bytes,
    and only what is listed is read. A file is never changed: a correction is another file.
    """
    put_in_place(_reader(max_grade), file, start_ms, directory, config_file, past=past)


def _lanes(daemon: Daemon) -> Sequence[LaneDatedFiles]:
    return daemon.fetched(f"{PATH}?grouping=all", Judged).lanes


def _reader(max_grade: float) -> Reader[Judgements]:
    """Reads judgements of a scale."""
    return partial(read, max_grade=max_grade)
