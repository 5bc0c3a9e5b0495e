"""The HTTP server: `/metrics`, health, the API and the web page.

It computes nothing on the event loop, which reads Kafka in the same process. The exporter hands it
finished bytes, replaced as a whole; what depends on the request (the process's own series, answers
of the API, gzip) is made in a thread.
"""

import asyncio
import errno
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import web

from ..errors import Damaged, Unavailable
from ..exporter import Published, QueryReads, StoredQueries
from ..telemetry import Telemetry
from . import runbook
from .api import openapi, parameters, probes
from .api.health import Role
from .api.parameters import BadRequest
from .api.route import (
    TOTAL,
    Answer,
    MarkerSettings,
    RequestContext,
    Route,
    SharedAnswers,
    answer,
    error,
    packed,
    refusal,
)
from .api.routes import ROUTES
from .connections import Connections, Listener, open_sockets
from .negotiation import ASSETS, CONTENT_TYPES, HEADERS, Asset, wants_gzip, wants_openmetrics
from .requests import request_readers
from .security import USER, Security
from .write_permission import admit, is_local, posted_json

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
CHUNK_BYTES: Final = 262_144
"""Written at once: between two chunks the event loop serves others."""
SHUTDOWN_PATIENCE_S: Final = 5.0
"""How long a request in progress may still take when the server stops."""
CLOSING_PATIENCE_S: Final = 1.0
"""How long a client may then take to read what was sent, before its connection is aborted."""

API_THREADS: Final = 2
"""Threads for answers of the API alone: a scrape never waits for readers of the web page."""

