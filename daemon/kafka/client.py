"""Kafka clients of this process: their settings, how long topics keep their records, and the
producer.

Every client (consumer, producer, the ones that ask for topics) is made from the same values.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)

from ..config import (
    MSK,
    OAUTHBEARER,
    ONE,
    SASL_MECHANISMS,
    SECURITY_PROTOCOLS,
    Config,
    ReadAgain,
    Secret,
)
from ..errors import RecordRefused, StartError, Unavailable
from ..logins import Credential, NoteToken, Password, TlsFiles, ignore_token, tls_files
from ..logins.sources import kafka_tokens
from ..storage import consumer_group, lane_topics, stage_group
from ..worker import Retention
from . import logins
from .topic_partition import Division

NEW_PARTITIONS_NOTICED_MS: Final = 15_000
"""How often the client asks for the partitions of its topics."""
STOP_PATIENCE_S: Final = 15.0

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class KafkaSettings:
    """Where the cluster is and how to talk to it. Secrets are left out of the `repr`."""

    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    division: Division = Division()
    idle_after_s: float = 0
    """0: a partition without records is waited for."""
    group_id: str = "relevanced"
    client_id: str = "relevanced"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: Secret | None = None
    tokens: Credential | None = field(default=None, compare=False)
    """What OAUTHBEARER shows in place of a password."""
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_key_password: Secret | None = None
    ssl_check_hostname: bool = True
    isolation_level: str = "read_committed"
    session_timeout_s: float = 45.0
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 << 20
    max_partition_fetch_bytes: int = 4 << 20

    @cached_property
    def credential(self) -> Credential | None:
        """What is shown to brokers beside the name of the user; None without a login."""
        if self.sasl_mechanism == OAUTHBEARER:
            return self.tokens
        return None if self.sasl_password is None else Password(self.sasl_password)

    @cached_property
    def tls(self) -> ReadAgain[TlsFiles]:
        """How connections over TLS are made. Raises StartError."""
        return tls_files(
            "kafka",
            self.ssl_cafile,
            self.ssl_certfile,
            self.ssl_keyfile,
            self.ssl_key_password,
            check_hostname=self.ssl_check_hostname,
        )

    @property
    def session_timeout_ms(self) -> int:
        """After so long without a heartbeat, the group assigns this member's lanes to others."""
        return int(self.session_timeout_s * 1000)

    @property
    def heartbeat_interval_ms(self) -> int:
        """The time in which a rebalance is noticed: 3 s at the default session timeout of 45 s."""
        return self.session_timeout_ms // 15

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the group waits for each member to finish its batch and to join again."""
        return self.session_timeout_ms * 2 // 3

    @property
    def revoke_patience_s(self) -> float:
        """How long a rebalance waits for the batch in hand: half of what the group waits for this
        member to join again.
        """
        return self.session_timeout_s / 3

    @property
    def request_timeout_ms(self) -> int:
        """Longer than a rebalance may take, or a slow one would look like a dead connection."""
        return self.rebalance_timeout_ms + 10_000


def client_arguments(settings: KafkaSettings) -> dict[str, Any]:
    """Return the arguments of every aiokafka client. Raises StartError for impossible values."""
    _check(settings)
    logins.install()
    arguments: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers,
        "client_id": settings.client_id,
        "request_timeout_ms": settings.request_timeout_ms,
        "metadata_max_age_ms": NEW_PARTITIONS_NOTICED_MS,
        "retry_backoff_ms": 300,
        "security_protocol": settings.security_protocol,
    }
    if settings.security_protocol.startswith("SASL"):
        arguments["sasl_mechanism"] = settings.sasl_mechanism
        arguments["sasl_plain_username"] = settings.sasl_username
        arguments["sasl_plain_password"] = settings.credential
    if settings.security_protocol.endswith("SSL"):
        arguments["ssl_context"] = settings.tls
    return arguments


def consumer_arguments(settings: KafkaSettings) -> dict[str, Any]:
    """Return the arguments of the consumer, apart from its topics and its assignor.

    Offsets are stored in Redis: the client commits none by itself, and an offset that is not in the
    log is an error to handle, never a silent reset.
    """
    return {
        **client_arguments(settings),
        "group_id": settings.group_id,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": settings.isolation_level,
        "session_timeout_ms": settings.session_timeout_ms,
        "heartbeat_interval_ms": settings.heartbeat_interval_ms,
        "rebalance_timeout_ms": settings.rebalance_timeout_ms,
        "fetch_max_wait_ms": settings.fetch_max_wait_ms,
        "fetch_max_bytes": settings.fetch_max_bytes,
        "max_partition_fetch_bytes": settings.max_partition_fetch_bytes,
    }


async def stop_client(
    stopping: Coroutine[Any, Any, None], patience_s: float = STOP_PATIENCE_S
) -> None:
    """Wait at most `patience_s` for a client to stop: it can hang while brokers are away."""
    task = asyncio.create_task(stopping)
    _, late = await asyncio.wait({task}, timeout=patience_s)
    if late:
        task.cancel()
        logger.warning("Kafka client did not stop in time", patience_s=patience_s)
    elif not task.cancelled() and task.exception() is not None:
        logger.warning("Kafka client did not stop cleanly", error=str(task.exception()))


def _check(settings: KafkaSettings) -> None:
    protocol, mechanism = settings.security_protocol, settings.sasl_mechanism
    if protocol not in SECURITY_PROTOCOLS:
        rule = f"must be one of {', '.join(SECURITY_PROTOCOLS)}"
        raise StartError(f"kafka.security_protocol={protocol}: {rule}")
    if not protocol.startswith("SASL"):
        return
    if mechanism not in SASL_MECHANISMS:
        rule = f"must be one of {', '.join(SASL_MECHANISMS)}"
        raise StartError(f"kafka.sasl_mechanism={mechanism}: {rule}")
    if mechanism == OAUTHBEARER:
        if settings.tokens is None:
            raise StartError(f"kafka.sasl_mechanism={mechanism}: needs token_url")
    elif settings.sasl_username is None or settings.sasl_password is None:
        raise StartError(f"kafka.security_protocol={protocol}: needs sasl_username and a password")


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


def kafka_settings(config: Config, note: NoteToken = ignore_token) -> KafkaSettings:
    """Addresses, credentials, topics and the consumer group of this configuration."""
    kafka = config.kafka
    by_token = kafka.sasl_mechanism in (OAUTHBEARER, MSK)
    return KafkaSettings(
        bootstrap_servers=",".join(kafka.bootstrap_servers),
        topics=lane_topics(config),
        division=Division(kafka.lanes == ONE),
        idle_after_s=kafka.idle_after_s,
        group_id=consumer_group(config),
        client_id=f"{kafka.client_id}-{socket.gethostname()}-{os.getpid()}",
        security_protocol=kafka.security_protocol,
        sasl_mechanism=OAUTHBEARER if by_token else kafka.sasl_mechanism or "PLAIN",
        sasl_username=kafka.sasl_username,
        sasl_password=kafka.sasl_password,
        tokens=kafka_tokens(kafka, note) if by_token else None,
        ssl_cafile=kafka.ssl_cafile,
        ssl_certfile=kafka.ssl_certfile,
        ssl_keyfile=kafka.ssl_keyfile,
        ssl_key_password=kafka.ssl_key_password,
        ssl_check_hostname=kafka.ssl_check_hostname,
        isolation_level=kafka.isolation_level,
        session_timeout_s=kafka.session_timeout_s,
    )


def stage_settings(config: Config, settings: KafkaSettings) -> KafkaSettings:
    """The same for the stage that reads the input topics where they are not what lanes read."""
    return replace(settings, topics=config.kafka.topics, group_id=stage_group(config))


MAX_REQUEST_BYTES: Final = 64 << 20
"""Larger than any broker takes: how large a record may be is the broker's decision."""
BATCH_BYTES: Final = 256 << 10
LINGER_MS: Final = 5
SEND_TIMEOUT_S: Final = 15.0
RETRY_PAUSE_S: Final = 1.0
TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
_NEVER_TAKEN: Final = (
    *TOO_LARGE,
    InvalidTopicError,
    InvalidTimestampError,
)


