"""Connect to Redis by URL: one server, a cluster, or the master that a Sentinel names.

This is also the one place that decides which errors of the client mean Unavailable.

The keys of all lanes of a namespace, found by a scan of all keys of the servers.
"""

import re
import socket
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError as RedisConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TimeoutError as RedisTimeoutError,
)

from ...config import PLAIN_OPTIONS, SECRET_OPTIONS, split_address
from ...errors import Trouble, Unavailable
from ...files import BRIEF_S, check, in_time
from ...telemetry import Mismatch, causes, tls_mismatch

Client: TypeAlias = "Redis | RedisCluster"
T = TypeVar("T")

TIMEOUT_S: Final = 5.0
"""A call without an answer for this long is Unavailable: the caller decides what to send again."""
CONNECTIONS: Final = 10_000
"""More than a process ever owns lanes: the pool raises an error, instead of waiting, when it has
none left."""
SCHEMES: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel")
IN_URL: Final = (*PLAIN_OPTIONS, *SECRET_OPTIONS)
_REFUSED: Final = (RedisError, RedisClusterException, OSError)
_TORN: Final = (AttributeError, RuntimeError)
"""Raised by calls on a cluster while the client reads a new layout: it closes connections on which
other calls are under way, and their stream is gone."""
_UNAUTHENTICATED: Final = "Protocol error: unauthenticated"
"""The error of a server that requires a password, for a long request."""
_CLOSED: Final = "Connection closed by server"
_SLOW: Final = "Timeout connecting"
"""Also where a server without TLS waits for the rest of what a TLS handshake looks like to it."""
_FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SENTINEL_PORT: Final = 26379


def connect(url: str, password: str | None = None) -> Client:
    """Return a client for the URL, which connects when first used. Raises ValueError.

    `redis+sentinel://host:port,host:port/service?db=0` asks Sentinels for the master. The retries
    of redis-py, ten by default, are off: it would send a command again after a lost reply (one INCR
    then counted twice), and only the caller knows whether that is safe.
    """
    parts, hosts = split_address(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(
            f"redis.url={parts.scheme}://…: the scheme must be one of {', '.join(SCHEMES)}"
        )
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in IN_URL:
            raise ValueError(f"redis.url=…?{name}=…: must be one of {', '.join(IN_URL)}")
        if name in _FILES:
            _check_file(name, value)
    # RESP3 sends the password in HELLO. Servers that do not know that command repeat it, password
    # included, in their error.
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "max_connections": CONNECTIONS,
        "retry": Retry(NoBackoff(), 0),
    }
    if password is not None:
        options["password"] = password
    if parts.scheme == "redis+sentinel":
        return _by_sentinel(parts, hosts, options)
    plain = url.replace("+cluster", "", 1)
    if parts.scheme.endswith("+cluster"):
        # Otherwise each MOVED makes the client read the whole layout and close connections in use.
        return RedisCluster.from_url(plain, reinitialize_steps=0, **options)
    return Redis.from_url(plain, **options)


def _check_file(option: str, path: str) -> None:
    """Raises ValueError for a file that the library would wait for, or read for ever."""
    try:
        in_time(partial(check, path), path, BRIEF_S)
    except OSError as error:
        raise ValueError(
            f"redis.url=…?{option}={path}: cannot be read: {error.strerror}"
        ) from error


def address_of(url: str) -> str:
    """Return where the Redis of a URL is: hosts and database, without credentials. This machine
    has its name, so that no other one has the same address."""
    parts, netloc = split_address(url)
    hosts = netloc.rpartition("@")[2].split(",")
    own = " on " + socket.gethostname() if _is_this_machine(hosts) else ""
    database = dict(parse_qsl(parts.query)).get("db")
    path = parts.path.rstrip("/") or "/0"
    return ",".join(hosts) + path + (f"?db={database}" if database else "") + own


def _is_this_machine(hosts: Sequence[str]) -> bool:
    names = [urlsplit(f"//{host}").hostname or "localhost" for host in hosts]
    return any(name in ("localhost", "::1") or name.startswith("127.") for name in names)


def _by_sentinel(parts: SplitResult, netloc: str, options: dict[str, Any]) -> Redis:
    credentials, at, hosts = netloc.rpartition("@")
    sentinels = [_host_and_port(host) for host in hosts.split(",")]
    service = unquote(parts.path.strip("/")) or "mymaster"
    own = parse_url(f"redis://{credentials}{at}{quote(service, safe='')}/?{parts.query}")
    asking = {name: value for name, value in options.items() if name != "password"}
    manager = Sentinel(sentinels, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]  # theirs
    given = {name: value for name, value in own.items() if name != "host"}
    master: Redis = manager.master_for(service, **{"db": 0, **options, **given})
    return master


