"""A connection to Redis from a URL: one server, a cluster, or whatever a Sentinel names as master.

And the one place that says what of Redis' errors means that it does not do its work now.
"""

from collections.abc import Awaitable
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisClusterException, RedisError

from ...config.kinds import PLAIN_OPTIONS, SECRET_OPTIONS
from ...errors import Unavailable

Client: TypeAlias = "Redis | RedisCluster"
T = TypeVar("T")

TIMEOUT_S: Final = 5.0
"""No answer for this long counts as none: the caller decides what to send again."""
CONNECTIONS: Final = 10_000
"""More than a process ever holds lanes: one that has to wait for a connection is told that there is
none."""
SCHEMES: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel")
IN_URL: Final = (*PLAIN_OPTIONS, *SECRET_OPTIONS)
_REFUSED: Final = (RedisError, RedisClusterException, OSError)
_TORN: Final = (AttributeError, RuntimeError)
"""What a call on a cluster may end in when the client learns the layout anew: it closes connections
on which other calls are under way, and these meet a stream that is not there any more."""
_UNAUTHENTICATED: Final = "Protocol error: unauthenticated"
"""What a server that wants a password says to a request that is long."""
_SENTINEL_PORT: Final = 26379


def connect(url: str, password: str | None = None) -> Client:
    """A client for the URL; connects when first used. Raises ValueError.

    `redis+sentinel://host:port,host:port/service?db=0` asks Sentinels for the master. The library's
    own retries are off: it would send a command again whose answer was lost, and only the caller
    knows whether it may.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(
            f"redis.url={parts.scheme}://…: the scheme must be one of {', '.join(SCHEMES)}"
        )
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name not in IN_URL:
            raise ValueError(f"redis.url=…?{name}=…: must be one of {', '.join(IN_URL)}")
    # Version 3 of the protocol sends the password in a command that not every server knows, and
    # servers repeat unknown commands in their error.
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
        return _by_sentinel(url, options)
    plain = url.replace("+cluster", "", 1)
    if parts.scheme.endswith("+cluster"):
        # A slot that has moved is noted singly: no call is torn for it.
        return RedisCluster.from_url(plain, reinitialize_steps=0, **options)
    return Redis.from_url(plain, **options)


def _by_sentinel(url: str, options: dict[str, Any]) -> Redis:
    parts = urlsplit(url)
    credentials, at, hosts = parts.netloc.rpartition("@")
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
    """Close every connection: those to Sentinels as well, which the library forgets."""
    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            await sentinel.aclose()
    await client.aclose()


async def answered(client: Client, call: Awaitable[T]) -> T:
    """What the call returns. Raises Unavailable, with a text that holds no secret, where the server
    refuses or does not answer."""
    refused = (*_REFUSED, *_TORN) if isinstance(client, RedisCluster) else _REFUSED
    try:
        return await call
    except refused as error:
        if isinstance(error, ReadOnlyError) and isinstance(client, Redis):
            # A master that became a replica keeps its connections; the name may lead elsewhere now.
            await client.connection_pool.disconnect(inuse_connections=False)
        raise Unavailable(
            f"Redis: {type(error).__name__}: {_without_secrets(error, client)}"
        ) from (error)


def _without_secrets(error: Exception, client: Client) -> str:
    text = str(error)
    if _UNAUTHENTICATED in text:
        text = f"Authentication required ({text})"
    secret = client.get_connection_kwargs().get("password")
    return text.replace(str(secret), "***") if secret else text