KEPT_HEADERS: Final = ("Allow", "WWW-Authenticate")
"""Headers of the library's own errors that are passed on: they help clients to do better."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ListenError(Exception):
    """The server cannot listen on its address. The message says why and what to do."""


class HttpServer:
    """Answers from `published`, which the exporter sets. Open with `start`, close with `stop`."""

    def __init__(
        self,
        telemetry: Telemetry,
        role: Role,
        *,
        clock: Callable[[], float] = time.time,
        routes: Sequence[Route] = ROUTES,
        markers: MarkerSettings | None = None,
    ) -> None:
        self.published = Published()
        self._telemetry = telemetry
        self._role = role
        self._clock = clock
        self._routes = routes
        self.markers = MarkerSettings() if markers is None else markers
        """Where markers are stored."""
        self.queries: StoredQueries | None = None
        """Where tables of queries are stored."""
        self._query_reads: QueryReads | None = None
        self._shared_answers = SharedAnswers()
        self._threads: ThreadPoolExecutor | None = None
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None
        self._connections: Connections | None = None
        self._security: Security | None = None
        self._has_started = False

    @property
    def port(self) -> int:
        """The port that it listens on: of use when it was started with port 0, any free one."""
        if self._listener is None:
            raise RuntimeError("the HTTP server is not started")
        return self._listener.port

    @property
    def scheme(self) -> str:
        """`https` if connections are encrypted, else `http`."""
        encrypted = self._security is not None and self._security.context is not None
        return "https" if encrypted else "http"

    @property
    def unread(self) -> str:
        """What of the web configuration is not read in time; "" where nothing is."""
        return "" if self._security is None else self._security.unread

    async def start(self, host: str, port: int, web_config: str | None = None) -> None:
        """Listen on the address, with the TLS and passwords of the file `web_config`.

        Raises ListenError if the address is in use, unknown or not of this machine; ConfigError
        with every fault of the file and of the certificates it names.
        """
        security = None
        if self._threads is None:
            self._threads = ThreadPoolExecutor(API_THREADS, thread_name_prefix="api")
        if web_config is not None:
            security = Security(web_config)
            await security.start()
        runner = web.AppRunner(self._application(security), shutdown_timeout=SHUTDOWN_PATIENCE_S)
        self._runner, self._security = runner, security
        await runner.setup()
        assert runner.server is not None, "made by setup"
        self._connections = Connections(request_readers(runner.server))
        context = None if security is None else security.context
        try:
            self._listener = Listener(await open_sockets(host, port), self._connections, context)
        except OSError as error:
            await self.stop()
            raise ListenError(f"http.listen={host}:{port}: {_reason(error)}") from error

    async def stop(self) -> None:
        """Accept no more connections, finish the requests in progress, close every connection."""
        listener, self._listener = self._listener, None
        connections, self._connections = self._connections, None
        runner, self._runner = self._runner, None
        security, self._security = self._security, None
        threads, self._threads = self._threads, None
        if listener is not None:
            await listener.close()
        if runner is not None:
            await runner.cleanup()
        if connections is not None:
            await connections.close(CLOSING_PATIENCE_S)
        if threads is not None:
            threads.shutdown(wait=False)
        if security is not None:
            await security.stop()

    def _application(self, security: Security | None) -> web.Application:
        middlewares = [_errors_as_json] if security is None else [_errors_as_json, security.guard]
        application = web.Application(middlewares=middlewares)
        if security is not None:
            application.on_response_prepare.append(security.add_headers)
        routes = [
            web.get("/metrics", self._metrics),
            web.get("/livez", self._livez),
            web.get("/-/healthy", self._livez),
            web.get("/readyz", self._readyz),
            web.get("/-/ready", self._readyz),
            web.get("/startedz", self._startedz),
            web.get(openapi.PATH, self._openapi_document),
        ]
        for route in self._routes:
            for path in route.paths:
                handler = partial(self._api, route, path != route.path)
                is_get = route.method == "GET"  # which answers HEAD too
                add = web.get if is_get else partial(web.route, route.method)
                routes.append(add(_any_text(path), handler))
        routes += [web.get(path, partial(_asset, asset)) for path, asset in ASSETS.items()]
        routes += [
            web.get(runbook.PATH, _runbook),
            web.get(runbook.PATH + "/", _to_runbook),
            web.get(_any_text(runbook.SECTION_PATH), _runbook),
        ]
        application.add_routes(routes)
        return application

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        openmetrics = wants_openmetrics(_header(request, "Accept"))
        gzipped = wants_gzip(_header(request, "Accept-Encoding"))
        parts = await asyncio.to_thread(self._metrics_text, openmetrics, gzipped)
        headers = {
            "Content-Type": OPENMETRICS if openmetrics else TEXT,
            "Vary": "Accept, Accept-Encoding",
        }
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        return await _send(request, parts, headers)

    def _metrics_text(self, openmetrics: bool, gzipped: bool) -> Sequence[bytes]:
        """The published text, compressed once per snapshot, and this process's series."""
        published = self.published
        text = published.openmetrics if openmetrics else published.text
        rest = self._telemetry.render(openmetrics)
        return text.with_rest_gzipped(rest) if gzipped else text.with_rest(rest)

    async def _api(self, route: Route, as_csv: bool, request: web.Request) -> web.StreamResponse:
        try:
            context, given = await self._loaded(route, request)
        except (BadRequest, Damaged, Unavailable) as fault:
            return await _send_made(request, refusal(fault), as_csv)
        is_shared = route.load is None and route.is_of_snapshot
        preferences = _preferences(request) if route.load is None else (False, "")
        make = partial(
            asyncio.get_running_loop().run_in_executor,
            self._threads,
            partial(answer, route, context, given, as_csv, *preferences),
        )
        asked = route.path, *given, as_csv, preferences
        made = await (self._shared_answers.get(context, asked, make) if is_shared else make())
        return await _send_made(request, made, as_csv)

    async def _loaded(
        self, route: Route, request: web.Request
    ) -> tuple[RequestContext, list[tuple[str, str]]]:
        """(what the answer is made of, the parameters). Raises BadRequest, Damaged and
        Unavailable."""
        given = [*request.match_info.items(), *request.query.items()]
        if route.method != "GET":
            admit(
                request,
                needs_login=self._security is not None and self._security.needs_login,
                is_loopback=self._listener is not None and all(map(is_local, self._listener.hosts)),
            )
        context = RequestContext(
            self.published,
            self._telemetry,
            self._role,
            self._telemetry.version,
            int(self._clock() * 1000),
            self.markers,
            self._reads_of_queries(),
            b"" if route.body is None else await posted_json(request),
            user=request.get(USER),
        )
        if route.load is not None:
            context = await route.load(context, context.query(route, given))
        return context, given

    def _reads_of_queries(self) -> QueryReads | None:
        """Of the store there is now: one for all requests, which are read one after another."""
        reads, store = self._query_reads, self.queries
        if store is not None and (reads is None or reads.store is not store):
            reads = self._query_reads = QueryReads(store)
        return None if store is None else reads

    async def _openapi_document(self, request: web.Request) -> web.StreamResponse:
        preferences = _preferences(request)
        made = await asyncio.to_thread(lambda: packed(self._openapi, *preferences))
        return await _send_answer(request, made)

    @cached_property
    def _openapi(self) -> bytes:
        """Made where it is asked for: it takes a tenth of a second, which no start has to wait."""
        return openapi.document(self._telemetry.version, self._routes)

    async def _livez(self, _: web.Request) -> web.StreamResponse:
        return _json(*probes.alive())

    async def _readyz(self, _: web.Request) -> web.StreamResponse:
        published = self.published
        return _json(*probes.readiness(published.ready, published.conditions))

    async def _startedz(self, _: web.Request) -> web.StreamResponse:
        published = self.published
        self._has_started |= probes.has_started(published.conditions)
        return _json(*probes.readiness(self._has_started, published.conditions))


