"""What `[[sources]]` mean: as `mapping/` applies them, as they shape rows, and as TOML."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from msgspec import structs

from ..events import FORMATS, Decoder, Limits, decoder
from ..mapping import (
    Drop,
    Expression,
    FeedbackTable,
    ImpressionTable,
    MappedSource,
    TimeFormat,
    topic_decoder,
)
from ..schemas import Framing, SchemaBook
from .sections.source_checks import SECTION, TABLES, DeclaredSource, Sources, framing_of
from .sections.source_keys import zone_name
from .settings import Config
from .values.shared_rules import fields_of

LONGEST_SENT_BYTES: Final = 1 << 30
"""A stage sends what it has read: no record of it is too long."""
_KEYS: Final = {"impressions": "impression", "drops": "drop"}
"""Field of a source → its key in the file."""
_ALWAYS: Final = ("topic", "reason")
"""The keys that are written even where they have their default."""


def applied_sources(sources: Sources) -> tuple[MappedSource, ...]:
    """The sources as they are applied to records. Each expression knows where it stands."""
    return tuple(_applied_source(f"{SECTION}[{index}]", one) for index, one in enumerate(sources))


def _applied_source(key: str, declared: DeclaredSource) -> MappedSource:
    keys = declared.keys
    source = MappedSource(
        topic=keys.topic,
        reader=declared.reader,
        codec=keys.codec,
        framing=framing_of(declared),
        schema=declared.schema,
        envelope=keys.envelope,
        each=keys.each,
        time=TimeFormat(keys.time_format, keys.time_zone),
        impressions=tuple(ImpressionTable(**_given_keys(table)) for table in declared.impressions),
        feedback=tuple(FeedbackTable(**_given_keys(table)) for table in declared.feedback),
        drops=tuple(
            Drop(**_given_keys(drop), values=values or frozenset())
            for drop, values in zip(
                declared.drops, declared.values or (None,) * len(declared.drops), strict=True
            )
        ),
    )
    located: MappedSource = _located(source, key)
    return replace(located, key=key)


def _given_keys(table: object) -> dict[str, Any]:
    """The keys of a table that have a value."""
    assert is_dataclass(table)
    found = {entry.name: getattr(table, entry.name) for entry in fields(table)}
    return {name: value for name, value in found.items() if value is not None}


def _located(value: Any, key: str) -> Any:
    """The value, where each expression in it knows its key."""
    if isinstance(value, Expression):
        return replace(value, key=key)
    if isinstance(value, tuple):
        several = len(value) > 1 or key.endswith(".drop")
        keys = [f"{key}[{index}]" if several else key for index in range(len(value))]
        return tuple(_located(one, where) for one, where in zip(value, keys, strict=True))
    if isinstance(value, Mapping):
        return {name: _located(one, f"{key}.{name}") for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        found = {entry.name: getattr(value, entry.name) for entry in fields(value)}
        return replace(
            value,
            **{
                name: _located(inner, f"{key}.{_KEYS.get(name, name)}")
                for name, inner in found.items()
            },
        )
    return value


def shape(sources: Sources) -> list[dict[str, Any]]:
    """What of the sources the join depends on, in canonical form: equal for any order of topics and
    of keys, and without what has its default."""
    found = [_shape(source) for source in applied_sources(sources)]
    return sorted(found, key=lambda one: str(one["topic"]))


def _shape(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, frozenset):
        return hashlib.sha256("\n".join(sorted(value)).encode()).hexdigest()
    if isinstance(value, tuple):
        return [_shape(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _shape(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        # A key that is added later, with a default, changes no hash.
        return {
            entry.name: _shape(getattr(value, entry.name))
            for entry in fields(value)
            if entry.name not in ("key", "values_file", "parsed", "query")
            and getattr(value, entry.name) != entry.default
        }
    return zone_name(value) if hasattr(value, "utcoffset") else value


def written(sources: Sources) -> Iterator[str]:
    """The lines of TOML of all sources, presets expanded: only what differs from its default."""
    for source in sources:
        yield from ("", f"[[{SECTION}]]", *_written(source.keys))
        tables = zip(TABLES, (source.impressions, source.feedback, source.drops), strict=True)
        for name, several in tables:
            for table in several:
                yield from (f"[[{SECTION}.{name}]]", *_written(table))


def _written(table: Any) -> Iterator[str]:
    for name, entry in fields_of(type(table)).items():
        value, kind = getattr(table, entry.name), entry.metadata["kind"]
        # The keys of a preset stand below: naming it again would read them twice.
        is_expanded = name == "preset" and value not in FORMATS
        is_default = value == kind.read(entry.metadata["default"]) and name not in _ALWAYS
        if value is not None and not is_expanded and not is_default:
            yield f"{name} = {kind.write(value)}"


def book_of(config: Config) -> SchemaBook:
    """Return an empty book for the topics whose records name schemas."""
    return SchemaBook(
        {
            source.topic: Framing(source.codec, source.framing)
            for source in applied_sources(config.sources)
            if source.schema is None and source.reader is None
        }
    )


def decoder_of(config: Config, book: SchemaBook | None = None) -> Decoder:
    """Return the decoder of all topics: of the sources, or of `events.format`. `book`: the schemas
    that frames name; without it, none is known."""
    return _decoder_of(config, config.limits, book)


def stage_decoder_of(config: Config, book: SchemaBook | None = None) -> Decoder:
    """Return the same for a stage, which passes on what any layout may need: its topic, and what
    lanes read of it, outlive layouts."""
    return _decoder_of(config, structs.replace(config.limits, passes_on=True), book)


def _decoder_of(config: Config, limits: Limits, book: SchemaBook | None) -> Decoder:
    if config.sources:
        # A book that is empty is false.
        found = book_of(config) if book is None else book
        return topic_decoder(applied_sources(config.sources), limits, found)
    return decoder(config.events.format, limits)


def lane_decoder_of(config: Config, book: SchemaBook | None = None) -> Decoder:
    """Return the decoder of what lanes read: of all topics, or of what a stage made of them, whose
    native events may be longer than the records they came from."""
    if config.is_rekeyed:
        return decoder(
            "native", structs.replace(config.limits, max_record_bytes=LONGEST_SENT_BYTES)
        )
    return decoder_of(config, book)
