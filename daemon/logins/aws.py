"""Tokens of AWS: requests that are signed here, and never sent; the server checks their signature.
Needs botocore, which is an extra of its own: only this module of the room imports it.

The identity is that of all AWS clients: environment, profile with its role, web identity, instance.
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import get_session

from ..errors import Unavailable
from .tokens import Token

LIFETIME_S: Final = 900
"""The longest that MSK, ElastiCache and MemoryDB take."""


class SignedRequests:
    """Signs one request again and again."""

    def __init__(
        self, setting: str, region: str, service: str, url: str, token_of: Callable[[str], str]
    ) -> None:
        """`setting`: for messages; `token_of` makes a token of the signed URL."""
        self._setting = setting
        self._region = region
        self._service = service
        self._url = url
        self._token_of = token_of
        self._session = get_session()

    async def fetch(self) -> Token:
        """Return a token. Raises Unavailable where there is no identity, or a server that gives it
        does not answer."""
        return await asyncio.to_thread(self._signed)

    def _signed(self) -> Token:
        try:
            identity = self._session.get_credentials()
            if identity is None:
                places = "environment, profile, web identity, instance"
                raise Unavailable(f"{self._setting}: no AWS credentials ({places})")
            request = AWSRequest(method="GET", url=self._url)
            found = identity.get_frozen_credentials()
            SigV4QueryAuth(found, self._service, self._region, expires=LIFETIME_S).add_auth(request)
        except (BotoCoreError, ClientError, OSError) as error:
            raise Unavailable(f"{self._setting}: no AWS credentials: {error}") from error
        return Token(self._token_of(str(request.url)), LIFETIME_S)


def of_msk(setting: str, region: str) -> SignedRequests:
    """What brokers of MSK take as OAUTHBEARER."""
    query = urlencode({"Action": "kafka-cluster:Connect"})
    url = f"https://kafka.{region}.amazonaws.com/?{query}"
    return SignedRequests(setting, region, "kafka-cluster", url, _of_msk)


def _of_msk(url: str) -> str:
    named = f"{url}&User-Agent=relevanced"  # not signed, as in AWS's own clients
    return base64.urlsafe_b64encode(named.encode()).decode().rstrip("=")


def of_cache(
    setting: str, region: str, service: str, cache: str, user: str, *, is_serverless: bool
) -> SignedRequests:
    """What ElastiCache and MemoryDB take as the password of a user."""
    query = {"Action": "connect", "User": user}
    query |= {"ResourceType": "ServerlessCache"} if is_serverless else {}
    url = f"http://{cache.lower()}/?{urlencode(query)}"
    return SignedRequests(setting, region, service, url, lambda url: url.removeprefix("http://"))
