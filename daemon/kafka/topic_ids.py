"""Reading by topic id: which topic an id is of, and fetches that no other log than that can answer.

A fetch by name is answered by whatever log has the name now. Where a topic is deleted and created
again while it is read, the next fetch would bring records of the new log from the offset reached in
the old one, and nothing would show it: the offsets go on. Asking for the topic's id now and then
does not close that window, since the records may have been fetched, and committed, before. A fetch
by id (Kafka 3.1 and later) has no window: the broker checks the id in the same step in which it
reads the log, and answers with an error once the topic with that id is gone.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from aiokafka.client import ConnectionGroup
from aiokafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    OffsetOutOfRangeError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest

from ..errors import Unavailable
from .protocol import FETCH_BY_ID, NO_ID, FetchById, TopicIdsRequest, id_bytes, id_text
from .topic_partition import TopicPartition

UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103
_NO_ERROR: Final = 0
_LIKE_NAMED: Final = 4
"""The version of an answer by name with the fields that the client needs, in its order."""

Fence: TypeAlias = dict[TopicPartition, str]


async def topic_ids(client: Any, node_id: int, topics: list[str]) -> dict[str, str]:
    """Ask one broker for the ids of topics; returns none where it has no ids (before Kafka 2.8).

    Ask the leader of a partition after it answered: a broker learns of a new topic before it serves
    its log, so the id is not older than what was read. Raises Unavailable, also for a topic that
    does not exist.
    """
    try:
        response = await client.send(node_id, TopicIdsRequest(topics))
    except (NotImplementedError, IncompatibleBrokerVersion):
        return {}
    except (KafkaError, OSError) as error:
        raise Unavailable(f"topic ids: {error}") from error
    ids = {}
    for code, name, topic_id, *_ in response.topics:
        if code != _NO_ERROR:
            raise Unavailable(f"topic {name}: {for_code(code).__name__}")
        if topic_id != NO_ID:
            ids[name] = id_text(topic_id)
    return ids


def fetch_by_id(client: Any, fence: Mapping[TopicPartition, str]) -> None:
    """Let a client fetch the topic-partitions in `fence` by their ids; the caller may change the
    mapping at any time. A fetch with any other topic-partition goes by name, and so do all fetches
    from a broker that knows no fetch by id.

    A refused id is reported as an offset out of range: in either case the log that was asked for
    does not have the offset, and it must be found out why.
    """
    send = client.send

    async def send_by_id(
        node_id: int, request: Any, *, group: Any = ConnectionGroup.DEFAULT
    ) -> Any:
        if type(request) is not FetchRequest:
            return await send(node_id, request, group=group)
        asked = request.topics
        places = [TopicPartition(topic, entry[0]) for topic, of in asked for entry in of]
        if not all(place in fence for place in places):
            return await send(node_id, request, group=group)
        by_id = FetchById(request, {place: id_bytes(fence[place]) for place in places})
        answer = await send(node_id, by_id, group=group)
        return answer if answer.API_VERSION < FETCH_BY_ID else _by_name(answer, by_id)

    client.send = send_by_id


def is_fetched_by_id(client: Any) -> bool:
    """Whether every broker that this client is connected to takes fetches by id."""
    connections = client._conns.values()
    return all(c._versions.get(FetchById.API_KEY, (0, 0))[1] >= FETCH_BY_ID for c in connections)


def _by_name(answer: Any, asked: FetchById) -> Any:
    """Return an answer by id as one by name."""
    if answer.error_code != _NO_ERROR:
        refused = _as_named(answer.error_code)
        topics: list[tuple[Any, ...]] = [
            (topic, [(entry[0], refused, -1, -1, [], b"") for entry in entries])
            for topic, entries in asked.topics
        ]
    else:
        topics = [
            (asked.names[topic_id], [_partition_by_name(*entry) for entry in entries])
            for topic_id, entries, _ in answer.topics
            if topic_id in asked.names
        ]
    return SimpleNamespace(API_VERSION=_LIKE_NAMED, topics=topics)


def _partition_by_name(
    partition: int,
    code: int,
    end: int,
    stable_end: int,
    _log_start: int,
    aborted: list[tuple[int, int, Any]] | None,
    _preferred_replica: int,
    records: bytes | None,
    _tags: Any,
) -> tuple[Any, ...]:
    transactions = [(producer, first) for producer, first, _ in aborted or ()]
    return partition, _as_named(code), end, stable_end, transactions, records or b""


def _as_named(code: int) -> int:
    if code in (UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID):
        return int(OffsetOutOfRangeError.errno)
    return code
