"""Tables of queries as a lane stores them: encoding, keys, and what a commit writes of them. Pure.

    queries:START:part:N   the tables of the open hour that begins at START (ms): the first part has
                           all of them, each later one the rows that a commit changed
    queries:START          the tables of an hour that is over: written once, read on demand

Rows in parts are absolute: a later one replaces an earlier one. A cut, or as many rows in parts as
the tables have, writes the tables anew and unlinks the parts before. Readers do not follow these
keys: the head lists them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from ..lane.columns.texts import cut, joined
from ..lane.lane import Lane
from ..lane.queries import BY, WHOLE, ZERO, LaneQueries, Tables, new_tables
from ..plan import Plan
from ..queries.keys import UNICODE_VERSION, fingerprint
from ..queries.table import Table
from ..queries.users import ENOUGH, Users
from .packing import pack, pack_integers, unpack, unpack_integers

PREFIX: Final = "queries:"
_PART: Final = ":part:"
_ENOUGH_HASHES: Final = -1
"""In the place of how many hashes a row has, where it has enough users."""
KINDS: Final = (WHOLE, BY, ZERO)


class StoredTable(msgspec.Struct, array_like=True, frozen=True):
    """Rows of a table, n of them, and what is not listed. Integers are packed."""

    keys: bytes
    key_lengths: bytes
    sums: bytes
    """Column by column."""
    missing: bytes
    users: bytes
    """How many hashes of users each row has; _ENOUGH_HASHES where it has enough users."""
    hashes: bytes
    """Of 4 bytes each."""
    other: bytes
    bound: int


class StoredHour(msgspec.Struct, array_like=True, frozen=True):
    """Tables of an hour: all of their rows, or, in a later part, those that changed."""

    columns: tuple[str, ...]
    """Of the metrics, as `Plan.column_ids`."""
    min_users: int
    """Under which the users of the rows were counted."""
    is_whole: bool
    tables: dict[str, StoredTable]


class QueryHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of its tables of queries."""

    since_ms: int | None = None
    """The first hour that has tables; None: all have."""
    hour_ms: int | None = None
    """The open hour, if a pane of it has settled."""
    parts: tuple[int, ...] = ()
    part_rows: int = 0
    hours: dict[int, int] = {}
    """Start of an hour that is over and has a page → its bytes."""
    lost: tuple[int, ...] = ()
    """Starts of hours whose page the store lost."""
    key: str = ""
    """Fingerprint of the secret key of hashed texts."""
    unicode: str = ""
    """The version of Unicode that decides which texts are one query, of the last writer."""
    closed_ms: int | None = None
    """Start of the last hour with searches that is over."""
    last_counts: tuple[int, int] = (0, 0)
    """Impressions of that hour whose queries are not listed, and all of them."""

    @property
    def part_keys(self) -> list[str]:
        """The keys of the parts of the open hour, in order."""
        return [part_key(self.hour_ms or 0, number) for number in self.parts]

    @property
    def hour_keys(self) -> list[str]:
        """The keys of the hours that are over."""
        return [hour_key(start) for start in self.hours]


def hour_key(start: int) -> str:
    """Return the key of an hour that is over."""
    return f"{PREFIX}{start}"


def part_key(start: int, number: int) -> str:
    """Return the key of a part of the open hour."""
    return f"{PREFIX}{start}{_PART}{number}"


def hour_of(key: str) -> int | None:
    """Return the start of the hour whose page has this key; None for other keys."""
    if not key.startswith(PREFIX) or _PART in key:
        return None
    return int(key.removeprefix(PREFIX))


def packed_hour(tables: Tables, plan: Plan, *, only_changed: bool = False) -> bytes:
    """Return tables, or only their rows that changed, as they are stored."""
    assert plan.queries is not None
    stored = {kind: _stored(table, only_changed) for kind, table in tables.items()}
    whole = not only_changed
    return pack(StoredHour(plan.column_ids, plan.queries.min_users, whole, stored))


def _stored(table: Table, only_changed: bool) -> StoredTable:
    rows = sorted(table.changed) if only_changed else list(range(len(table)))
    keys, lengths = joined([table.keys[row].encode(errors="surrogatepass") for row in rows])
    users = [table.users[row] for row in rows]
    counts = [_ENOUGH_HASHES if found is ENOUGH else len(found) for found in users]
    hashes = [one for found in users if found is not ENOUGH for one in sorted(found)]
    return StoredTable(
        keys=keys,
        key_lengths=pack_integers(lengths),
        sums=pack_integers(table.sums[rows].T),
        missing=pack_integers(table.missing[rows]),
        users=pack_integers(np.array(counts, np.int64)),
        hashes=np.array(hashes, "<u4").tobytes(),
        other=pack_integers(table.other),
        bound=table.bound,
    )


def unpacked_hour(data: bytes) -> StoredHour:
    """Return the hour that was packed. Raises ValueError and PackingError for other bytes."""
    return unpack(data, StoredHour)


@dataclass(frozen=True)
class StoredRows:
    """The rows of a stored table, (n,) of each."""

    keys: Sequence[str]
    sums: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
    """(n, columns)."""
    missing: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
    users: Sequence[Users]
    other: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
    bound: int


