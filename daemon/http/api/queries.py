"""The answers about queries: a list of those of a window, and one query by hour. Pure."""

import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from relevanced.metrics.lists import Integers

from ...events.timestamps import timestamp_text
from ...exporter.query_windows import NOW, WINDOWS, QueryWindow
from ...plan import Plan
from ...queries.decomposition import decompose
from ...queries.keys import NO_QUERY, hashed, key_of
from ...queries.plan import HASHED
from ...queries.usual_hours import days_to_keep
from .parameters import BadRequest, Parameter
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
    in_order,
)

from .query_rows import Queries, QueryDetail, QueryHour, QueryRow, QuerySums

ALLOWED_ORDERS: Final = (*ORDERS, ZERO_ORDER)
MOST_ROWS: Final = 1_000
CARRIED_BY: Final = 10
"""It is said which part of a change the first so many queries carry."""
PARAMETERS: Final = (
    Parameter("window", "Whole hours that have settled; `now`: the open hour.", default="24h"),
    Parameter("metric", "The metric; by default the first one."),
    Parameter("order", "By which the queries are listed.", default="impressions"),
    Parameter("segment", "Only in this segment of the grouping `queries.by`."),
    Parameter("limit", f"At most so many rows, up to {MOST_ROWS:,}.", default="50"),
    Parameter("cursor", "Where the answer before ended: its `next`."),
)
DETAIL_PARAMETERS: Final = (
    Parameter("query", "The text of the query."),
    *(parameter for parameter in PARAMETERS if parameter.name in ("window", "metric", "segment")),
)


PATH: Final = "/api/v1/queries"
DETAIL_PATH: Final = f"{PATH}/detail"
TABLES: Final[Mapping[str, tuple[str, type[msgspec.Struct], tuple[Parameter, ...]]]] = {
    PATH: ("rows", QueryRow, PARAMETERS),
    DETAIL_PATH: ("hours", QueryHour, DETAIL_PARAMETERS),
}
"""Path → (the attribute of the answer that is a table, the type of its rows, parameters)."""


SUMMARIES: Final = {
    PATH: "Queries of a window: by searches, without results, and what lost or gained most.",
    DETAIL_PATH: "One query by hour.",
}


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


def limit_of(text: str) -> int:
    """The most rows of an answer. Raises BadRequest."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) <= MOST_ROWS:
        raise BadRequest(400, f"limit={text}: must be a whole number between 1 and {MOST_ROWS:,}")
    return int(text)


def check(plan: Plan, window: str, metric: str, order: str, segment: str | None) -> None:
    """Raise BadRequest for a list that there cannot be, with the setting to change."""
    queries = plan.queries
    if queries is None:
        raise BadRequest(404, 'no queries are kept: set queries.text = "plain", or "hashed"')
    if segment is not None and queries.by is None:
        raise BadRequest(400, f"segment={segment}: set queries.by to the grouping that it is of")
    if order not in (LOST, GAINED):
        return
    of_metric = next(one for one in plan.metrics if one.name == metric)
    if of_metric.entry.range != (0.0, 1.0):
        raise BadRequest(400, f"order={order}: {metric} is not within 0 to 1: choose another one")
    needed = days_to_keep(WINDOWS[window])
    if window != NOW and queries.days < needed:
        rule = f"set queries.days to {needed} or more (it is {queries.days})"
        raise BadRequest(400, f"window={window}: for what is usual in it, {rule}")


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
        other=_sums(found, merged.other) if whole else None,
        whole=_sums(found, merged.total) if whole else None,
        unlisted_at_most=merged.bound,
        carried=_carried(found, lines) if order in (LOST, GAINED) else None,
        next=_next(window, last) if last < len(lines) else None,
    )


def _next(window: QueryWindow, skipped: int) -> str:
    cursor = Cursor(window.from_ms, window.until_ms, skipped)
    return urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def _carried(found: Found, lines: Sequence[Line]) -> float | None:
    parts = decompose(found.searches)
    first = [line.index for line in lines[:CARRIED_BY] if line.index is not None]
    return None if parts is None else parts.carried_by(np.array(first, np.int64))


def _row(found: Found, line: Line, order: str) -> QueryRow:
    index = line.index
    if index is None:
        nothing = [None] * 12
        return QueryRow(line.key, line.missing, line.zero_results, *nothing)
    sums, searches, losses = found.merged.sums[index], found.listed, found.losses
    scored, usual = int(searches.scored[index]), int(searches.usual_scored[index])
    mean = float(searches.total[index]) / scored if scored else None
    sure = None
    if losses is not None:
        sure = bool((losses.surely_gained if order == GAINED else losses.surely_lost)[index])
    return QueryRow(
        query=line.key,
        missing_at_most=line.missing,
        zero_result_impressions=line.zero_results,
        impressions=int(sums[IMPRESSIONS]),
        impressions_with_feedback=int(sums[WITH_FEEDBACK]),
        scored=scored,
        mean=mean,
        stderr=_stderr(mean, scored) if found.can_lose else None,
        usual_scored=usual,
        usual_mean=float(searches.usual_total[index]) / usual if usual else None,
        lost=None if losses is None else float(losses.lost[index]),
        lost_stderr=None if losses is None else float(losses.error[index]),
        lost_at_least=None if losses is None else float(losses.lost_at_least[index]),
        gained_at_least=None if losses is None else float(losses.gained_at_least[index]),
        sure=sure,
    )


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
    """One query by hour. Raises Damaged."""
    key, plan = key_of(query), found.plan.queries
    if plan is not None and plan.text == HASHED:
        (key,) = hashed([key], plan.key)
    index = found.merged.index().get(key)
    shown = index is not None and bool(found.merged.is_shown[index])
    hours = tuple(_hour(found, key, start) for start in found.window.hours) if shown else ()
    return QueryDetail(key, found.metric, found.segment, shown, hours)


def _hour(found: Found, key: str, start: int) -> QueryHour:
    merged = found.of([start])
    index = merged.index().get(key)
    row = np.zeros_like(merged.other) if index is None else merged.sums[index]
    missing = merged.bound if index is None else int(merged.missing[index])
    sums = msgspec.structs.asdict(_sums(found, row))
    return QueryHour(start=timestamp_text(start), missing_at_most=missing, **sums)