def _any_text(path: str) -> str:
    """The path with parts that may be any text: names have braces too."""
    return re.sub(r"\{(\w+)\}", r"{\1:[^/]+}", path)


@web.middleware
async def _errors_as_json(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Send the library's own errors (404, 405 …) in the JSON form of all other errors."""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        response = _json(
            refusal.status, error(f"{request.method} {request.path}: {refusal.reason}")
        )
        for name in KEPT_HEADERS:
            if name in refusal.headers:
                response.headers[name] = refusal.headers[name]
        return response


async def _send(
    request: web.Request, parts: Sequence[bytes], headers: Mapping[str, str], status: int = 200
) -> web.StreamResponse:
    """Send the parts in chunks, and let other tasks run after each: a client that reads fast never
    makes the transport wait, and a response of many megabytes must not stall other requests."""
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = sum(map(len, parts))
    await response.prepare(request)
    if request.method != "HEAD":
        for part in parts:
            for start in range(0, len(part), CHUNK_BYTES):
                await response.write(memoryview(part)[start : start + CHUNK_BYTES])
                await asyncio.sleep(0)
    await response.write_eof()
    return response


async def _send_answer(
    request: web.Request, made: Answer, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Send an answer with its ETag. Clients may cache it, but must ask each time if it still holds:
    the scores change every few seconds, the files of the web page only with the version."""
    sent = {"Content-Type": "application/json", "Cache-Control": "no-cache", **(headers or {})}
    sent["Vary"] = "Accept-Encoding"
    if made.etag:
        sent["Etag"] = made.etag
    if made.gzipped:
        sent["Content-Encoding"] = "gzip"
    if made.total is not None:
        sent[TOTAL] = str(made.total)
    if made.status == 304:
        del sent["Content-Type"]
        return web.Response(status=304, headers=sent)
    return await _send(request, [made.body], sent, made.status)


async def _send_made(request: web.Request, made: Answer, as_csv: bool) -> web.StreamResponse:
    """Send an answer that is JSON, or CSV unless it is an error."""
    is_table = as_csv and made.status == HTTPStatus.OK
    headers = {"Content-Type": parameters.CONTENT_TYPE} if is_table else None
    return await _send_answer(request, made, headers)


async def _asset(asset: Asset, request: web.Request) -> web.StreamResponse:
    """Send one file of the web page."""
    made = packed(asset.body, *_preferences(request))
    return await _send_answer(request, made, {"Content-Type": asset.content_type, **HEADERS})


async def _to_runbook(_: web.Request) -> web.StreamResponse:
    """Send to the address from which the links of the runbook lead on, below any prefix."""
    return web.Response(
        status=HTTPStatus.PERMANENT_REDIRECT, headers={"Location": ".." + runbook.PATH}
    )


async def _runbook(request: web.Request) -> web.StreamResponse:
    """Send the runbook, or the section of a name."""
    name = request.match_info.get("alert")
    made_by = runbook.whole if name is None else partial(runbook.section, name)
    page = await asyncio.to_thread(made_by)
    gzipped, known = _preferences(request)
    status = HTTPStatus.OK if page.exists else HTTPStatus.NOT_FOUND
    made = packed(page.body, gzipped, known if page.exists else "", status)
    return await _send_answer(request, made, {"Content-Type": CONTENT_TYPES[".html"], **HEADERS})


def _preferences(request: web.Request) -> tuple[bool, str]:
    """Whether the client accepts gzip, and the ETags that it has cached."""
    return wants_gzip(_header(request, "Accept-Encoding")), _header(request, "If-None-Match")


def _header(request: web.Request, name: str) -> str:
    return ",".join(request.headers.getall(name, []))


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another process listens there: stop it, or choose another port"
    return error.strerror or str(error)
