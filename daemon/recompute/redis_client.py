"""The client of the Redis that a configuration names, and the lanes that are there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import unquote

from ..config import Config, split_address
from ..errors import Damaged
from ..logins import Credential, NoteToken, Password, ignore_token
from ..storage import (
    Access,
    Client,
    DamagedLane,
    Head,
    LaneDelta,
    LaneStore,
    Namespace,
    close,
    connect,
    namespace,
)


def client_of(config: Config, note: NoteToken = ignore_token) -> Client:
    """Return a client, which connects when first used. Raises ValueError."""
    redis = config.redis
    given = {
        "ssl_ca_certs": redis.ssl_cafile,
        "ssl_certfile": redis.ssl_certfile,
        "ssl_keyfile": redis.ssl_keyfile,
        "ssl_check_hostname": redis.ssl_check_hostname,
    }
    credential: Credential | None = None
    if redis.token is not None:
        user = unquote(split_address(redis.url.reveal())[1].rpartition("@")[0].partition(":")[0])
        from ..logins.configured_tokens import redis_tokens

        credential = redis_tokens(redis, user, note)
    elif redis.password is not None:
        credential = Password(redis.password)
    access = Access(
        credential,
        redis.sentinel_username,
        redis.sentinel_password,
        {name: value for name, value in given.items() if value is not None},
        redis.ssl_key_password,
    )
    return connect(redis.url.reveal(), access)


@asynccontextmanager
async def connected(config: Config) -> AsyncIterator[Client]:
    """A client that is closed at the end. Raises ValueError."""
    client = client_of(config)
    try:
        yield client
    finally:
        await close(client)


async def stored_heads(config: Config) -> dict[int, Head]:
    """The heads of lanes as the workers of this configuration have stored them: of those that have
    one that can be read. Raises Unavailable."""
    name, heads = namespace(config), dict[int, Head]()
    async with connected(config) as client:
        store = LaneStore(client, name)
        for lane in range(await Namespace(client, config.redis.namespace, name).lanes()):
            with suppress(Damaged):
                head = await store.head(lane)
                heads |= {} if head is None else {lane: head}
    return heads


async def whole_lanes(client: Client, config: Config) -> AsyncIterator[tuple[int, LaneDelta]]:
    """Each lane that was ever claimed, ascending, with all that readers follow. Raises Unavailable,
    and Damaged where one of them cannot be read: a sum without it would be too small."""
    name = namespace(config)
    lanes, store = Namespace(client, config.redis.namespace, name), LaneStore(client, name)
    begun = await lanes.begun()  # asked first: a lane that begins later may have no head yet
    for lane in range(await lanes.lanes()):
        delta = await store.read(lane, "", None, 1)
        if delta is not None:
            yield lane, delta
        elif lane in begun:
            raise DamagedLane(lane, "its head is gone")
