"""What a route of the API is, and what its answers are made of.

Turns a request into the bytes of its answer. Takes up to seconds: call it in a thread.
"""

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from ...exporter import Published, Reading
from ...telemetry import Telemetry
from ...views import VIEWS
from . import parameters
from .health import Role
from .parameters import BadRequest, QueryParameter, read_query, table_text
from .stories import AGAINST

Query: TypeAlias = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class RequestContext:
    """What answers are made of: the published values, this process, and the time of its clock."""

    published: Published
    telemetry: Telemetry
    role: Role
    version: str
    now_ms: int

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

    def allowed_values(self) -> dict[str, tuple[str, ...]]:
        """Parameter → allowed values. A segment may have any: segments come and go with traffic."""
        plan = self.reading.plan
        return {
            "metric": tuple(metric.name for metric in plan.metrics),
            "grouping": plan.grouping_names,
            "window": tuple(window.name for window in plan.timing.windows),
            "view": VIEWS,
            "against": AGAINST,
            "judged_metric": (
                tuple(metric.name for metric in plan.judged.metrics)
                if plan.judged is not None
                else ()
            ),
        }


@dataclass(frozen=True)
class Route:
    """One route. `make` runs in a thread and may raise BadRequest."""

    path: str
    summary: str
    parameters: tuple[QueryParameter, ...]
    answer: type[msgspec.Struct]
    make: Callable[[RequestContext, Query], msgspec.Struct]
    of_scores: bool = True
    """False if every process can answer it at any time."""
    table: tuple[str, type[msgspec.Struct]] | None = None
    """The attribute of the answer that is a table, and the type of its rows: the same path with
    `.csv` has it as CSV."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The path, and that of the table."""
        return (self.path,) if self.table is None else (self.path, self.path + parameters.SUFFIX)


GZIP_FROM_BYTES: Final = 1_000
"""Shorter bodies fit into one packet anyway."""
_GZIP_LEVEL: Final = 1
"""The cheapest: answers are made for each request."""


@dataclass(frozen=True)
class Answer:
    """A body and its status. The ETag names the bytes: plain and gzipped ones differ in it."""

    status: int
    body: bytes
    etag: str = ""
    gzipped: bool = False


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
    try:
        allowed = context.allowed_values() if route.of_scores else {}
        result = route.make(context, read_query(query, route.parameters, allowed))
    except BadRequest as bad:
        return Answer(bad.status, error(str(bad)))
    if as_csv and route.table is not None:
        return packed(table_text(result, *route.table), gzipped, if_none_match)
    return packed(msgspec.json.encode(result), gzipped, if_none_match)


def packed(body: bytes, gzipped: bool, if_none_match: str) -> Answer:
    """The body in the encoding that the client accepts; 304 and no body if the client has it.

    The ETag is a hash of the body: a client that asks every few seconds gets a body only when a new
    snapshot changed it.
    """
    gzipped = gzipped and len(body) >= GZIP_FROM_BYTES
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}{"-gzip" if gzipped else ""}"'
    if etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]:
        return Answer(304, b"", etag)
    if gzipped:
        return Answer(200, gzip.compress(body, _GZIP_LEVEL, mtime=0), etag, True)
    return Answer(200, body, etag)


def error(message: str) -> bytes:
    """The JSON of an error."""
    return msgspec.json.encode({"error": message})
