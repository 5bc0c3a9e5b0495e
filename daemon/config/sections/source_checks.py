"""`[[sources]]`: reads and checks the topics that come in a format of their own. Pure: files are
read by a function that is passed in.

table of the file ─┐
                   ├▶ one table ─▶ its keys ─▶ Declared
table of a preset ─┘
"""

import difflib
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from ...events import (
    BY_ID,
    DROP_REASONS,
    FORMATS,
    LAST_TOUCH,
    NOT_MAPPED,
    REJECTION_REASONS,
    SKIP_REASONS,
)
from ...extras import lacking
from ...mapping import AUTO, UNITS, OwnSchema, calls, has_zone
from ...schemas import (
    APICURIO8,
    AVRO,
    CONFLUENT,
    GLUE,
    NONE,
    PROTOBUF,
    Framing,
    UnreadableSchema,
    missing_extra,
    parsed_schema_file,
)
from ..values.shared_rules import ConfigFault, FieldFault, fields_of, read_fields
from .connections import GLUE as GLUE_REGISTRY, RegistrySection
from .source_keys import (
    LEAST_SIMILARITY,
    DropKeys,
    FeedbackKeys,
    ImpressionKeys,
    SourceKeys,
    presets,
)

T = TypeVar("T", ImpressionKeys, FeedbackKeys, DropKeys)

SECTION: Final = "sources"
TABLES: Final[Mapping[str, type]] = {
    "impression": ImpressionKeys,
    "feedback": FeedbackKeys,
    "drop": DropKeys,
}
"""The tables of a source, each of which may be given several times."""
NOT_BESIDE: Final[Mapping[str, str]] = {
    "kafka.topics": "name the topics",
    "events.format": 'name each format: preset = "ubi"',
}
"""Settings that must not stand beside sources, and what those do in their place."""
MERGED: Final = ("attributes",)
"""Keys whose names are replaced one by one where a preset has them, too."""
_NEEDED: Final[Mapping[str, Sequence[tuple[tuple[str, ...], str]]]] = {
    "impression": (
        (("id",), "must be given: what feedback names the search by"),
        (("time",), "must be given: when the list was shown"),
        (("items",), "must be given: the list that was shown"),
    ),
    "feedback": (
        (("time",), "must be given: when it happened"),
        (("kind", "grade"), "must be given: what kind of feedback it is"),
        (("item", "rank", "items"), "must be given: which item it is about"),
    ),
    "drop": ((("where", "value"), "must be given: what is left out"),),
}
"""Table → (keys of which one must be given, the rule)."""
_WHOM: Final = "must be given: whom attribution.join follows"
_TAKEN_REASONS: Final = (*REJECTION_REASONS, *SKIP_REASONS, *DROP_REASONS, NOT_MAPPED)


@dataclass(frozen=True)
class DeclaredSource:
    """One source as it is configured."""

    keys: SourceKeys
    impressions: tuple[ImpressionKeys, ...] = ()
    feedback: tuple[FeedbackKeys, ...] = ()
    drops: tuple[DropKeys, ...] = ()
    values: tuple[frozenset[str] | None, ...] = ()
    """For each drop, the values of its file; None where it has none, or they were not read."""

    schema: OwnSchema | None = None
    """Of the file that it names; None where it names none, or it was not read."""

    @property
    def reader(self) -> str | None:
        """The event format whose reader takes the records; None where tables do."""
        return self.keys.preset if self.keys.preset in FORMATS else None

    @property
    def has_files(self) -> bool:
        """Whether all files that it names are read."""
        named = self.keys.schema_file or self.keys.descriptor_set
        values = self.values or (None,) * len(self.drops)
        return (named is None or self.schema is not None) and all(
            found is not None or drop.values_file is None
            for drop, found in zip(self.drops, values, strict=True)
        )


Sources: TypeAlias = tuple[DeclaredSource, ...]


