"""The routes of queries. Their tables are read from the store when somebody asks for them, so these
routes are handlers of their own beside the table of routes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import msgspec
from aiohttp import web

from ..errors import Damaged, Unavailable
from ..exporter import Published, QueryReads, Reading, StoredQueries, WindowOf
from ..views import WINDOWS, QueryWindow, missing_window, of_hours, window_of
from .api import parameters, queries, queries as api
from .api.parameters import BadRequest, read_query, whole_number
from .api.queries import TABLES
from .api.query_lists import Found, QueryTables
from .api.query_rows import Queries
from .api.route import Answer, error, packed


class Served(Protocol):
    """What the routes answer from."""

    published: Published
    queries: StoredQueries | None


class QueryRoutes:
    """The handlers."""

    def __init__(self, served: Served, threads: Callable[[], Executor | None]) -> None:
        self._served, self._threads = served, threads
        self._reads: QueryReads | None = None

    def routes(self, send: "Send") -> list[web.RouteDef]:
        """The routes, for an application; `send` sends an answer."""
        return [
            web.get(path + suffix, partial(self._answer, send, path, bool(suffix)))
            for path in TABLES
            for suffix in ("", parameters.SUFFIX)
        ]

    async def _answer(
        self, send: "Send", path: str, as_csv: bool, request: web.Request
    ) -> web.StreamResponse:
        try:
            body = await self._body(path, as_csv, [*request.query.items()])
        except BadRequest as bad:
            return await send(request, Answer(bad.status, error(str(bad))), False)
        except (Damaged, Unavailable) as failure:
            return await send(request, Answer(503, error(str(failure))), False)
        return await send(request, packed(body, False, ""), as_csv)

    async def _body(self, path: str, as_csv: bool, given: Sequence[tuple[str, str]]) -> bytes:
        reading, store = self._served.published.reading, self._served.queries
        if reading is None:
            raise BadRequest(503, "this process has no scores yet: /readyz states the reason")
        route = TABLES[path]
        query = read_query(given, route.parameters, _allowed(reading))
        asked = _ASKED[path](reading, {name: values[0] for name, values in query.items()})
        if store is None:
            raise BadRequest(503, "this process has no store to read queries from")
        if self._reads is None or self._reads.store is not store:
            self._reads = QueryReads(store)
        lanes = [view.lane for view in reading.views if view.has_events]
        window, found = await self._reads.read(
            lanes, reading.plan, asked.window_of, examples=asked.with_examples
        )
        if not window.until_ms:
            raise BadRequest(503, "no pane has settled yet whose impressions have queries")
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads(), asked.answer, found, window)
        if not as_csv:
            return msgspec.json.encode(answer)
        if isinstance(answer, Queries):
            answer = api.with_unlisted_row(answer)
        return parameters.table_text(answer, route.rows, route.row)


Send = Callable[[web.Request, Answer, bool], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class _Asked:
    window_of: WindowOf
    answer: Callable[[QueryTables, QueryWindow], msgspec.Struct]
    with_examples: bool = False


def _allowed(reading: Reading) -> dict[str, tuple[str, ...]]:
    return {
        "metric": tuple(metric.name for metric in reading.plan.metrics),
        "window": tuple(WINDOWS),
        "order": api.ALLOWED_ORDERS,
    }


def _list_asked(reading: Reading, one: Mapping[str, str]) -> _Asked:
    metric, hours, skipped = _checked(reading, one)
    order, segment = one["order"], one.get("segment")
    limit = whole_number("limit", one["limit"], api.MOST_ROWS)

    def answer(tables: QueryTables, window: QueryWindow) -> msgspec.Struct:
        return api.queries(Found(tables, window, metric, segment), order, limit, skipped)

    return _Asked(hours, answer)


def _detail_asked(reading: Reading, one: Mapping[str, str]) -> _Asked:
    if "query" not in one:
        raise BadRequest(400, "query: must be given")
    metric, hours, _ = _checked(reading, one)
    query, segment = one["query"], one.get("segment")

    def answer(tables: QueryTables, window: QueryWindow) -> msgspec.Struct:
        return api.detail(Found(tables, window, metric, segment), query)

    return _Asked(hours, answer, with_examples=True)


def _checked(reading: Reading, one: Mapping[str, str]) -> tuple[str, WindowOf, int]:
    """(metric, hours, rows that a list skips) that are asked for. Raises BadRequest."""
    plan, hour_ms = reading.plan, reading.plan.hour_ms
    metric, order = one.get("metric", plan.metrics[0].name), one.get("order", "impressions")
    api.check(plan, one["window"], metric, order, one.get("segment"))
    hours = partial(window_of, name=one["window"], hour_ms=hour_ms, outages=reading.outages)
    if "cursor" not in one:
        return metric, hours, 0
    cursor = api.cursor_of(one["cursor"], hour_ms)
    span = range(cursor.from_ms, cursor.until_ms, hour_ms)
    return metric, partial(of_hours, hours=span, outages=reading.outages), cursor.skipped


def _missing_asked(reading: Reading, one: Mapping[str, str]) -> _Asked:
    queries.check_missing(reading.plan)
    hours = partial(missing_window, name=one["window"], hour_ms=reading.plan.hour_ms)
    limit = whole_number("limit", one["limit"], queries.MOST_PAIRS)
    return _Asked(hours, partial(queries.unjudged_items, limit=limit))


_ASKED: Final[Mapping[str, Callable[[Reading, Mapping[str, str]], _Asked]]] = {
    api.QUERIES_PATH: _list_asked,
    api.DETAIL_PATH: _detail_asked,
    queries.MISSING_PATH: _missing_asked,
}
