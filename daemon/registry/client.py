"""HTTP to a schema registry: logins, TLS, several addresses; bounded in time and size."""

import base64
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from ..errors import RegistryUnavailable, StartError
from ..schemas.types import UnreadableSchema
from .protocol import Answer, trouble
from .settings import RegistrySettings

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 4 << 20
"""Of an answer."""


class RegistryClient:
    """Asks the addresses of a registry in turn, the one that answered last first."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Raises StartError where the certificates cannot be used."""
        self._settings = settings
        self._context = _ssl_context(settings)
        self._session: aiohttp.ClientSession | None = None
        self._first = 0

    async def get(
        self, url_of: Callable[[str], str], trouble_of: Callable[[Answer], str | None] = trouble
    ) -> Answer:
        """Return the first answer that is one; `url_of` makes the URL from the registry's address.
        Raises RegistryUnavailable where no address gives one, UnreadableSchema for one of more than
        MOST_BYTES."""
        urls, failures = self._settings.urls, list[RegistryUnavailable]()
        for index in range(len(urls)):
            turn = (self._first + index) % len(urls)
            try:
                answer = await self._get_from(urls[turn], url_of(urls[turn]), trouble_of)
            except RegistryUnavailable as error:
                failures.append(error)
            else:
                self._first = turn
                return answer
        texts = "; ".join(str(error) for error in failures)
        raise RegistryUnavailable(texts, "; ".join(e.reason for e in failures if e.reason))

    async def _get_from(
        self, base: str, url: str, trouble_of: Callable[[Answer], str | None]
    ) -> Answer:
        try:
            answer = await self._request(url)
        except TimeoutError as error:
            text = f"registry {base} does not answer"
            raise RegistryUnavailable(text, f"not within {TIMEOUT_S:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"registry {base} does not answer"
            raise RegistryUnavailable(text, str(error) or type(error).__name__) from error
        found = trouble_of(answer)
        if found is not None:
            raise RegistryUnavailable(f"registry {base} {found}")
        return answer

    async def _request(self, url: str) -> Answer:
        if self._session is None:
            self._session = _session(self._context)
        headers = {"Authorization": login} if (login := self._login()) else {}
        # Redirects are not followed: a login must not go where the configuration does not say.
        async with self._session.get(
            URL(url, encoded=True), headers=headers, allow_redirects=False
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise UnreadableSchema(f"is larger than {MOST_BYTES} bytes")
            return Answer(response.status, response.headers, bytes(body))

    def _login(self) -> str | None:
        """The header of the login, from the file of the token as it is now. Raises
        RegistryUnavailable."""
        settings = self._settings
        path = settings.bearer_token_file
        if path is not None:
            try:
                token = Path(path).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or "is not ASCII"
                text = f"registry.bearer_token_file={path}: cannot be read: {why}"
                raise RegistryUnavailable(text) from error
            if not token.isprintable() or not token:
                raise RegistryUnavailable(f"registry.bearer_token_file={path}: is not one token")
            return f"Bearer {token}"
        if settings.username is None:
            return None
        pair = f"{settings.username}:{settings.password or ''}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def _session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context),
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json, */*"},
    )


def _ssl_context(settings: RegistrySettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
        if settings.ssl_certfile is not None:
            context.load_cert_chain(
                settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_key_password or ""
            )
    except OSError as error:  # ssl.SSLError is one
        raise StartError(f"registry.ssl_cafile, ssl_certfile, ssl_keyfile: {error}") from error
    context.check_hostname = settings.ssl_check_hostname
    return context
