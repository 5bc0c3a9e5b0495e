"""The files of a directory that this process has read, for as long as a lane may need them.

Reads files, so it belongs off the event loop; what lanes do with what it has is decided in
`timeline.py`.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Generic, NamedTuple

from .directory import Reader, T, read_entry, read_index
from .grades import Fault, FaultyJudgements
from .index import Entry, FaultyIndex
from .timeline import Timeline


class _Stamp(NamedTuple):
    """What differs where a file was written anew."""

    inode: int
    size: int
    changed_ns: int


class Library(Generic[T]):
    """Reads the index and its files, each once while it stays as it is."""

    def __init__(self, directory: Path, read: Reader[T]) -> None:
        self._directory, self._reader = directory, read
        self._contents: dict[Entry, T] = {}
        self._stamps: dict[Entry, _Stamp | None] = {}
        self.index: tuple[Entry, ...] = ()
        """All that is listed, by ascending start; as it was before while the index has faults."""
        self.index_faults: tuple[Fault, ...] = ()
        """Of the index itself: with any, nobody knows what is listed, and every lane waits."""
        self.faults: tuple[Fault, ...] = ()
        """Of files that a lane may need."""

    @property
    def readable(self) -> Mapping[Entry, T]:
        """The files that a lane may need, those that are as the index says."""
        return MappingProxyType(self._contents)

    def refresh(self, timelines: Collection[Timeline]) -> None:
        """Look at the directory again, for the lanes of these timelines.

        A file is read when it is new here, or was written since. One that all lanes have passed is
        forgotten. An index or a file with faults raises nothing: the faults are kept, until a later
        look finds none.
        """
        try:
            self.index, self.index_faults = read_index(self._directory), ()
        except FaultyIndex as error:
            self.index_faults = tuple(error.faults)
        except OSError as error:
            where = str(error.filename or self._directory)
            self.index_faults = (Fault(where, 0, f"cannot be read: {error.strerror}"),)
        needed = self._needed(timelines)
        for entry in self._stamps.keys() - needed:
            self._contents.pop(entry, None)
            del self._stamps[entry]
        faults: list[Fault] = []
        for entry in sorted(needed):
            faults += self._read(entry)
        self.faults = tuple(faults)

    def _needed(self, timelines: Collection[Timeline]) -> set[Entry]:
        """What is listed from the first entry of any timeline on, and all of every timeline."""
        firsts = [timeline.entries[0].start_ms for timeline in timelines if timeline.entries]
        from_ms = min(firsts) if len(firsts) == len(timelines) and firsts else 0
        listed = {entry for entry in self.index if entry.start_ms >= from_ms}
        return listed.union(*(timeline.entries for timeline in timelines))

    def _read(self, entry: Entry) -> list[Fault]:
        """Read the file where it is not read as it is now; its faults."""
        stamp = self._stamp_of(entry)
        if entry in self._contents and stamp is not None and stamp == self._stamps[entry]:
            return []
        self._contents.pop(entry, None)
        self._stamps[entry] = stamp
        try:
            self._contents[entry] = read_entry(self._directory, entry, self._reader)
        except FaultyJudgements as error:
            return error.faults
        return []

    def _stamp_of(self, entry: Entry) -> _Stamp | None:
        """None for a file that is not there."""
        try:
            found = (self._directory / entry.name).stat()
        except OSError:
            return None
        return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
