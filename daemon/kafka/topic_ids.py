"""Reading by topic id: which topic an id is of, and fetches that no other log than that can answer.

A fetch by name is answered by whatever log has the name now. Where a topic is deleted and created
again while it is read, the next fetch would bring records of the new log from the offset reached in
the old one, and nothing would show it: the offsets go on. Asking for the topic's id now and then
does not close that window, since the records may have been fetched, and committed, before. A fetch
by id (Kafka 3.1 and later) has no window: the broker checks the id in the same step in which it
reads the log, and answers with an error once the topic with that id is gone.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from io import BytesIO
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from aiokafka.client import ConnectionGroup
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, OffsetOutOfRangeError, for_code
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from ..errors import Unavailable
from .topic_partition import TopicPartition

NO_ID: Final = bytes(16)
"""What a broker answers for a topic without an id."""
FETCH_BY_ID: Final = 13

# Requests and answers of Kafka that aiokafka does not have: those that know topics by their ids. A
# topic gets a new id each time it is created (Kafka 2.8 and later), so the id tells a topic from
# one that was deleted and created again under the same name. Metadata 11 and 12 state it; Fetch 13
# (Kafka 3.1 and later) names topics by nothing else, and the broker refuses an id that is gone. The
# fields are those of `MetadataRequest.json` and `FetchRequest.json` of Apache Kafka and of their
# responses.


class Uuid(AbstractType):  # type: ignore[misc]  # aiokafka has no types
    """16 bytes; in texts as Kafka's own tools print them: base64 for URLs, without padding."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Return the bytes."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """Return the next 16 bytes. Raises ValueError where there are fewer."""
        value = data.read(16)
        if len(value) != 16:
            raise ValueError("the answer ends inside an id")
        return value

    @classmethod
    def repr(cls, value: bytes) -> str:
        """Return it as text."""
        return id_text(value)


def id_text(topic_id: bytes) -> str:
    """Return a topic id as `kafka-topics --describe` prints it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """Return the 16 bytes of a topic id."""
    return urlsafe_b64decode(text + "==")


_TAGS: Final = ("tags", TaggedFields)
_NAME: Final = CompactString("utf-8")


class MetadataResponse_v11(Response):  # type: ignore[misc]  # aiokafka has no types
    """The topics with their ids, and who leads their partitions."""

    API_KEY = 3
    API_VERSION = 11
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _NAME), ("port", Int32), ("rack", _NAME), _TAGS
            ),
        ),
        ("cluster_id", _NAME),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _NAME),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        _TAGS,
                    ),
                ),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class MetadataResponse_v12(MetadataResponse_v11):
    """The same fields."""

    API_VERSION = 12


class MetadataRequest_v11(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    """Which topics to describe."""

    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 11
    RESPONSE_TYPE = MetadataResponse_v11
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("name", _NAME), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        _TAGS,
    )


class MetadataRequest_v12(MetadataRequest_v11):
    """The same fields."""

    API_VERSION = 12
    RESPONSE_TYPE = MetadataResponse_v12


class TopicIdsRequest(Request[MetadataRequest_v11 | MetadataRequest_v12]):  # type: ignore[misc]
    """Asks for the ids of topics. A broker without ids raises NotImplementedError at `send`."""

    API_KEY = 3

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        """Return the request in a version of the broker's."""
        named: list[tuple[Any, ...]] = [(NO_ID, topic, {}) for topic in self._topics]
        return request_struct_class(named, False, False, {})


class FetchResponse_v13(Response):  # type: ignore[misc]  # aiokafka has no types
    """Records, by the id of their topic."""

    API_KEY = 1
    API_VERSION = FETCH_BY_ID
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("session_id", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("highwater_offset", Int64),
                        ("last_stable_offset", Int64),
                        ("log_start_offset", Int64),
                        (
                            "aborted_transactions",
                            CompactArray(("producer_id", Int64), ("first_offset", Int64), _TAGS),
                        ),
                        ("preferred_read_replica", Int32),
                        ("records", CompactBytes),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class FetchRequest_v13(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    """What to fetch, by the id of its topic."""

    FLEXIBLE_VERSION = True
    API_KEY = 1
    API_VERSION = FETCH_BY_ID
    RESPONSE_TYPE = FetchResponse_v13
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("max_wait_time", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("session_id", Int32),
        ("session_epoch", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("current_leader_epoch", Int32),
                        ("fetch_offset", Int64),
                        ("last_fetched_epoch", Int32),
                        ("log_start_offset", Int64),
                        ("max_bytes", Int32),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        (
            "forgotten_topics_data",
            CompactArray(("topic_id", Uuid), ("partitions", CompactArray(Int32)), _TAGS),
        ),
        ("rack_id", _NAME),
        _TAGS,
    )


class FetchById(Request[FetchRequest_v13]):  # type: ignore[misc]  # aiokafka has no types
    """A fetch of aiokafka's with the ids of its topics in place of their names, for brokers that
    take it; else the fetch as it is."""

    API_KEY = 1

    def __init__(self, plain: FetchRequest, ids: Mapping[TopicPartition, bytes]) -> None:
        """`ids` has every topic-partition of the fetch."""
        self._plain = plain
        self.topics = plain.topics
        self.names: dict[bytes, str] = {}
        """Id → topic."""
        self._by_id: dict[bytes, list[tuple[Any, ...]]] = {}
        for topic, partitions in plain.topics:
            for partition, offset, max_bytes in partitions:
                topic_id = ids[TopicPartition(topic, partition)]
                self.names[topic_id] = topic
                entry: tuple[Any, ...] = (partition, -1, offset, -1, -1, max_bytes, {})
                self._by_id.setdefault(topic_id, []).append(entry)

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Any:
        """Return the request in a version of the broker's."""
        if versions.get(self.API_KEY, (0, 0))[1] < FETCH_BY_ID:
            return self._plain.prepare(versions)
        return self.build(FetchRequest_v13)

    def build(self, request_struct_class: Any) -> Any:
        """Return the request by ids, outside of a session."""
        plain = self._plain
        return request_struct_class(
            -1,
            plain._max_wait_ms,
            plain._min_bytes,
            plain._max_bytes,
            plain._isolation_level,
            0,
            -1,
            [(topic_id, entries, {}) for topic_id, entries in self._by_id.items()],
            [],
            getattr(plain, "_rack_id", ""),
            {},
        )


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
