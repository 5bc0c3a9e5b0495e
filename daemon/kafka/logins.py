"""Connections to brokers that log in with what there is now, and again before a session ends.

The client keeps one password and one context for its life, and lets brokers close a connection
where its session ends. Here both may change: where a broker refuses a login and there is another
one, it is tried at once; and where a broker bounds a session, as by the life of a token, the
connection logs in again on itself (KIP-368), between two requests: no request fails for it.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable
from typing import Any, Final

import aiokafka.client
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
)
from aiokafka.protocol.admin import (
    ApiVersionRequest,
    SaslAuthenticateRequest,
    SaslHandShakeRequest,
)

from ..config import OAUTHBEARER, ReadAgain, Secret
from ..errors import Unavailable
from ..logins import Credential, Password, TlsFiles

RENEWED_AT: Final = 0.85
"""A connection logs in again after this part of its session, as Java's client does; later than a
token is renewed, so that there is a new one."""
OF_LOGINS: Final = (ApiVersionRequest, SaslHandShakeRequest, SaslAuthenticateRequest)
REFUSED: Final = (SaslAuthenticationFailed, AuthenticationFailedError)


class NoSecret(KafkaConnectionError):  # type: ignore[misc]  # theirs
    """There is nothing to log in with now; the text says why."""


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # theirs
    def __init__(self, connection: "RenewedConnection") -> None:
        self._connection = connection

    async def token(self) -> str:
        return self._connection.used


class RenewedConnection(AIOKafkaConnection):  # type: ignore[misc]  # theirs
    """A connection whose login is renewed."""

    def __init__(
        self, host: str, port: int, *, credential: Credential | None, **arguments: Any
    ) -> None:
        self.used = ""
        """What it logged in with."""
        self._credential = credential
        self._renew_at_s = float("inf")
        self._turn = asyncio.Lock()
        super().__init__(host, port, sasl_oauth_token_provider=_Tokens(self), **arguments)

    async def _do_sasl_handshake(self) -> None:
        if self._credential is not None:
            try:
                self.used = self._sasl_plain_password = await self._credential.secret()
            except Unavailable as error:
                raise NoSecret(str(error)) from error
        self._renew_at_s = float("inf")
        await super()._do_sasl_handshake()

    def send(self, request: Any, expect_response: bool = True) -> Awaitable[Any]:
        """Send a request; one that comes when the session is about to end waits for a login."""
        if isinstance(request, SaslAuthenticateRequest):
            return self._noting(super().send(request, expect_response))
        is_due = self._turn.locked() or time.monotonic() >= self._renew_at_s
        if is_due and not isinstance(request, OF_LOGINS):
            return self._send_after_login(request, expect_response)
        answer: Awaitable[Any] = super().send(request, expect_response)
        return answer

    async def _noting(self, answer: Awaitable[Any]) -> Any:
        found = await answer
        if self._sasl_mechanism == OAUTHBEARER and found.sasl_auth_bytes:
            # A broker says why it refuses a token, and ends the login once that is acknowledged
            # (RFC 7628): the client would take the reason for a success.
            found = await super().send(SaslAuthenticateRequest(b"\x01"))
        if (lifetime_ms := getattr(found, "session_lifetime_ms", 0)) > 0:
            self._renew_at_s = time.monotonic() + RENEWED_AT * lifetime_ms / 1000
        return found

    async def _send_after_login(self, request: Any, expect_response: bool) -> Any:
        async with self._turn:
            if time.monotonic() >= self._renew_at_s and self.connected():
                # A broker takes no login while it owes an answer.
                if waiting := [answer for *_, answer in self._requests]:
                    await asyncio.wait(waiting)
                try:
                    await self._do_sasl_handshake()
                except REFUSED as error:
                    # The client connects anew, and then finds out whether there is another login.
                    raise KafkaConnectionError(f"session not renewed: {error}") from error
                except NoSecret:
                    self.close()
                    raise
        return await super().send(request, expect_response)


async def create_conn(
    host: str,
    port: int,
    *,
    sasl_plain_password: Credential | str | None = None,
    ssl_context: ReadAgain[TlsFiles] | None = None,
    **arguments: Any,
) -> RenewedConnection:
    """Stands for the client's own function: password and context may change from one connection to
    the next. Raises KafkaError, OSError, TimeoutError."""
    if isinstance(sasl_plain_password, str):  # of a client that is not of this product
        sasl_plain_password = Password(Secret(sasl_plain_password))
    for name in ("sasl_oauth_token_provider", "sasl_kerberos_service_name"):
        arguments.pop(name, None)
    arguments.pop("sasl_kerberos_domain_name", None)
    is_second = False
    while True:
        tls = None if ssl_context is None else ssl_context.value
        connection = RenewedConnection(
            host,
            port,
            credential=sasl_plain_password,
            ssl_context=None if tls is None else tls.context,
            **arguments,
        )
        try:
            await connection.connect()
            return connection
        except (KafkaError, OSError, TimeoutError) as error:
            if is_second or not _is_renewed(connection, error, ssl_context, tls):
                raise
        is_second = True


def _is_renewed(
    connection: RenewedConnection,
    error: Exception,
    files: ReadAgain[TlsFiles] | None,
    used: TlsFiles | None,
) -> bool:
    credential = connection._credential
    if isinstance(error, REFUSED):
        return credential is not None and credential.refused(connection.used)
    # A broker may refuse a certificate of a client by hanging up: the files say whether they are
    # others by now.
    is_of_tls = isinstance(error, KafkaConnectionError | ssl.SSLError | ConnectionError)
    return is_of_tls and files is not None and used is not None and files.refused(used)


def install() -> None:
    """Have all clients of this process connect by `create_conn`."""
    aiokafka.client.create_conn = create_conn
