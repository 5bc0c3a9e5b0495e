"""The routes of markers, the only ones that change anything.

A marker turns a red headline black, so that nobody may set one who could not read the page: with
passwords or certificates whoever has one may, without them only this machine. A browser that shows
the page of another site must not be used for it: that page could reach the loopback address too.
"""

import asyncio
import ipaddress
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from ..changes import MOST_MARKERS, between
from ..errors import Unavailable
from ..exporter import MarkerStore, StoredMarkers, packed_markers, unpacked
from .api import markers as api
from .api.openapi import MARKERS_PATH as PATH
from .api.parameters import BadRequest, read_query
from .api.route import error

ONE_PATH: Final = PATH + "/{id}"
BODY_TIMEOUT_S: Final = 10.0
"""How long a body may take to arrive."""


class NoStore:
    """That of a server without a store, such as one over recorded events: nothing is marked."""

    async def tag(self) -> bytes | None:
        """There never were any."""
        return None

    async def read(self) -> StoredMarkers | None:
        """None."""
        return None

    async def add(self, name: str, marker: bytes, most: int) -> bytes | bool:
        """Refuse it."""
        raise Unavailable("this server has no store for markers")

    async def remove(self, names: Iterable[str]) -> int:
        """Remove nothing."""
        return 0

    async def put_back(self, markers: Mapping[str, bytes]) -> bool:
        """Store nothing."""
        return False


@dataclass(frozen=True)
class MarkerSettings:
    """What the routes of markers need: the store, and what a marker may name."""

    store: MarkerStore = NoStore()
    metrics: Sequence[str] = ()
    groupings: Sequence[str] = ()
    keep_ms: int = 0
    clock: Callable[[], float] = time.time


class MarkerRoutes:
    """The handlers. `needs_login` and `is_loopback` are asked at each request that writes."""

    def __init__(
        self,
        settings: MarkerSettings,
        needs_login: Callable[[], bool],
        is_loopback: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._needs_login = needs_login
        self._is_loopback = is_loopback

    def routes(self) -> list[web.RouteDef]:
        """The routes, for an application."""
        return [
            web.get(PATH, self._list),
            web.post(PATH, self._post),
            web.delete(ONE_PATH, self._delete),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        try:
            query = read_query(request.query.items(), api.SPAN, {})
            from_ms, to_ms = api.span(query)
            stored = await self._settings.store.read()
        except (BadRequest, Unavailable) as refused:
            return _refusal(refused)
        found = between(unpacked(() if stored is None else stored.markers), from_ms, to_ms)
        return _answer(200, api.Markers(tuple(api.shown(marker) for marker in found)))

    async def _post(self, request: web.Request) -> web.Response:
        settings = self._settings
        try:
            self._admit(request)
            if request.content_type != "application/json":
                rule = "must be application/json"
                raise BadRequest(415, f"Content-Type={request.content_type}: {rule}")
            known = api.Known(
                int(settings.clock() * 1000),
                settings.keep_ms,
                settings.metrics,
                settings.groupings,
            )
            fresh_id = f"m-{secrets.token_hex(8)}"
            marker, says_when = api.posted(await _body(request), fresh_id, known)
            stored = await settings.store.add(marker.id, packed_markers(marker), MOST_MARKERS)
            if stored is False:
                rule = f"there are {MOST_MARKERS:,} markers, the most that are kept"
                raise BadRequest(409, f"{rule}: remove some with DELETE {ONE_PATH}")
            if stored is True:
                return _answer(201, api.shown(marker))
            (known_marker,) = unpacked([stored]) or (None,)
            if known_marker is None or not api.is_same(marker, known_marker, says_when):
                rule = "is the id of another marker: choose another id, or remove that one"
                raise BadRequest(409, f"id={marker.id}: {rule} with DELETE {PATH}/{marker.id}")
            return _answer(200, api.shown(known_marker))
        except (BadRequest, Unavailable) as refused:
            return _refusal(refused)

    async def _delete(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        try:
            self._admit(request)
            if not await self._settings.store.remove([name]):
                raise BadRequest(404, f"id={name}: there is no such marker: GET {PATH} lists them")
        except (BadRequest, Unavailable) as refused:
            return _refusal(refused)
        return _answer(200, api.Removed(name))

    def _admit(self, request: web.Request) -> None:
        """Raise BadRequest for a client that must not change markers."""
        host = request.headers.get("Host", "")
        origins = request.headers.getall("Origin", [])
        if any(urlsplit(origin).netloc.lower() != host.lower() for origin in origins):
            rule = "markers may be changed from pages of this server only"
            raise BadRequest(403, f"Origin={', '.join(origins)}: {rule}: call without Origin")
        if self._needs_login():
            return
        if not self._is_loopback():
            raise BadRequest(
                403,
                "without passwords anybody could change markers: set basic_auth_users or client"
                " certificates in the file http.web_config, or listen on 127.0.0.1",
            )
        if not is_local(urlsplit(f"//{host}").hostname or ""):
            # A foreign name that leads here is how a page of another site gets around its origin.
            rule = (
                "without passwords markers may be changed by the name localhost or 127.0.0.1 only"
            )
            raise BadRequest(403, f"Host={host}: {rule}")


def is_local(host: str) -> bool:
    """Whether a host is this machine by its own name or address, whatever names resolve to."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _body(request: web.Request) -> bytes:
    """The body. Raises BadRequest where it is too long or does not arrive."""
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.content.iter_any():
                found += part
                if len(found) > api.MOST_BYTES:
                    rule = f"must be at most {api.MOST_BYTES:,} bytes"
                    raise BadRequest(413, f"the body: {rule}")
    except TimeoutError as late:
        rule = f"must arrive within {BODY_TIMEOUT_S:g} s"
        raise BadRequest(408, f"the body: {rule}") from late
    return bytes(found)


def _answer(status: int, body: msgspec.Struct) -> web.Response:
    response = web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json"
    )
    response.headers["Cache-Control"] = "no-store"
    return response


def _refusal(refused: BadRequest | Unavailable) -> web.Response:
    status = refused.status if isinstance(refused, BadRequest) else 503
    return web.Response(status=status, body=error(str(refused)), content_type="application/json")
