"""Schema registries for tests, with faults to order.

`MemoryRegistry` answers as Confluent's protocol says, from memory. `Gate` stands before a registry
that runs elsewhere. Both count what is asked, want logins, use TLS, and fail on demand.
"""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from uuid import NAMESPACE_OID, uuid5

from aiohttp import ClientSession, web

JSON_TYPE = "application/vnd.schemaregistry.v1+json"
NO_SUCH_SCHEMA = b'{"error_code": 40403, "message": "Schema not found"}'
IMPROPER: Mapping[str, tuple[int, bytes, str]] = {
    "a login page": (200, b"<html>Please log in</html>", "does not answer properly (200: not an"),
    "an empty object": (200, b"{}", "does not answer properly (200: its JSON has no schema)"),
    "half of the JSON": (200, b'{"schema": "', "does not answer properly (200: not an object"),
    "no content": (204, b"", "answers 204"),
    "bad request": (400, b"", "answers 400"),
    "method not allowed": (405, b"", "answers 405"),
    "login of a proxy": (407, b"", "a proxy before it wants a login (407)"),
    "legal reasons": (451, b"", "answers 451"),
    "5 MB": (200, b"x" * (5 << 20), "does not answer properly (more than 4194304 bytes)"),
    "no text as type": (200, b'{"schema": "x", "schemaType": 5}', "its schemaType is 5: must be"),
    "a follower that lags": (404, NO_SUCH_SCHEMA, "the registry has no such schema"),
}
"""What may come in place of a schema: (status, body, what the daemon says of it)."""


@dataclass
class Faults:
    """What goes wrong with the server from now on."""

    status: int | None = None
    """Every request gets this answer."""
    body: bytes = b""
    """The body of such answers."""
    kind: str = "application/octet-stream"
    """Their content type."""
    login: str | None = None
    """Only requests with this header `Authorization` are answered; others get 401."""
    paths: dict[str, int] = field(default_factory=dict)
    """Path without query → its status."""


class FaultyServer:
    """A server that answers as `reply` says, unless a fault is ordered. A subclass has `reply`."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.asked: list[str] = []
        """Paths with their queries, in order."""
        self.authorizations: list[str | None] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    scheme = "http"

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        """Listen, on the same port as before if there was one."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, "127.0.0.1", self.port, ssl_context=context, reuse_address=True
        )
        await site.start()
        self.scheme = "https" if context else "http"
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Refuse connections."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        self.authorizations.append(request.headers.get("Authorization"))
        faults = self.faults
        if faults.login is not None and self.authorizations[-1] != faults.login:
            return _fault(401, 401, "Unauthorized")
        status = faults.paths.get(request.path, faults.status)
        if status is not None:
            return web.Response(status=status, body=faults.body, content_type=faults.kind)
        return await self.reply(request)

    async def reply(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError


class MemoryRegistry(FaultyServer):
    """Schemas by id, GUID, and version of a subject."""

    def __init__(self) -> None:
        super().__init__()
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[tuple[str, int], int] = {}
        self.lists = True
        """Whether it answers what it has, as older ones do not."""
        self.descriptors: dict[int, bytes] = {}
        """Id → FileDescriptorProto, which `format=serialized` gives."""

    def add(
        self,
        schema: str,
        subject: str = "subject",
        kind: str | None = None,
        references: Sequence[Mapping[str, object]] = (),
        descriptor: bytes | None = None,
    ) -> int:
        """Store a schema as the next version of a subject; returns its id."""
        number = len(self.schemas) + 1
        version = 1 + sum(1 for name, _ in self.versions if name == subject)
        self.schemas[number] = {"schema": schema, "references": list(references)}
        if kind is not None:
            self.schemas[number]["schemaType"] = kind
        if descriptor is not None:
            self.descriptors[number] = descriptor
        self.versions[subject, version] = number
        return number

    @staticmethod
    def guid(number: int) -> str:
        return str(uuid5(NAMESPACE_OID, str(number)))

    async def reply(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/schemas" and self.lists:
            return web.json_response(self._page(request))
        match [unquote(part) for part in request.rel_url.raw_path.strip("/").split("/")]:
            case ["schemas", "types"]:
                return web.json_response(["JSON", "PROTOBUF", "AVRO"])
            case ["schemas", "ids", text]:
                return self._answer(request, int(text), 40403)
            case ["schemas", "guids", guid]:
                found = [number for number in self.schemas if self.guid(number) == guid]
                return self._answer(request, found[0] if found else 0, 40403)
            case ["subjects", subject, "versions", version]:
                found_id = self.versions.get((subject, int(version)), 0)
                return self._answer(request, found_id, 40402)
        return _fault(404, 404, "HTTP 404 Not Found")

    def _page(self, request: web.Request) -> list[dict[str, Any]]:
        assert request.query["deleted"] == "true"
        first, size = int(request.query["offset"]), int(request.query["limit"])
        listed = [{**schema, "id": number} for number, schema in self.schemas.items()]
        return listed[first : first + size]

    def _answer(self, request: web.Request, number: int, code: int) -> web.Response:
        found = self.schemas.get(number)
        if found is None:
            return _fault(404, code, "not found")
        if request.query.get("format") == "serialized" and number in self.descriptors:
            found = {**found, "schema": base64.b64encode(self.descriptors[number]).decode()}
        return web.json_response(found, content_type=JSON_TYPE)


class Gate(FaultyServer):
    """A door before a registry that runs elsewhere."""

    def __init__(self, behind: str) -> None:
        super().__init__()
        self._behind = behind
        self._session: ClientSession | None = None

    async def reply(self, request: web.Request) -> web.StreamResponse:
        if self._session is None:
            self._session = ClientSession(auto_decompress=False)
        async with self._session.get(self._behind + request.path_qs) as answer:
            named = ("Content-Type", "X-Registry-ArtifactType")
            headers = {name: answer.headers[name] for name in named if name in answer.headers}
            return web.Response(status=answer.status, body=await answer.read(), headers=headers)

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        await super().stop()


@asynccontextmanager
async def serving(
    server: FaultyServer, context: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve inside of `async with`."""
    await server.start(context)
    try:
        yield
    finally:
        await server.stop()


def _fault(status: int, code: int, message: str) -> web.Response:
    text = json.dumps({"error_code": code, "message": message})
    return web.Response(status=status, text=text, content_type=JSON_TYPE)
