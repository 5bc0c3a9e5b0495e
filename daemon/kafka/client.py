"""Settings of the connection to a Kafka cluster: addresses, credentials, times.

Every client of this process (consumer, producer, the ones that ask for topics) is made from these
values.
"""

import asyncio
import ssl
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from ..config.sections import SASL_MECHANISMS, SECURITY_PROTOCOLS
from ..errors import StartError

STOP_PATIENCE_S: Final = 15.0

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class KafkaSettings:
    """Where the cluster is and how to talk to it. Secrets are left out of the `repr`."""

    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    group_id: str = "relevanced"
    client_id: str = "relevanced"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    isolation_level: str = "read_committed"
    session_timeout_s: float = 45.0
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 << 20
    max_partition_fetch_bytes: int = 4 << 20

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
    arguments: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers,
        "client_id": settings.client_id,
        "request_timeout_ms": settings.request_timeout_ms,
        "metadata_max_age_ms": 15_000,
        "retry_backoff_ms": 300,
        "security_protocol": settings.security_protocol,
    }
    if settings.security_protocol.startswith("SASL"):
        arguments["sasl_mechanism"] = settings.sasl_mechanism
        arguments["sasl_plain_username"] = settings.sasl_username
        arguments["sasl_plain_password"] = settings.sasl_password
    if settings.security_protocol.endswith("SSL"):
        arguments["ssl_context"] = _ssl_context(settings)
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


async def end(stopping: Coroutine[Any, Any, None], patience_s: float = STOP_PATIENCE_S) -> None:
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
    if settings.sasl_username is None or settings.sasl_password is None:
        raise StartError(f"kafka.security_protocol={protocol}: needs sasl_username and a password")


def _ssl_context(settings: KafkaSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
        if settings.ssl_certfile is not None:
            context.load_cert_chain(
                settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_key_password or ""
            )
    except OSError as error:  # ssl.SSLError is one
        raise StartError(f"kafka.ssl_cafile, ssl_certfile, ssl_keyfile: {error}") from error
    context.check_hostname = settings.ssl_check_hostname
    return context
