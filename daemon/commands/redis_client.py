"""The client of the Redis that a configuration names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..config.settings import Config
from ..storage.redis.client import Client, close, connect


def client_of(config: Config) -> Client:
    """Return a client, which connects when first used. Raises ValueError."""
    password = config.redis.password
    return connect(config.redis.url.reveal(), None if password is None else password.reveal())


@asynccontextmanager
async def connected(config: Config) -> AsyncIterator[Client]:
    """A client that is closed at the end. Raises ValueError."""
    client = client_of(config)
    try:
        yield client
    finally:
        await close(client)
