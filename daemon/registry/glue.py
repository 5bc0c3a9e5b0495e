"""A schema registry of AWS Glue. Needs botocore, which is an extra of its own: only this module
imports it, and only where it is configured.

Logins are those of all AWS clients: environment, profile, web identity, instance.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.config import Config as ClientSettings
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.session import get_session

from ..errors import RegistryUnavailable, StartError
from ..schemas import GLUE_VERSION, PROTOBUF, SchemaId, SchemaText, UnreadableSchema
from .client import NOT_THERE, MissingSchema, Outcome
from .protocol import Listing, codec_of

TIMEOUT_S: Final = 10
MISSING: Final = "EntityNotFoundException"
NEVER_AVAILABLE: Final = ("FAILURE", "DELETING")
FORBIDDEN: Final = ("AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException")
NO_DESCRIPTOR: Final = (
    'AWS Glue has only the text of the Protobuf schema: give the source descriptor_set = "FILE",'
    " from protoc --descriptor_set_out or buf build, beside framing and message"
)


class GlueRegistry:
    """Asks Glue for versions of schemas."""

    def __init__(self, region: str, count: Callable[[Outcome], None]) -> None:
        """Raises StartError."""
        self._region = region
        self._count = count
        settings = ClientSettings(
            connect_timeout=TIMEOUT_S,
            read_timeout=TIMEOUT_S,
            retries={"total_max_attempts": 1},  # who asks tries again, and says so meanwhile
        )
        try:
            self._client: Any = get_session().create_client(
                "glue", region_name=region, config=settings
            )
        except (BotoCoreError, ValueError) as error:
            raise StartError(f"registry.region={region}: {error}") from error

    async def schema(self, schema: SchemaId) -> SchemaText:
        """Return a version of a schema. Raises MissingSchema, UnreadableSchema,
        RegistryUnavailable."""
        if schema.kind != GLUE_VERSION:
            raise MissingSchema('is none of AWS Glue, which registry.kind = "glue" names')
        found = await asyncio.to_thread(self._version, str(schema.value))
        codec = codec_of(found["DataFormat"])
        if found["Status"] in NEVER_AVAILABLE:
            raise UnreadableSchema(f"its status is {found['Status']}: must be AVAILABLE")
        if codec == PROTOBUF:
            raise UnreadableSchema(NO_DESCRIPTOR)
        return SchemaText(codec, found["SchemaDefinition"])

    async def has_another(self, schema: SchemaId) -> bool:
        """False: Glue gives the UUID of a version once."""
        return False

    async def listing(self) -> Listing | None:
        """None: Glue lists its versions schema by schema."""
        return None

    async def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _version(self, version: str) -> dict[str, Any]:
        server = f"registry AWS Glue in {self._region}"
        try:
            found: dict[str, Any] = self._client.get_schema_version(SchemaVersionId=version)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code == MISSING:
                self._count("missing")
                raise MissingSchema(NOT_THERE) from error
            self._count("failed")
            does = f"refuses the login ({code})" if code in FORBIDDEN else f"answers {code}"
            raise RegistryUnavailable(f"{server} {does}") from error
        except BotoCoreError as error:
            self._count("failed")
            raise RegistryUnavailable(f"{server} does not answer", str(error)) from error
        except ResponseParserError as error:
            self._count("failed")
            text = f"{server} does not answer properly (no answer of Glue's protocol)"
            raise RegistryUnavailable(text) from error
        if (wrong := _fault_of_version(found)) is not None:
            self._count("failed")
            raise RegistryUnavailable(f"{server} does not answer properly ({wrong})")
        self._count("ok")
        return found


def _fault_of_version(found: Mapping[str, Any]) -> str | None:
    """What is wrong with an answer that should be a version of a schema."""
    status, codec = found.get("Status"), found.get("DataFormat")
    if status == "PENDING":
        return "200: the status of the schema is PENDING, must become AVAILABLE"
    if status not in ("AVAILABLE", *NEVER_AVAILABLE):
        return "200: no status of a schema"
    if not isinstance(codec, str) or not isinstance(found.get("SchemaDefinition"), str):
        return "200: no SchemaDefinition with a DataFormat"
    return None
