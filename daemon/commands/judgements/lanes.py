"""What the lanes of a running installation make of a directory of dated files. Pure, apart from
`check_lanes`, which prints it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from ...events.timestamps import instant_ms
from ...http.api.dated_files import DatedFile, LaneDatedFiles
from ...judgements.directory import read_index
from ...judgements.index import Entry, start_text
from ...judgements.timeline import NOTHING_READ, Timeline, earliest_by_log_ms, prepared
from .. import options
from ..asking import Daemon, daemon_at

Asked = Callable[[Daemon], Sequence[LaneDatedFiles]]


def lane_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that may ask a daemon about its lanes."""
    text = "Ask for the lanes at the address of this configuration's http.listen."
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
    index: Sequence[Entry], lanes: Sequence[LaneDatedFiles]
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


def _by_entry() -> defaultdict[Entry, list[LaneDatedFiles]]:
    return defaultdict(list)


def _after(lane: LaneDatedFiles, known: Timeline, index: Sequence[Entry]) -> Timeline:
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


def _waiting(index: Sequence[Entry], lanes: Sequence[LaneDatedFiles]) -> Iterator[str]:
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


def _entries(files: Iterable[DatedFile]) -> tuple[Entry, ...]:
    return tuple(Entry(instant_ms(file.start), file.name, file.sha256) for file in files)


def _lanes(lanes: Sequence[LaneDatedFiles]) -> str:
    """
    >>> _lanes([LaneDatedFiles(2, None, None, (), ())])
    'lane 2'
    """
    numbers = ", ".join(str(lane.lane) for lane in lanes)
    return f"lane {numbers}" if len(lanes) == 1 else f"lanes {numbers}"