def rows_of(stored: StoredTable) -> StoredRows:
    """Return the rows of a stored table."""
    lengths, counts = unpack_integers(stored.key_lengths), unpack_integers(stored.users)
    hashes, users = iter(np.frombuffer(stored.hashes, "<u4").tolist()), list[Users]()
    for count in counts.tolist():
        is_enough = count == _ENOUGH_HASHES
        users.append(ENOUGH if is_enough else frozenset(next(hashes) for _ in range(count)))
    other = unpack_integers(stored.other)
    return StoredRows(
        keys=[text.decode(errors="surrogatepass") for text in cut(stored.keys, lengths)],
        sums=unpack_integers(stored.sums).reshape(len(other), -1).T,
        missing=unpack_integers(stored.missing),
        users=users,
        other=other,
        bound=stored.bound,
    )


def table_of(parts: Sequence[StoredTable], min_users: int) -> Table:
    """Return a table that was stored in these parts, as a reader needs it: it settles nothing."""
    table = Table(len(unpack_integers(parts[0].other)), 1, min_users)
    for part in parts:
        _put(table, part)
    return table


def put_part(tables: Tables, part: StoredHour) -> None:
    """Replace rows of tables by those of a part, as its writer did."""
    for kind, stored in part.tables.items():
        _put(tables[kind], stored)


def _put(table: Table, stored: StoredTable) -> None:
    rows = rows_of(stored)
    for index, key in enumerate(rows.keys):
        row = table.row_of(key)
        if row is None:
            row = table.put(key, int(rows.missing[index]))
        table.users[row] = rows.users[index]
        table.sums[row] = rows.sums[index]
    table.other, table.bound = rows.other, rows.bound


def restored(lane: Lane, head: QueryHead, blobs: Mapping[str, bytes | None]) -> None:
    """Give a lane its tables as its last commit left them. Raises KeyError where a part is
    missing."""
    queries = lane.queries
    assert queries is not None
    queries.since_ms, queries.hour_ms = head.since_ms, head.hour_ms
    queries.parts, queries.part_rows = list(head.parts), head.part_rows
    queries.stored, queries.lost = dict(head.hours), set(head.lost)
    queries.closed_ms, queries.last_counts = head.closed_ms, head.last_counts
    queries.unicode = head.unicode
    for key in head.part_keys:
        data = blobs.get(key)
        if data is None:
            raise KeyError(key)
        part = unpacked_hour(data)
        if part.is_whole:
            queries.tables = new_tables(lane.plan)
        put_part(queries.tables, part)
    for table in queries.tables.values():
        table.written()


@dataclass(frozen=True)
class QueryWrites:
    """What a commit writes of tables of queries."""

    head: QueryHead
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    unlinked: Sequence[str] = ()


def writes_of(lane: Lane, number: int) -> QueryWrites | None:
    """Return what the commit of this number must write; None where the lane keeps no queries."""
    queries = lane.queries
    if queries is None:
        return None
    closed = {
        start: packed_hour(tables, lane.plan)
        for start, tables in sorted(queries.closed.items())
        if any(len(table) or table.other.any() for table in tables.values())
    }
    blobs = {hour_key(start): data for start, data in closed.items()}
    unlinked = [part_key(start, part) for start, part in queries.closed_parts]
    unlinked += [hour_key(start) for start in queries.dropped]
    parts, rows = list(queries.parts), queries.part_rows
    if queries.hour_ms is not None and _is_changed(queries):
        rows += sum(len(table.changed) for table in queries.tables.values())
        whole = not parts or _must_be_whole(queries, rows)
        key = part_key(queries.hour_ms, number)
        blobs[key] = packed_hour(queries.tables, lane.plan, only_changed=not whole)
        if whole:
            unlinked += [part_key(queries.hour_ms, part) for part in parts if part != number]
            parts, rows = [], 0
        parts.append(number)
    head = QueryHead(
        since_ms=queries.since_ms,
        hour_ms=queries.hour_ms,
        parts=tuple(parts),
        part_rows=rows,
        hours={**queries.stored, **{start: len(data) for start, data in closed.items()}},
        lost=tuple(sorted(queries.lost)),
        key=fingerprint(queries.plan.key),
        unicode=UNICODE_VERSION,
        closed_ms=queries.closed_ms,
        last_counts=queries.last_counts,
    )
    return QueryWrites(head, blobs, unlinked)


def _is_changed(queries: LaneQueries) -> bool:
    tables = queries.tables.values()
    return queries.is_outdated or any(table.changed or table.is_cut for table in tables)


def _must_be_whole(queries: LaneQueries, rows: int) -> bool:
    tables = queries.tables.values()
    return (
        queries.is_outdated
        or any(table.is_cut for table in tables)
        or rows >= sum(len(table) for table in tables)
    )


def confirmed(lane: Lane, head: QueryHead) -> None:
    """Note that the store has what the head says."""
    queries = lane.queries
    assert queries is not None
    queries.parts, queries.part_rows = list(head.parts), head.part_rows
    queries.stored = dict(head.hours)
