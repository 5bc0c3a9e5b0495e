"""What the commands of dated files share: check files, put one in place, and say what the lanes of
a running installation make of them.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from ..config import Config, ConfigError
from ..events import instant_ms
from ..files import in_time
from ..http import DatedFile, LaneDatedFiles
from ..judgements import (
    NOTHING_READ,
    Content,
    Fault,
    FaultyIndex,
    FaultyJudgements,
    IndexEntry,
    Library,
    ListedFile,
    NotAdded,
    Reader,
    T,
    Timeline,
    add,
    earliest_by_log_ms,
    earliest_start_ms,
    from_now,
    look,
    prepared,
    read_file,
    read_index,
    start_text,
    unread,
)
from ..recompute.libraries import class_libraries, faults_of, library_of
from . import options
from .daemon_client import Daemon, daemon_at

MOST_FAULTS_SHOWN: Final = 100


def directory_lines(found: ListedFile) -> list[str]:
    """A line for each file that is listed and as the index says, and one of those that nothing
    reads."""
    lines = [in_force_line(entry, counts) for entry, counts in found.counts.items()]
    if not found.entries:
        lines.append("the index lists no file")
    if found.unlisted:
        names = ", ".join(found.unlisted)
        lines.append(f"not listed in the index, so nothing reads it: {names}")
    return lines


def in_force_line(entry: IndexEntry, counts: object) -> str:
    """From when a file is in force, and how much it says."""
    return f"{entry.name}: in force from {start_text(entry.start_ms)}, {counts}"


def fault_lines(faults: Sequence[Fault], more: int = 0) -> list[str]:
    """The first faults, and how many more there are."""
    lines = [str(fault) for fault in faults[:MOST_FAULTS_SHOWN]]
    left = len(faults) - len(lines) + more
    return [*lines, f"and {left:,} more"] if left else lines


FAULTY_EXIT: Final = 2

paths_argument = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path()
)


def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and the options of a command that puts a file in place, as those of
    `put_in_place`."""
    for option in (
        options.config_option("The configuration of the daemon, whose limits FILE must keep to."),
        click.option(
            "--directory",
            required=True,
            type=click.Path(),
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
        click.argument("file", type=click.Path()),
    ):
        command = option(command)
    return command


def check_paths(paths: Sequence[str], read: Reader[Content]) -> None:
    """Print what files, and directories of them, come to. Exits with 2 where there is a fault."""
    faults: list[Fault] = []
    more = 0
    for path in map(Path, paths):
        try:
            lines, found = in_time(partial(_checked, path, read), str(path))
        except (FaultyJudgements, FaultyIndex) as error:
            faults += error.faults
            more += error.more if isinstance(error, FaultyJudgements) else 0
        except OSError as error:
            faults.append(unread(error, path))
        else:
            faults += found
            for line in lines:
                click.echo(line)
    if faults:
        exit_with(fault_lines(faults, more))


def put_in_place(
    read: Reader[Content],
    file: str,
    start_ms: int,
    directory: str,
    config: Config,
    *,
    past: bool,
) -> None:
    """Put a copy of a file in place, and print from when it is in force; `past`: also from a time
    that has passed. Exits with 2 where it has a fault, or may not be put there."""
    max_future_ms = config.events.max_future_s * 1000
    earliest_ms = 0 if past else earliest_start_ms(time.time_ns() // 1_000_000, max_future_ms)
    try:
        adding = partial(add, Path(directory), Path(file), start_ms, earliest_ms, read)
        entry, counts = in_time(adding, directory)
    except NotAdded as error:
        exit_with([str(error)])
    except (FaultyJudgements, FaultyIndex) as error:
        more = error.more if isinstance(error, FaultyJudgements) else 0
        exit_with(fault_lines(error.faults, more))
    except OSError as error:
        exit_with([str(unread(error, Path(directory)))])
    click.echo(in_force_line(entry, counts))


def _checked(path: Path, read: Reader[Content]) -> tuple[list[str], Sequence[Fault]]:
    """(what a directory or file comes to, the faults of a directory's files). Raises
    FaultyJudgements, FaultyIndex and OSError."""
    if not path.is_dir():
        _, content = read_file(path, read)
        return [f"{path}: {content.counts}"], ()
    found: ListedFile = look(path, read)
    return directory_lines(found), found.faults


def exit_with(lines: Sequence[str]) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(FAULTY_EXIT)


Asked = Callable[[Daemon], Sequence[LaneDatedFiles]]


def lane_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that may ask a daemon about its lanes."""
    text = "Keep to this configuration's limits, and ask for the lanes at its http.listen."
    with_config: Callable[..., Any] = options.config_option(text, None)(command)
    return click.option("--url", help="Ask for the lanes at the address of a daemon.")(with_config)


def check_lanes(
    paths: Sequence[str], url: str | None, config_file: str | None, asked: Asked
) -> list[str]:
    """Print what lanes do with the files of the directories among the paths; what they refuse, or
    wait for. `asked` asks a daemon for the files of its lanes. The indices have no faults. Raises
    click.UsageError without a directory."""
    directories = [Path(path) for path in paths if Path(path).is_dir()]
    if not directories:
        raise click.UsageError("--url and --config: need a directory that lanes can be asked about")
    lanes = asked(daemon_at(url, config_file))
    faults: list[str] = []
    for directory in directories:
        good, bad = lane_lines(read_index(directory), lanes)
        faults += bad
        for line in good:
            click.echo(line)
    return faults


def lane_lines(
    index: Sequence[IndexEntry], lanes: Sequence[LaneDatedFiles]
) -> tuple[list[str], list[str]]:
    """What lanes do with the files that an index lists; and what is wrong."""
    if not lanes:
        return ["no lane uses such files yet: the first one to begin takes all of them"], []
    adopted, adopting, refusing, refused = (_by_entry() for _ in range(4))
    for lane in lanes:
        known = Timeline(_entries(lane.files), _entries(lane.refused))
        after = _after(lane, known, index)
        for entry in index:
            if entry in known.entries:
                adopted[entry].append(lane)
            elif entry in known.refused:
                refused[entry].append(lane)
            elif entry in after.entries:
                adopting[entry].append(lane)
            elif entry in after.refused:
                refusing[entry].append(lane)
    good = [
        f"{entry.name}: {what} {_lanes(of[entry])}"
        for entry in index
        for what, of in (("adopted by", adopted), ("will be adopted by", adopting))
        if entry in of
    ]
    faults = [
        f"{entry.name}: {what} {_lanes(of[entry])}, {_way_out(of[entry])}"
        for entry in index
        for what, of in (("was refused by", refused), ("will be refused by", refusing))
        if entry in of
    ]
    return good, [*faults, *_waiting(index, lanes)]


def _by_entry() -> defaultdict[IndexEntry, list[LaneDatedFiles]]:
    return defaultdict(list)


def _after(lane: LaneDatedFiles, known: Timeline, index: Sequence[IndexEntry]) -> Timeline:
    """The timeline of a lane once it has looked at the index."""
    first_ms = 0 if lane.first is None else instant_ms(lane.first)
    latest_ms = NOTHING_READ if lane.latest is None else instant_ms(lane.latest)
    can_grade = tuple(entry for entry in known.entries if entry.start_ms >= first_ms)
    return prepared(Timeline(can_grade, known.refused), index, index, latest_ms).timeline


def _way_out(lanes: Iterable[LaneDatedFiles]) -> str:
    read_ms = max(NOTHING_READ if one.latest is None else instant_ms(one.latest) for one in lanes)
    return (
        "where events of its time have been read: put it in place again from"
        f" {start_text(earliest_by_log_ms(read_ms))} on, or later"
    )


def _waiting(index: Sequence[IndexEntry], lanes: Sequence[LaneDatedFiles]) -> Iterator[str]:
    """Files that lanes grade by and the index does not list as they were."""
    missing = _by_entry()
    for lane in lanes:
        for entry in _entries(lane.files):
            if entry not in index and lane.first and entry.start_ms >= instant_ms(lane.first):
                missing[entry].append(lane)
    for entry, of in sorted(missing.items()):
        yield (
            f"{entry.name}: {_lanes(of)} must have it with the hash {entry.sha256}, and the index"
            " does not list it so: a worker with this directory waits until it is back"
        )


def _entries(files: Iterable[DatedFile]) -> tuple[IndexEntry, ...]:
    return tuple(IndexEntry(instant_ms(file.start), file.name, file.sha256) for file in files)


def _lanes(lanes: Sequence[LaneDatedFiles]) -> str:
    """
    >>> _lanes([LaneDatedFiles(2, None, None, (), ())])
    'lane 2'
    """
    numbers = ", ".join(str(lane.lane) for lane in lanes)
    return f"lane {numbers}" if len(lanes) == 1 else f"lanes {numbers}"


def in_force_lines(config: Config, now_ms: int) -> list[str]:
    """For each directory, a line for the file that is in force now, for each later one, and for
    those that are over. Raises ConfigError with the faults of the indices and of their files."""
    judgements, classes = library_of(config), class_libraries(config)
    faults = [] if judgements is None else faults_of(judgements)
    for library in classes.values():
        faults = [*faults, *faults_of(library)]
    if faults:
        raise ConfigError(fault_lines(faults))
    lines = [] if judgements is None else [*_lines("judgements", judgements, now_ms)]
    for attribute, library in classes.items():
        lines += _lines(f"classes of {attribute}", library, now_ms)
    return lines


def _lines(what: str, library: Library[T], now_ms: int) -> Iterator[str]:
    if not library.index:
        yield f"{what}: the index lists no file, so none is in force"
        return
    needed = from_now(library.index, now_ms)
    if needed[:1] and needed[0].start_ms > now_ms:
        yield f"{what}: no file is in force yet"
    for entry, until in zip(needed, _untils(needed), strict=True):
        yield f"{what}: {in_force_line(entry, library.readable[entry].counts)}{until}"
    if over := len(library.index) - len(needed):
        yield f"{what}: {over} earlier, for late events only"


def _untils(entries: Sequence[IndexEntry]) -> list[str]:
    ends = [f", until {start_text(later.start_ms)}" for _, later in pairwise(entries)]
    return [*ends, ""]
