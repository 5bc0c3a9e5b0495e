"""The answers about queries: a list of those of a window, and one query by hour. Pure.

The items that were shown most for judged queries and are not judged: the list to hand to raters.

It says no more of who searched than lists of queries do: a pair of a query and an item is shown
from `queries.min_users` users on, and hashed queries stay hashes.
"""

import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import msgspec
import numpy as np

from relevanced.metrics import Integers

from ...events import timestamp_text
from ...lane import MISSING
from ...plan import Plan
from ...queries import (
    HASHED,
    NO_QUERY,
    OFF,
    Losses,
    MergedTables,
    Searches,
    days_to_keep,
    first_examples,
    hashed_keys,
    is_hash,
    key_of,
    merge_tables,
    share_carried,
    without_segment,
)
from ...views import NOW, WINDOWS, QueryWindow, columns_of
from .parameters import BadRequest, Query
from .query_answers import (
    Queries,
    QueryDetail,
    QueryExample,
    QueryHour,
    QueryRow,
    QuerySums,
    UnlistedSums,
)
from .query_lists import (
    GAINED,
    IMPRESSIONS,
    LOST,
    ORDERS,
    WITH_FEEDBACK,
    ZERO_ORDER,
    ZERO_RESULTS,
    Found,
    Line,
    QueryTables,
    in_order,
)

