"""Turns a request into the bytes of its answer. Takes up to seconds: call it in a thread."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from .parameters import BadRequest, read_query
from .route import RequestContext, Route
from .tables import table_text

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