def read(value: object) -> tuple[Sources, list[FieldFault]]:
    """The sources of the tables under `sources`, and every fault of the tables."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return (), [(SECTION, None, f"must be tables: [[{SECTION}]]")]
    sources, faults = list[DeclaredSource](), list[FieldFault]()
    for index, given in enumerate(value):
        declared, more = _read_source(f"{SECTION}[{index}]", given)
        sources.append(declared)
        faults += more
    topics = [one.get("topic") for one in value]
    for index, topic in enumerate(topics):
        if isinstance(topic, str) and topic in topics[:index]:
            faults.append((f"{SECTION}[{index}].topic", topic, "stands more than once"))
    return tuple(sources), faults


def _read_source(key: str, given: Mapping[str, Any]) -> tuple[DeclaredSource, list[FieldFault]]:
    whole = _with_preset(given)
    flat = {name: value for name, value in whole.items() if name not in TABLES}
    values, faults = read_fields(key, flat, SourceKeys)
    faults = [_with_suggestion(fault, (*fields_of(SourceKeys), *TABLES)) for fault in faults]
    if "topic" not in given:
        faults.append((f"{key}.topic", None, "must be given"))
    found: dict[str, tuple[Any, ...]] = {}
    for name, owner in TABLES.items():
        found[name], more = _read_tables(f"{key}.{name}", whole.get(name, []), owner, name)
        faults += more
    keys = SourceKeys(**values)
    declared = DeclaredSource(keys, found["impression"], found["feedback"], found["drop"])
    return declared, [*faults, *_source_faults(key, declared, given)]


def _with_preset(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of the preset, replaced by those that are given."""
    preset = given.get("preset")
    base = presets().get(preset) if isinstance(preset, str) else None
    if base is None:
        return given
    whole = {**base, **given}
    for name in TABLES:
        if name in base and isinstance(given.get(name), (dict, list)):
            whole[name] = [
                _merged(base[name], table) if isinstance(table, dict) else table
                for table in _as_list(given[name])
            ]
    return whole


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**base, **given}
    for name in MERGED:
        if isinstance(base.get(name), dict) and isinstance(given.get(name), dict):
            merged[name] = {**base[name], **given[name]}
    return merged


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _read_tables(
    key: str, given: object, owner: type[T], name: str
) -> tuple[tuple[T, ...], list[FieldFault]]:
    tables = _as_list(given)
    found, faults = list[T](), list[FieldFault]()
    for index, table in enumerate(tables):
        where = key if len(tables) == 1 and name != "drop" else f"{key}[{index}]"
        if not isinstance(table, dict):
            faults.append((where, table, f"must be a table: [{SECTION}.{name}]"))
            continue
        values, more = read_fields(where, table, owner)
        faults += [_with_suggestion(fault, fields_of(owner)) for fault in more]
        found.append(owner(**values))
        for names, rule in _NEEDED[name]:
            if not any(one in table for one in names):
                faults.append((f"{where}.{names[0]}", None, rule))
        faults += _table_faults(where, name, table)
    return tuple(found), faults


def _with_suggestion(fault: FieldFault, names: Collection[str]) -> FieldFault:
    key, value, rule = fault
    if not rule.startswith("unknown key"):
        return fault
    near = difflib.get_close_matches(key.rpartition(".")[2], names, 1, LEAST_SIMILARITY)
    listed = f"must be one of {', '.join(names)}"
    return key, value, f"unknown key: {f'did you mean {near[0]}?' if near else listed}"


def _table_faults(key: str, name: str, table: Mapping[str, Any]) -> Iterator[FieldFault]:
    if name == "drop":
        if "reason" not in table:
            yield f"{key}.reason", None, "must be given: under which reason it is counted"
        elif table["reason"] in _TAKEN_REASONS:
            rule = "is a reason of the daemon's own: choose another name"
            yield f"{key}.reason", table["reason"], rule
        if ("value" in table) != ("values_file" in table):
            yield f"{key}.value", table.get("value"), "value and values_file go together"
    if ("page" in table) != ("page_size" in table):
        yield f"{key}.page", table.get("page"), "page and page_size go together"
    if "page" in table and "first_rank" in table:
        yield f"{key}.first_rank", table["first_rank"], "must not be given beside page"
    if "kinds" in table and "kind" not in table:
        yield f"{key}.kinds", None, "has no effect: needs kind"


def _source_faults(
    key: str, source: DeclaredSource, given: Mapping[str, Any]
) -> Iterator[FieldFault]:
    if source.reader is not None:
        others = [name for name in given if name not in ("topic", "preset", "framing")]
        for name in others:
            rule = f'must not be given beside preset = "{source.reader}", which has its own reader'
            yield f"{key}.{name}", None, rule
    elif not source.impressions and not source.feedback:
        if not any(name in given for name in ("impression", "feedback", "preset")):
            yield key, None, "maps nothing: give it a preset, or [sources.impression] and feedback"
    written = source.keys.time_format
    if "time_zone" in given and (written == AUTO or written in UNITS or has_zone(written)):
        yield f"{key}.time_zone", given[
            "time_zone"
        ], "has no effect: needs a time_format without %z"
    times = [one.time for one in source.impressions] + [one.time for one in source.feedback]
    asks_log = any(time is not None and calls(time.tree, "kafka_time") for time in times)
    if asks_log and written in UNITS and written != "ms":
        rule = f'a time is kafka_time(), in milliseconds: must be "{AUTO}", which knows each unit'
        yield f"{key}.time_format", written, rule