ALLOWED_ORDERS: Final = (*ORDERS, ZERO_ORDER)
MOST_ROWS: Final = 1_000
_LOSSES: Final = ("lost", "lost_stderr", "lost_at_least", "gained_at_least", "sure")
WITHOUT_QUERY: Final = "(no query)"
RARE: Final = "(rare)"
UNLISTED: Final = "(other)"
"""In the place of a query: searches without one, those for queries of too few users, and all that
is not listed. They are the last rows of a table."""
CARRIED_BY: Final = 10
"""It is said which part of a change the first so many queries carry."""
QUERIES_PATH: Final = "/api/v1/queries"
DETAIL_PATH: Final = f"{QUERIES_PATH}/detail"


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on, and the hours it is of."""

    from_ms: int
    until_ms: int
    skipped: int


def cursor_of(text: str, hour_ms: int) -> Cursor:
    """The cursor of a text. Raises BadRequest."""
    try:
        cursor = msgspec.json.decode(urlsafe_b64decode(text.encode()), type=Cursor)
    except (ValueError, msgspec.DecodeError):
        raise BadRequest(400, "cursor: must be `next` of an answer") from None
    hours = (cursor.until_ms - cursor.from_ms) // hour_ms
    if not 0 < hours <= max(WINDOWS.values()) or cursor.from_ms % hour_ms or cursor.skipped < 0:
        raise BadRequest(400, "cursor: must be `next` of an answer")
    return cursor


def skipped_of(cursor: Cursor, window: QueryWindow) -> int:
    """How many rows of the list stand before the cursor. Raises BadRequest where the list has
    changed since: the ranks of its rows are others without hours that were dropped."""
    if cursor.skipped and window.from_ms > cursor.from_ms:
        until = timestamp_text(window.from_ms)
        rule = f"its hours before {until} are no longer known: begin the list again, without cursor"
        raise BadRequest(400, f"cursor: {rule}")
    return cursor.skipped


@dataclass(frozen=True)
class QueryRequest:
    """What a request asks of the tables of queries."""

    window: str
    metric: str
    order: str
    segment: str | None
    cursor: Cursor | None


def asked(plan: Plan, query: Query) -> QueryRequest:
    """What the parameters ask for. Raises BadRequest for a list that there cannot be, with the
    setting to change."""
    given = {name: values[0] for name, values in query.items()}
    window, segment, cursor = given["window"], given.get("segment"), given.get("cursor")
    metric, order = given.get("metric", plan.metrics[0].name), given.get("order", "impressions")
    queries = plan.queries
    if queries is None:
        raise BadRequest(404, 'no queries are kept: set queries.text = "plain", or "hashed"')
    if segment is not None and queries.by is None:
        raise BadRequest(400, f"segment={segment}: set queries.by to the grouping that it is of")
    if order in (LOST, GAINED):
        of_metric = next(one for one in plan.metrics if one.name == metric)
        if of_metric.entry.range != (0.0, 1.0):
            raise BadRequest(
                400, f"order={order}: {metric} is not within 0 to 1: choose another one"
            )
        needed = days_to_keep(WINDOWS[window])
        if window != NOW and queries.days < needed:
            rule = f"set queries.days to {needed} or more (it is {queries.days})"
            raise BadRequest(400, f"window={window}: for what is usual in it, {rule}")
    hours = None if cursor is None else cursor_of(cursor, plan.hour_ms)
    return QueryRequest(window, metric, order, segment, hours)


def queries(found: Found, order: str, limit: int, skipped: int = 0) -> Queries:
    """The list of the queries of a window. Raises Damaged."""
    lines, merged, window = in_order(found, order), found.merged, found.window
    shown = lines[skipped : skipped + limit]
    last = skipped + len(shown)
    whole = found.segment is None
    none = [n for n, key in enumerate(merged.keys) if key == NO_QUERY]
    return Queries(
        from_=timestamp_text(window.from_ms),
        until=timestamp_text(window.until_ms),
        metric=found.metric,
        order=order,
        segment=found.segment,
        hours=len(window.hours),
        lost_hours=len(found.tables.lost.intersection(window.hours)),
        usual_days=len(window.usual),
        min_users=found.min_users,
        listed=len(lines),
        rows=tuple(_row(found, line, order) for line in shown),
        none=_sums(found, merged.sums[none].sum(axis=0)),
        rare=_sums(found, merged.rare),
        other=_unlisted(found, order) if whole else None,
        whole=_sums(found, merged.total) if whole else None,
        unlisted_at_most=merged.bound,
        **_carried(found, lines if order in (LOST, GAINED) else ()),
        next=_next(window, last) if last < len(lines) else None,
        text=OFF if found.plan.queries is None else found.plan.queries.text,
    )


def _next(window: QueryWindow, skipped: int) -> str:
    cursor = Cursor(window.from_ms, window.until_ms, skipped)
    return urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def _carried(found: Found, lines: Sequence[Line]) -> dict[str, float | None]:
    known = found.segment is None or found.lists_all
    carried = None
    if lines and known and found.usual is not None:
        first = [line.index for line in lines[:CARRIED_BY] if line.index is not None]
        listed, rest = found.listed, found.unlisted
        carried = share_carried(listed, rest, found.usual, np.array(first, np.int64))
    if carried is None:
        return dict.fromkeys(("carried", "carried_at_least", "carried_at_most"))
    return {
        "carried": carried.share,
        "carried_at_least": carried.least,
        "carried_at_most": carried.most,
    }


def _row(found: Found, line: Line, order: str) -> QueryRow:
    index = line.index
    if index is None:
        nothing = [None] * 12
        return QueryRow(line.key, line.missing, line.zero_results, *nothing)
    sums, searches = found.merged.sums[index], found.listed
    scored = int(searches.scored[index])
    mean = float(searches.total[index]) / scored if scored else None
    return QueryRow(
        query=line.key,
        missing_at_most=line.missing,
        zero_result_impressions=line.zero_results,
        impressions=int(sums[IMPRESSIONS]),
        impressions_with_feedback=int(sums[WITH_FEEDBACK]),
        scored=scored,
        mean=mean,
        stderr=_stderr(mean, scored) if found.can_lose else None,
        **_against_usual(searches, found.losses, index, order),
    )


def _against_usual(
    searches: Searches, losses: Losses | None, index: int, order: str
) -> dict[str, Any]:
    """What was usual for the searches at an index, and what they lost or gained."""
    usual = int(searches.usual_scored[index])
    known = {
        "usual_scored": usual,
        "usual_mean": float(searches.usual_total[index]) / usual if usual else None,
    }
    if losses is None:
        return known | dict.fromkeys(_LOSSES)
    surely = losses.surely_gained if order == GAINED else losses.surely_lost
    columns = (losses.lost, losses.error, losses.lost_at_least, losses.gained_at_least)
    values = [float(column[index]) for column in columns]
    return known | dict(zip(_LOSSES, (*values, bool(surely[index])), strict=True))


def _unlisted(found: Found, order: str) -> UnlistedSums:
    """What is not listed, as a whole."""
    sums = _sums(found, found.merged.other)
    return UnlistedSums(
        **msgspec.structs.asdict(sums),
        stderr=_stderr(sums.mean, sums.scored) if found.can_lose else None,
        **_against_usual(found.unlisted, found.unlisted_losses, 0, order),
    )


def with_unlisted_rows(found: Queries) -> Queries:
    """The answer as CSV says it: where the list ends, with last rows for searches without a query,
    for rare queries, and for all that tables do not list, which is not known of a segment. All
    rows of a list of all queries add up to the whole."""
    if found.next is not None:
        return found
    parts = {WITHOUT_QUERY: found.none, RARE: found.rare, UNLISTED: found.other}
    rows = (_sums_row(name, sums) for name, sums in parts.items() if sums is not None)
    return msgspec.structs.replace(found, rows=(*found.rows, *rows))


def _sums_row(name: str, sums: QuerySums) -> QueryRow:
    values: dict[str, Any] = dict.fromkeys(QueryRow.__struct_fields__)
    values |= msgspec.structs.asdict(sums) | {"query": name, "missing_at_most": 0}
    return QueryRow(**values)


def _stderr(mean: float | None, scored: int) -> float | None:
    """At most: values within 0 to 1 have no greater variance."""
    return None if mean is None else math.sqrt(max(mean * (1 - mean), 0.0) / scored)


def _sums(found: Found, sums: Integers) -> QuerySums:
    scored = int(found.scored(sums[np.newaxis])[0])
    total = float(found.score_sums(sums[np.newaxis])[0])
    return QuerySums(
        impressions=int(sums[IMPRESSIONS]),
        zero_result_impressions=int(sums[ZERO_RESULTS]),
        impressions_with_feedback=int(sums[WITH_FEEDBACK]),
        scored=scored,
        mean=total / scored if scored else None,
    )


def detail(found: Found, query: str) -> QueryDetail:
    """One query by hour, and its examples. Raises Damaged."""
    listed = found.merged.index()
    key = _stored_key(found.plan, query, listed)
    index = listed.get(key)
    shown = index is not None and bool(found.merged.is_shown[index])
    return QueryDetail(
        query=key,
        metric=found.metric,
        segment=found.segment,
        shown=shown,
        hours=tuple(_hour(found, key, start) for start in found.window.hours) if shown else (),
        examples=examples_of(found, key) if shown else (),
        lost_examples=len(found.tables.lost_examples.intersection(found.window.hours)),
    )


def _stored_key(plan: Plan, query: str, listed: Container[str]) -> str:
    """The key of a text that was asked for. Where hashes are stored, that may be the text of a
    query, or the hash that a list has in its place."""
    key = key_of(query)
    if plan.queries is None or plan.queries.text != HASHED:
        return key
    (hashed,) = hashed_keys([key], plan.queries.key)
    return key if is_hash(key) and hashed not in listed else hashed


def examples_of(found: Found, key: str) -> tuple[QueryExample, ...]:
    """Those of a query that is shown. Examples that were taken under a lower `min_users` are left
    out: the query may have had too few users then."""
    plan = found.plan.queries
    assert plan is not None
    hours = found.tables.examples(found.window.hours)
    known = (
        one for users, by_key in hours if users >= plan.min_users for one in by_key.get(key, ())
    )
    own = (one for one in known if found.segment is None or one.segment == found.segment)
    return tuple(
        QueryExample(
            impression_id=one.impression_id,
            time=timestamp_text(one.time_ms),
            items=one.items,
            gains=one.gains,
            attributes=one.attributes,
        )
        for one in first_examples(own, plan.examples)
    )


def _hour(found: Found, key: str, start: int) -> QueryHour:
    merged = found.of([start])
    index = merged.index().get(key)
    row = np.zeros_like(merged.other) if index is None else merged.sums[index]
    missing = merged.bound if index is None else int(merged.missing[index])
    sums = msgspec.structs.asdict(_sums(found, row))
    return QueryHour(start=timestamp_text(start), missing_at_most=missing, **sums)


MISSING_PATH: Final = "/api/v1/judged/missing"
MOST_PAIRS: Final = 10_000


class UnjudgedItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item that was shown for a judged query and is not judged."""

    query: str
    """Its normalised text, or its hash."""
    docid: str
    """The id of the item."""
    rating: None
    """Always null, an empty field of CSV: for a rater to fill in."""
    impressions: int
    """Searches for the query with the item in the first places of the list."""
    missing_at_most: int
    """So many of them may be missing in `impressions`."""


