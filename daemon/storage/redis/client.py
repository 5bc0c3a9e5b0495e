"""Connect to Redis by URL: one server, a cluster, or the master that a Sentinel names.

This is also the one place that decides which errors of the client mean Unavailable.

The keys of all lanes of a namespace, found by a scan of all keys of the servers.
"""

import re
import socket
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TimeoutError as RedisTimeoutError,
)

from ...config import PLAIN_OPTIONS, SECRET_OPTIONS, Secret, split_address
from ...errors import Trouble, Unavailable
from ...files import BRIEF_S, check, in_time
from ...logins import Credential, Password
from ...telemetry import Mismatch, causes, tls_mismatch
from .logins import (
    UNAUTHENTICATED,
    Login,
    NoLogin,
    is_refused_login,
    let_renew,
    logins_of,
    renewing,
)

Client: TypeAlias = "Redis | RedisCluster"
T = TypeVar("T")

TIMEOUT_S: Final = 5.0
"""A call without an answer for this long is Unavailable: the caller decides what to send again."""
CONNECTIONS: Final = 10_000
"""More than a process ever owns lanes: the pool raises an error, instead of waiting, when it has
none left."""
SCHEMES: Final = tuple(
    f"{tls}{kind}" for kind in ("", "+cluster", "+sentinel") for tls in ("redis", "rediss")
)
IN_URL: Final = (*PLAIN_OPTIONS, *SECRET_OPTIONS)
_REFUSED: Final = (RedisError, RedisClusterException, OSError)
_TORN: Final = (AttributeError, RuntimeError)
"""Raised by calls on a cluster while the client reads a new layout: it closes connections on which
other calls are under way, and their stream is gone."""
_CLOSED: Final = ("Connection closed by server", "Connection reset by peer")
_OWN_CERTIFICATE: Final = "another certificate of the client: see redis.ssl_certfile"
_SLOW: Final = "Timeout connecting"
"""Also where a server without TLS waits for the rest of what a TLS handshake looks like to it."""
_FILES: Final = {
    "ssl_ca_certs": "redis.ssl_cafile",
    "ssl_certfile": "redis.ssl_certfile",
    "ssl_keyfile": "redis.ssl_keyfile",
}
"""Option of the client library → setting."""
_SENTINEL_PORT: Final = 26379
_NOT_OF_CLUSTERS: Final = ("ssl_password", "ssl_ca_path")
"""Options that connections of a cluster know, and the cluster's client does not."""


@dataclass(frozen=True)
class Access:
    """What is not in the URL of how this process proves who it is."""

    credential: Credential | None = None
    """The password, or a token; the user is in the URL."""
    sentinel_username: str | None = None
    sentinel_password: Secret | None = None
    tls: Mapping[str, Any] = field(default_factory=dict)
    """Options of the client library."""
    key_password: Secret | None = None


NO_ACCESS: Final = Access()


def connect(url: str, access: Access = NO_ACCESS) -> Client:
    """Return a client for the URL, which connects when first used. Raises ValueError.

    `redis+sentinel://host:port,host:port/service?db=0` asks Sentinels for the master. The retries
    of redis-py, ten by default, are off: it would send a command again after a lost reply (one INCR
    then counted twice), and only the caller knows whether that is safe.
    """
    parts, netloc = split_address(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(
            f"redis.url={parts.scheme}://…: the scheme must be one of {', '.join(SCHEMES)}"
        )
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in IN_URL:
            raise ValueError(f"redis.url=…?{name}=…: must be one of {', '.join(IN_URL)}")
        if name in _FILES:
            _check_file(f"redis.url=…?{name}", value)
    for name in _FILES.keys() & access.tls.keys():
        _check_file(_FILES[name], access.tls[name])
    scheme, _, kind = parts.scheme.partition("+")
    # RESP3 sends the password in HELLO. Servers that do not know that command repeat it, password
    # included, in their error.
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "max_connections": CONNECTIONS,
        "retry": Retry(NoBackoff(), 0),
    }
    credentials, at, hosts = netloc.rpartition("@")
    # One host stands for all: the client library reads one only, and of Sentinels none.
    host = "sentinels" if kind == "sentinel" else hosts
    path = "/" if kind == "sentinel" else parts.path
    own = parse_url(f"{scheme}://{credentials}{at}{host}{path}?{parts.query}")
    own.pop("connection_class", None)
    username, password = own.pop("username", None), own.pop("password", None)
    tls = {name: value for name, value in own.items() if name.startswith("ssl_")}
    if scheme == "rediss":
        tls = {"ssl": True, **access.tls, **tls}
        if access.key_password is not None:
            tls["ssl_password"] = access.key_password.reveal()
    credential = access.credential or (None if password is None else Password(Secret(password)))
    login = Login(username, credential, tls, access.key_password)
    options = {**options, **own, **tls, **login.options}
    if kind == "sentinel":
        service = unquote(parts.path.strip("/")) or "mymaster"
        return _by_sentinel(service, hosts.split(","), login, tls, options, access)
    if kind == "cluster":
        return _cluster(options, login)
    client = Redis(**options)
    let_renew(client.connection_pool, login)
    return client


