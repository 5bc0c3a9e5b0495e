"""Topics of a broker, made and removed by the clients' protocol, wherever the broker runs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

LEADER_PATIENCE_S: Final = 20.0


async def create_topic(
    bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create it, and return when every partition has a leader."""
    topic = NewTopic(name, partitions, 1, topic_configs=dict(config or {}))
    async with _admin(bootstrap) as admin:
        response = await admin.create_topics([topic])
        _raise_first(response.topic_errors)
        async with asyncio.timeout(LEADER_PATIENCE_S):
            while not _led(await admin.describe_topics([name]), partitions):
                await asyncio.sleep(0.02)


async def delete_topic(bootstrap: str, name: str) -> None:
    async with _admin(bootstrap) as admin:
        response = await admin.delete_topics([name])
        _raise_first(response.topic_error_codes)


@asynccontextmanager
async def _admin(bootstrap: str) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


def _raise_first(results: list[tuple[Any, ...]]) -> None:
    for topic, code, *message in results:
        if code:
            raise for_code(code)(topic, *message)


def _led(topics: list[dict[str, Any]], partitions: int) -> bool:
    found = topics[0]["partitions"]
    return len(found) == partitions and all(part["leader"] >= 0 for part in found)
