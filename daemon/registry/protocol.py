"""What is asked of a schema registry, and what its answers mean. Pure.

The REST protocol is Confluent's, which Redpanda, Karapace and Apicurio (`/apis/ccompat/v7`) speak:

    GET /schemas/ids/{id}                           by the id of a record's frame
    GET /schemas/guids/{guid}                       by the GUID of its header
    GET /subjects/{subject}/versions/{version}      what a schema refers to
    GET /apis/registry/v3/ids/globalIds/{id}        Apicurio's own, of frames of 8 bytes

Of Protobuf, the registry also makes the compiled form with `?format=serialized`.

The plain values that clients of a registry take.

How fast a registry may be asked.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from ..codecs import AVRO, GLOBAL, GUID, ID, JSON, PROTOBUF, SchemaId, UnreadableSchema

LARGEST_ID: Final = 2**31 - 1
"""Registries count ids in a signed int32, and answer for a larger one as for a wrong path."""
APICURIO_TYPE: Final = "X-Registry-ArtifactType"
_SERIALIZED: Final = "format=serialized"
_CODECS: Final = {"AVRO": AVRO, "PROTOBUF": PROTOBUF, "JSON": JSON}
_APICURIO: Final = re.compile(r"(?P<root>.*)/apis/(?P<api>ccompat|registry)/(?P<version>v\d+)")
_NO_SUCH_CODES: Final = range(40400, 40500)
"""Error codes of Confluent's protocol for a schema, subject or version that is not there. A wrong
path has 404, or no code at all."""


class RegistryAnswer(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Reference(NamedTuple):
    """A schema that another one needs."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class StoredSchema:
    """A schema as the registry stores it."""

    codec: str
    text: str
    references: tuple[Reference, ...] = ()


def is_askable(schema: SchemaId) -> bool:
    """Whether a registry of this protocol can have such a schema."""
    if schema.kind == ID:
        return isinstance(schema.value, int) and 0 <= schema.value <= LARGEST_ID
    if schema.kind == GLOBAL:
        return isinstance(schema.value, int) and 0 <= schema.value < 2**63
    return schema.kind == GUID


def schema_url(base: str, schema: SchemaId, *, serialized: bool = False) -> str:
    """The URL of a schema, where `base` is that of the registry."""
    if schema.kind == GLOBAL:
        found = _APICURIO.fullmatch(base)
        root = base if found is None else found["root"]
        version = found["version"] if found is not None and found["api"] == "registry" else "v3"
        inlined = "dereference=true" if version == "v2" else "references=DEREFERENCE"
        query = f"{inlined}&returnArtifactType=true"
        return f"{root}/apis/registry/{version}/ids/globalIds/{schema.value}?{query}"
    path = "guids" if schema.kind == GUID else "ids"
    return _with_format(f"{_confluent(base)}/schemas/{path}/{schema.value}", serialized)


def reference_url(base: str, reference: Reference, *, serialized: bool = False) -> str:
    """The URL of a schema that another one refers to, also where its subject was deleted since."""
    subject = quote(reference.subject, safe="")
    path = f"/subjects/{subject}/versions/{reference.version}?deleted=true"
    return _with_format(_confluent(base) + path, serialized)


def _confluent(base: str) -> str:
    """The base of Confluent's protocol: Apicurio has it under another path than its own."""
    found = _APICURIO.fullmatch(base)
    if found is None or found["api"] == "ccompat":
        return base
    return f"{found['root']}/apis/ccompat/v7"


def _with_format(url: str, serialized: bool) -> str:
    return f"{url}{'&' if '?' in url else '?'}{_SERIALIZED}" if serialized else url


def trouble(answer: RegistryAnswer) -> str | None:
    """Why an answer is none to the question, as what the registry does; None where it is one: the
    schema, that there is none, or that it cannot be given."""
    status = answer.status
    if status == 401:
        return "refuses the login (401)"
    if status == 403:
        return "forbids to read the schema (403)"
    if status == 404 and not is_missing(answer):
        return "answers 404 as for a wrong path: is that of registry.url right?"
    if 300 <= status < 400:
        return f"answers {status}: leads to another address, which is not followed"
    if status in (408, 429) or (status >= 500 and status != 501):
        return f"answers {status}"
    return None


