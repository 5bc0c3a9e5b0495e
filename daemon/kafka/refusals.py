"""Why a cluster cannot be used, in words that name the setting to change.

The client says of all of it that it cannot connect; what each broker says is found by a connection
of our own.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.conn import collect_hosts
from aiokafka.errors import (
    AuthenticationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from ..errors import Unavailable
from ..telemetry import KafkaFault, Mismatch, tls_mismatch
from .client import KafkaSettings, client_arguments
from .logins import NoSecret, create_conn

PATIENCE_S: Final = 5.0
_PASSED_ON: Final = (
    "client_id",
    "security_protocol",
    "ssl_context",
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
)
_TLS_SETTINGS: Final[Mapping[Mismatch, str]] = {
    "authority": "kafka.ssl_cafile",
    "name": "kafka.bootstrap_servers, or kafka.ssl_check_hostname",
    "client": "kafka.ssl_certfile and kafka.ssl_keyfile",
    "protocol": "kafka.security_protocol",
    "certificate": "the broker",
}
_ORDER: Final[tuple[KafkaFault, ...]] = ("login", "tls", "unreachable")
"""Of several brokers the one counts that says most."""


@dataclass(frozen=True)
class Obstacle:
    """Why the topics cannot be read as they are."""

    fault: KafkaFault
    reason: str


class Obstructed(Unavailable):
    """The cluster cannot be asked now."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.reason)
        self.obstacle = obstacle


async def obstacle_of(settings: KafkaSettings, error: Exception) -> Obstacle:
    """Find what stands behind an error of the client."""
    if isinstance(error, GroupAuthorizationFailedError):
        reason = f"no permission for the consumer group {settings.group_id} (kafka.group_id)"
        return Obstacle("not_permitted", f"{reason}: {_user(settings)} needs READ")
    if isinstance(error, TopicAuthorizationFailedError):
        reason = f"no permission to read the topics {', '.join(settings.topics)}"
        return Obstacle("not_permitted", f"{reason}: {_user(settings)} needs READ and DESCRIBE")
    hosts = collect_hosts(settings.bootstrap_servers)
    asked = await asyncio.gather(*(_said_by(settings, host, port) for host, port, _ in hosts))
    found = sorted((one for one in asked if one), key=lambda one: _ORDER.index(one.fault))
    if found and found[0].fault != "unreachable":
        return found[0]
    said = ", ".join(sorted(one.reason for one in found)) or error
    return Obstacle("unreachable", f"the cluster does not answer: {said}")


def _user(settings: KafkaSettings) -> str:
    return f"user {settings.sasl_username}" if settings.sasl_username else "this client"


async def _said_by(settings: KafkaSettings, host: str, port: int) -> Obstacle | None:
    """What is wrong with a broker; None where it answers."""
    arguments = {k: v for k, v in client_arguments(settings).items() if k in _PASSED_ON}
    connection: Any = None
    try:
        connection = await create_conn(
            host, port, request_timeout_ms=int(PATIENCE_S * 1000), **arguments
        )
        await connection.send(MetadataRequest([]))
    except (KafkaError, OSError, TimeoutError) as error:
        return _of_broker(settings, f"{host}:{port}", error)
    finally:
        if connection is not None:
            connection.close()
    return None


def _of_broker(settings: KafkaSettings, broker: str, error: Exception) -> Obstacle:
    if isinstance(error, SaslAuthenticationFailed | AuthenticationFailedError):
        if (tokens := settings.tokens) is not None:
            return Obstacle("login", f"{broker} refuses the token ({tokens.settings}): {error}")
        who = f"user {settings.sasl_username} (kafka.sasl_username, kafka.sasl_password)"
        return Obstacle("login", f"{broker} refuses the login of {who}: {error}")
    if isinstance(error, NoSecret):
        return Obstacle("login", str(error.args[0]))
    if isinstance(error, UnsupportedSaslMechanismError):
        return Obstacle("login", f"{broker} has no such login (kafka.sasl_mechanism): {error}")
    if isinstance(error, IllegalSaslStateError):
        return Obstacle("login", f"{broker} takes no login (kafka.security_protocol): {error}")
    if (mismatch := tls_mismatch(error)) is not None:
        return Obstacle("tls", f"{broker}: {mismatch[1]}: see {_TLS_SETTINGS[mismatch[0]]}")
    if isinstance(error, ConnectionResetError) and settings.security_protocol.endswith("SSL"):
        ends = "the broker ends the TLS handshake: it may not speak TLS there"
        return Obstacle("tls", f"{broker}: {ends}: see kafka.security_protocol")
    if isinstance(error, KafkaConnectionError):
        closes = "closes the connection when it is asked: it may want TLS, or a login"
        protocol = f"kafka.security_protocol = {settings.security_protocol}"
        return Obstacle("tls", f"{broker} {closes} ({protocol})")
    if isinstance(error, TimeoutError):
        return Obstacle("unreachable", f"{broker}: no answer within {PATIENCE_S:g} s")
    return Obstacle("unreachable", f"{broker}: {getattr(error, 'strerror', None) or error}")
