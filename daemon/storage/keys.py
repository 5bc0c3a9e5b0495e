"""The names of a lane's keys. Pure.

Keys of a lane, after its prefix:

    head            hash: token, sequence, offsets, watermarks, counts, idle mark, start, state,
                    logs (see `head`), stall (see `head`), queries (see `queries`),
                    judged and judgements (see `row_pages`); how many keys `changes` and how many
                    fields `names` must have; `since` where it began anew after a loss; and
                    `unswept` while keys of an earlier lane of this number may be left
    names           hash: segment id → [grouping id, segment]
    open:N          a block of open state (see `open_blocks`)
    rows:W:START:P  page P of the rows of the pane that begins at START (ms) of the window of W
                    seconds
    totals:P        page P of the cumulative totals
    layouts         which columns rows have, and since when (see `layouts`)
    experiment:H    an experiment, parts of its users, and its ended days (see `experiments`)
    hours:START:P   page P of the rows of an hour that has settled, or is about to
    judged:W:START:P, judged:hours:START:P
                    the same pages of judged rows
    queries:START   the tables of queries of an hour that is over; queries:START:part:N, of the
                    hour that is open (see `queries`)
    examples:START  examples of queries of an hour that is over (see `row_pages`)
    admitted        values of each grouping that were admitted, per topic
    changes         sorted set: every key of the lane's state; its score is the sequence that wrote
                    it last if readers follow it (rows, totals, hours, judged rows, experiments,
                    layouts), else 0; and, where the server has published a part of a commit, the
                    mark of that commit, which is no key: it makes the lane damaged (see commit.lua)

Values as bytes: integers, pages of rows and msgspec values, compressed.

Integers are stored by byte position (all lowest bytes, then all second ones, …) before they are
compressed: counters are small and times differ in their low bytes, so most of these runs are
zeros or repeat, which zstd packs at its fastest level. Change nothing here without a new version of
the schema (see `hashed_names`): what is stored must be read back.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..lane import PAGE_ROWS, Rows
from ..panes import PaneKey
from ..plan import BY_FEEDBACK, BY_JUDGEMENTS
from ..timing import Timing

ADMITTED_KEY: Final = "admitted"
EXPERIMENTS_PREFIX: Final = "experiment:"
USERS_MARK: Final = ":users:"
DAY_MARK: Final = ":day:"


@dataclass(frozen=True)
class RowKeys:
    """The names of the keys of the pages of a row set."""

    panes: str
    """Prefix of those of panes; it may be one of `hours`, too."""
    hours: str
    """Prefix of those of hours."""
    field: str = ""
    """Field of the head of a lane with what it says of these rows, where its plan may leave them
    out."""

    def pane(self, timing: Timing, key: PaneKey, page: int) -> str:
        """Return the key of a page of the rows of a pane."""
        window, start = key
        return f"{self.panes}{timing.windows[window].length_ms // 1000}:{start}:{page}"

    def hour(self, start: int, page: int) -> str:
        """Return the key of a page of the rows of an hour that begins at `start`, in ms."""
        return f"{self.hours}{start}:{page}"

    def of_hour(self, key: str) -> tuple[int, int] | None:
        """Return (start of the hour in ms, page); None for other keys."""
        if not key.startswith(self.hours):
            return None
        start, page = key.removeprefix(self.hours).split(":")
        return int(start), int(page)

    def of_pane(self, timing: Timing, key: str) -> tuple[PaneKey, int] | None:
        """Return (pane, page); None for other keys, and where there is no such window."""
        if not key.startswith(self.panes) or key.startswith(self.hours):
            return None
        length_s, start, page = map(int, key.removeprefix(self.panes).split(":"))
        window = timing.index_by_length_ms.get(length_s * 1000)
        return None if window is None else ((window, start), page)

    def own(self, key: str) -> bool:
        """Whether a key is one of these."""
        return key.startswith((self.panes, self.hours))


CLICKS: Final = RowKeys("rows:", "hours:")
JUDGED: Final = RowKeys("judged:", "judged:hours:", "judged")
ROW_KEYS: Final[Mapping[str, RowKeys]] = {BY_FEEDBACK: CLICKS, BY_JUDGEMENTS: JUDGED}
"""Of every row set, by the name of its measure, as `Lane.row_sets`."""
OPTIONAL_KEYS: Final = {measure: keys for measure, keys in ROW_KEYS.items() if keys.field}
"""Of those that a plan may leave out, as `Lane.optional_rows`."""


def totals_key(page: int) -> str:
    """Return the key of a page of totals."""
    return f"totals:{page}"


def totals_page_of(key: str) -> int | None:
    """Return the page of the key of a page of totals; None for other keys."""
    return int(key.removeprefix("totals:")) if key.startswith("totals:") else None


def block_key(number: int) -> str:
    """Return the key of a block of open state."""
    return f"open:{number}"


def experiment_key(name: str) -> str:
    """Return the key of an experiment's header. Names are hashed: they may contain any text."""
    return (
        EXPERIMENTS_PREFIX + blake2b(name.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    )


def experiment_users_key(name: str, page: int) -> str:
    """Return the key of one part of its users."""
    return f"{experiment_key(name)}{USERS_MARK}{page}"


def experiment_day_key(name: str, day_ms: int) -> str:
    """Return the key of an experiment at the end of the UTC day that starts then."""
    return f"{experiment_key(name)}{DAY_MARK}{day_ms}"


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")
PackingError: Final = zstd.ZstdError
"""Raised, beside ValueError, when bytes are unpacked that were not packed here."""

ZSTD_LEVEL: Final = 1
"""Level 3 saves a few per cent of the bytes and costs twice the time."""

_encode = msgspec.msgpack.Encoder().encode
_compressor: Final = zstd.ZstdCompressor(ZSTD_LEVEL)
"""One for all values: a new one for each would take a third of the time again. Each value is a
frame of its own, so nothing is shared between them but the memory."""


def _compressed(data: bytes) -> bytes:
    packed: bytes = _compressor.compress(data, _compressor.FLUSH_FRAME)
    return packed


def pack(value: Any) -> bytes:
    """Return any msgspec value as compressed MessagePack."""
    return _compressed(_encode(value))


def unpack(data: bytes, kind: type[T]) -> T:
    """Return the value of this type that was packed. Raises msgspec.DecodeError, zstd.ZstdError."""
    return msgspec.msgpack.decode(zstd.decompress(data), type=kind)


def pack_integers(values: NDArray[np.int64]) -> bytes:
    """Return integers, (n,) or (rows, columns), as bytes by byte position, lowest first, not yet
    compressed."""
    return np.ascontiguousarray(values, "<i8").reshape(-1).view(np.uint8).reshape(-1, 8).T.tobytes()


def unpack_integers(data: bytes) -> NDArray[np.int64]:
    """Return packed integers as an array, (n,), that may be changed."""
    columns = np.frombuffer(data, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(columns.T).view("<i8").reshape(-1).astype(np.int64, copy=False)


def pack_page(rows: Rows) -> bytes:
    """Return one page of rows, (PAGE_ROWS, columns), compressed. Column by column: the bytes of one
    counter stand together."""
    return _compressed(pack_integers(rows.T))


def unpack_page(data: bytes) -> Rows:
    """Return the page that was packed, (PAGE_ROWS, columns)."""
    return np.ascontiguousarray(unpack_integers(zstd.decompress(data)).reshape(-1, PAGE_ROWS).T)
