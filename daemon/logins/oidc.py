"""Tokens of an issuer by OAuth 2.0's client credentials: Keycloak, Okta, Entra, Confluent Cloud."""

import base64
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import aiohttp
import msgspec

from ..errors import Unavailable
from ..files import BRIEF_S, FileLooks, content
from .tokens import Token

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 1 << 20
UNSAID_LIFETIME_S: Final = 300.0
"""Of a token whose issuer does not say it."""


class _Issued(msgspec.Struct):
    access_token: str
    expires_in: float = UNSAID_LIFETIME_S


class _Refused(msgspec.Struct):
    error: str = ""


class ClientCredentials:
    """Asks an issuer for tokens."""

    def __init__(
        self, section: str, url: str, client_id: str, secret_file: str, scope: str | None
    ) -> None:
        """`section`: of the configuration, for messages."""
        self._section = section
        self._url = url
        self._client_id = client_id
        self._secret_file = secret_file
        self._scope = scope
        self._looks = FileLooks(f"{section}.token_client_secret_file", BRIEF_S)

    async def fetch(self) -> Token:
        """Return a token. The secret is read anew each time. Raises Unavailable."""
        where = f"{self._section}.token_url={self._url}"
        form = {"grant_type": "client_credentials"}
        form |= {"scope": self._scope} if self._scope else {}
        headers = {"Authorization": await self._login(), "Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                # A redirect is not followed: the secret goes where the configuration says.
                session.post(
                    self._url,
                    data=form,
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                status, body = response.status, await response.content.read(MOST_BYTES)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is one
            why = str(error) or type(error).__name__
            raise Unavailable(f"{where}: does not answer: {why}") from error
        if status != HTTPStatus.OK:
            raise Unavailable(f"{where}: {self._refusal(status, body)}")
        try:
            issued = msgspec.json.decode(body, type=_Issued)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unavailable(f"{where}: answers without an access_token") from None
        if issued.expires_in <= 0:
            raise Unavailable(f"{where}: gives tokens that have ended")
        return Token(issued.access_token, issued.expires_in)

    async def _login(self) -> str:
        try:
            read = await self._looks.look(partial(content, self._secret_file))
            secret = read.decode("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            name = f"{self._section}.token_client_secret_file={self._secret_file}"
            raise Unavailable(f"{name}: cannot be read: {error}") from error
        pair = f"{quote(self._client_id, safe='')}:{quote(secret, safe='')}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _refusal(self, status: int, body: bytes) -> str:
        try:
            error = msgspec.json.decode(body, type=_Refused).error[:40]
        except (msgspec.DecodeError, UnicodeDecodeError):
            error = ""
        said = f"{status} {error}".strip()
        names = "token_client_id and token_client_secret_file"
        if error == "invalid_scope":
            names = "token_scope"
        if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return f"refuses the client ({said}): see {self._section}'s {names}"
        return f"answers {said}"
