"""What the commands of dated files share: check files, and put one in place."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from ...judgements.directory import Content, Listed, NotAdded, Reader, add, look, read_file
from ...judgements.grades import Fault, FaultyJudgements
from ...judgements.index import FaultyIndex, earliest_start_ms
from .. import options
from .text import directory_lines, fault_lines, in_force_line

FAULTY_EXIT: Final = 2

paths_argument = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True)
)


def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and the options of a command that puts a file in place, as those of
    `put_in_place`."""
    for option in (
        options.config_option("The configuration of the daemon, for events.max_future."),
        click.option(
            "--directory",
            required=True,
            type=click.Path(exists=True, file_okay=False),
            help="The directory of such files.",
        ),
        click.option(
            "--from",
            "start_ms",
            required=True,
            type=options.instant,
            metavar="TIME",
            help="From when the file is in force, instead of the one before it: a whole hour, such"
            " as 2026-11-20T12:00:00Z, at least 15 minutes and events.max_future from now.",
        ),
        click.option(
            "--past",
            is_flag=True,
            help="Also take a TIME that is sooner or has passed: for `replay`, and before a daemon"
            " first uses the directory. A lane that has read events of TIME refuses the file.",
        ),
        click.argument("file", type=click.Path(exists=True, dir_okay=False)),
    ):
        command = option(command)
    return command


def check_paths(paths: Sequence[str], read: Reader[Content]) -> None:
    """Print what files, and directories of them, come to. Exits with 2 where there is a fault."""
    faults: list[Fault] = []
    more = 0
    for path in map(Path, paths):
        try:
            found = _checked(path, read)
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
        exit_with(fault_lines(faults, more))


def put_in_place(
    read: Reader[Content],
    file: str,
    start_ms: int,
    directory: str,
    config_file: str | None,
    *,
    past: bool,
) -> None:
    """Put a copy of a file in place, and print from when it is in force; `past`: also from a time
    that has passed. Exits with 2 where it has a fault, or may not be put there."""
    max_future_ms = options.read(config_file, {}, takes_sources=True).events.max_future_s * 1000
    earliest_ms = 0 if past else earliest_start_ms(time.time_ns() // 1_000_000, max_future_ms)
    try:
        entry, counts = add(Path(directory), Path(file), start_ms, earliest_ms, read)
    except NotAdded as error:
        exit_with([str(error)])
    except (FaultyJudgements, FaultyIndex) as error:
        more = error.more if isinstance(error, FaultyJudgements) else 0
        exit_with(fault_lines(error.faults, more))
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from error
    click.echo(in_force_line(entry, counts))


def _checked(path: Path, read: Reader[Content]) -> Sequence[Fault]:
    """Print what a directory or file comes to; the faults of a directory's files. Raises
    FaultyJudgements, FaultyIndex and OSError."""
    if not path.is_dir():
        _, content = read_file(path, read)
        click.echo(f"{path}: {content.counts}")
        return ()
    found: Listed = look(path, read)
    for line in directory_lines(found):
        click.echo(line)
    return found.faults


def exit_with(lines: Sequence[str]) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(FAULTY_EXIT)
