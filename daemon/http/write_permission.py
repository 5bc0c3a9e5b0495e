"""Who may change markers and acknowledgements, the only things of a server that anybody changes.

A marker turns a red headline black, so that nobody may set one who could not read the page: with
passwords or certificates whoever has one may, without them only this machine. A browser that shows
the page of another site must not be used for it: that page could reach the loopback address too.
"""

import asyncio
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from .api.parameters import MOST_BYTES, BadRequest

BODY_TIMEOUT_S: Final = 10.0
"""How long a body may take to arrive."""


def admit(request: web.Request, *, needs_login: bool, is_loopback: bool) -> None:
    """Raise BadRequest for a client that must not change markers. `needs_login`: this one has
    logged in. `is_loopback`: the server listens on loopback addresses only."""
    host = request.headers.get("Host", "")
    origins = request.headers.getall("Origin", [])
    if any(origin.lower().partition("://")[2] != host.lower() for origin in origins):
        rule = "markers may be changed from pages of this server only"
        raise BadRequest(403, f"Origin={', '.join(origins)}: {rule}: call without Origin")
    if needs_login:
        return
    if not is_loopback:
        raise BadRequest(
            403,
            "without passwords anybody could change markers: set basic_auth_users or client"
            " certificates in the file http.web_config, or listen on 127.0.0.1",
        )
    if not is_local(_name(host)):
        # A foreign name that leads here is how a page of another site gets around its origin.
        rule = "without passwords markers may be changed by the name localhost or 127.0.0.1 only"
        raise BadRequest(403, f"Host={host}: {rule}")


def _name(host: str) -> str:
    """The name or address of a Host header, without its port; "" where it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # such as a bracket that nothing closes
        return ""


def is_local(host: str) -> bool:
    """Whether a host is this machine by its own name or address, whatever names resolve to."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def posted_json(request: web.Request) -> bytes:
    """The body. Raises BadRequest where it is no JSON, is too long or does not arrive."""
    if request.content_type != "application/json":
        rule = "must be application/json"
        raise BadRequest(415, f"Content-Type={request.content_type}: {rule}")
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.content.iter_any():
                found += part
                if len(found) > MOST_BYTES:
                    rule = f"must be at most {MOST_BYTES:,} bytes"
                    raise BadRequest(413, f"the body: {rule}")
    except TimeoutError as late:
        rule = f"must arrive within {BODY_TIMEOUT_S:g} s"
        raise BadRequest(408, f"the body: {rule}") from late
    return bytes(found)
