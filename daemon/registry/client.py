"""Schemas of a registry over HTTP: logins, TLS, several addresses; bounded in time and size."""

import base64
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, Literal, Protocol, TypeAlias

import aiohttp
from yarl import URL

from ..errors import RegistryUnavailable
from ..files import BRIEF_S, FileLooks, content
from ..logins import tls_files
from ..schemas import GLOBAL, GLUE_VERSION, ID, PROTOBUF, SchemaId, SchemaText, UnreadableSchema
from ..telemetry import Mismatch, tls_mismatch
from . import protocol
from .protocol import (
    MOST_PAGES,
    ListedVersion,
    Listing,
    Reference,
    RegistryAnswer,
    RegistrySettings,
    listed_versions,
    listing_of,
    listing_url,
)

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 4 << 20
"""Of a schema."""
_TLS_SETTINGS: Final[Mapping[Mismatch, str]] = {
    "authority": "registry.ssl_cafile",
    "name": "registry.url, or registry.ssl_check_hostname",
    "client": "registry.ssl_certfile and registry.ssl_keyfile",
    "protocol": "registry.url: https:// is for TLS, http:// for none",
    "certificate": "the registry",
}


class RegistryClient:
    """Asks the addresses of a registry in turn, the one that answered last first."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Raises StartError where the certificates cannot be used."""
        self._settings = settings
        self._tls = tls_files(
            "registry",
            settings.ssl_cafile,
            settings.ssl_certfile,
            settings.ssl_keyfile,
            settings.ssl_key_password,
            check_hostname=settings.ssl_check_hostname,
        )
        self._looks = FileLooks("registry.bearer_token_file", BRIEF_S)
        self._session: aiohttp.ClientSession | None = None
        self._first = 0

    async def get(
        self, url_of: Callable[[str], str], trouble_of: Callable[[RegistryAnswer], str | None]
    ) -> RegistryAnswer:
        """Return the first schema that an address gives, or where every one says that there is
        none, that answer. `url_of` makes the URL from the registry's address. Raises
        RegistryUnavailable."""
        urls, failures = self._settings.urls, list[RegistryUnavailable]()
        missing: RegistryAnswer | None = None
        for index in range(len(urls)):
            turn = (self._first + index) % len(urls)
            try:
                answer = await self._get_from(urls[turn], url_of(urls[turn]), trouble_of)
            except RegistryUnavailable as error:
                failures.append(error)
                continue
            if answer.status == 200:
                self._first = turn
                return answer
            missing = answer
        if missing is not None and not failures:
            return missing
        texts = "; ".join(str(error) for error in failures)
        raise RegistryUnavailable(texts, "; ".join(e.reason for e in failures if e.reason))

    async def get_of_each(
        self,
        url_of: Callable[[str], str],
        trouble_of: Callable[[RegistryAnswer], str | None],
        most_bytes: int = MOST_BYTES,
    ) -> list[RegistryAnswer]:
        """Return the answer of every address. Raises RegistryUnavailable where one gives none."""
        return [
            await self._get_from(base, url_of(base), trouble_of, most_bytes)
            for base in self._settings.urls
        ]

    async def _get_from(
        self,
        base: str,
        url: str,
        trouble_of: Callable[[RegistryAnswer], str | None],
        most_bytes: int = MOST_BYTES,
    ) -> RegistryAnswer:
        text = f"registry {base} does not answer"
        try:
            answer = await self._request(url, most_bytes)
        except TimeoutError as error:
            raise RegistryUnavailable(text, f"not within {TIMEOUT_S:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            if (mismatch := tls_mismatch(error)) is not None:
                text = f"registry {base}: {mismatch[1]}: see {_TLS_SETTINGS[mismatch[0]]}"
                raise RegistryUnavailable(text) from error
            raise RegistryUnavailable(text, str(error) or type(error).__name__) from error
        if answer is None:
            found = f"does not answer properly (more than {most_bytes} bytes)"
            raise RegistryUnavailable(f"registry {base} {found}")
        if (trouble := trouble_of(answer)) is not None:
            raise RegistryUnavailable(f"registry {base} {trouble}")
        return answer

    async def _request(self, url: str, most_bytes: int) -> RegistryAnswer | None:
        """None for an answer that is larger. What is refused is asked once more where the files of
        the login have another one by now."""
        password, tls = self._settings.password, self._tls.value
        used = "" if password is None else password.reveal()
        try:
            answer = await self._request_once(url, most_bytes)
        except aiohttp.ClientError:
            if not self._tls.refused(tls):
                raise
        else:
            is_refused = answer is not None and answer.status == HTTPStatus.UNAUTHORIZED
            if not is_refused or password is None or not password.refused(used):
                return answer
        return await self._request_once(url, most_bytes)

    async def _request_once(self, url: str, most_bytes: int) -> RegistryAnswer | None:
        if self._session is None:
            self._session = _session()
        login = await self._login()
        headers = {"Authorization": login} if login else {}
        # Redirects are not followed: a login must not go where the configuration does not say.
        async with self._session.get(
            URL(url, encoded=True),
            headers=headers,
            allow_redirects=False,
            ssl=self._tls.value.context,
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > most_bytes:
                    return None
            return RegistryAnswer(response.status, response.headers, bytes(body))

    async def _login(self) -> str | None:
        """The header of the login, from the file of the token as it is now. Raises
        RegistryUnavailable."""
        settings = self._settings
        path = settings.bearer_token_file
        if path is not None:
            try:
                token = (await self._looks.look(partial(content, path))).decode("ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or "is not ASCII"
                text = f"registry.bearer_token_file={path}: cannot be read: {why}"
                raise RegistryUnavailable(text) from error
            if not token.isprintable() or not token:
                raise RegistryUnavailable(f"registry.bearer_token_file={path}: is not one token")
            return f"Bearer {token}"
        if settings.username is None:
            return None
        password = "" if settings.password is None else settings.password.reveal()
        pair = f"{settings.username}:{password}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json, */*"},
    )


Outcome: TypeAlias = Literal["ok", "missing", "failed"]

MOST_REFERENCES: Final = 100
"""Of one schema, however deep; equal ones count each time."""
MOST_DEPTH: Final = 16
MOST_LISTED_BYTES: Final = 64 << 20
"""Of one page of what a registry lists."""
NOT_THERE: Final = "is not in the registry"
NO_GUIDS: Final = (
    "cannot be asked for: the registry has no /schemas/guids (Confluent has, from version 8.0 on)"
)


class MissingSchema(Exception):
    """The registry says that it has no such schema. The text completes "schema 12 …" for
    people."""


class Registry(Protocol):
    """Where schemas come from."""

    async def schema(self, schema: SchemaId) -> SchemaText:
        """Return a schema. Raises MissingSchema, UnreadableSchema, RegistryUnavailable."""

    async def has_another(self, schema: SchemaId) -> bool:
        """Whether the registry now gives another schema than `schema` returned by this id. Raises
        what that raises."""

    async def listing(self) -> Listing | None:
        """Return what the registry lists; None where it lists nothing in full."""

    async def close(self) -> None:
        """Close the connections."""


class ConfluentRegistry:
    """A registry of Confluent's protocol: its schemas, each with all that it refers to."""

    def __init__(self, client: RegistryClient, count: Callable[[Outcome], None]) -> None:
        """`count` is called for each question to the registry, with what became of it."""
        self._client = client
        self._count = count
        self._references: dict[Reference, SchemaText] = {}
        """Versions of subjects never change, as long as the registry is the same."""
        self._given: dict[SchemaId, int] = {}
        """The hash of what was given by ids that count up: of a registry that is made anew, they
        mean something else."""

    async def schema(self, schema: SchemaId) -> SchemaText:
        """Return a schema with its references. Raises MissingSchema, UnreadableSchema,
        RegistryUnavailable."""
        if schema.kind == GLUE_VERSION:
            raise MissingSchema('is one of AWS Glue: needs registry.kind = "glue"')
        if not protocol.is_askable(schema):
            raise MissingSchema(NOT_THERE)
        return await self._text(schema, _Bound())

    async def has_another(self, schema: SchemaId) -> bool:
        """Whether the registry gives another schema by this id than before; then it gives nothing
        from memory any more."""
        given = self._given.get(schema)
        if given is None:
            return False
        answer = await self._get(schema, is_counted=False)
        is_another = hash(protocol.stored(schema, answer)) != given
        if is_another:
            self._references.clear()
        return is_another

    async def listing(self) -> Listing | None:
        """Return what all addresses list; None where one of them does not."""
        found = set[ListedVersion]()
        try:
            for page in range(MOST_PAGES):
                answers = await self._client.get_of_each(
                    partial(listing_url, page=page),
                    lambda answer: None if listed_versions(answer) is not None else "lists nothing",
                    MOST_LISTED_BYTES,
                )
                before = len(found)
                found.update(*(listed_versions(answer) or () for answer in answers))
                if len(found) == before:
                    return listing_of(found)
        except RegistryUnavailable:
            return None
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _text(self, wanted: SchemaId | Reference, bound: "_Bound") -> SchemaText:
        stored = protocol.stored(wanted, await self._get(wanted))
        text = stored.text
        if stored.codec == PROTOBUF:
            if isinstance(wanted, SchemaId) and wanted.kind == GLOBAL:
                raise UnreadableSchema(protocol.NO_DESCRIPTOR)
            text = protocol.descriptor_of(await self._get(wanted, serialized=True))
        references = []
        for reference in stored.references:
            references.append((reference.name, await self._referred(reference, bound)))
        if isinstance(wanted, SchemaId) and wanted.kind in (ID, GLOBAL):
            self._given[wanted] = hash(stored)
        return SchemaText(stored.codec, text, tuple(references))

    async def _referred(self, reference: Reference, bound: "_Bound") -> SchemaText:
        bound.enter(reference)
        # Its name is that of the import, and may differ from one schema to the next.
        key = reference._replace(name="")
        found = self._references.get(key)
        if found is None:
            try:
                found = await self._text(reference, bound)
            except MissingSchema:
                where = f"version {reference.version} of subject {reference.subject}"
                text = f"needs {reference.name}, {where}, which is not in the registry"
                raise MissingSchema(text) from None
            self._references[key] = found
        bound.leave()
        return found

    async def _get(
        self, wanted: SchemaId | Reference, *, serialized: bool = False, is_counted: bool = True
    ) -> RegistryAnswer:
        def url_of(base: str) -> str:
            if isinstance(wanted, Reference):
                return protocol.reference_url(base, wanted, serialized=serialized)
            return protocol.schema_url(base, wanted, serialized=serialized)

        lacking = list[RegistryAnswer]()

        def trouble_of(answer: RegistryAnswer) -> str | None:
            if protocol.may_lack_guids(wanted, answer):
                lacking.append(answer)
                return None
            return protocol.trouble(wanted, answer)

        count = self._count if is_counted else _count_nothing
        try:
            answer = await self._client.get(url_of, trouble_of)
            if answer.status != 200 and lacking:
                await self._client.get_of_each(protocol.types_url, protocol.trouble_of_types)
        except RegistryUnavailable:
            count("failed")
            raise
        count("ok" if answer.status == 200 else "missing")
        if answer.status != 200:
            raise MissingSchema(NO_GUIDS if lacking else NOT_THERE)
        return answer


def _count_nothing(outcome: Outcome) -> None:
    pass


class _Bound:
    """How many references of one schema were followed, and how deep it is now."""

    def __init__(self) -> None:
        self._count = self._depth = 0

    def enter(self, reference: Reference) -> None:
        """Raises UnreadableSchema where these are too many, as of a circle."""
        self._count += 1
        self._depth += 1
        if self._count > MOST_REFERENCES:
            raise UnreadableSchema(f"has more than {MOST_REFERENCES} references")
        if self._depth > MOST_DEPTH:
            raise UnreadableSchema(
                f"its references are more than {MOST_DEPTH} deep, at {reference.name}"
            )

    def leave(self) -> None:
        self._depth -= 1
