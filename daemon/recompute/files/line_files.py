"""Lines of recorded files, gzipped or not, a block at a time.

However long a file or one of its lines is, no more than a block of it and one line are in memory.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from errno import EIO
from io import BufferedReader
from pathlib import Path
from typing import Final

import numpy as np
from rich.progress import Progress, TaskID

from relevanced.metrics import Integers


def without_mark(text: bytes) -> bytes:
    """The text without a UTF-8 byte order mark at its start.

    >>> without_mark(codecs.BOM_UTF8 + b"301 0 d7 1")
    b'301 0 d7 1'
    """
    return text.removeprefix(codecs.BOM_UTF8)


BLOCK_BYTES: Final = 128 << 10
"""So much is read at once: what was just read is still in the processor's cache when it is used."""
SHOWN_EVERY_BYTES: Final = 1 << 20
GZIP_START: Final = b"\x1f\x8b"
DAMAGED: Final = (gzip.BadGzipFile, EOFError, zlib.error)
NO_ENDS: Final = np.zeros(0, np.int64)
_LINE_END: Final = ord("\n")
_LINE_BITS: Final = 40
"""A place has so many bits for the line, and the file above them."""


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of one file, n of them."""

    place: int
    """Of the first line; those of the others follow it. Places order all lines of all files: see
    `file_and_line`."""
    text: bytes
    """The lines, with an end between two of them."""
    ends: Integers
    """(n − 1,): where those ends are in the text."""
    too_long: int | None = None
    """Set where this is one line that is longer than allowed, and was not kept: its bytes."""

    def __len__(self) -> int:
        return len(self.ends) + 1

    def split(self) -> list[bytes]:
        """Each line."""
        return self.text.split(b"\n")


def read_lines(paths: Sequence[str], bars: Progress, most_bytes: int) -> Iterator[Lines]:
    """All lines of all files in order, empty ones too; a line of more than `most_bytes` bytes may
    be left out, as `too_long`. Raises OSError with the name of a file that cannot be read."""
    for number, path in enumerate(paths):
        size = Path(path).stat().st_size
        bar = bars.add_task(f"reading {Path(path).name}", total=size or None)
        splitter = _Splitter(number, most_bytes)
        try:
            with open(path, "rb") as file:
                for block in _blocks(file, path, bars, bar):
                    yield from splitter.split(block)
        except DAMAGED as error:
            after = f"after line {splitter.line - 1:,}"
            raise OSError(EIO, f"not a whole gzip file: {error} ({after})", path) from error
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        yield from splitter.rest()
        bars.update(bar, completed=size)


def lines_of(paths: Sequence[str], bars: Progress, most_bytes: int) -> Iterator[bytes]:
    """All lines of all files that are not empty, but for those that are too long."""
    for part in read_lines(paths, bars, most_bytes):
        for line in part.split():
            if line and not line.isspace():
                yield line


def place(file: int, line: int) -> int:
    """The place of a line, counted from 1, in the file of an index."""
    return file << _LINE_BITS | line


def file_and_line(of_place: int) -> tuple[int, int]:
    """The index of the file, and the line in it, counted from 1."""
    return of_place >> _LINE_BITS, of_place & ((1 << _LINE_BITS) - 1)


def _blocks(file: BufferedReader, path: str, bars: Progress, bar: TaskID) -> Iterator[bytes]:
    """The text of a file that is gzipped, by its name or its first bytes, or is not."""
    is_gzip = path.endswith(".gz") or file.peek(len(GZIP_START)).startswith(GZIP_START)
    # One read of a pipe at a time: between several, an interrupt would wait for more to arrive.
    read = gzip.open(file).read if is_gzip else file.read1
    shown = 0
    while block := read(BLOCK_BYTES):
        yield block
        if file.seekable() and file.tell() - shown >= SHOWN_EVERY_BYTES:
            shown = file.tell()
            bars.update(bar, completed=shown)


class _Splitter:
    """Splits the blocks of one file into lines."""

    def __init__(self, file: int, most_bytes: int) -> None:
        self._file, self._most_bytes = file, most_bytes
        self.line = 1
        """The line that the next block begins in."""
        self._begun = b""
        """What is known of that line, and kept of it."""
        self._dropped = 0
        """Bytes of that line that were not kept."""
        self._is_start = True

    def split(self, block: bytes) -> Iterator[Lines]:
        """Yield the lines that end in the next block."""
        if self._is_start:
            self._is_start, block = False, without_mark(block)
        end = block.find(b"\n") if self._dropped else -1
        if end >= 0:
            yield self._too_long(self._begun + block[:end])
            self._begun, block = b"", block[end + 1 :]
        end = block.rfind(b"\n")
        if end >= 0:
            yield self._lines(b"".join((self._begun, memoryview(block)[:end])))
            self._begun = b""
        self._begun += block[end + 1 :]
        if len(self._begun) > self._most_bytes:
            self._dropped += len(self._begun)
            self._begun = b""

    def rest(self) -> Iterator[Lines]:
        """Yield the last line, where nothing ends it."""
        if self._dropped:
            yield self._too_long(self._begun)
        elif self._begun:
            yield self._lines(self._begun)

    def _lines(self, text: bytes) -> Lines:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_END)
        found = Lines(place(self._file, self.line), text, ends)
        self.line += len(found)
        return found

    def _too_long(self, last: bytes) -> Lines:
        found = Lines(place(self._file, self.line), b"", NO_ENDS, self._dropped + len(last))
        self.line, self._dropped = self.line + 1, 0
        return found
