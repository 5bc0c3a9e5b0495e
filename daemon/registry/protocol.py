"""What is asked of a schema registry, and what its answers mean. Pure.

The REST protocol is Confluent's, which Redpanda, Karapace and Apicurio (`/apis/ccompat/v7`) speak:

    GET /schemas/ids/{id}                           by the id of a record's frame
    GET /schemas/guids/{guid}                       by the GUID of its header
    GET /subjects/{subject}/versions/{version}      what a schema refers to
    GET /apis/registry/v3/ids/globalIds/{id}        Apicurio's own, of frames of 8 bytes
    GET /schemas/types                              what any of them answers, whatever its age

Of Protobuf, the registry also makes the compiled form with `?format=serialized`.

Only a well-formed answer decides anything. Whatever stands before a registry (a proxy, a login
page, a server that just starts) may answer in its place, with any status and any body: what is
neither a schema nor the protocol's own word that there is none is trouble, and nothing is refused.
A schema of another type than those that records are read by is an answer: waiting changes nothing.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from ..config import Secret
from ..schemas import (
    AVRO,
    GLOBAL,
    GUID,
    ID,
    JSON,
    PROTOBUF,
    SchemaId,
    SchemaText,
    UnreadableSchema,
    parsed_schema,
)

LARGEST_ID: Final = 2**31 - 1
"""Registries count ids in a signed int32, and answer for a larger one as for a wrong path."""
APICURIO_TYPE: Final = "X-Registry-ArtifactType"
_SERIALIZED: Final = "format=serialized"
_CODECS: Final = {"AVRO": AVRO, "PROTOBUF": PROTOBUF, "JSON": JSON}
_APICURIO: Final = re.compile(r"(?P<root>.*)/apis/(?P<api>ccompat|registry)/(?P<version>v\d+)")
_NO_SUCH_CODES: Final = range(40400, 40500)
"""Error codes of Confluent's protocol for a schema, subject or version that is not there. A wrong
path has 404, or no code at all."""
_NOT_FOUND: Final = re.compile(r"\w+NotFoundException")
"""What Apicurio's own interface calls the same. A wrong path is a bare NotFoundException."""
_MOST_SHOWN: Final = 40


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
    return _with_format(f"{confluent_base(base)}/schemas/{path}/{schema.value}", serialized)


def reference_url(base: str, reference: Reference, *, serialized: bool = False) -> str:
    """The URL of a schema that another one refers to, also where its subject was deleted since."""
    subject = quote(reference.subject, safe="")
    path = f"/subjects/{subject}/versions/{reference.version}?deleted=true"
    return _with_format(confluent_base(base) + path, serialized)


def apicurio_root(base: str) -> str | None:
    """Where Apicurio Registry is, if the path of the registry's address is one of its own."""
    found = _APICURIO.fullmatch(base)
    return None if found is None else found["root"]


def confluent_base(base: str) -> str:
    """The base of Confluent's protocol: Apicurio has it under another path than its own."""
    found = _APICURIO.fullmatch(base)
    if found is None or found["api"] == "ccompat":
        return base
    return f"{found['root']}/apis/ccompat/v7"


def _with_format(url: str, serialized: bool) -> str:
    return f"{url}{'&' if '?' in url else '?'}{_SERIALIZED}" if serialized else url


def types_url(base: str) -> str:
    """The URL of the types of schemas: a path that every version of the protocol has."""
    return f"{confluent_base(base)}/schemas/types"


def trouble(wanted: SchemaId | Reference, answer: RegistryAnswer) -> str | None:
    """Why an answer is none to the question, as what the registry does; None where it is one: the
    schema, or that there is none."""
    if answer.status == 200:
        wrong = _fault_of_schema(wanted, answer)
        return None if wrong is None else _improper(answer, wrong)
    return None if is_missing(answer) else _refusal(answer)


