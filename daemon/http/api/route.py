"""What a route of the API is, and what its answers are made of.

Turns a request into the bytes of its answer. Takes up to seconds: call it in a thread.
"""

import gzip
from asyncio import Future, shield
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec

from ...changes import Marker
from ...errors import Damaged, Unavailable
from ...exporter import MarkerStore, Published, QueryReads, Reading
from ...telemetry import Telemetry
from ...views import QueryWindow
from . import parameters
from .health import Role
from .markers import MarkerRules
from .parameters import BadRequest, Query, QueryParameter, read_query, table_text
from .query_lists import QueryTables


@dataclass(frozen=True)
class MarkerSettings:
    """Where markers are stored, and what they may be."""

    store: MarkerStore | None = None
    """None where nothing can be marked, as of recorded events."""
    rules: MarkerRules = MarkerRules()


@dataclass(frozen=True)
class RequestContext:
    """What answers are made of: the published values, this process, the time of its clock, and what
    the loader of the route fetched."""

    published: Published
    telemetry: Telemetry
    role: Role
    version: str
    now_ms: int
    markers: MarkerSettings = MarkerSettings()
    query_reads: QueryReads | None = None
    """Reads tables of queries; None where there is no store of them."""
    body: bytes = b""
    """What was posted."""
    tables: tuple[QueryTables, QueryWindow] | None = None
    """Loaded: tables of queries, and the hours that they are of."""
    user: str | None = None
    """Who logged in with a password."""
    marked: tuple[Marker, ...] = ()
    """Loaded: the markers that the answer has."""
    status: int = 200
    """Of an answer without a fault; a loader that stored something sets another."""

    @property
    def reading(self) -> Reading:
        """The published reading. Raises BadRequest if this process has none."""
        if self.role == "worker":
            raise BadRequest(
                404, "role worker serves no scores: ask a process of role exporter or all"
            )
        if self.published.reading is None:
            raise BadRequest(503, "this process has no scores yet: /readyz states the reason")
        return self.published.reading

    def query(self, route: "Route", given: Sequence[tuple[str, str]]) -> Query:
        """The values of each parameter of the route. Raises BadRequest."""
        allowed = {
            one.name: one.one_of(self.reading.plan)
            for one in route.parameters
            if one.one_of is not None
        }
        return read_query(given, route.parameters, allowed)


ERRORS_AT_ANY_TIME: Final = {
    400: "A parameter is unknown, missing, or has a value that is not allowed."
}
ERRORS: Final = {
    **ERRORS_AT_ANY_TIME,
    404: "This process serves no scores, or there is no such segment or experiment.",
    503: "No scores here yet.",
}


@dataclass(frozen=True)
class Route:
    """One route. All that serves, lists or documents it reads this."""

    path: str
    summary: str
    parameters: tuple[QueryParameter, ...]
    answer: type[msgspec.Struct]
    make: Callable[[RequestContext, Query], msgspec.Struct]
    """Runs in a thread. May raise BadRequest and Damaged."""
    load: Callable[[RequestContext, Query], Awaitable[RequestContext]] | None = None
    """Runs before it in the event loop: returns the context with what `make` needs of Redis, or
    with what was stored there. May raise BadRequest, Damaged and Unavailable. Such an answer is
    made for one request: it is neither compressed nor compared with one that the client has."""
    table: tuple[str, type[msgspec.Struct]] | None = None
    """The attribute of the answer that is a table, and the type of its rows: the same path with
    `.csv` has it as CSV."""
    as_table: Callable[[Any], msgspec.Struct] | None = None
    """Makes the answer whose table is CSV, where that is another one."""
    total: Callable[[Any], int] | None = None
    """How many rows the list has of which the answer has some: beside CSV, which has no place for
    it, the header TOTAL says it."""
    method: Literal["GET", "POST", "DELETE"] = "GET"
    body: type[msgspec.Struct] | None = None
    """What is posted."""
    statuses: Mapping[int, str] = field(default_factory=lambda: {200: "The answer."})
    """Status → what it means, without a fault."""
    errors: Mapping[int, str] = field(default_factory=lambda: ERRORS)
    """Status → what it means, of the others."""
    operation: str = ""
    """Its name in the OpenAPI document, where the path does not say it."""
    listed: str = ""
    """What the list of paths says of this one, where that is not the summary."""
    is_of_snapshot: bool = True
    """Whether its answers follow from the published values, the parameters and the second of the
    clock, unless something is loaded for each."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The path, and that of the table."""
        return (self.path,) if self.table is None else (self.path, self.path + parameters.SUFFIX)


