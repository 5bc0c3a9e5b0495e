"""A directory of dated files on disk, of judgements or of classes of queries: read its index and
files, and put a file in place.

The only module of the room that knows files; a reader makes sense of their lines. A file is in
place once the index lists it; both are written beside, synced and renamed, so that a crash leaves
the directory as it was before or after.

The files of a directory that this process has read, for as long as a lane may need them.

Reads files, so it belongs off the event loop; what lanes do with what it has is decided in
`files_in_force.py`.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from .. import files
from . import index
from .faults import Fault, FaultyJudgements
from .files_in_force import Timeline
from .formats import read as read_judgements
from .grades import MOST_LINE_BYTES
from .index import FaultyIndex, IndexEntry

INDEX: Final = "index"
MOST_INDEX_BYTES: Final = 4 * 2**20
MOST_FILE_BYTES: Final = 2**30
_LOCK: Final = ".lock"
_BESIDE: Final = ".new-"
"""What is being written has a name that begins so; nothing reads it."""
_CHUNK_BYTES: Final = 2**20


class Content(Protocol):
    """What a file says."""

    @property
    def counts(self) -> object:
        """How much that is; its text is for people."""


T = TypeVar("T", bound=Content)
T_co = TypeVar("T_co", covariant=True)
Reader: TypeAlias = Callable[[Iterator[bytes], str], T]
"""Reads the lines of a file of this name in messages. Raises FaultyJudgements with every fault."""


class NotAdded(Exception):
    """A file that may not be put in place; the message names the rule."""


@dataclass(frozen=True)
class ListedFile:
    """What a look at a directory found."""

    entries: tuple[IndexEntry, ...]
    """All that the index lists, by ascending start."""
    counts: dict[IndexEntry, object] = field(default_factory=dict)
    """How much those say that were read, and are as the index says."""
    faults: tuple[Fault, ...] = ()
    """Of the others."""
    unlisted: tuple[str, ...] = ()
    """Names of files in the directory that the index does not list: nothing reads them."""


def unread(error: OSError, path: Path) -> Fault:
    """The fault of what cannot be read; `path` where the error names none."""
    reason = f"cannot be read: {error.strerror}"
    return Fault(str(error.filename or path), 0, reason, lacking=True)


def read_index(directory: Path) -> tuple[IndexEntry, ...]:
    """The entries of the index, by ascending start; none where there is no index yet. Raises
    FaultyIndex and OSError."""
    path = directory / INDEX
    try:
        data = files.content(path, MOST_INDEX_BYTES)
    except FileNotFoundError:
        if not directory.is_dir():
            raise
        return ()
    return tuple(index.parse(data, str(path)))


def read_file(path: Path, read: Reader[T]) -> tuple[str, T]:
    """(SHA-256 of the bytes, content) of a file, both from the same reading of it. Raises
    FaultyJudgements and OSError."""
    digest = hashlib.sha256()
    with files.opened(path, MOST_FILE_BYTES) as file:
        content = read(_lines(file, digest), str(path))
        return digest.hexdigest(), content


def read_entry(directory: Path, entry: IndexEntry, read: Reader[T]) -> T:
    """The content of a file that the index lists. Raises FaultyJudgements, also where the file is
    missing or is not the one that was listed."""
    path = directory / entry.name
    try:
        # First the hash: a file that is half there has faults that are not its own.
        sha256 = _hash_of(path)
        if sha256 == entry.sha256:
            sha256, content = read_file(path, read)
    except OSError as error:
        raise FaultyJudgements([unread(error, path)]) from error
    if sha256 != entry.sha256:
        rule = f"must be {entry.sha256}, as the index says: put the file back that was added"
        raise FaultyJudgements([Fault(str(path), 0, f"sha256={sha256}: {rule}", lacking=True)])
    return content


def look(directory: Path, read: Reader[Content] = read_judgements) -> ListedFile:
    """Read everything that the index lists, one file after the other; none is kept. Raises
    FaultyIndex and OSError."""
    entries = read_index(directory)
    counts: dict[IndexEntry, object] = {}
    faults: list[Fault] = []
    for entry in entries:
        try:
            counts[entry] = read_entry(directory, entry, read).counts
        except FaultyJudgements as error:
            faults += error.faults
    names = {entry.name for entry in entries}
    unlisted = sorted(
        path.name
        for path in directory.iterdir()
        if path.name not in names and path.name != INDEX and not path.name.startswith(".")
    )
    return ListedFile(entries, counts, tuple(faults), tuple(unlisted))


def add(
    directory: Path,
    source: Path,
    start_ms: int,
    earliest_ms: int,
    read: Reader[Content] = read_judgements,
) -> tuple[IndexEntry, object]:
    """Put a copy of a file in place, in force from `start_ms` on: check it, write it beside, sync,
    rename, then append it to the index in the same way. Returns also how much it says.

    The copy is what is checked and hashed. Raises NotAdded where a rule forbids it,
    FaultyJudgements, FaultyIndex and OSError; then nothing has been put in place.
    """
    if start_ms % index.HOUR_MS or start_ms < earliest_ms:
        raise NotAdded(
            f"start={index.start_text(start_ms)}: must be a whole hour, and not before"
            f" {index.start_text(earliest_ms)}"
        )
    try:
        name = index.file_name(start_ms, source.name)
    except ValueError as error:
        raise NotAdded(str(error)) from None
    with _locked(directory):
        entries = read_index(directory)
        _check_new(directory, start_ms, entries)
        beside = directory / f"{_BESIDE}{name}"
        try:
            _copy(source, beside)
            sha256, content = _checked(beside, source, read)
            _check_free(directory / name, sha256)
            os.replace(beside, directory / name)
        finally:
            beside.unlink(missing_ok=True)
        _sync(directory)
        entry = IndexEntry(start_ms, name, sha256)
        _write(directory / INDEX, index.text_of(sorted([*entries, entry])))
    return entry, content.counts


def _check_new(directory: Path, start_ms: int, entries: tuple[IndexEntry, ...]) -> None:
    """Raises NotAdded where the start is taken."""
    for entry in entries:
        if entry.start_ms == start_ms:
            raise NotAdded(
                f"start={index.start_text(start_ms)}: {entry.name} starts then, and an entry of"
                " the index is never changed: choose another hour"
            )
    if len(entries) >= index.MOST_FILES:
        raise NotAdded(f"{directory / INDEX}: lists {len(entries)} files, the most that it may")


def _check_free(path: Path, sha256: str) -> None:
    """Raises NotAdded where another file has the name. The same one is what a crash between the two
    renames has left: it is listed now."""
    if os.path.lexists(path) and _hash_of(path) != sha256:
        raise NotAdded(
            f"{path}: is there already, not listed and with other bytes: remove it first"
        )


def _checked(beside: Path, source: Path, read: Reader[Content]) -> tuple[str, Content]:
    """As `read_file` of the copy, with faults under the name of the source."""
    try:
        return read_file(beside, read)
    except FaultyJudgements as error:
        faults = [Fault(str(source), fault.line, fault.reason) for fault in error.faults]
        raise FaultyJudgements(faults, error.more) from None


def _lines(file: BinaryIO, digest: "hashlib._Hash") -> Iterator[bytes]:
    """The lines of a file, which are added to the digest."""
    while line := file.readline(MOST_LINE_BYTES + 1):
        digest.update(line)
        yield line


def _hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    with files.opened(path, MOST_FILE_BYTES) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One writer at a time: of two that append to the same index, one would be lost."""
    with (directory / _LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _copy(source: Path, target: Path) -> None:
    with files.opened(source, MOST_FILE_BYTES) as original, target.open("wb") as copy:
        shutil.copyfileobj(original, copy, _CHUNK_BYTES)
        copy.flush()
        os.fsync(copy.fileno())


def _write(path: Path, data: bytes) -> None:
    """Replace a file by rename; its directory is synced."""
    beside = path.with_name(f"{_BESIDE}{path.name}")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    """Make the renames in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Stamp(NamedTuple):
    """What differs where a file was written anew."""

    inode: int
    size: int
    changed_ns: int


class Directory(Protocol[T_co]):
    """The files that this process has read, as lanes need them: see `Library`."""

    index: tuple[IndexEntry, ...]
    index_faults: tuple[Fault, ...]
    faults: tuple[Fault, ...]

    @property
    def readable(self) -> Mapping[IndexEntry, T_co]:
        """The files that are as the index says."""

    def refresh(self, timelines: Collection[Timeline]) -> None:
        """Look at the directory again."""


class Library(Generic[T]):
    """Reads the index and its files, each once while it stays as it is."""

    def __init__(self, directory: Path, read: Reader[T]) -> None:
        self.directory, self._reader = directory, read
        self._contents: dict[IndexEntry, T] = {}
        self._stamps: dict[IndexEntry, _Stamp | None] = {}
        self.index: tuple[IndexEntry, ...] = ()
        """All that is listed, by ascending start; as it was before while the index has faults."""
        self.index_faults: tuple[Fault, ...] = ()
        """Of the index itself: with any, nobody knows what is listed, and every lane waits."""
        self.faults: tuple[Fault, ...] = ()
        """Of files that a lane may need."""

    @property
    def readable(self) -> Mapping[IndexEntry, T]:
        """The files that a lane may need, those that are as the index says."""
        return MappingProxyType(self._contents)

    def refresh(self, timelines: Collection[Timeline]) -> None:
        """Look at the directory again, for the lanes of these timelines.

        A file is read when it is new here, or was written since. One that all lanes have passed is
        forgotten. An index or a file with faults raises nothing: the faults are kept, until a later
        look finds none.
        """
        try:
            self.index, self.index_faults = read_index(self.directory), ()
        except FaultyIndex as error:
            self.index_faults = tuple(error.faults)
        except OSError as error:
            self.index_faults = (unread(error, self.directory),)
        needed = self._needed(timelines)
        for entry in self._stamps.keys() - needed:
            self._contents.pop(entry, None)
            del self._stamps[entry]
        faults: list[Fault] = []
        for entry in sorted(needed):
            faults += self._read(entry)
        self.faults = tuple(faults)

    def _needed(self, timelines: Collection[Timeline]) -> set[IndexEntry]:
        """What is listed from the first entry of any timeline on, and all of every timeline."""
        firsts = [timeline.entries[0].start_ms for timeline in timelines if timeline.entries]
        from_ms = min(firsts) if len(firsts) == len(timelines) and firsts else 0
        listed = {entry for entry in self.index if entry.start_ms >= from_ms}
        return listed.union(*(timeline.entries for timeline in timelines))

    def _read(self, entry: IndexEntry) -> list[Fault]:
        """Read the file where it is not read as it is now; its faults."""
        stamp = self._stamp_of(entry)
        if entry in self._contents and stamp is not None and stamp == self._stamps[entry]:
            return []
        self._contents.pop(entry, None)
        self._stamps[entry] = stamp
        try:
            self._contents[entry] = read_entry(self.directory, entry, self._reader)
        except FaultyJudgements as error:
            return error.faults
        return []

    def _stamp_of(self, entry: IndexEntry) -> _Stamp | None:
        """None for a file that is not there."""
        try:
            found = (self.directory / entry.name).stat()
        except OSError:
            return None
        return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
