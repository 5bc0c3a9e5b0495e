"""Tokens that are asked for over HTTP: of an issuer, by OAuth 2.0's client credentials (Keycloak,
Okta, Entra, Confluent Cloud), and of a cloud, for the identity that it gave this machine or
workload. No redirect is followed: secrets go where the configuration says."""

import base64
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from ..errors import Unavailable
from ..files import BRIEF_S, FileLooks, content
from .tokens import Token

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 1 << 20
UNSAID_LIFETIME_S: Final = 300.0
"""Of a token whose issuer does not say it."""
REFUSED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_GRANT: Final = {"grant_type": "client_credentials"}


class _Issued(msgspec.Struct):
    access_token: str
    expires_in: float | None = None
    expires_on: float | None = None
    """Of Azure alone, seconds since 1970: some of its endpoints do not say `expires_in`."""


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
        self._secret = _FileText(f"{section}.token_client_secret_file", secret_file)
        self._scope = scope

    async def fetch(self) -> Token:
        """Return a token. The secret is read anew each time. Raises Unavailable."""
        where = f"{self._section}.token_url={self._url}"
        form = _GRANT | ({"scope": self._scope} if self._scope else {})
        pair = f"{quote(self._client_id, safe='')}:{quote(await self._secret.read(), safe='')}"
        login = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return _token_of(where, await _asked(where, self._url, login, form), self._way_out)

    def _way_out(self, error: str) -> str:
        names = "token_client_id and token_client_secret_file"
        return f"see {self._section}'s {'token_scope' if error == 'invalid_scope' else names}"


class AzureIdentity:
    """Asks Azure for tokens of a workload identity of Kubernetes, or of the managed identity of an
    app or a machine: of the first that the environment offers, as Azure's own libraries do."""

    def __init__(self, section: str, scope: str, client_id: str | None) -> None:
        """`client_id`: of the identity, where there are several."""
        self._section = section
        self._scope = scope
        self._client_id = client_id
        file = os.environ.get("AZURE_FEDERATED_TOKEN_FILE")
        self._assertion = _FileText("AZURE_FEDERATED_TOKEN_FILE", file) if file else None

    async def fetch(self) -> Token:
        """Return a token. Raises Unavailable."""
        of, form = os.environ, None
        resource = self._scope.removesuffix("/.default")
        query = {"resource": resource} | ({"client_id": self._client_id} if self._client_id else {})
        if self._assertion is not None:
            authority = of.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com/")
            url = f"{authority.rstrip('/')}/{of.get('AZURE_TENANT_ID', '')}/oauth2/v2.0/token"
            query, headers = {}, {}
            form = _GRANT | {
                "scope": self._scope,
                "client_id": self._client_id or of.get("AZURE_CLIENT_ID", ""),
                "client_assertion_type": ASSERTION,
                "client_assertion": await self._assertion.read(),
            }
        elif (url := of.get("IDENTITY_ENDPOINT", "")) and "IDENTITY_HEADER" in of:
            query |= {"api-version": "2019-08-01"}
            headers = {"X-IDENTITY-HEADER": of["IDENTITY_HEADER"]}
        else:
            host = of.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254")
            url = f"{host.rstrip('/')}/metadata/identity/oauth2/token"
            query |= {"api-version": "2018-02-01"}
            headers = {"Metadata": "true"}
        where = f'{self._section}.token="azure": {url}'
        asked = f"{url}?{urlencode(query)}" if query else url
        return _token_of(where, await _asked(where, asked, headers, form), self._way_out)

    def _way_out(self, error: str) -> str:
        names = f"{self._section}.token_scope and token_client_id"
        return f"see {names}, and which identity this machine or workload has"


class GoogleIdentity:
    """Asks the metadata server of Google Cloud for tokens of the service account of this machine or
    workload."""

    def __init__(self, section: str, *, for_kafka: bool) -> None:
        """`for_kafka`: brokers take a token in an envelope that names its account."""
        self._where = f'{section}.token="gcp"'
        self._for_kafka = for_kafka
        host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
        self._url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/"

    async def fetch(self) -> Token:
        """Return a token. Raises Unavailable."""
        headers = {"Metadata-Flavor": "Google"}
        where = f"{self._where}: {self._url}token"
        token = _token_of(where, await _asked(where, self._url + "token", headers), self._way_out)
        if not self._for_kafka:
            return token
        where = f"{self._where}: {self._url}email"
        status, email = await _asked(where, self._url + "email", headers)
        if status != HTTPStatus.OK:
            raise Unavailable(f"{where}: answers {status}: {self._way_out('')}")
        return Token(
            google_envelope(token, email.decode(errors="replace").strip(), time.time()),
            token.lifetime_s,
        )

    def _way_out(self, error: str) -> str:
        return "give this machine or workload a service account"


def google_envelope(token: Token, account: str, now_s: float) -> str:
    """Return what brokers of Managed Service for Apache Kafka take as OAUTHBEARER: a bare token is
    refused."""
    header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    claims = {"exp": int(now_s + token.lifetime_s), "iat": int(now_s), "iss": "Google"}
    claims |= {"scope": "kafka", "sub": account}
    parts = (msgspec.json.encode(header), msgspec.json.encode(claims), token.text.encode())
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


class _FileText:
    """A secret in a file, which is read each time."""

    def __init__(self, setting: str, path: str) -> None:
        self._name = f"{setting}={path}"
        self._path = path
        self._looks = FileLooks(setting, BRIEF_S)

    async def read(self) -> str:
        """Raises Unavailable."""
        try:
            read = await self._looks.look(partial(content, self._path))
            return read.decode("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"{self._name}: cannot be read: {error}") from error


async def _asked(
    where: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """(status, body) of the answer to a form, or to a GET. Raises Unavailable."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(
                "GET" if form is None else "POST",
                url,
                data=form,
                headers={"Accept": "application/json", **headers},
                allow_redirects=False,
            ) as response,
        ):
            return response.status, await response.content.read(MOST_BYTES)
    except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
        why = str(error) or type(error).__name__
        raise Unavailable(f"{where}: does not answer: {why}") from error


def _token_of(where: str, answer: tuple[int, bytes], way_out: Callable[[str], str]) -> Token:
    """`way_out`: what to do about an error that the issuer names. Raises Unavailable."""
    status, body = answer
    if status != HTTPStatus.OK:
        try:
            error = msgspec.json.decode(body, type=_Refused).error[:40]
        except (msgspec.DecodeError, UnicodeDecodeError):
            error = ""
        said = f"{status} {error}".strip()
        if status in (*REFUSED, HTTPStatus.NOT_FOUND):
            raise Unavailable(f"{where}: refuses the client ({said}): {way_out(error)}")
        raise Unavailable(f"{where}: answers {said}")
    try:
        issued = msgspec.json.decode(body, type=_Issued, strict=False)  # Azure writes "3599"
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unavailable(f"{where}: answers without an access_token") from None
    lifetime_s = issued.expires_in
    if lifetime_s is None and issued.expires_on is not None:
        lifetime_s = issued.expires_on - time.time()
    lifetime_s = UNSAID_LIFETIME_S if lifetime_s is None else lifetime_s
    if lifetime_s <= 0:
        raise Unavailable(f"{where}: gives tokens that have ended")
    return Token(issued.access_token, lifetime_s)
