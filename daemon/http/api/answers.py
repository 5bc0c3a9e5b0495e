"""A question becomes the bytes of its answer. Takes long: meant for a thread."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from .parameters import BadRequest, read_query
from .routes import RequestContext, Route

GZIP_FROM_BYTES: Final = 1_000
"""Shorter bodies fit into one packet as they are."""
_GZIP_LEVEL: Final = 1


@dataclass(frozen=True)
class Answer:
    """A body, and how it is sent. `etag` names the body, or one part of its two encodings."""

    status: int
    body: bytes
    etag: str = ""
    gzipped: bool = False


def answer(
    route: Route,
    context: RequestContext,
    query: Sequence[tuple[str, str]],
    gzipped: bool,
    if_none_match: str,
) -> Answer:
    """What is answered; every refusal is JSON with its reason."""
    try:
        known = context.known() if route.of_scores else {}
        result = route.make(context, read_query(query, route.parameters, known))
    except BadRequest as refusal:
        return Answer(refusal.status, error(str(refusal)))
    return packed(msgspec.json.encode(result), gzipped, if_none_match)


def packed(body: bytes, gzipped: bool, if_none_match: str) -> Answer:
    """The body as the client wants it; without one where it has it already."""
    gzipped = gzipped and len(body) >= GZIP_FROM_BYTES
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}{"-gzip" if gzipped else ""}"'
    if etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]:
        return Answer(304, b"", etag)
    if gzipped:
        return Answer(200, gzip.compress(body, _GZIP_LEVEL, mtime=0), etag, True)
    return Answer(200, body, etag)


def error(message: str) -> bytes:
    """The form of every refusal."""
    return msgspec.json.encode({"error": message})
