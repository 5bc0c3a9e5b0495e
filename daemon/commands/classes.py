"""`relevanced classes` on the command line."""

from collections.abc import Sequence
from functools import partial

import click

from ..http import CLASSES_PATH, ClassFiles, LaneDatedFiles
from ..judgements import read_classes
from . import options
from .daemon_client import Daemon
from .dated_files import (
    add_options,
    check_lanes,
    check_paths,
    exit_with,
    lane_options,
    paths_argument,
    put_in_place,
)


@click.group("classes")
def classes_command() -> None:
    """Check files of classes of queries, and put them in place for [[derive]].

    A file is CSV with the columns query and class; `relevanced queries --classes` writes one.
    """


@classes_command.command("check")
@paths_argument
@click.option("--attribute", help="What the files derive, if they could be of several attributes.")
@lane_options
def check(
    paths: tuple[str, ...], attribute: str | None, url: str | None, config_file: str | None
) -> None:
    """Check files, or directories of them: every fault with its file and line.

    Of a directory all that its index lists is read and compared with the hash. With --url or
    --config, a running daemon says which lanes have adopted or refused each file, or will. The exit
    code is 2 where there is a fault, or a lane refuses a file.
    """
    check_paths(paths, read_classes)
    if url or config_file:
        if refused := check_lanes(paths, url, config_file, partial(_lanes, attribute)):
            exit_with(refused)


@classes_command.command("add")
@add_options
def add_file(file: str, start_ms: int, directory: str, config_file: str | None, past: bool) -> None:
    """Put a copy of FILE in place, in force for events from a time on.

    It is checked first. Only then the index of the directory lists it, with the hash of its bytes,
    and only what is listed is read. A file is never changed: a correction is another file.
    """
    config = options.read(config_file, {}, takes_sources=True)
    put_in_place(read_classes, file, start_ms, directory, config, past=past)


def _lanes(attribute: str | None, daemon: Daemon) -> Sequence[LaneDatedFiles]:
    """The files of the lanes for an attribute; None: for the only one. Raises click.UsageError."""
    derived = {of.attribute: of.lanes for of in daemon.fetched(CLASSES_PATH, ClassFiles).derived}
    names = ", ".join(derived)
    if not derived:
        raise click.UsageError("the daemon derives no attribute by files of classes")
    if attribute is None and len(derived) > 1:
        raise click.UsageError(f"--attribute: needed, one of {names}")
    if attribute is not None and attribute not in derived:
        raise click.UsageError(f"--attribute {attribute}: must be one of {names}")
    return derived[attribute or names]
