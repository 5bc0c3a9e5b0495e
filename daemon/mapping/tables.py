"""The grammar of a mapping as values: a source, its tables, and what they are made of. Pure.

`config/sources.py` reads them from a configuration; `records.py` applies them to records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from .expressions import Expression

SKIP: Final = "skip"
EMPTY: Final = "empty"
NO_ITEMS: Final = (SKIP, EMPTY)
"""What an impression is whose `items` gives null: no list that counts, or one without results."""
CLOUDEVENTS: Final = "cloudevents"
ENVELOPES: Final = ("none", CLOUDEVENTS)
AUTO: Final = "auto"
UNITS: Final[Mapping[str, int]] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Unit of a time that is a number → nanoseconds."""
ALL_MEMBERS: Final = "*"
"""The attribute that stands for every scalar member of an object."""

Zone: TypeAlias = ZoneInfo | timezone
Id: TypeAlias = tuple[Expression, ...]
"""The expressions whose values make an id, joined by `|`."""


@dataclass(frozen=True)
class TimeFormat:
    """How times are written: `auto`, one of UNITS, or a format of strptime."""

    name: str = AUTO
    zone: Zone = timezone(timedelta(0))
    """The time zone of a format without `%z`."""


@dataclass(frozen=True)
class Experiments:
    """The experiments of an impression, in one of three shapes."""

    variants: Mapping[str, Expression] | None = None
    """Experiment → its variant."""
    map: Expression | None = None
    """An object of variants by experiment."""
    list: Expression | None = None
    """An array of objects; in each, `name` and `variant`."""
    name: Expression | None = None
    variant: Expression | None = None


NO_EXPERIMENTS: Final = Experiments(variants={})


@dataclass(frozen=True)
class ImpressionTable:
    """What is an impression, and where its fields are."""

    id: Id
    time: Expression
    items: Expression
    where: Expression | None = None
    item: Expression | None = None
    """Relative to an element of `items`, as are `rank`, `grade` and `team`; None: elements are
    ids."""
    rank: Expression | None = None
    rank_base: int = 1
    no_items: str = SKIP
    first_rank: Expression | None = None
    page: Expression | None = None
    page_size: Expression | None = None
    page_base: int = 0
    grade: Expression | None = None
    team: Expression | None = None
    visitor: Expression | None = None
    user: Expression | None = None
    attributes: Mapping[str, Expression] | None = None
    experiments: Experiments = NO_EXPERIMENTS
    query: Expression | None = None


@dataclass(frozen=True)
class FeedbackTable:
    """What is feedback, and where its fields are."""

    time: Expression
    where: Expression | None = None
    id: Id | None = None
    kind: Expression | None = None
    kinds: Mapping[str, str] | None = None
    """Kind in the record → kind of feedback; what does not stand here is none. None: the text."""
    items: Expression | None = None
    """One feedback for each element; None: the event itself is the element."""
    item: Expression | None = None
    """Relative to the element, as are `item_id`, `rank` and `grade`."""
    item_id: Expression | None = None
    """The element's own impression id; asked before `id`."""
    rank: Expression | None = None
    rank_base: int = 1
    grade: Expression | None = None
    visitor: Expression | None = None
    join: str = "id"


@dataclass(frozen=True)
class Drop:
    """A rule for what is left out, and the reason under which it is counted."""

    reason: str
    where: Expression | None = None
    value: Expression | None = None
    values: frozenset[str] = frozenset()
    """The values of `value` that are left out."""
    values_file: str | None = None
    """The file that they came from."""


@dataclass(frozen=True)
class Source:
    """One topic and how its records become events."""

    topic: str
    reader: str | None = None
    """The event format whose reader takes the records, in place of tables."""
    envelope: str = "none"
    each: Expression | None = None
    """What of a record is an event: an object, or an array of them; None: the record."""
    time: TimeFormat = TimeFormat()
    impressions: tuple[ImpressionTable, ...] = ()
    feedback: tuple[FeedbackTable, ...] = ()
    drops: tuple[Drop, ...] = ()
    key: str = "sources[0]"
    """Where it stands in the configuration."""