def is_missing(answer: RegistryAnswer) -> bool:
    """Whether the registry says that it has no such schema."""
    if answer.status != 404:
        return False
    fault = _object(answer.body)
    if str(fault.get("name", "")).endswith("NotFoundException"):
        return True  # Apicurio's own interface
    return fault.get("error_code") in _NO_SUCH_CODES


def has_no_guids(schema: SchemaId, answer: RegistryAnswer) -> bool:
    """Whether the registry is older than GUIDs: it answers as for a path that is not there."""
    return schema.kind == GUID and answer.status in (404, 405)


def stored(schema: SchemaId | Reference, answer: RegistryAnswer) -> StoredSchema:
    """The schema of an answer that is no trouble and not missing. Raises UnreadableSchema."""
    if answer.status != 200:
        raise UnreadableSchema(f"the registry answers {answer.status}")
    if isinstance(schema, SchemaId) and schema.kind == GLOBAL:
        codec = codec_of(answer.headers.get(APICURIO_TYPE))
        try:
            return StoredSchema(codec, answer.body.decode())
        except UnicodeDecodeError:
            raise UnreadableSchema("the schema is not UTF-8") from None
    found = _object(answer.body)
    text, references = found.get("schema"), found.get("references") or []
    if not isinstance(text, str) or not isinstance(references, list):
        raise UnreadableSchema("the registry's answer has no schema")
    return StoredSchema(codec_of(found.get("schemaType")), text, tuple(map(_reference, references)))


def descriptor_of(answer: RegistryAnswer) -> str:
    """The base64 of a FileDescriptorProto, of an answer to `format=serialized`. Raises
    UnreadableSchema where the registry does not make it."""
    text = _object(answer.body).get("schema") if answer.status == 200 else None
    try:
        if not isinstance(text, str):
            raise ValueError("no schema")
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise UnreadableSchema(NO_DESCRIPTOR) from None
    return text


NO_DESCRIPTOR: Final = (
    "the registry has only the text of the Protobuf schema (it does not know ?format=serialized):"
    ' give the source descriptor_set = "FILE", from protoc --descriptor_set_out or buf build,'
    " beside framing and message"
)


def codec_of(name: object) -> str:
    """The codec of a type as registries name it; without one it is Avro. Raises
    UnreadableSchema."""
    name = "AVRO" if name is None else name
    if not isinstance(name, str) or name not in _CODECS:
        raise UnreadableSchema(f"its type is {name!r}: must be one of {', '.join(_CODECS)}")
    return _CODECS[name]


def _reference(given: object) -> Reference:
    found = given if isinstance(given, dict) else {}
    name, subject, version = (found.get(key) for key in ("name", "subject", "version"))
    if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
        raise UnreadableSchema("a reference without name, subject and version")
    return Reference(name, subject, version)


def _object(body: bytes) -> Mapping[str, Any]:
    """The object of a body in JSON; empty where it is none."""
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class RegistrySettings:
    """Where the registry is and how to talk to it. Secrets are left out of the `repr`."""

    urls: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    bearer_token_file: str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True


BURST: Final = 200
"""So many questions may be asked at once after a while of silence: more than a process meets at its
start."""
A_SECOND: Final = 100.0
"""So many may be asked in a second from then on."""


class Rate:
    """A bound on how often something is done: a burst, and then so many a second."""

    def __init__(self, burst: int = BURST, a_second: float = A_SECOND) -> None:
        self._burst, self._a_second = float(burst), a_second
        self._left, self._seen_s = float(burst), 0.0

    def take(self, now_s: float) -> float:
        """Take one turn, and return for how many seconds to wait before it. `now_s` never goes
        back."""
        gained = (now_s - self._seen_s) * self._a_second
        self._left = min(self._burst, self._left + max(gained, 0.0)) - 1.0
        self._seen_s = now_s
        return max(-self._left / self._a_second, 0.0)