def _refusal(answer: RegistryAnswer) -> str:
    """What the registry does where it answers with this status, and not 200."""
    status = answer.status
    if status == 401:
        return "refuses the login (401)"
    if status == 403:
        return "forbids to read the schema (403)"
    if status == 404:
        return "answers 404 as for a wrong path: is that of registry.url right?"
    if status == 407:
        return "does not answer: a proxy before it wants a login (407)"
    if 300 <= status < 400:
        return f"answers {status}: leads to another address, which is not followed"
    return f"answers {status}"


def _improper(answer: RegistryAnswer, wrong: str) -> str:
    return f"does not answer properly ({answer.status}: {wrong})"


def _fault_of_schema(wanted: SchemaId | Reference, answer: RegistryAnswer) -> str | None:
    """What is wrong with an answer that should be a schema."""
    if isinstance(wanted, SchemaId) and wanted.kind == GLOBAL:
        return _fault_of_text(answer)
    found = _object(answer.body)
    if found is None:
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        what = "not an object of" if answer.body else "no"
        return f"{what} JSON{f', {kind}' if kind else ''}"
    if not isinstance(found.get("schema"), str):
        return "its JSON has no schema"
    named = found.get("schemaType")
    if named is not None and not isinstance(named, str):
        return f"its schemaType is {_shown(named)}: must be a text"
    references = found.get("references") or []
    if not isinstance(references, list) or None in map(_reference, references):
        return "a reference without name, subject and version"
    return None


def _fault_of_text(answer: RegistryAnswer) -> str | None:
    """The same of Apicurio's own interface, whose answer is the text of the schema. Its header says
    that it is one; of a version that sends none, only what can be read is known to be."""
    named = answer.headers.get(APICURIO_TYPE)
    if named is None:
        try:
            parsed_schema(SchemaText(AVRO, answer.body.decode()))
        except (UnicodeDecodeError, UnreadableSchema):
            return f"no {APICURIO_TYPE}, and no schema of Avro"
    elif not named:
        return f"its {APICURIO_TYPE} is empty"
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def is_missing(answer: RegistryAnswer) -> bool:
    """Whether the registry says that it has no such schema."""
    if answer.status != 404:
        return False
    fault = _object(answer.body) or {}
    code, name = fault.get("error_code"), fault.get("name")
    if isinstance(name, str) and _NOT_FOUND.fullmatch(name):
        return True
    return type(code) is int and code in _NO_SUCH_CODES


def may_lack_guids(wanted: SchemaId | Reference, answer: RegistryAnswer) -> bool:
    """Whether the registry may be older than GUIDs: it answers as for a path that is not there. So
    does a proxy before it: it is one only if it has the paths that all have."""
    if not isinstance(wanted, SchemaId) or wanted.kind != GUID or is_missing(answer):
        return False
    return answer.status in (404, 405)


def trouble_of_types(answer: RegistryAnswer) -> str | None:
    """Why an answer is none to the question for the types."""
    if answer.status != 200:
        return _refusal(answer)
    try:
        found = msgspec.json.decode(answer.body)
    except (ValueError, RecursionError):
        found = None
    return None if isinstance(found, list) and "AVRO" in found else _improper(answer, "no types")


def stored(schema: SchemaId | Reference, answer: RegistryAnswer) -> StoredSchema:
    """The schema of an answer of status 200 that is no trouble. Raises UnreadableSchema."""
    if isinstance(schema, SchemaId) and schema.kind == GLOBAL:
        codec = codec_of(answer.headers.get(APICURIO_TYPE))
        try:
            return StoredSchema(codec, answer.body.decode())
        except UnicodeDecodeError:
            raise UnreadableSchema("the schema is not UTF-8") from None
    found = _object(answer.body) or {}
    references = [made for one in found.get("references") or [] if (made := _reference(one))]
    return StoredSchema(codec_of(found.get("schemaType")), found["schema"], tuple(references))


