"""A schema registry of AWS Glue. Needs botocore, which is an extra of its own: only this module
imports it, and only where it is configured.

Logins are those of all AWS clients: environment, profile, web identity, instance.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from botocore.config import Config as ClientSettings
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import get_session

from ..codecs import GLUE_VERSION, PROTOBUF, SchemaId, SchemaText, UnreadableSchema
from ..errors import RegistryUnavailable, StartError
from .client import NOT_THERE, MissingSchema, Outcome
from .protocol import codec_of

TIMEOUT_S: Final = 10
MISSING: Final = ("EntityNotFoundException", "InvalidInputException")
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
        codec, text = codec_of(found.get("DataFormat")), found.get("SchemaDefinition")
        if found.get("Status") != "AVAILABLE" or not isinstance(text, str):
            raise UnreadableSchema(f"its status is {found.get('Status')}: must be AVAILABLE")
        if codec == PROTOBUF:
            raise UnreadableSchema(NO_DESCRIPTOR)
        return SchemaText(codec, text)

    async def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _version(self, version: str) -> dict[str, Any]:
        server = f"registry AWS Glue in {self._region}"
        try:
            found: dict[str, Any] = self._client.get_schema_version(SchemaVersionId=version)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in MISSING:
                self._count("missing")
                raise MissingSchema(NOT_THERE) from error
            self._count("failed")
            does = f"refuses the login ({code})" if code in FORBIDDEN else f"answers {code}"
            raise RegistryUnavailable(f"{server} {does}") from error
        except BotoCoreError as error:
            self._count("failed")
            raise RegistryUnavailable(f"{server} does not answer", str(error)) from error
        self._count("ok")
        return found
