"""Whether a roll-out in place would end what serves. For a configuration that is to come."""

import asyncio

from ..config.settings import Config
from ..storage.redis.namespace import Namespace
from ..storage.schema import namespace
from .redis_client import connected


def refusal(config: Config) -> str:
    """Why workers of this configuration must not replace those that run, and the way to go; ""
    where they may. Raises Unavailable."""
    predecessor = asyncio.run(_predecessor(config))
    if predecessor is None:
        return ""
    return (
        f"the workers of {predecessor} serve, and this configuration starts the fresh namespace"
        f" {namespace(config)}: in place, they would end before it has caught up. Install it beside"
        " them, with the same redis.namespace (a second release, project or unit); it takes over"
        " once it has caught up; then remove the former one. To accept the gap instead: with Helm,"
        " upgradeCheck.enabled=false"
    )


async def _predecessor(config: Config) -> str | None:
    async with connected(config) as client:
        topics = config.kafka.topics
        own = Namespace(client, config.redis.namespace, namespace(config), topics)
        return (await own.term()).predecessor
