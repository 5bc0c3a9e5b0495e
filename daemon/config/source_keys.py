"""The keys of `[[sources]]` and of its tables: kind, default and meaning of each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..mapping.expressions import Expression
from ..mapping.tables import ENVELOPES, NO_ITEMS, SKIP, Experiments, Id, Zone
from .kinds import choice, integer, optional, setting, text
from .presets import NAMES
from .sections import TOPIC
from .source_kinds import (
    Named,
    experiments,
    expressions_by_name,
    identifier,
    jmespath,
    named,
    texts_by_name,
    time_format,
    time_zone,
)

JOINS: Final = ("id",)
_RANK_BASE: Final = "The rank that the producers give to the first item: 0 or 1."
_REASON: Final = "must be 1 to 40 of a-z, 0-9, _"


@dataclass(frozen=True)
class SourceKeys:
    """One topic and how its records become events. Expressions are JMESPath, with the functions
    header(name), key(), kafka_time(), topic(), root(), ce(name), parse_json(text), split(text,
    separator), zip(a, b), regex(text, pattern)."""

    topic: str = setting("search-events", TOPIC, "The topic. Every source must name one.")
    preset: str | None = setting(
        None,
        optional(named(NAMES)),
        "A format whose keys are read first; keys that are given here replace its keys one by one.",
    )
    envelope: str = setting(
        "none", choice(*ENVELOPES), "cloudevents: expressions see the data, ce(name) an attribute."
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
        "How times are written: ISO 8601 with a zone or a number of s, ms, µs or ns by its size"
        " (auto), a unit, or a format as of strptime.",
    )
    time_zone: Zone = setting("UTC", time_zone(), "The time zone of a time format without %z.")


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
        "What it is if `items` gives null: skipped as no_list, or a search without results.",
    )
    first_rank: Expression | None = setting(
        None, optional(jmespath()), "The rank of the first item, from 1. Default: 1."
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
    visitor: Expression | None = setting(None, optional(jmespath()), "Who saw the list.")
    user: Expression | None = setting(
        None, optional(jmespath()), "The unit of experiments. Default: visitor."
    )
    attributes: Named | None = setting(
        None,
        optional(expressions_by_name()),
        'Attributes for segments; "*" gives every scalar member of an object.',
    )
    experiments: Experiments | None = setting(
        None,
        optional(experiments()),
        "Variants by experiment; or { map = … }, an object of them; or { list = …, name = …,"
        " variant = … }.",
    )
    query: Expression | None = setting(
        None, optional(jmespath()), "What was searched for, read where [queries] keeps it."
    )


@dataclass(frozen=True)
class FeedbackKeys:
    """What is feedback. May be given several times."""

    where: Expression | None = setting(
        None, optional(jmespath()), "The condition for feedback. Default: always."
    )
    id: Id | None = setting(None, optional(identifier()), "The id of the impression.")
    join: str = setting("id", choice(*JOINS), "How feedback finds its impression: by the id.")
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
    values_file: str | None = setting(
        None, optional(text()), "File with one value a line. Its values shape rows, not its name."
    )
