"""What `check-config` says of the directories of dated files: which files are in force, and until
when."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...config.kinds import ConfigError
from ...config.loading import Config
from ...judgements.directory import T
from ...judgements.index import Entry, from_now, start_text
from ...judgements.library import Library
from .library import class_libraries, faults_of, library_of
from .text import fault_lines, in_force_line


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


def _untils(entries: Sequence[Entry]) -> list[str]:
    ends = [f", until {start_text(later.start_ms)}" for _, later in pairwise(entries)]
    return [*ends, ""]
