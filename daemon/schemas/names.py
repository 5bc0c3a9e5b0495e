"""Schemas as registries and files name and give them, and the codecs that they are of. Pure."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
JSON: Final = "json"
CODECS: Final = (JSON, AVRO, PROTOBUF)
"""How the body of a record is written; `json` includes JSON Schema, whose frame is stripped."""

ID: Final = "id"
GUID: Final = "guid"
GLOBAL: Final = "global"
GLUE_VERSION: Final = "glue"


class SchemaId(NamedTuple):
    """What a record names its schema by.

    kind `id`: an int of 32 bits (Confluent, Redpanda, Karapace, Apicurio 3); `guid`: a UUID as
    text, of Confluent's header; `global`: an int of 64 bits, Apicurio 2's global id; `glue`: a UUID
    as text, of a schema version in AWS Glue.
    """

    kind: str
    value: int | str

    def __str__(self) -> str:
        return f"schema {'' if self.kind == ID else f'{self.kind} '}{self.value}"


@dataclass(frozen=True)
class SchemaText:
    """A schema as it is stored: Avro's JSON, or the base64 of a Protobuf FileDescriptorProto."""

    codec: str
    text: str
    references: tuple[tuple[str, "SchemaText"], ...] = ()
    """The schemas that it needs, by the name of the reference; of Protobuf: by the name of the
    imported file. They may have references in turn."""


class UnreadableSchema(ValueError):
    """A text is no schema that records can be read by; its message is the reason, for people."""


LIBRARIES: Final[Mapping[str, str]] = {AVRO: "fastavro", PROTOBUF: "google.protobuf"}
"""Codec → the package that reads it, which comes with the extra of the same name."""


def missing_extra(codec: str) -> str | None:
    """Return the extra that a codec needs and that is not installed; None where nothing lacks."""
    module = LIBRARIES.get(codec)
    if module is None:
        return None
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package inside one that is not there
        is_there = False
    return None if is_there else codec