def _check_file(setting: str, path: str) -> None:
    """Raises ValueError for a file that the library would wait for, or read for ever."""
    try:
        in_time(partial(check, path), path, BRIEF_S)
    except OSError as error:
        raise ValueError(f"{setting}={path}: cannot be read: {error.strerror}") from error


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


def _cluster(options: Mapping[str, Any], login: Login) -> RedisCluster:
    later = {name: options[name] for name in _NOT_OF_CLUSTERS if name in options}
    given = {name: value for name, value in options.items() if name not in later}
    # Otherwise each MOVED makes the client read the whole layout and close connections in use.
    cluster = RedisCluster(reinitialize_steps=0, **given)
    made_by = renewing(cluster.connection_kwargs["connection_class"], login)
    cluster.connection_kwargs.update(later, connection_class=made_by)
    for node in cluster.nodes_manager.startup_nodes.values():
        node.connection_class = made_by
        node.connection_kwargs.update(later)
    return cluster


def _by_sentinel(
    service: str,
    hosts: Sequence[str],
    login: Login,
    tls: Mapping[str, Any],
    options: Mapping[str, Any],
    access: Access,
) -> Redis:
    password = access.sentinel_password
    asking = Login(
        access.sentinel_username,
        None if password is None else Password(password),
        dict(tls),
        access.key_password,
    )
    unsaid = ("host", "port", "db", "credential_provider", "client_name")
    given = {name: value for name, value in options.items() if name not in unsaid}
    manager = Sentinel(  # type: ignore[no-untyped-call]  # theirs
        [_host_and_port(host) for host in hosts], sentinel_kwargs={**given, **asking.options}
    )
    for sentinel in manager.sentinels:
        let_renew(sentinel.connection_pool, asking)
    own = {name: value for name, value in options.items() if name not in ("host", "port")}
    master: Redis = manager.master_for(service, **{"db": 0, **own})
    let_renew(master.connection_pool, login)
    return master


def _host_and_port(text: str) -> tuple[str, int]:
    """`host`, `host:port`, `[::1]` or `[::1]:port`."""
    parts = urlsplit(f"//{text}")
    return parts.hostname or "localhost", parts.port or _SENTINEL_PORT


async def close(client: Client) -> None:
    """Close every connection, also those that redis-py leaves open: to Sentinels, and to the nodes
    of a cluster of which a call failed since the layout was read."""
    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            await sentinel.aclose()
    await client.aclose()
    if isinstance(client, RedisCluster):
        for nodes in ("nodes_cache", "startup_nodes"):
            await client.nodes_manager.aclose(nodes)


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
    is_tls = _speaks_tls(client)
    text = f"{type(error).__name__}: {_without_secrets(error, client)}"
    if isinstance(error, MasterNotFoundError):
        text, trouble, words = _of_sentinels(text, logins_of(client), is_tls=is_tls)
    else:
        trouble, words = _trouble(error, logins_of(client)[-1].settings, is_tls=is_tls)
    found = Unavailable(f"Redis: {text} ({words})" if words else f"Redis: {text}")
    found.trouble = trouble
    return found


