"""The directories of dated files that a configuration names: judgements, and classes of queries."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..config import Config
from ..errors import StartError
from ..files import NotRead, in_time
from ..judgements import (
    Fault,
    IndexEntry,
    Judgements,
    Library,
    QueryClasses,
    T,
    Timeline,
    begun,
    read,
    read_classes,
    unread,
)
from ..lane import Lane
from ..queries import HASHED, hashed_keys


def library_of(config: Config) -> Library[Judgements] | None:
    """The directory, by whose files lanes grade; None where the configuration names none. Keys are
    hashed where lanes keep hashes of queries."""
    directory, queries = config.judgements.directory, config.plan.queries
    if directory is None or config.plan.judged is None:
        return None
    read_plain = partial(read, max_grade=config.judgements.max_grade)
    if queries is None or queries.text != HASHED:
        return Library(Path(directory), read_plain)
    key = queries.key

    def read_hashed(lines: Iterator[bytes], file: str) -> Judgements:
        found = read_plain(lines, file)
        keys = hashed_keys(list(found.by_query), key)
        return replace(found, by_query=dict(zip(keys, found.by_query.values(), strict=True)))

    return Library(Path(directory), read_hashed)


def read_library(config: Config) -> tuple[Library[Judgements], list[Fault]] | None:
    """The directory of judgements with all that its index lists read, and what of it cannot be;
    None where the configuration names none."""
    library = library_of(config)
    return None if library is None else (library, faults_of(library))


def class_libraries(config: Config) -> dict[str, Library[QueryClasses]]:
    """The directory of each attribute that is derived by files of classes."""
    return {
        one.attribute: Library(Path(one.directory), read_classes)
        for one in config.derive
        if one.directory
    }


def class_by_the_whole_index(lane: Lane, config: Config) -> None:
    """Give a lane that begins all files of classes that are listed. Raises StartError where one
    cannot be read."""
    for attribute, library in class_libraries(config).items():
        if faults := faults_of(library):
            raise StartError("\n".join(map(str, faults)))
        if attribute in lane.class_files:
            lane.class_files[attribute].prepare(begun(library.index), library.readable)


def faults_of(library: Library[T]) -> list[Fault]:
    """Read what the index of a directory lists; what of it cannot be read."""
    try:
        in_time(partial(library.refresh, ()), str(library.directory))
    except NotRead as error:
        return [unread(error, library.directory)]
    return [*library.index_faults, *library.faults]


@dataclass(frozen=True)
class WholeIndex:
    """What grades a lane that has seen nothing: all that the index lists."""

    timeline: Timeline
    judgements: Mapping[IndexEntry, Judgements]


def whole_index(config: Config) -> WholeIndex | None:
    """The whole index, read; None where the configuration names no directory. Raises StartError
    with every fault."""
    found = read_library(config)
    if found is None:
        return None
    library, faults = found
    if faults:
        raise StartError("\n".join(map(str, faults)))
    return WholeIndex(begun(library.index), dict(library.readable))