def _host_and_port(text: str) -> tuple[str, int]:
    """`host`, `host:port`, `[::1]` or `[::1]:port`."""
    parts = urlsplit(f"//{text}")
    return parts.hostname or "localhost", parts.port or _SENTINEL_PORT


async def close(client: Client) -> None:
    """Close every connection, also those to Sentinels, which redis-py leaves open."""
    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            await sentinel.aclose()
    await client.aclose()


async def answered(client: Client, call: Awaitable[T]) -> T:
    """Return the result of the call. Raises Unavailable, with a text without secrets, where the
    server refuses or does not answer."""
    refused = (*_REFUSED, *_TORN) if isinstance(client, RedisCluster) else _REFUSED
    try:
        return await call
    except refused as error:
        if isinstance(error, ReadOnlyError) and isinstance(client, Redis):
            # The master became a replica and keeps its connections: close them, so that the next
            # call asks for the master again.
            await client.connection_pool.disconnect(inuse_connections=False)
        raise _unavailable(error, client) from error


def _unavailable(error: Exception, client: Client) -> Unavailable:
    trouble, words = _trouble(error, is_tls=_speaks_tls(client))
    text = f"Redis: {type(error).__name__}: {_without_secrets(error, client)}"
    found = Unavailable(f"{text} ({words})" if words else text)
    found.trouble = trouble
    return found


_TLS_SETTINGS: Final[Mapping[Mismatch, str]] = {
    "authority": "ssl_ca_certs in redis.url",
    "name": "the host in redis.url, or its ssl_check_hostname",
    "client": "ssl_certfile and ssl_keyfile in redis.url",
    "protocol": "redis.url: rediss:// is for TLS, redis:// for none",
    "certificate": "the server",
}


def _speaks_tls(client: Client) -> bool:
    pool = getattr(client, "connection_pool", None)
    made_by = getattr(
        pool, "connection_class", client.get_connection_kwargs().get("connection_class")
    )
    return isinstance(made_by, type) and issubclass(made_by, SSLConnection)


def _trouble(error: Exception, *, is_tls: bool) -> tuple[Trouble, str]:
    """(what is wrong, in words that name the setting); "" where the error says it itself."""
    if (mismatch := tls_mismatch(error)) is not None:
        return "tls", f"{mismatch[1]}: see {_TLS_SETTINGS[mismatch[0]]}"
    text = str(error)
    if isinstance(error, AuthenticationError) or _UNAUTHENTICATED in text or "NOAUTH" in text:
        return "login", "Redis refuses the login: see redis.password, and the user in redis.url"
    if isinstance(error, NoPermissionError):
        return "permission", "the user in redis.url may not do this: see its ACL"
    if isinstance(error, OutOfMemoryError):
        return "full", "Redis is full: see its maxmemory"
    if isinstance(error, ReadOnlyError):
        return "read-only", "Redis takes no writes: see whether redis.url names the master"
    if any(isinstance(cause, FileNotFoundError | PermissionError) for cause in causes(error)):
        return "tls", "see the files that redis.url names: ssl_ca_certs, ssl_certfile, ssl_keyfile"
    if is_tls and _SLOW in text:
        return "tls", "or the server does not speak TLS there: see rediss:// in redis.url"
    if _CLOSED in text:
        return "connection", "where it does so at once, it may want TLS: redis.url with rediss://"
    is_connection = isinstance(error, RedisConnectionError | RedisTimeoutError | OSError)
    return "connection" if is_connection else "other", ""


def _without_secrets(error: Exception, client: Client) -> str:
    text = str(error)
    if _UNAUTHENTICATED in text:
        text = f"Authentication required ({text})"
    secret = client.get_connection_kwargs().get("password")
    return text.replace(str(secret), "***") if secret else text


KEYS_AT_ONCE: Final = 500
"""One call scans or removes so many keys: less than a millisecond of the server's time."""


async def lane_keys(client: Client, namespace: str) -> list[str]:
    """Return every key of its lanes and its past, on a cluster those of all masters. Raises the
    client's errors."""
    lane_key = re.compile(re.escape(f"{{{namespace}:") + r"(\d+|past)\}:")
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", f"{{{namespace}:") + "*"
    found = client.scan_iter(match=pattern, count=KEYS_AT_ONCE)
    texts = [key.decode(errors="replace") async for key in found]
    return [key for key in texts if lane_key.match(key)]


def prefix_of(key: str) -> str:
    """Return the prefix of the keys of the lane that this key belongs to."""
    return key[: key.index("}:") + 2]


def portions(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the keys in portions of KEYS_AT_ONCE."""
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield keys[first : first + KEYS_AT_ONCE]