def _of_sentinels(text: str, logins: Sequence[Login], *, is_tls: bool) -> tuple[str, Trouble, str]:
    """(text, what is wrong, in words) where none of them names a master. The client keeps of their
    errors what their connections are made with."""
    failure = logins[0].failure
    text, _, errors = text.partition(" : ")
    if failure is not None:
        text = f"no Sentinel answers: {type(failure).__name__}: {failure}"
    if "AuthenticationError" in errors:
        settings = "redis.sentinel_username and redis.sentinel_password"
        return text, "login", f"the Sentinels refuse the login: see {settings}"
    if failure is not None:
        return text, *_trouble(failure, logins[-1].settings, is_tls=is_tls)
    asked = "the hosts in redis.url" if errors else "what follows / in redis.url"
    return text, "connection", f"no Sentinel knows a master of that name: see {asked}"


_TLS_SETTINGS: Final[Mapping[Mismatch, str]] = {
    "authority": "redis.ssl_cafile",
    "name": "the host in redis.url, or redis.ssl_check_hostname",
    "client": "redis.ssl_certfile and redis.ssl_keyfile",
    "protocol": "redis.url: rediss:// is for TLS, redis:// for none",
    "certificate": "the server",
}


def _speaks_tls(client: Client) -> bool:
    pool = getattr(client, "connection_pool", None)
    made_by = getattr(
        pool, "connection_class", client.get_connection_kwargs().get("connection_class")
    )
    return isinstance(made_by, type) and issubclass(made_by, SSLConnection)


_SAID_BY_KIND: Final[Mapping[type[Exception], tuple[Trouble, str]]] = {
    NoPermissionError: ("permission", "the user in redis.url may not do this: see its ACL"),
    OutOfMemoryError: ("full", "Redis is full: see its maxmemory"),
    ReadOnlyError: ("read-only", "Redis takes no writes: see whether redis.url names the master"),
}


def _trouble(error: Exception, login: str, *, is_tls: bool) -> tuple[Trouble, str]:
    """(what is wrong, in words that name the setting); "" where the error says it itself. `login`:
    the settings of the login."""
    if (mismatch := tls_mismatch(error)) is not None:
        return "tls", f"{mismatch[1]}: see {_TLS_SETTINGS[mismatch[0]]}"
    text = str(error)
    if any(map(is_refused_login, causes(error))):  # a cluster's client raises another error from it
        return "login", f"Redis refuses the login: see {login}"
    if any(isinstance(cause, NoLogin) for cause in causes(error)):
        return "login", ""
    if isinstance(error, NoPermissionError) and "sentinel" in text:
        return "permission", "redis.sentinel_username may not do this: see the Sentinels' ACL"
    for kind, (trouble, words) in _SAID_BY_KIND.items():
        if isinstance(error, kind):
            return trouble, words
    if any(isinstance(cause, FileNotFoundError | PermissionError) for cause in causes(error)):
        return "tls", "see redis.ssl_cafile, redis.ssl_certfile and redis.ssl_keyfile"
    if is_tls and _SLOW in text:
        return "tls", "or the server does not speak TLS there: see rediss:// in redis.url"
    if any(words in text for words in _CLOSED):
        # A server that refuses a certificate may hang up before its reason has arrived.
        wants = _OWN_CERTIFICATE if is_tls else "TLS: redis.url with rediss://"
        return "connection", f"where it does so at once, it may want {wants}"
    is_connection = isinstance(error, RedisConnectionError | RedisTimeoutError | OSError)
    return "connection" if is_connection else "other", ""


def _without_secrets(error: Exception, client: Client) -> str:
    text = str(error)
    if UNAUTHENTICATED in text:
        text = f"Authentication required ({text})"
    for secret in {secret for login in logins_of(client) for secret in login.secrets}:
        text = text.replace(secret, "***")
    return text


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


def packed_texts(parts: Iterable[str | int | bytes]) -> bytes:
    """Return texts as one MessagePack array for `cmsgpack` of scripts, which knows no type `bin`:
    also what is no UTF-8 has the type `str`."""
    texts = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    packed = b"".join(b"\xdb" + len(text).to_bytes(4, "big") + text for text in texts)
    return b"\xdd" + len(texts).to_bytes(4, "big") + packed
