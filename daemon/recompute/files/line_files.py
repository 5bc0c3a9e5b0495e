"""Recorded files line by line, and what their lines come to: values of a topic, or records as
`kcat -J` prints them.

However long a file or one of its lines is, no more than a block of it and one line are in memory.
kcat prints a line of JSON for each record, with topic, key, headers and payload. A payload that is
no text stands as base64 in `payload_b64`, a key in `key_b64`.
"""

import base64
import codecs
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EIO
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from rich.progress import Progress, TaskID

from relevanced.metrics import Integers

from ...config import Config
from ...events import Decoded, InvalidField, Rejected, decoded
from ..record_reader import FileRecordReader, file_record_reader


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


NO_STAMP: Final = -1
TEXT_BYTES: Final = 6
"""A byte of a record takes at most so many in a line: as an escape."""
LINE_BYTES: Final = 1 << 20
"""So many more are allowed for what stands around it."""


class RecordedRecord(msgspec.Struct, frozen=True, gc=False):
    """A recorded record of a log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class _Line(msgspec.Struct):
    topic: str
    partition: int = 0
    offset: int = 0
    ts: int | None = None
    key: str | None = None
    key_b64: str | None = None
    payload: str | None = None
    payload_b64: str | None = None
    headers: list[str | None] | None = None


_LINE: Final = msgspec.json.Decoder(_Line)


def record_of(line: bytes) -> RecordedRecord:
    """Return the record of a line. Raises InvalidField."""
    read = decoded("line of kcat -J", line, _LINE, "wrong_type")
    return RecordedRecord(
        read.topic,
        read.partition,
        read.offset,
        NO_STAMP if read.ts is None else read.ts,
        _bytes(read.key, read.key_b64, "key_b64"),
        _bytes(read.payload, read.payload_b64, "payload_b64"),
        _headers(read.headers),
    )


def _bytes(text: str | None, encoded: str | None, name: str) -> bytes | None:
    if encoded is None:
        return None if text is None else text.encode()
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise InvalidField("wrong_type", f"{name}: must be base64: {error}") from error


def _headers(listed: list[str | None] | None) -> tuple[tuple[str, bytes], ...]:
    """The headers, which kcat prints as names and values in turn."""
    pairs: Any = zip((listed or [])[::2], (listed or [])[1::2])
    return tuple((name or "", (value or "").encode()) for name, value in pairs)


class UnknownTopic(ValueError):
    """Files cannot be read, as it is not known of which topic they are: what to do, for people."""


class LineDecoder(Protocol):
    """Reads one line."""

    def __call__(self, line: bytes) -> Sequence[Decoded]: ...  # noqa: D102
    def asked(self, line: bytes) -> Counter[str]: ...  # noqa: D102


@dataclass(frozen=True)
class ValueLines:
    """Lines that are the values of one topic."""

    reader: FileRecordReader
    topic: str

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of a line."""
        return self.reader.events(self._record(line))

    def asked(self, line: bytes) -> Counter[str]:
        """What tables were asked with that do not map the line."""
        return self.reader.asked(self._record(line))

    def _record(self, line: bytes) -> RecordedRecord:
        return RecordedRecord(self.topic, 0, 0, NO_STAMP, None, line, ())


@dataclass(frozen=True)
class KcatLines:
    """Lines as `kcat -J` prints them."""

    reader: FileRecordReader

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of the record of a line."""
        try:
            record = record_of(line)
        except InvalidField as error:
            return [Rejected(error.reason, error.detail)]
        return self.reader.events(record)

    def asked(self, line: bytes) -> Counter[str]:
        """What tables were asked with that do not map the record of a line."""
        return self.reader.asked(record_of(line))


@contextmanager
def line_decoder(config: Config, *, kcat: bool, topic: str | None) -> Iterator[LineDecoder]:
    """What reads lines: values of `topic`, or records as of `kcat -J`. Raises UnknownTopic where
    there are several sources, and no topic is named, and StartError; reading raises Unavailable
    where a schema is needed and the registry does not answer."""
    with file_record_reader(config) as reader:
        if kcat:
            yield KcatLines(reader)
        else:
            yield ValueLines(reader, _topic_of(config, topic))


def _topic_of(config: Config, topic: str | None) -> str:
    topics = config.kafka.topics if config.sources else config.kafka.topics[:1]
    if topic is None and len(topics) > 1:
        listed = ", ".join(topics)
        raise UnknownTopic(
            f"sources: of which topic are the files? Name it with --topic ({listed}), or record"
            " them with kcat -J, and say --kcat"
        )
    if topic is not None and config.sources and topic not in topics:
        raise UnknownTopic(f"--topic {topic}: must be one of sources.topic ({', '.join(topics)})")
    return topic or topics[0]


def most_line_bytes(config: Config, *, kcat: bool) -> int:
    """The longest line that is read."""
    most = config.events.max_record_bytes
    return TEXT_BYTES * most + LINE_BYTES if kcat else most
