"""Kafka clients of this process: where the cluster is, and how to talk to it.

Every client (consumer, producer, the ones that ask for topics) is made from the same values.
"""

import asyncio
import os
import socket
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import structlog

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
from ..errors import StartError
from ..logins import Credential, NoteToken, Password, TlsFiles, ignore_token, tls_files
from ..logins.configured_tokens import kafka_tokens
from ..storage import consumer_group, lane_topics, stage_group
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
