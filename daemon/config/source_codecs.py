"""The codecs of `[[sources]]`: rules of their keys, and the schemas of the files that they name.
Pure: files are read by a function that is passed in."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ..mapping.tables import OwnSchema
from ..schemas.avro import AvroSchema
from ..schemas.frames import APICURIO8, CONFLUENT, GLUE, NONE, Framing
from ..schemas.libraries import missing_extra
from ..schemas.protobuf import protobuf_file
from ..schemas.types import AVRO, PROTOBUF, SchemaText, UnreadableSchema
from .faults import ConfigFault
from .sections import GLUE as GLUE_REGISTRY
from .sections import RegistrySection
from .source_keys import SourceKeys
from .sources import SECTION, Declared, Sources
from .tables import FieldFault

ReadBytes = Callable[[str], bytes]
"""Returns the content of a file. Raises OSError."""

FILES: Final = {"schema_file": AVRO, "descriptor_set": PROTOBUF}
"""Key that names a file with a schema → the codec that it is of."""


def codec_faults(sources: Sources) -> Iterator[FieldFault]:
    """Every fault of the keys that say how records are written."""
    for index, source in enumerate(sources):
        yield from _faults(f"{SECTION}[{index}]", source.keys)


def _faults(key: str, keys: SourceKeys) -> Iterator[FieldFault]:
    extra = missing_extra(keys.codec)
    if extra is not None:
        rule = f"needs a package that is not installed: pip install 'relevanced[{extra}]'"
        yield f"{key}.codec", keys.codec, rule
    for name, codec in FILES.items():
        path = getattr(keys, name)
        if path is not None and keys.codec != codec:
            yield f"{key}.{name}", path, f'has no effect: needs codec = "{codec}"'
        if path is None and keys.codec == codec and keys.framing == NONE:
            rule = f'must be given: framing = "{NONE}" names no schema'
            yield f"{key}.{name}", None, rule
    if (keys.message is None) != (keys.descriptor_set is None):
        yield f"{key}.message", keys.message, "message and descriptor_set go together"


def registry_faults(sources: Sources, registry: RegistrySection) -> Iterator[ConfigFault]:
    """Every source whose records name schemas that there is nobody to ask for."""
    for index, source in enumerate(sources):
        keys, key = source.keys, f"{SECTION}[{index}]"
        if not Framing(keys.codec, framing_of(source)).names_schemas or source.reader is not None:
            continue
        if any(getattr(keys, name) is not None for name in FILES):
            continue
        if not registry.is_given:
            file = next(name for name, codec in FILES.items() if codec == keys.codec)
            rule = f"its records name schemas: set registry.url, or {file} with one for all of them"
            yield ConfigFault(f"{key}.codec", keys.codec, rule)
        elif keys.framing == GLUE and registry.kind != GLUE_REGISTRY:
            rule = f'needs registry.kind = "{GLUE_REGISTRY}"'
            yield ConfigFault(f"{key}.framing", keys.framing, rule)
        elif keys.framing in (CONFLUENT, APICURIO8) and registry.kind == GLUE_REGISTRY:
            rule = f'names no schema of registry.kind = "{GLUE_REGISTRY}"'
            yield ConfigFault(f"{key}.framing", keys.framing, rule)


def with_schemas(sources: Sources, read_bytes: ReadBytes) -> tuple[Sources, list[FieldFault]]:
    """The sources with the schemas of the files that they name, and the files that are of no
    use."""
    faults, found = list[FieldFault](), list[Declared]()
    for index, source in enumerate(sources):
        for name in FILES:
            path = getattr(source.keys, name)
            if path is None:
                continue
            key = f"{SECTION}[{index}].{name}"
            try:
                source = replace(source, schema=_own(source.keys, read_bytes(path)))
            except OSError as error:
                faults.append((key, path, f"cannot be read: {error.strerror or error}"))
            except UnreadableSchema as error:
                faults.append((key, path, str(error)))
        found.append(source)
    return tuple(found), faults


def _own(keys: SourceKeys, content: bytes) -> OwnSchema:
    if keys.message is not None:
        parsed = protobuf_file(content, keys.message)
        return OwnSchema(hashlib.sha256(content).hexdigest(), keys.message, parsed)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableSchema("is no Avro schema: is not UTF-8") from None
    schema = AvroSchema(SchemaText(AVRO, text))
    return OwnSchema(hashlib.sha256(_canonical(text).encode()).hexdigest(), None, schema)


def _canonical(text: str) -> str:
    """The schema without its spaces, and its keys in one order."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:  # the bare name of a type
        return text.strip()


def framing_of(source: Declared) -> str:
    """The framing of a source's records: beside a file, `auto` is none."""
    has_file = any(getattr(source.keys, name) is not None for name in FILES)
    stated = source.keys.framing
    return NONE if has_file and stated not in (CONFLUENT, APICURIO8, GLUE) else stated
