"""`relevanced judgements` on the command line."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from ...judgements.directory import Listed, NotAdded, add, look, read_file
from ...judgements.grades import HIGHEST_GRADE, Fault, FaultyJudgements
from ...judgements.index import FaultyIndex, earliest_start_ms
from .. import options
from .text import counts_text, directory_lines, fault_lines, in_force_line

MOST_FAULTS_SHOWN: Final = 100
FAULTY_EXIT: Final = 2

_max_grade = click.option(
    "--max-grade",
    type=click.FloatRange(0, HIGHEST_GRADE, min_open=True),
    default=HIGHEST_GRADE,
    show_default=True,
    help="Highest grade of the scale; a higher one is a fault.",
)


@click.group("judgements")
def judgements_command() -> None:
    """Check files of judgements.

    A file is TREC qrels (a query of several words stands in double quotes), CSV with the columns
    query, docid and rating, or JSON lines of the Search Relevance Workbench.
    """


@judgements_command.command("check")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True))
@_max_grade
def check(paths: tuple[str, ...], max_grade: float) -> None:
    """Check files, or directories of them: every fault with its file and line.

    Of a directory all that its index lists is read and compared with the hash. The exit code is 2
    where there is a fault.
    """
    faults: list[Fault] = []
    more = 0
    for path in map(Path, paths):
        try:
            found = _checked(path, max_grade)
        except (FaultyJudgements, FaultyIndex) as error:
            faults += error.faults
            more += error.more if isinstance(error, FaultyJudgements) else 0
        except OSError as error:
            faults.append(
                Fault(str(error.filename or path), 0, f"cannot be read: {error.strerror}")
            )
        else:
            faults += found
    if faults:
        _exit_with(fault_lines(faults, MOST_FAULTS_SHOWN, more))


# Hidden until the lanes grade live traffic by such files: until then nobody reads the directory.
@judgements_command.command("add", hidden=True)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--from",
    "start_ms",
    required=True,
    type=options.instant,
    metavar="TIME",
    help="From when the file is in force, instead of the one before it: a whole hour, such as"
    " 2026-11-20T12:00:00Z, at least 15 minutes and events.max_future from now.",
)
@click.option(
    "--directory",
    required=True,
    type=click.Path(exists=True, file_okay=False),
    help="The directory of judgements.",
)
@options.config_option("The configuration of the daemon, for events.max_future.")
@_max_grade
def add_file(
    file: str, start_ms: int, directory: str, config_file: str | None, max_grade: float
) -> None:
    """Put a copy of FILE in place, in force for events from a time on.

    It is checked first. Only then the index of the directory lists it, with the hash of its bytes,
    and only what is listed is read. A file is never changed: a correction is another file.
    """
    max_future_ms = options.read(config_file, {}, takes_sources=True).events.max_future_s * 1000
    earliest_ms = earliest_start_ms(time.time_ns() // 1_000_000, max_future_ms)
    try:
        entry, counts = add(Path(directory), Path(file), start_ms, earliest_ms, max_grade)
    except NotAdded as error:
        _exit_with([str(error)])
    except (FaultyJudgements, FaultyIndex) as error:
        more = error.more if isinstance(error, FaultyJudgements) else 0
        _exit_with(fault_lines(error.faults, MOST_FAULTS_SHOWN, more))
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from error
    click.echo(in_force_line(entry, counts))


def _checked(path: Path, max_grade: float) -> Sequence[Fault]:
    """Print what a directory or file comes to; the faults of a directory's files. Raises
    FaultyJudgements, FaultyIndex and OSError."""
    if not path.is_dir():
        _, judgements = read_file(path, max_grade)
        click.echo(f"{path}: {counts_text(judgements.counts)}")
        return ()
    found: Listed = look(path, max_grade)
    for line in directory_lines(found):
        click.echo(line)
    return found.faults


def _exit_with(lines: Sequence[str]) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(FAULTY_EXIT)