def descriptor_of(answer: RegistryAnswer) -> str:
    """The base64 of a FileDescriptorProto, of an answer to `format=serialized`. Raises
    UnreadableSchema where the registry does not make it."""
    text = (_object(answer.body) or {})["schema"]
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise UnreadableSchema(NO_DESCRIPTOR) from None
    return str(text)


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
        raise UnreadableSchema(f"its type is {_shown(name)}: must be one of {', '.join(_CODECS)}")
    return _CODECS[name]


def _reference(given: object) -> Reference | None:
    found = given if isinstance(given, dict) else {}
    name, subject, version = (found.get(key) for key in ("name", "subject", "version"))
    if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
        return None
    return Reference(name, subject, version)


def _object(body: bytes) -> Mapping[str, Any] | None:
    """The object of a body in JSON; None where it is none."""
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class RegistrySettings:
    """Where the registry is and how to talk to it."""

    urls: tuple[str, ...]
    username: str | None = None
    password: Secret | None = None
    bearer_token_file: str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_key_password: Secret | None = None
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


PAGE: Final = 500
MOST_PAGES: Final = 200
MARGIN: Final = 1_000
"""Ids count up. So far from those that are listed, an id may still be one of a schema that was
deleted or is new."""


class ListedVersion(msgspec.Struct, frozen=True):
    """A schema that is listed, by Confluent's names (id, guid) or by Apicurio's."""

    id: int | None = None
    guid: str | None = None
    contentId: int | None = None
    globalId: int | None = None


class _Versions(msgspec.Struct):
    versions: list[ListedVersion]


class Listing(NamedTuple):
    """What a registry says that it has, in one answer or a few: which ids it cannot have.

        GET /schemas                            Confluent, Karapace
        GET /apis/registry/v3/search/versions   Apicurio

    A topic whose records only look framed names thousands of ids. Each of them would be a question;
    a listing settles those that are far outside of what is listed. What lies between is asked for
    all the same: a listing may leave out what was deleted.
    """

    lowest: int
    highest: int
    guids: frozenset[str] | None
    """None: the registry lists none."""

    def cannot_have(self, schema: SchemaId) -> bool:
        """Whether a registry that lists this has no such schema for certain."""
        if schema.kind == GUID:
            return self.guids is not None and schema.value not in self.guids
        if schema.kind not in (ID, GLOBAL):
            return False
        return not self.lowest - MARGIN <= int(schema.value) <= self.highest + MARGIN

    def __str__(self) -> str:
        return f"ids from {self.lowest} to {self.highest}"


def listing_url(base: str, page: int) -> str:
    """The URL of a page, the first is 0."""
    part = f"offset={page * PAGE}&limit={PAGE}"
    root = apicurio_root(base)
    if root is not None:
        return f"{root}/apis/registry/v3/search/versions?{part}"
    everything = "deleted=true&latestOnly=false&subjectPrefix=:*:"
    return f"{confluent_base(base)}/schemas?{everything}&{part}"


def listed_versions(answer: RegistryAnswer) -> list[ListedVersion] | None:
    """What a page lists; None where the answer is none."""
    if answer.status != 200:
        return None
    try:
        if answer.body.lstrip().startswith(b"{"):
            return msgspec.json.decode(answer.body, type=_Versions).versions
        return msgspec.json.decode(answer.body, type=list[ListedVersion])
    except (ValueError, RecursionError):
        return None


def listing_of(listed: Iterable[ListedVersion]) -> Listing | None:
    """The listing of all pages of all addresses; None where an entry names no id."""
    ids, guids, every_guid = set[int](), set[str](), True
    for entry in listed:
        numbers = {entry.id, entry.contentId, entry.globalId} - {None}
        if not numbers:
            return None
        ids.update(number for number in numbers if number is not None)
        every_guid = every_guid and entry.guid is not None
        guids.add(entry.guid or "")
    whole = frozenset(guids) if every_guid and guids else None
    return Listing(min(ids, default=0), max(ids, default=0), whole)