def faults_of(sources: Sources, grades: Collection[str], join: str) -> Iterator[ConfigFault]:
    """Every fault of the sources beside other settings. `grades`: the kinds that have a grade;
    `join`: how feedback finds its impression."""
    listed = ", ".join(grades)
    for index, source in enumerate(sources):
        yield from _join_faults(f"{SECTION}[{index}]", source, join)
        for table in source.feedback:
            unknown = dict.fromkeys(k for k in (table.kinds or {}).values() if k not in grades)
            for kind in unknown:
                key = f"{SECTION}[{index}].feedback.kinds"
                yield ConfigFault(key, None, f'"{kind}" is none of attribution.grades ({listed})')


def _join_faults(key: str, source: DeclaredSource, join: str) -> Iterator[ConfigFault]:
    """Every table that lacks what feedback joins by."""
    several = len(source.feedback) > 1
    for number, table in enumerate(source.feedback):
        where = f"{key}.feedback[{number}]" if several else f"{key}.feedback"
        has_id = table.id is not None or table.item_id is not None
        if join == BY_ID and not has_id:
            rule = (
                "must be given: the value of the impression's id, by which they join; or set"
                f' attribution.join = "{LAST_TOUCH}"'
            )
            yield ConfigFault(f"{where}.id", None, rule)
        elif join != BY_ID and table.visitor is None and (join == LAST_TOUCH or not has_id):
            yield ConfigFault(f"{where}.visitor", None, _WHOM)
    if join == BY_ID:
        return
    several = len(source.impressions) > 1
    for number, shown in enumerate(source.impressions):
        where = f"{key}.impression[{number}]" if several else f"{key}.impression"
        if shown.visitor is None and shown.user is None:
            yield ConfigFault(f"{where}.visitor", None, _WHOM)


def with_values(
    sources: Sources, read_text: Callable[[str], str]
) -> tuple[Sources, list[FieldFault]]:
    """The sources with the values of the files that they name, and the files that cannot be
    read."""
    faults, read_sources = list[FieldFault](), list[DeclaredSource]()
    for index, source in enumerate(sources):
        values = list[frozenset[str] | None]()
        for number, drop in enumerate(source.drops):
            values.append(None)
            if drop.values_file is None:
                continue
            key = f"{SECTION}[{index}].drop[{number}].values_file"
            try:
                lines = read_text(drop.values_file).splitlines()
            except (OSError, UnicodeDecodeError) as error:
                reason = (error.strerror if isinstance(error, OSError) else None) or "is not UTF-8"
                faults.append((key, drop.values_file, f"cannot be read: {reason}"))
                continue
            values[-1] = frozenset(line.strip() for line in lines if line.strip())
        known = tuple(values) if any(each is not None for each in values) else ()
        read_sources.append(replace(source, values=known))
    return tuple(read_sources), faults


ReadBytes = Callable[[str], bytes]
"""Returns the content of a file. Raises OSError."""

FILES: Final = {"schema_file": AVRO, "descriptor_set": PROTOBUF}
"""Key that names a file with a schema → the codec that it is of."""


def codec_faults(sources: Sources) -> Iterator[FieldFault]:
    """Every fault of the keys that say how records are written."""
    for index, source in enumerate(sources):
        key, keys = f"{SECTION}[{index}]", source.keys
        extra = missing_extra(keys.codec)
        if extra is not None:
            yield f"{key}.codec", keys.codec, lacking(extra)
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
    faults, found = list[FieldFault](), list[DeclaredSource]()
    for index, source in enumerate(sources):
        for name in FILES:
            path = getattr(source.keys, name)
            if path is None:
                continue
            key = f"{SECTION}[{index}].{name}"
            try:
                source = replace(source, schema=_own_schema(source.keys, read_bytes(path)))
            except OSError as error:
                faults.append((key, path, f"cannot be read: {error.strerror or error}"))
            except UnreadableSchema as error:
                faults.append((key, path, str(error)))
        found.append(source)
    return tuple(found), faults


def _own_schema(keys: SourceKeys, content: bytes) -> OwnSchema:
    schema = parsed_schema_file(content, keys.message)
    is_avro = keys.message is None
    hashed = _canonical(content.decode("utf-8-sig")).encode() if is_avro else content
    return OwnSchema(hashlib.sha256(hashed).hexdigest(), keys.message, schema)


def _canonical(text: str) -> str:
    """The schema without its spaces, and its keys in one order."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:  # the bare name of a type
        return text.strip()


def framing_of(source: DeclaredSource) -> str:
    """The framing of a source's records: beside a file, `auto` is none."""
    has_file = any(getattr(source.keys, name) is not None for name in FILES)
    stated = source.keys.framing
    return NONE if has_file and stated not in (CONFLUENT, APICURIO8, GLUE) else stated
