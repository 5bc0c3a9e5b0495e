"""The keys of `[[sources]]` and of its tables: kind, default and meaning of each. Pure."""

import difflib
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from ...events import FORMATS, MAX_TEXT_BYTES
from ...mapping import (
    ALL_MEMBERS,
    ENVELOPES,
    NO_ITEMS,
    SKIP,
    ExperimentsTable,
    Expression,
    Id,
    InvalidExpression,
    Zone,
    expression,
    format_fault,
)
from ...schemas import AUTO as ANY_FRAMING, CODECS, FRAMINGS, JSON
from ..values.kinds import (
    TOPIC,
    InvalidValue,
    Kind,
    choice,
    integer,
    optional,
    quoted,
    setting,
    shown,
    text,
)

T = TypeVar("T")
Named: TypeAlias = Mapping[str, Expression]

LEAST_SIMILARITY: Final = 0.6
MOST_ID_PARTS: Final = 8
_NAME_RULE: Final = f"a name must be 1 to {MAX_TEXT_BYTES} bytes"
_ZONE_RULE: Final = "must be UTC, an offset such as +01:00, or a name such as Europe/Berlin"


def named(names: Collection[str]) -> Kind[str]:
    """One of the names; a similar one is suggested."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        near = difflib.get_close_matches(str(value), names, 1, LEAST_SIMILARITY)
        rule = f"did you mean {near[0]}?" if near else f"must be one of {', '.join(names)}"
        raise InvalidValue((value, rule))

    return Kind(" | ".join(map(quoted, names)), read, quoted)


def jmespath() -> Kind[Expression]:
    """A JMESPath expression."""
    return Kind("expression", _expression, _written)


def identifier() -> Kind[Id]:
    """An expression, or a list of expressions whose values make one id."""

    def read(value: object) -> Id:
        parts = value if isinstance(value, list) else [value]
        if not 0 < len(parts) <= MOST_ID_PARTS:
            raise InvalidValue((value, f"must be 1 to {MOST_ID_PARTS} expressions"))
        return tuple(_expression(part) for part in parts)

    def write(value: Id) -> str:
        texts = [_written(part) for part in value]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"

    return Kind("expression, or list of them", read, write)


def expressions_by_name() -> Kind[Named]:
    """A table of name = expression."""

    def read(value: object) -> Named:
        return _table(value, "table of name = expression", _expression)

    return Kind("table of name = expression", read, _written_names)


def texts_by_name() -> Kind[Mapping[str, str]]:
    """A table of text = text."""

    def read(value: object) -> Mapping[str, str]:
        return _table(value, "table of kind = kind", _text)

    def write(value: Mapping[str, str]) -> str:
        pairs = (f"{quoted(name)} = {quoted(kind)}" for name, kind in value.items())
        return f"{{ {', '.join(pairs)} }}"

    return Kind("table of kind = kind", read, write)


def experiments() -> Kind[ExperimentsTable]:
    """Variants by the name of the experiment; or `map`, an object of them; or `list`, an array of
    objects with `name` and `variant`."""
    shape = "table of name = expression, { map } or { list, name, variant }"

    def read(value: object) -> ExperimentsTable:
        found = _table(value, shape, _expression)
        if set(found) == {"map"}:
            return ExperimentsTable(map=found["map"])
        if set(found) == {"list", "name", "variant"}:
            return ExperimentsTable(None, None, found["list"], found["name"], found["variant"])
        return ExperimentsTable(variants=found)

    def write(value: ExperimentsTable) -> str:
        if value.variants is not None:
            return _written_names(value.variants)
        parts = {name: getattr(value, name) for name in ("map", "list", "name", "variant")}
        return _written_names({name: one for name, one in parts.items() if one is not None})

    return Kind(shape, read, write)


def time_format() -> Kind[str]:
    """`auto`, a unit, or a format of strptime."""

    def read(value: object) -> str:
        text = _text(value)
        fault = format_fault(text)
        if fault is not None:
            raise InvalidValue((value, fault))
        return text

    return Kind('"auto" | "s" | "ms" | "us" | "ns" | format', read, quoted)


def time_zone() -> Kind[Zone]:
    """A time zone."""

    def read(value: object) -> Zone:
        text = _text(value)
        if text == "UTC":
            return timezone.utc
        if text.startswith(("+", "-")):
            try:
                offset = datetime.strptime(text, "%z").utcoffset()
            except ValueError:
                raise InvalidValue((value, _ZONE_RULE)) from None
            return timezone(offset or timedelta(0))
        try:
            return ZoneInfo(text)
        except (KeyError, ValueError, OSError):
            raise InvalidValue((value, _ZONE_RULE)) from None

    return Kind("time zone", read, lambda zone: quoted(zone_name(zone)))


def zone_name(zone: Zone) -> str:
    """The zone as it is written in a configuration."""
    return zone.key if isinstance(zone, ZoneInfo) else str(zone).removeprefix("UTC") or "UTC"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValue((value, "must be a non-empty text"))
    return value


def _expression(value: object) -> Expression:
    text = _text(value)
    try:
        return expression(text)
    except InvalidExpression as error:
        raise InvalidValue((value, str(error))) from None


def _written(value: Expression) -> str:
    return quoted(value.text)


def _written_names(value: Named) -> str:
    return f"{{ {', '.join(f'{quoted(name)} = {_written(one)}' for name, one in value.items())} }}"


def _table(value: object, shape: str, read: Callable[[object], T]) -> dict[str, T]:
    if not isinstance(value, dict):
        raise InvalidValue((value, f"must be a {shape}"))
    found, faults = dict[str, T](), list[tuple[object, str]]()
    for name, inner in value.items():
        if not 0 < len(name.encode()) <= MAX_TEXT_BYTES and name != ALL_MEMBERS:
            faults.append((name, _NAME_RULE))
            continue
        try:
            found[name] = read(inner)
        except InvalidValue as invalid:
            faults += [(f"{name}={shown(wrong)}", rule) for wrong, rule in invalid.faults]
    if faults:
        raise InvalidValue(*faults)
    return found


LIKE: Final = "like"
"""In presets only: the preset whose table is read first."""


@lru_cache(maxsize=1)
def presets() -> Mapping[str, Mapping[str, Any]]:
    """Preset → its table."""
    given = tomllib.loads((files(__package__) / "presets.toml").read_text(encoding="utf-8"))
    whole = dict[str, Mapping[str, Any]]()
    for name, table in given.items():
        base = given[table.pop(LIKE)] if LIKE in table else {}
        whole[name] = {**base, **table}
    return whole


NAMES: Final = (*FORMATS, *presets())
"""What `preset` may be: a preset, or an event format, whose reader then takes the records."""


_RANK_BASE: Final = "The rank that the producers give to the first item, 0 or 1."
_REASON: Final = "must be 1 to 40 of a-z, 0-9, _"


@dataclass(frozen=True)
class SourceKeys:
    """One topic and how its records become events. Expressions are JMESPath, with the functions
    header(name), key(), kafka_time(), topic(), message(), root(), ce(name), parse_json(text),
    split(text, separator), zip(a, b), regex(text, pattern)."""

    topic: str = setting("search-events", TOPIC, "The topic. Every source must name one.")
    preset: str | None = setting(
        None,
        optional(named(NAMES)),
        "A format whose keys are read first; each key that is given here replaces its own.",
    )
    codec: str = setting(
        JSON,
        named(CODECS),
        "How records are written: json, also with JSON Schema; avro or protobuf, with the extra of"
        " that name.",
    )
    framing: str = setting(
        ANY_FRAMING,
        named(FRAMINGS),
        "What names the schema: confluent (an id before the body, or the header __value_schema_id;"
        " Redpanda, Karapace, Apicurio 3), apicurio8 (8 bytes), glue, or none. auto tells them by"
        " the header and the first byte; beside a file it is none.",
    )
    schema_file: str | None = setting(
        None,
        optional(text()),
        "Of avro: file with the schema that all records were written by.",
    )
    descriptor_set: str | None = setting(
        None,
        optional(text()),
        "Of protobuf: file with a FileDescriptorSet, as buf build or protoc --descriptor_set_out"
        " --include_imports writes it.",
    )
    message: str | None = setting(
        None, optional(text()), "Of protobuf: the full name of the message."
    )
    envelope: str = setting(
        "none",
        choice(*ENVELOPES),
        "cloudevents: expressions see the data, ce(name) an attribute; none: the record.",
    )
    each: Expression | None = setting(
        None,
        optional(jmespath()),
        "What of a record is an event: an object, or an array of at most 10,000. Default: the"
        " record.",
    )
    time_format: str = setting(
        "auto",
        time_format(),
        "How times are written: auto is ISO 8601 with a zone, or a number of s, ms, us or ns by its"
        " size; else a unit, or a format as of strptime.",
    )
    time_zone: Zone = setting(
        "UTC",
        time_zone(),
        "The time zone of a format without %z. Of a time that a change of clocks repeats, the one"
        " nearer to Kafka's is meant.",
    )


@dataclass(frozen=True)
class ImpressionKeys:
    """What is an impression. May be given several times: each table that matches gives an event."""

    where: Expression | None = setting(
        None, optional(jmespath()), "The condition for an impression. Default: always."
    )
    id: Id | None = setting(
        None, optional(identifier()), "The impression's id; several values are joined by |."
    )
    time: Expression | None = setting(None, optional(jmespath()), "When it was shown.")
    items: Expression | None = setting(
        None, optional(jmespath()), "The list: an array of objects, then `item`, or of ids."
    )
    item: Expression | None = setting(
        None,
        optional(jmespath()),
        "The id of an element of `items`. Default: the element. Relative to the element, as are"
        " rank, grade and team.",
    )
    rank: Expression | None = setting(
        None,
        optional(jmespath()),
        "The element's rank, by which elements are sorted; those without one come last.",
    )
    rank_base: int = setting(1, integer(0, 1), _RANK_BASE)
    no_items: str = setting(
        SKIP,
        choice(*NO_ITEMS),
        "Where `items` is null: skip it as no_list, or take it for a search with an empty list.",
    )
    first_rank: Expression | None = setting(
        None, optional(jmespath()), "The rank of the first item. Default: 1."
    )
    page: Expression | None = setting(
        None, optional(jmespath()), "In place of first_rank: the number of the page."
    )
    page_size: Expression | None = setting(None, optional(jmespath()), "Items of a full page.")
    page_base: int = setting(0, integer(0, 1), "The number of the first page: 0 or 1.")
    grade: Expression | None = setting(
        None, optional(jmespath()), "An explicit grade of the element."
    )
    team: Expression | None = setting(
        None, optional(jmespath()), "Of interleaved lists: whose ranker brought the element."
    )
    visitor: Expression | None = setting(
        None, optional(jmespath()), "Who saw the list. Default: user."
    )
    user: Expression | None = setting(
        None, optional(jmespath()), "The unit of experiments. Default: visitor."
    )
    attributes: Named | None = setting(
        None,
        optional(expressions_by_name()),
        'Attributes for segments; "*" gives every scalar member of an object.',
    )
    experiments: ExperimentsTable | None = setting(
        None,
        optional(experiments()),
        "Variants by experiment; `map` is an object of them.",
    )
    query: Expression | None = setting(
        None,
        optional(jmespath()),
        "What was searched for, read where [queries] keeps it or [[derive]] uses it.",
    )


@dataclass(frozen=True)
class FeedbackKeys:
    """What is feedback. May be given several times."""

    where: Expression | None = setting(
        None, optional(jmespath()), "The condition for feedback. Default: always."
    )
    id: Id | None = setting(None, optional(identifier()), "The id of the impression.")
    time: Expression | None = setting(None, optional(jmespath()), "When it happened.")
    kind: Expression | None = setting(None, optional(jmespath()), "What kind it is of.")
    kinds: Mapping[str, str] | None = setting(
        None,
        optional(texts_by_name()),
        "The record's kind = a kind of attribution.grades. Any other is no feedback. Default: the"
        " record's kind itself.",
    )
    items: Expression | None = setting(
        None,
        optional(jmespath()),
        "An array: one feedback for each element. Default: the event is the element.",
    )
    item: Expression | None = setting(
        None, optional(jmespath()), "The item's id, relative to the element, as are the next three."
    )
    item_id: Expression | None = setting(
        None, optional(jmespath()), "The element's own impression id; asked before id."
    )
    rank: Expression | None = setting(None, optional(jmespath()), "The item's rank.")
    grade: Expression | None = setting(None, optional(jmespath()), "An explicit grade.")
    rank_base: int = setting(1, integer(0, 1), _RANK_BASE)
    visitor: Expression | None = setting(None, optional(jmespath()), "Who reacted.")


@dataclass(frozen=True)
class DropKeys:
    """What is left out of what would be an event; the first rule that matches counts."""

    reason: str = setting(
        "dropped", text(r"[a-z0-9_]{1,40}", _REASON), "The reason under which it is counted."
    )
    where: Expression | None = setting(None, optional(jmespath()), "The condition.")
    value: Expression | None = setting(
        None, optional(jmespath()), "A value that is looked up in values_file."
    )
    values_file: str | None = setting(None, optional(text()), "File with one value a line.")