class UnjudgedItems(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The items of a window that were shown for judged queries and are not judged."""

    from_: str = msgspec.field(name="from")
    """Event time at which its hours begin: those of them in which items were counted."""
    until: str
    """Event time at which they end."""
    hours: int
    """How many hours they are."""
    lost_hours: int
    """Hours of which a part is missing here: Redis lost it, or a partition went quiet."""
    depth: int
    """The first so many places of each list are looked at."""
    min_users: int
    """A row was shown to so many users of one day at least."""
    listed: int
    """Pairs of a query and an item that can be listed; `rows` has the first of them."""
    rows: tuple[UnjudgedItem, ...]
    """By impressions, the most first."""
    rare: int
    """Impressions of all pairs of fewer users. One impression counts for each of its items."""
    other: int
    """Impressions of pairs that the tables do not list."""
    whole: int
    """Impressions of all pairs."""
    unlisted_at_most: int
    """The most impressions of any pair that the tables do not list."""
    text: str
    """How queries are stored: `plain`, or `hashed`, where the rows have hashes."""


def for_raters(found: UnjudgedItems) -> UnjudgedItems:
    """The answer as CSV has it: a file of judgements once its ratings are filled in. Raises
    BadRequest for hashes of queries: a file of those would be read as texts, and hashed again."""
    if found.text == HASHED:
        rule = "only hashes of the queries are stored, and no search has a hash: ask for JSON"
        raise BadRequest(400, f"queries.text = hashed: {rule}")
    return found


def check_missing(plan: Plan) -> None:
    """Raise BadRequest where nothing is counted, with the setting to change."""
    if not plan.missing:
        rule = "set judgements.missing = true, and queries.text to plain or hashed"
        raise BadRequest(404, f"items without a judgement are not counted: {rule}")


def unjudged_items(tables: QueryTables, window: QueryWindow, limit: int) -> UnjudgedItems:
    """The items of a window. Raises Damaged."""
    plan = tables.plan
    assert plan.queries is not None
    pages = tables.pages(MISSING, [*window.hours])
    merged = merge_tables(pages, columns_of(plan, MISSING), plan.queries.min_users)
    rows = _in_order(merged)
    return UnjudgedItems(
        from_=timestamp_text(window.from_ms),
        until=timestamp_text(window.until_ms),
        hours=len(window.hours),
        lost_hours=len(tables.lost.intersection(window.hours)),
        depth=plan.missing_depth,
        min_users=plan.queries.min_users,
        listed=len(rows),
        rows=tuple(_rows(merged, rows[:limit])),
        rare=int(merged.rare[0]),
        other=int(merged.other[0]),
        whole=int(merged.total[0]),
        unlisted_at_most=merged.bound,
        text=plan.queries.text,
    )


def _in_order(merged: MergedTables) -> list[int]:
    """The rows that are shown: those that may have the most impressions first."""
    at_most = merged.sums[:, 0] + merged.missing
    indices = np.flatnonzero(merged.is_shown).tolist()
    texts = {index: merged.keys[index].encode(errors="surrogatepass") for index in indices}
    return sorted(texts, key=lambda n: (-at_most[n], crc32(texts[n]), texts[n]))


def _rows(merged: MergedTables, indices: list[int]) -> Iterator[UnjudgedItem]:
    for index in indices:
        query, item = without_segment(merged.keys[index])
        impressions, missing = int(merged.sums[index, 0]), int(merged.missing[index])
        yield UnjudgedItem(query, item, None, impressions, missing)
