"""What the HTTP server hands out: made off the event loop, swapped as one value, never changed.

Pure. The page of metrics has two parts: the snapshot's, made and compressed once per snapshot, and
the process's own, made at each scrape. Both are one gzip stream: the first part's compressed blocks
are kept and the second's put behind.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import msgspec

from .chunks import Chunks
from .exposition import Exposition
from .pane_reader import Reading
from .scores import Report

_GZIP_LEVEL: Final = 1
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_RAW_DEFLATE: Final = -zlib.MAX_WBITS


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that must hold for the process to be of use; `detail` says what is wrong."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class MetricsText:
    """The beginning of a page, plain and as deflated blocks that more may follow."""

    plain: Chunks = ()
    deflated: bytes = b""
    crc: int = 0

    def with_rest(self, rest: bytes) -> tuple[bytes, ...]:
        """The parts of the whole page."""
        return (*self.plain, rest)

    def with_rest_gzipped(self, rest: bytes) -> tuple[bytes, ...]:
        """The parts of the whole page as one gzip stream."""
        compressor = _compressor()
        end = compressor.compress(rest) + compressor.flush(zlib.Z_FINISH)
        size = (sum(map(len, self.plain)) + len(rest)) & 0xFFFFFFFF
        trailer = struct.pack("<II", zlib.crc32(rest, self.crc), size)
        return (_GZIP_HEADER, self.deflated, end + trailer)


@dataclass(frozen=True)
class Published:
    """Everything that requests are answered from.

    Before the first snapshot, and in a process that serves none, the pages are empty, `report`
    and `reading` None.
    """

    conditions: tuple[Condition, ...] = (Condition("started", False, "the process is starting"),)
    text: MetricsText = MetricsText()
    openmetrics: MetricsText = MetricsText()
    report: Report | None = None
    reading: Reading | None = None
    """What the questions are answered from; there exactly where `report` is."""

    @property
    def ready(self) -> bool:
        """True where every condition holds."""
        return all(condition.ok for condition in self.conditions)


def publish(
    exposition: Exposition, report: Report, reading: Reading, conditions: Sequence[Condition]
) -> Published:
    """Compress a snapshot's texts. Takes long: meant for a thread."""
    return Published(
        conditions=tuple(conditions),
        text=metrics_text(exposition.text),
        openmetrics=metrics_text(exposition.openmetrics),
        report=report,
        reading=reading,
    )


def metrics_text(plain: Chunks) -> MetricsText:
    """The beginning of a page, compressed so that more can follow."""
    compressor = _compressor()
    deflated = [compressor.compress(piece) for piece in plain]
    deflated.append(compressor.flush(zlib.Z_SYNC_FLUSH))
    return MetricsText(plain, b"".join(deflated), reduce(_checked, plain, 0))


def _checked(crc: int, piece: bytes) -> int:
    return zlib.crc32(piece, crc)


def _compressor() -> "zlib._Compress":
    return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
