"""Tables of queries as a lane stores them: encoding, keys, and what a commit writes of them.
Pure.

    queries:START:part:N   the tables of the open hour that begins at START (ms): the first part has
                           all of them, each later one the rows that a commit changed
    queries:START          the tables of an hour that is over: written once, read on demand

Rows in parts are absolute: a later one replaces an earlier one. A cut, or as many rows in parts as
the tables have, writes the tables anew and unlinks the parts before. Readers do not follow these
keys: the head lists them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from msgspec.structs import astuple

from relevanced.metrics import Integers

from ..lane import WHOLE, Lane, LaneQueries, Tables, cut, joined_texts, new_tables
from ..plan import Plan
from ..queries import UNICODE_VERSION, QueryTable, secret_fingerprint
from . import row_pages
from .head import QueryHead, part_key, queries_hour_key
from .keys import pack, pack_integers, unpack, unpack_integers
from .row_pages import StoredExamples


class StoredTable(msgspec.Struct, array_like=True, frozen=True):
    """Rows of a table, n of them, and what is not listed. Integers are packed."""

    keys: bytes
    key_lengths: bytes
    sums: bytes
    """Column by column."""
    missing: bytes
    users: bytes
    """How many hashes of users each row has; `ENOUGH_HASHES` where it has enough users."""
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
    examples: StoredExamples = ()
    """Of all rows, or of those whose examples changed. Pages of hours that are over have none."""


def packed_hour(
    tables: Tables, plan: Plan, *, only_changed: bool = False, examples: StoredExamples = ()
) -> bytes:
    """Return tables, or only their rows that changed, as they are stored, with these examples."""
    assert plan.queries is not None
    stored = {kind: _stored(table, only_changed) for kind, table in tables.items()}
    hour = StoredHour(plan.column_ids, plan.queries.min_users, not only_changed, stored, examples)
    return pack(hour if examples else astuple(hour)[:-1])


def _stored(table: QueryTable, only_changed: bool) -> StoredTable:
    rows = np.array(sorted(table.changed), np.int64) if only_changed else np.arange(len(table))
    keys, lengths = joined_texts([table.keys[row] for row in rows.tolist()])
    counts, hashes = table.users.packed(rows)
    return StoredTable(
        keys=keys,
        key_lengths=pack_integers(lengths),
        sums=pack_integers(table.sums.take(rows, axis=0).T),
        missing=pack_integers(table.missing[rows]),
        users=pack_integers(counts),
        hashes=hashes.astype("<u4").tobytes(),
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
    sums: Integers
    """(n, columns)."""
    missing: Integers
    users: tuple[Integers, Integers]
    """How many hashes each has, and all hashes, as `RowUsers.packed` returns them."""
    other: Integers
    bound: int


def rows_of(stored: StoredTable) -> StoredRows:
    """Return the rows of a stored table."""
    lengths, other = unpack_integers(stored.key_lengths), unpack_integers(stored.other)
    return StoredRows(
        keys=[text.decode(errors="surrogatepass") for text in cut(stored.keys, lengths)],
        sums=unpack_integers(stored.sums).reshape(len(other), -1).T,
        missing=unpack_integers(stored.missing),
        users=(
            unpack_integers(stored.users),
            np.frombuffer(stored.hashes, "<u4").astype(np.int64),
        ),
        other=other,
        bound=stored.bound,
    )


def table_of(parts: Sequence[StoredTable], min_users: int) -> QueryTable:
    """Return a table that was stored in these parts, as a reader needs it: it settles nothing."""
    table = QueryTable(len(unpack_integers(parts[0].other)), 1, min_users)
    for part in parts:
        _put(table, part)
    return table


def put_part(tables: Tables, part: StoredHour) -> None:
    """Replace rows of tables by those of a part, as its writer did. Tables of kinds that are not
    among them are passed over: they were stored under another layout."""
    for kind, stored in part.tables.items():
        if kind in tables:
            _put(tables[kind], stored)


def _put(table: QueryTable, stored: StoredTable) -> None:
    found = rows_of(stored)
    rows = table.rows_of(found.keys, found.missing)
    table.users.put(rows, *found.users)
    table.sums[rows] = found.sums
    table.other, table.bound = found.other, found.bound


def restored(lane: Lane, head: QueryHead, blobs: Mapping[str, bytes | None]) -> None:
    """Give a lane its tables as its last commit left them. Raises KeyError where a part is
    missing."""
    queries = lane.queries
    assert queries is not None
    queries.since_ms, queries.hour_ms = head.since_ms, head.hour_ms
    queries.parts, queries.part_rows = list(head.parts), head.part_rows
    queries.stored, queries.lost = dict(head.hours), set(head.lost)
    queries.closed_ms, queries.last_counts = head.closed_ms, head.last_counts
    queries.unicode, queries.missing_since_ms = head.unicode, head.missing_since_ms
    queries.kept_from_ms = head.kept_from_ms
    examples: list[StoredExamples] = []
    for key in head.part_keys:
        data = blobs.get(key)
        if data is None:
            raise KeyError(key)
        part = unpacked_hour(data)
        if part.is_whole:
            tables = new_tables(lane.plan).items()  # MISSING may begin with a later hour
            queries.tables = {kind: table for kind, table in tables if kind in part.tables}
            examples = []
        put_part(queries.tables, part)
        examples.append(part.examples)
    row_pages.restored(lane, head.examples, head.lost_examples, examples)
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
    examples = row_pages.closed_hours(lane)
    blobs = {queries_hour_key(start): data for start, data in closed.items()}
    blobs |= {row_pages.examples_hour_key(start): data for start, data in examples.items()}
    unlinked = [part_key(start, part) for start, part in queries.closed_parts]
    unlinked += [queries_hour_key(start) for start in queries.dropped]
    unlinked += [row_pages.examples_hour_key(start) for start in queries.examples.dropped]
    parts, rows = list(queries.parts), queries.part_rows
    if queries.hour_ms is not None and _is_changed(queries):
        rows += sum(len(table.changed) for table in queries.tables.values())
        whole = not parts or _must_be_whole(queries, rows)
        key = part_key(queries.hour_ms, number)
        blobs[key] = _packed_open(lane, whole)
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
        key=secret_fingerprint(queries.plan.key),
        unicode=UNICODE_VERSION,
        closed_ms=queries.closed_ms,
        last_counts=queries.last_counts,
        examples={**queries.examples.stored, **{s: len(data) for s, data in examples.items()}},
        lost_examples=tuple(sorted(queries.examples.lost)),
        missing_since_ms=queries.missing_since_ms,
        kept_from_ms=queries.kept_from_ms,
    )
    return QueryWrites(head, blobs, unlinked)


def _packed_open(lane: Lane, whole: bool) -> bytes:
    queries = lane.queries
    assert queries is not None
    table, changed = queries.tables[WHOLE], queries.examples.changed
    keys = table.keys if whole else sorted(changed, key=lambda key: table.row_of(key) or 0)
    examples = row_pages.stored(queries.examples.by_key, keys)
    return packed_hour(queries.tables, lane.plan, only_changed=not whole, examples=examples)


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
    queries.stored, queries.examples.stored = dict(head.hours), dict(head.examples)
