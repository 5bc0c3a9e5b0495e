"""Passwords and TLS of the HTTP server, as a web configuration file states them.

The file and the certificates it names are read again every second, by a thread. Certificates are
renewed while the daemon runs, and a restart would interrupt its lanes. A change counts for new
connections and requests. One that cannot be used is logged, once, and the last good state stays in
force: a key that is written a moment after its certificate must not end TLS.

    web-config.yml, certificates ─▶ load ─▶ State ─▶ TlsContext     each new connection
                                                  └▶ Security.guard each request
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog
from aiohttp import web

from .. import files
from ..config import ConfigError
from ..files import FileLooks, NotRead, in_time
from .password_hashes import Crypt, find_crypt, matches, needs_crypt
from .web_config import (
    CLIENT_AUTH,
    CURVES,
    TLS12_SUITES,
    Tls,
    WebConfig,
    parse,
)

VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
TLS_FILES: Final = ("cert_file", "key_file", "client_ca_file")


class Unusable(Exception):
    """The files cannot be used. `digest` identifies their content, so that it is logged once."""

    def __init__(self, faults: list[str], digest: bytes) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults
        self.digest = digest


@dataclass(frozen=True)
class State:
    """The content of the files: settings, TLS context of new connections, digest of all bytes."""

    settings: WebConfig
    context: ssl.SSLContext | None
    digest: bytes


class TlsContext(ssl.SSLContext):
    """Encrypts each new connection by the context that is current at that moment.

    asyncio takes a context once, when the server begins to listen, and calls its `wrap_bio` for
    each connection. So certificates, authorities and versions change without a new listener.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **kwargs)


def load(path: str, crypt: Crypt | None, former: State | None = None) -> State:
    """Read the file and those it names. Returns `former` if no byte has changed. Blocks.

    Raises Unusable with every fault.
    """
    # Bytes are compared, not times of change: a mounted secret is replaced by swapping a link.
    digest = hashlib.sha256()
    try:
        settings = parse(_read(path, digest).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable([f"cannot be read: {_reason(error)}"], digest.digest()) from error
    except ConfigError as error:
        raise Unusable(error.faults, digest.digest()) from error
    folder = Path(path).parent
    faults = list(_uncheckable(settings, crypt)) + list(_unreadable(settings.tls, folder, digest))
    content = digest.digest()
    if former is not None and former.digest == content:
        return former
    try:
        context = None if settings.tls is None or faults else _context(settings.tls, folder)
    except ConfigError as error:
        raise Unusable(error.faults, content) from error
    if faults:
        raise Unusable(faults, content)
    return State(settings, context, content)


def load_first(path: str, crypt: Crypt | None) -> State:
    """Read the files at the start. Raises ConfigError with every fault. Blocks."""
    try:
        return in_time(partial(load, path, crypt), path)
    except NotRead as error:
        raise ConfigError(
            [f"http.web_config={path}: {error.filename}: {error.strerror}"]
        ) from error
    except Unusable as error:
        raise ConfigError([f"http.web_config={path}: {fault}" for fault in error.faults]) from error


def check(path: str) -> None:
    """Check the files. Raises ConfigError with every fault. Blocks."""
    load_first(path, find_crypt())


def _uncheckable(settings: WebConfig, crypt: Crypt | None) -> Iterator[str]:
    for user, hashed in settings.users.items():
        if crypt is None and needs_crypt(hashed.reveal()):
            rule = "this system's crypt does not know bcrypt: use a hash $scrypt$ln=15,r=8,p=1$…"
            yield f"basic_auth_users.{user}: {rule}"


def _unreadable(tls: Tls | None, folder: Path, digest: "hashlib._Hash") -> Iterator[str]:
    for name in TLS_FILES:
        file = getattr(tls, name, None)
        try:
            if file is not None:
                _read(str(folder / file), digest)
        except OSError as error:
            yield f"tls_server_config.{name}={file}: cannot be read: {_reason(error)}"


def _context(tls: Tls, folder: Path) -> ssl.SSLContext:
    """Raises ConfigError with every fault of the certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[tls.min_version]
    context.maximum_version = VERSIONS[tls.max_version]
    faults: list[str] = []
    try:
        _set_ciphers(context, tls)
    except (OSError, ValueError) as error:
        rule = f"cipher_suites, curve_preferences: this system's OpenSSL refuses them: {error}"
        faults.append(f"tls_server_config.{rule}")
    try:
        # Without a password OpenSSL would ask for one on the terminal, and wait.
        context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file, password="")
    except OSError as error:  # ssl.SSLError is one
        rule = f"must be an unencrypted PEM key that belongs to cert_file: {_reason(error)}"
        faults.append(f"tls_server_config.key_file={tls.key_file}: {rule}")
    requested, required = CLIENT_AUTH[tls.client_auth_type]
    if requested and tls.client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(folder / tls.client_ca_file)
        except OSError as error:
            rule = f"must be PEM certificates: {_reason(error)}"
            faults.append(f"tls_server_config.client_ca_file={tls.client_ca_file}: {rule}")
    if faults:
        raise ConfigError(faults)
    return context


def _set_ciphers(context: ssl.SSLContext, tls: Tls) -> None:
    tls12_ciphers = [TLS12_SUITES[suite] for suite in tls.cipher_suites if suite in TLS12_SUITES]
    if tls12_ciphers:
        context.set_ciphers(":".join(tls12_ciphers))
    elif tls.cipher_suites:
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # no suite of TLS 1.2 is listed
    for curve in tls.curve_preferences:
        context.set_ecdh_curve(CURVES[curve])
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE


def _read(path: str, digest: "hashlib._Hash") -> bytes:
    """The bytes of the file. Updates the digest with them, or with the error in their place."""
    try:
        content = files.content(path)
    except OSError as error:
        digest.update(f"{path}: {error.errno}".encode())
        raise
    digest.update(len(content).to_bytes(8) + content)
    return content


def _reason(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM").replace("_", " ").lower()
    return error.strerror or str(error)


OPEN_PATHS: Final = ("/livez", "/readyz", "/startedz", "/-/healthy", "/-/ready")
"""Open without a password, for the probes of an orchestrator."""
USER: Final = web.RequestKey("user", str)
"""What a request has under this: who logged in with a password."""
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
        self._looks = FileLooks(path)
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

    @property
    def unread(self) -> str:
        """What of the files is not read in time, and for how long; "" where nothing is."""
        return self._looks.unread

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
        request[USER], _ = credentials
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
                state = await self._looks.look(partial(load, self._path, self._crypt, self._state))
            except NotRead as error:
                self._log_unusable(b"", f"{error.filename}: {error.strerror}")
                continue
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