class KafkaProducer:
    """Open by `start`, close by `stop`. Keys choose partitions as Java's producer does: murmur2."""

    def __init__(self, settings: KafkaSettings, batch_bytes: int = BATCH_BYTES) -> None:
        """`batch_bytes`: several records are sent together up to this size."""
        self._settings = settings
        self._batch_bytes = batch_bytes
        self._producer: Any = None
        self._waiting = 0
        self._failure: BaseException | None = None
        self._settled = asyncio.Event()
        self._settled.set()

    async def start(self) -> None:
        """Connect; waits, and logs so once, while the cluster is away."""
        logged = False
        while self._producer is None:
            producer = AIOKafkaProducer(**self._arguments())
            try:
                await producer.start()
                self._producer = producer
            except KafkaError as error:
                if not logged:
                    servers = self._settings.bootstrap_servers
                    logger.warning(
                        "waiting for Kafka", reason=str(error), bootstrap_servers=servers
                    )
                logged = True
                await asyncio.sleep(RETRY_PAUSE_S)
            finally:
                if self._producer is None:
                    await producer.stop()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Buffer a record; `flush` raises where it was not taken. Waits while the buffer is full.
        Records of one partition are taken in the order in which they are sent.

        Raises RecordRefused for a record that can never be sent, Unavailable when the topic
        cannot be found now.
        """
        if value is None and key is None:
            key = b""  # a record needs one of the two
        try:
            future = await self._producer.send(
                topic, value, key, partition, timestamp_ms, headers=list(headers)
            )
        except KafkaError as error:
            raise _translated(topic, error) from error
        self._waiting += 1
        self._settled.clear()
        future.add_done_callback(self._settle)

    async def flush(self) -> None:
        """Wait until every record sent is acknowledged.

        Raises RecordRefused or Unavailable (within about twice SEND_TIMEOUT_S) where one was
        not: any of the records sent since the last flush may then be missing.
        """
        await self._settled.wait()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise _translated("", failure) from failure

    async def stop(self) -> None:
        """Send what is buffered and close; gives up after a while when the cluster is away."""
        if self._producer is None:
            return
        producer, self._producer = self._producer, None
        await stop_client(producer.stop())

    def _arguments(self) -> dict[str, Any]:
        return {
            **client_arguments(self._settings),
            "request_timeout_ms": int(SEND_TIMEOUT_S * 1000),
            "acks": "all",
            "linger_ms": LINGER_MS,
            "max_batch_size": self._batch_bytes,
            "max_request_size": MAX_REQUEST_BYTES,
        }

    def _settle(self, future: "asyncio.Future[object]") -> None:
        self._waiting -= 1
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None and not isinstance(self._failure, _NEVER_TAKEN):
            self._failure = error
        if self._waiting == 0:
            self._settled.set()


def _translated(topic: str, error: BaseException) -> Exception:
    message = f"{topic}: {error}" if topic else str(error)
    if isinstance(error, _NEVER_TAKEN):
        return RecordRefused(message)
    return Unavailable(message)
