"""How long topics keep their records: by their settings, else by the age of their first records."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from ..errors import Unavailable
from ..worker import Retention
from .client import KafkaSettings, client_arguments, logger, stop_client

PATIENCE_S: Final = 15.0
LANES_ASKED: Final = 16
"""First records are asked for in so many partitions at most: retention is that of the topic."""
_KEYS: Final = ("retention.ms", "retention.bytes")
_NO_LIMIT: Final = -1
FirstTimes = Callable[[int], Awaitable[Mapping[str, int]]]


async def topic_retention(
    settings: KafkaSettings, first_times: FirstTimes, lanes: int, now_ms: int
) -> dict[str, Retention]:
    """Return, by topic, how long it keeps its records; nothing of topics of which nobody says it.

    Where only bytes limit a topic, or both do, its first record's age is how far it reaches back
    now. Never raises what Kafka answers: that is logged.
    """
    limits = await topic_numbers(settings, settings.topics, _KEYS)
    kept: dict[str, Retention] = {}
    bounded = [topic for topic in settings.topics if _is_by_time(limits.get(topic))]
    for topic in bounded:
        ms = limits[topic]["retention.ms"]
        kept[topic] = Retention(None if ms == _NO_LIMIT else ms, "retention.ms")
    if len(bounded) < len(settings.topics):
        for topic, first_ms in (await _latest_first(first_times, min(lanes, LANES_ASKED))).items():
            kept.setdefault(topic, Retention(max(now_ms - first_ms, 0), "age of its first record"))
    return kept


def _is_by_time(limits: Mapping[str, int] | None) -> bool:
    return limits is not None and limits.get("retention.bytes", _NO_LIMIT) == _NO_LIMIT


async def topic_numbers(
    settings: KafkaSettings, topics: Sequence[str], keys: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Topic → its settings of these keys; without those that this user may not read. Never raises
    what Kafka answers: that is logged."""
    admin: Any = AIOKafkaAdminClient(**client_arguments(settings))
    wanted = dict.fromkeys(keys)
    asked = [ConfigResource(ConfigResourceType.TOPIC, name, wanted) for name in topics]
    try:
        async with asyncio.timeout(PATIENCE_S):
            await admin.start()
            answers = await admin.describe_configs(asked)
    except (KafkaError, OSError, TimeoutError) as error:
        reason = str(error) or "no answer"
        logger.info("settings of topics cannot be read", settings=list(keys), reason=reason)
        return {}
    finally:
        await stop_client(admin.close())
    return numbers_in([resource for answer in answers for resource in answer.resources], keys)


def numbers_in(
    resources: Sequence[Sequence[Any]], keys: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Topic → the numbers in the answer to a request for its settings; without refused ones."""
    return {
        name: {key: int(value) for key, value, *_ in entries if key in keys}
        for code, _, _, name, entries in resources
        if code == 0
    }


async def _latest_first(first_times: FirstTimes, lanes: int) -> dict[str, int]:
    """Topic → the latest time of the first records of its partitions."""
    latest: dict[str, int] = {}
    try:
        for times in await asyncio.gather(*map(first_times, range(lanes))):
            for topic, first_ms in times.items():
                latest[topic] = max(latest.get(topic, 0), first_ms)
    except Unavailable as error:
        logger.info("first records of the topics cannot be asked for", reason=str(error))
    return latest