GZIP_FROM_BYTES: Final = 1_000
"""Shorter bodies fit into one packet anyway."""
_GZIP_LEVEL: Final = 1
"""The cheapest: answers are made for each request."""


TOTAL: Final = "X-Total-Count"


@dataclass(frozen=True)
class Answer:
    """A body and its status. The ETag names the bytes: plain and gzipped ones differ in it."""

    status: int
    body: bytes
    etag: str = ""
    gzipped: bool = False
    total: int | None = None
    """What the header TOTAL says; None: it is not sent."""


def answer(
    route: Route,
    context: RequestContext,
    query: Sequence[tuple[str, str]],
    as_csv: bool,
    gzipped: bool,
    if_none_match: str,
) -> Answer:
    """The answer of a route, as JSON or as the CSV of its table. A bad request is answered with its
    reason as JSON."""
    total: int | None = None
    try:
        result = route.make(context, context.query(route, query))
        if as_csv and route.table is not None:
            whole = result if route.as_table is None else route.as_table(result)
            body = table_text(whole, *route.table)
            total = None if route.total is None else route.total(result)
        else:
            body = msgspec.json.encode(result)
    except (BadRequest, Damaged) as fault:
        return refusal(fault)
    return replace(packed(body, gzipped, if_none_match, context.status), total=total)


SHARED_ANSWERS: Final = 16
"""That are kept of a snapshot: each may have megabytes."""


class SharedAnswers:
    """Answers of one snapshot and one second: who asks for the same meanwhile gets the same. Many
    people look at one dashboard, and making an answer takes milliseconds."""

    def __init__(self) -> None:
        self._of: tuple[Published, int] | None = None
        self._made: dict[Hashable, Future[Answer]] = {}

    async def get(
        self, context: RequestContext, asked: Hashable, make: Callable[[], Future[Answer]]
    ) -> Answer:
        """The answer to what was asked, which is made unless it is already, or being made."""
        of = context.published, context.now_ms // 1000
        if self._of is None or self._of[0] is not of[0] or self._of[1] != of[1]:
            self._of, self._made = of, {}
        made = self._made.get(asked) or make()
        if len(self._made) < SHARED_ANSWERS:
            self._made[asked] = made
        return await shield(made)  # a client that hangs up ends no answer of others


def refusal(fault: BadRequest | Damaged | Unavailable) -> Answer:
    """The answer to a request that cannot be answered: the reason as JSON."""
    return Answer(fault.status if isinstance(fault, BadRequest) else 503, error(str(fault)))


def packed(body: bytes, gzipped: bool, if_none_match: str, status: int = 200) -> Answer:
    """The body in the encoding that the client accepts; 304 and no body if the client has it.

    The ETag is a hash of the body: a client that asks every few seconds gets a body only when a new
    snapshot changed it.
    """
    gzipped = gzipped and len(body) >= GZIP_FROM_BYTES
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}{"-gzip" if gzipped else ""}"'
    if etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]:
        return Answer(304, b"", etag)
    if gzipped:
        return Answer(status, gzip.compress(body, _GZIP_LEVEL, mtime=0), etag, True)
    return Answer(status, body, etag)


def error(message: str) -> bytes:
    """The JSON of an error."""
    return msgspec.json.encode({"error": message})
