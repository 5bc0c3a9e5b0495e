"""Passwords and TLS of the HTTP server, as a web configuration file states them.

The file and the certificates it names are read again every second, in a thread. Certificates are
renewed while the daemon runs, and a restart would interrupt its lanes. A change counts for new
connections and requests. One that cannot be used is logged, once, and the last good state stays in
force: a key that is written a moment after its certificate must not end TLS.

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
"""Open without a password, for the probes of an orchestrator."""
CHALLENGE: Final = 'Basic realm="relevanced", charset="UTF-8"'
READ_AGAIN_EVERY_S: Final = 1.0
REMEMBERED_LOGINS: Final = 1024
"""Bound of the cache of good logins. Each scrape brings its password: a bcrypt check of cost 10
takes 0.06 s of processor time, a cached login one HMAC."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger(__name__)


class Security:
    """Guards one server. Open it with `start`, close it with `stop`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._crypt: Crypt | None = None
        self._state = State(WebConfig(), None, b"")
        self._unusable: bytes | None = None
        self._watch: asyncio.Task[None] | None = None
        # One thread: guesses of passwords queue here and leave the other cores to the daemon.
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords")
        self._key = secrets.token_bytes(32)
        self._logins: OrderedDict[bytes, None] = OrderedDict()
        self.context: TlsContext | None = None

    @property
    def needs_login(self) -> bool:
        """Whether a client needs a password or a certificate, as of now."""
        required = (
            None
            if self.context is None or self._state.context is None
            else (self._state.context.verify_mode)
        )
        return bool(self._state.settings.users) or required == ssl.CERT_REQUIRED

    async def start(self) -> None:
        """Read the files, now and whenever they change. Raises ConfigError with every fault."""
        self._crypt = await asyncio.to_thread(find_crypt)
        self._state = await asyncio.to_thread(load_first, self._path, self._crypt)
        if self._state.context is not None:
            self.context = TlsContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.current = self._state.context
        self._watch = asyncio.create_task(self._watch_files(), name="web configuration")

    async def stop(self) -> None:
        """Stop reading the files. May be called twice."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
        self._threads.shutdown(wait=False, cancel_futures=True)

    @web.middleware
    async def guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Serve a request that needs no password or brings the right one; else answer 401."""
        users = self._state.settings.users
        if not users or request.path in OPEN_PATHS:
            return await handler(request)
        credentials = read_credentials(request.headers.get("Authorization", ""))
        if credentials is None or not await self._admits(*credentials):
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": CHALLENGE})
        return await handler(request)

    async def add_headers(self, _: web.Request, response: web.StreamResponse) -> None:
        """Add the configured headers to a response."""
        response.headers.update(self._state.settings.headers)

    async def _admits(self, user: str, password: bytes) -> bool:
        hashes = {name: hashed.reveal() for name, hashed in self._state.settings.users.items()}
        if user in hashes and self._login(user, password, hashes[user]) in self._logins:
            return True
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._compare, user, password, hashes)

    def _compare(self, user: str, password: bytes, hashes: dict[str, str]) -> bool:
        """Check a password by its hash, in the one thread that adds to the cache of logins."""
        # An unknown user is checked against the hash of some user, always the same one: it takes as
        # long as a wrong password does, so that time does not reveal which users exist.
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
        """The cache key of a login: an HMAC with a secret of the process, so no password is kept.
        Unambiguous, for neither user nor hash contains a colon."""
        return self._hmac(b":".join((user.encode(), hashed.encode(), password)))

    def _hmac(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, "sha256")

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(READ_AGAIN_EVERY_S)
            try:
                state = await asyncio.to_thread(load, self._path, self._crypt, self._state)
            except Unusable as error:
                self._log_unusable(error.digest, str(error))
                continue
            if (state.context is None) != (self.context is None):
                self._log_unusable(
                    state.digest, "TLS cannot be switched on or off without a restart"
                )
            elif state.digest == self._state.digest:
                self._unusable = None
            else:
                self._use(state)

    def _use(self, state: State) -> None:
        self._state, self._unusable = state, None
        if self.context is not None and state.context is not None:
            self.context.current = state.context
        log.info("web configuration reloaded", path=self._path)

    def _log_unusable(self, digest: bytes, reason: str) -> None:
        """Log why the files cannot be used, once for each content."""
        if digest != self._unusable:
            self._unusable = digest
            log.error(
                "web configuration changed but cannot be used: the former one stays",
                path=self._path,
                reason=reason,
            )


def read_credentials(header: str) -> tuple[str, bytes] | None:
    """User and password of an Authorization header; None if it contains none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except ValueError:
        return None
