"""Connections to Redis and to Sentinels that log in again: with what their files have now, where a
server refuses what they had; and with the next token, before the one that they have ends. All of it
happens inside of connecting, or before a command is sent: no command is sent twice.
"""

from collections import deque
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.credentials import CredentialProvider
from redis.exceptions import (
    AuthenticationError,
    ConnectionError as RedisConnectionError,
    RedisError,
)

from ...config import ReadAgain, Secret
from ...errors import Unavailable
from ...logins import Credential, content_of

UNAUTHENTICATED: Final = "Protocol error: unauthenticated"
"""The error of a server that requires a password, for a long request."""
_SECRETS_KNOWN: Final = 4
_FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


def is_refused_login(error: BaseException) -> bool:
    """Whether a server says that it wants another password."""
    text = str(error)
    return isinstance(error, AuthenticationError) or UNAUTHENTICATED in text or "NOAUTH" in text


class NoLogin(RedisConnectionError):
    """There is nothing to log in with now; the text says why."""


class Login(CredentialProvider):
    """The user and the password of connections to one kind of server, and their certificates."""

    def __init__(
        self,
        username: str | None,
        credential: Credential | None,
        tls: dict[str, Any],
        key_password: Secret | None,
    ) -> None:
        """`tls`: options of the client that name files."""
        self.secrets = deque[str](maxlen=_SECRETS_KNOWN)
        """Those that were used last: no text may show them."""
        self.failure: RedisError | None = None
        """Why the last try to connect failed; None where it did not."""
        self.key_password = key_password
        self.files: ReadAgain[tuple[bytes, ...]] | None = None
        if paths := [tls[name] for name in _FILES if tls.get(name)]:
            self.files = content_of("redis.ssl_certfile", paths)
        self._username = username
        self._credential = credential

    @property
    def options(self) -> dict[str, Any]:
        """What the client library needs to know of it."""
        if self._credential is None:
            return {} if self._username is None else {"username": self._username}
        return {"credential_provider": self}

    async def secret(self) -> str:
        """Return what connections log in with now; "" without a login. Raises NoLogin."""
        if self._credential is None:
            return ""
        try:
            secret = await self._credential.secret()
        except Unavailable as error:
            raise NoLogin(str(error)) from error
        if secret not in self.secrets:
            self.secrets.append(secret)
        return secret

    def is_outdated(self, used: str) -> bool:
        """Return whether there is another one than this, to log in with before a server asks."""
        return self._credential is not None and self._credential.is_outdated(used)

    @property
    def settings(self) -> str:
        """What to look at where a server refuses it."""
        own = "" if self._credential is None else self._credential.settings
        return f"{own or 'redis.password'}, and the user in redis.url"

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """Called by the client library for each connection. Raises NoLogin."""
        secret = await self.secret()
        return (secret,) if self._username is None else (self._username, secret)

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Never called: all clients are asynchronous."""
        raise NotImplementedError

    def refused(self, used: str) -> bool:
        """Note that a server refused it; returns whether there is another to try now."""
        return self._credential is not None and self._credential.refused(used)


class _Renewing(AbstractConnection):
    """A connection that connects again where its login is refused and there is another one, and
    logs in anew where there is one before."""

    redis_login: Login
    files_read: tuple[bytes, ...] | None = None
    used: str | None = None
    """What it logged in with; None until it has."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # It would say so by CLIENT SETINFO, which few ACLs allow and old servers do not know.
        self.driver_info = self.lib_name = self.lib_version = None

    async def connect_check_health(self, *args: Any, **options: Any) -> None:
        if self.is_connected:
            return
        login, self.used = self.redis_login, None
        used, files = await login.secret(), login.files
        if files is not None and self.files_read is None:
            self.files_read = files.value
        try:
            try:
                await super().connect_check_health(*args, **options)
            except RedisError as error:
                if not _is_renewed(self, login, error, used):
                    raise
                used = await login.secret()
                await super().connect_check_health(*args, **options)
        except RedisError as error:
            login.failure = error
            raise
        login.failure, self.used = None, used

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        if self.used is not None and self.is_connected and self.redis_login.is_outdated(self.used):
            await self._log_in_anew()
        await super().send_packed_command(*args, **options)

    async def _log_in_anew(self) -> None:
        self.used = None
        try:
            login = await self.redis_login.get_credentials_async()
            await self.send_command("AUTH", *login, check_health=False)
            await self.read_response()
        except (RedisError, OSError):
            await self.disconnect()  # the command then connects, and says why it cannot
        else:
            self.used = login[-1]


def renewing(base: type, login: Login) -> type:
    """Return a class of connections of this kind that renew their login."""
    return type("Renewing", (_Renewing, base), {"redis_login": login})


def _is_renewed(connection: Any, login: Login, error: RedisError, used: str) -> bool:
    if is_refused_login(error):
        return login.refused(used)
    # A server refuses the certificate of a client after the handshake, by hanging up: whatever goes
    # wrong, the files say whether they are others by now.
    if login.files is None or not login.files.refused(connection.files_read or ()):
        return False
    if (password := login.key_password) is not None:
        password.refused(password.reveal())  # a new key may have a new password
        connection.ssl_context.password = password.reveal()
    connection.files_read, connection.ssl_context.context = login.files.value, None
    return True


def let_renew(pool: ConnectionPool, login: Login) -> None:
    """Have the connections of a pool, which has none yet, renew their login."""
    pool.connection_class = renewing(pool.connection_class, login)


def logins_of(client: Redis | RedisCluster) -> list[Login]:
    """Return that of a client, and before it that of the Sentinels that it asks."""
    if isinstance(client, RedisCluster):
        return [client.connection_kwargs["connection_class"].redis_login]
    pool = client.connection_pool
    asked = pool.sentinel_manager.sentinels if isinstance(pool, SentinelConnectionPool) else []
    classes = [sentinel.connection_pool.connection_class for sentinel in asked[:1]]
    return [made_by.redis_login for made_by in (*classes, pool.connection_class)]
