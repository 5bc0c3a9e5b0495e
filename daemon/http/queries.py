"""The routes of queries. Their tables are read from the store when somebody asks for them, so these
routes are handlers of their own beside the table of routes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec
from aiohttp import web

from ..errors import Damaged, Unavailable
from ..exporter.pane_reader import Reading
from ..exporter.published import Published
from ..exporter.query_reads import QueryReads, StoredQueries, WindowOf
from ..exporter.query_windows import WINDOWS, of_hours, window_of
from .api import queries as api
from .api import tables
from .api.answers import Answer, error, packed
from .api.parameters import BadRequest, read_query
from .api.query_lists import Found

Query = Mapping[str, Sequence[str]]


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
            for path in api.TABLES
            for suffix in ("", tables.SUFFIX)
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
        if reading is None or store is None:
            raise BadRequest(503, "this process has no scores yet: /readyz states the reason")
        rows, kind, parameters = api.TABLES[path]
        query = read_query(given, parameters, _allowed(reading))
        asked = _asked(path, reading, query)
        if self._reads is None or self._reads.store is not store:
            self._reads = QueryReads(store)
        lanes = [view.lane for view in reading.views if view.has_events]
        window, found = await self._reads.read(lanes, reading.plan, asked.window_of)
        if not window.until_ms:
            raise BadRequest(503, "no pane has settled yet whose impressions have queries")
        make = partial(_made, path, Found(found, window, asked.metric, asked.segment), asked)
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads(), make)
        return tables.table_text(answer, rows, kind) if as_csv else msgspec.json.encode(answer)


Send = Callable[[web.Request, Answer, bool], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class _Asked:
    window_of: WindowOf
    metric: str
    order: str
    segment: str | None
    limit: int
    skipped: int
    query: str


def _allowed(reading: Reading) -> dict[str, tuple[str, ...]]:
    return {
        "metric": tuple(metric.name for metric in reading.plan.metrics),
        "window": tuple(WINDOWS),
        "order": api.ALLOWED_ORDERS,
    }


def _asked(path: str, reading: Reading, query: Query) -> _Asked:
    plan, hour_ms = reading.plan, reading.plan.hour_ms
    one = {name: values[0] for name, values in query.items()}
    if path == api.DETAIL_PATH and "query" not in one:
        raise BadRequest(400, "query: must be given")
    metric, order = one.get("metric", plan.metrics[0].name), one.get("order", "impressions")
    segment, window = one.get("segment"), one["window"]
    api.check(plan, window, metric, order, segment)
    hours: WindowOf = partial(window_of, name=window, hour_ms=hour_ms, outages=reading.outages)
    skipped = 0
    if "cursor" in one:
        cursor = api.cursor_of(one["cursor"], hour_ms)
        span = range(cursor.from_ms, cursor.until_ms, hour_ms)
        hours, skipped = partial(of_hours, hours=span, outages=reading.outages), cursor.skipped
    limit = api.limit_of(one.get("limit", "1"))
    return _Asked(hours, metric, order, segment, limit, skipped, one.get("query", ""))


def _made(path: str, found: Found, asked: _Asked) -> msgspec.Struct:
    if path == api.DETAIL_PATH:
        return api.detail(found, asked.query)
    return api.queries(found, asked.order, asked.limit, asked.skipped)
