"""Who may ask the HTTP server, and how connections are encrypted, as a web configuration file says.

The file and the certificates it names are read again every second, in a thread. What changed counts
for new connections and requests; what cannot be used is said in the log, and the last good state
stays in force.

    web-config.yml, certificates ─▶ load ─▶ State ─▶ TlsContext     each new connection
                                                  └▶ Security.guard each request
"""

import asyncio
import base64
import hmac
import secrets
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeAlias

import structlog
from aiohttp import web

from .passwords import Crypt, find_crypt, matches
from .web_config import WebConfig
from .web_files import State, TlsContext, Unusable, load, load_first

OPEN_PATHS: Final = ("/livez", "/readyz", "/-/healthy", "/-/ready")
"""For those who decide whether the process lives: they have no password."""
CHALLENGE: Final = 'Basic realm="relevanced", charset="UTF-8"'
READ_AGAIN_EVERY_S: Final = 1.0
REMEMBERED_LOGINS: Final = 1024

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger(__name__)


class Security:
    """The guard of one server. Open it with `start`, close it with `stop`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._crypt: Crypt | None = None
        self._state = State(WebConfig(), None, b"")
        self._bad: bytes | None = None
        self._watch: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords")
        self._key = secrets.token_bytes(32)
        self._logins: OrderedDict[bytes, None] = OrderedDict()
        self.context: TlsContext | None = None

    async def start(self) -> None:
        """Read the files, and again whenever they change. Raises ConfigError with every fault."""
        self._crypt = await asyncio.to_thread(find_crypt)
        self._state = await asyncio.to_thread(load_first, self._path, self._crypt)
        if self._state.context is not None:
            self.context = TlsContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.current = self._state.context
        self._watch = asyncio.create_task(self._read_again(), name="web configuration")

    async def stop(self) -> None:
        """Read no more. Can be repeated."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
        self._threads.shutdown(wait=False, cancel_futures=True)

    @web.middleware
    async def guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Lets a request pass that needs no password, or brings the right one."""
        users = self._state.settings.users
        if not users or request.path in OPEN_PATHS:
            return await handler(request)
        credentials = read_credentials(request.headers.get("Authorization", ""))
        if credentials is None or not await self._admits(*credentials):
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": CHALLENGE})
        return await handler(request)

    async def add_headers(self, _: web.Request, response: web.StreamResponse) -> None:
        """Adds the configured headers to any answer."""
        response.headers.update(self._state.settings.headers)

    async def _admits(self, user: str, password: bytes) -> bool:
        hashes = {name: hashed.reveal() for name, hashed in self._state.settings.users.items()}
        if user in hashes and self._login(user, password, hashes[user]) in self._logins:
            return True
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._compare, user, password, hashes)

    def _compare(self, user: str, password: bytes, hashes: dict[str, str]) -> bool:
        """The slow way, in the one thread that writes to the memory of logins."""
        # An unknown user gets somebody's hash, always the same: it takes as long as a known one.
        ordered = sorted(hashes.values())
        decoy = ordered[int.from_bytes(self._hmac(user.encode())) % len(ordered)]
        hashed = hashes.get(user, decoy)
        login = self._login(user, password, hashed)
        if user in hashes and login in self._logins:
            return True
        if not matches(password, hashed, self._crypt) or user not in hashes:
            return False
        self._logins[login] = None
        if len(self._logins) > REMEMBERED_LOGINS:
            self._logins.popitem(last=False)
        return True

    def _login(self, user: str, password: bytes, hashed: str) -> bytes:
        """What a good login is remembered by; neither of the first two parts holds a colon."""
        return self._hmac(b":".join((user.encode(), hashed.encode(), password)))

    def _hmac(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, "sha256")

    async def _read_again(self) -> None:
        while True:
            await asyncio.sleep(READ_AGAIN_EVERY_S)
            try:
                state = await asyncio.to_thread(load, self._path, self._crypt, self._state)
            except Unusable as error:
                self._tell(error.digest, str(error))
                continue
            if (state.context is None) != (self.context is None):
                self._tell(state.digest, "TLS cannot begin or end without a restart")
            elif state.digest == self._state.digest:
                self._bad = None
            else:
                self._take(state)

    def _take(self, state: State) -> None:
        self._state, self._bad = state, None
        if self.context is not None and state.context is not None:
            self.context.current = state.context
        log.info("web configuration taken over", path=self._path)

    def _tell(self, digest: bytes, reason: str) -> None:
        if digest != self._bad:
            self._bad = digest
            log.error("web configuration changed and is not used", path=self._path, reason=reason)


def read_credentials(header: str) -> tuple[str, bytes] | None:
    """User and password of an Authorization header; None where it holds none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except ValueError:
        return None
