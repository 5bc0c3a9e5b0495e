"""The events that every format is decoded into, and the reasons why a record is refused. Pure.

Formats (`native`, `ubi`) turn bytes into these, and nothing after them knows a wire format.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Raw

from relevanced.metrics import Integers, user_hashes

Index: TypeAlias = Sequence[int] | Integers

# Plain events as columns of Python values. Decoders make them of a slice of records at a time;
# `attribution.columns` makes arrays of them.


class Labels(Protocol):
    """The attributes and experiments of a mapping, by name. One object for each of its tables."""

    def texts_of(self, values: tuple[Any, ...]) -> tuple[dict[str, str], dict[str, str]] | None:
        """Return the attributes and the experiments of these values as texts; None where one of
        them must be left out, which only the careful reader notes."""


class Impressions(msgspec.Struct, gc=False):
    """Plain impressions, m of them: whole first pages without judgements."""

    index: Index
    """Of each among the events."""
    ids: Sequence[str]
    items: Sequence[Raw | bytes]
    """JSON that need not be a list of ids."""
    times: Sequence[int | str]
    """In milliseconds, or a text that need not be a time."""
    user_ids: Sequence[str | None]
    values: Sequence[tuple[Any, ...]] = ()
    """Attributes and experiments, as `labels` names them."""
    labels: Labels | None = None
    lengths: Sequence[int] | None = None
    """Ids in each list, where all are as `encode_items` writes them."""
    raw: Sequence[Any] = ()
    """Without labels: the `PlainImpression` of each, which has them as JSON."""
    queries: Sequence[str | None] = ()
    """What was searched for, (m,); empty where it is not needed, or nothing is known of it."""
    visitors: Sequence[str | None] = ()
    """Who saw them, likewise."""


class FeedbackFields(msgspec.Struct, gc=False):
    """Plain feedback, f of it: reactions of some kind to an item."""

    index: Index
    """Of each among the events."""
    ids: Sequence[str]
    times: Sequence[int | str]
    """As those of impressions."""
    kinds: Sequence[str]
    items: Sequence[str]
    ranks: Sequence[int | None]


class PlainEvents(msgspec.Struct):
    """What n records come to, e events in the order of the records, without decoding all of them
    in full."""

    count: int
    """Events, e."""
    impressions: Sequence[Impressions] = ()
    feedback: Sequence[FeedbackFields] = ()
    others: Mapping[int, Any] = {}
    """Index → an `Impression` or a `Feedback` that is not plain."""
    record_index: Index | None = None
    """Of each event among the records, (e,), ascending. None: record n has event n, or none."""
    left: Sequence[int] = ()
    """The records that must be decoded in full: those of their events count nowhere else."""
    skipped: Sequence[tuple[int, str]] = ()
    """What is left out of the records: index of the record, and the reason."""


def nothing_plain(count: int) -> PlainEvents:
    """Return that so many records must be decoded in full."""
    return PlainEvents(0, record_index=(), left=range(count))


MAX_TEXT_BYTES: Final = 256
"""Longest id, attribute or kind, in bytes of UTF-8."""
MAX_ELEMENTS: Final = 50_000
"""Most elements of an array in one record. A record of the default size limit has room for fewer
events than that, even the shortest, but for 500,000 elements that are none."""
MOST_ITEMS: Final = 1 << 24
"""More items than any list has."""

REJECTION_REASONS: Final = (
    "not_json",
    "wrong_type",
    "unknown_type",
    "missing_field",
    "bad_timestamp",
    "bad_id",
    "bad_rank",
    "bad_grade",
    "bad_attribute",
    "too_large",
    "future",
    "stalls",
    "bad_framing",
    "unknown_schema",
    "bad_payload",
    "too_many",
)
TOMBSTONE: Final = "tombstone"
"""The reason to skip a null value."""
SKIP_REASONS: Final = (TOMBSTONE, "no_list", "no_item", "no_query_id")
"""Counted like rejections, but nothing is wrong with the record: it is never dead-lettered."""
NOT_MAPPED: Final = "not_mapped"
"""The reason to skip what no table of a mapping describes."""
DROP_REASONS: Final = ("long_value", "bad_value", "long_name", "bad_query", "two_variants")
"""Values that were left out of an impression, which counts without them: of attributes and
experiments, too long, neither text nor number nor truth value, or under a name that is too long;
queries, where they are kept, that are no text; and an experiment with two variants."""


class Impression(msgspec.Struct, frozen=True, gc=False):
    """One result list shown for one search, cut to the ranks that count.

    `items` are ids in shown order from rank `first_rank` on; `grades` are judgements known when it
    was shown.
    """

    impression_id: str
    time_ms: int
    items: tuple[str, ...]
    first_rank: int = 1
    attributes: dict[str, str] = {}
    experiments: dict[str, str] = {}
    grades: dict[str, float] = {}
    user_id: str | None = None
    teams: tuple[str | None, ...] = ()
    """Of an interleaved list: whose ranker brought each item, None for neither or both."""
    by_item: bool = False
    """Whether the list is logged item by item. Then `items` is the one item at `first_rank`,
    whatever is known of the ranks above it; empty if that rank does not count."""
    query: str | None = None
    """What was searched for, as the record has it, where `Limits.queries` asks for it."""
    visitor: str | None = None
    """Who saw it, where `Limits.join` asks for it."""

    @property
    def identity(self) -> str:
        """What tells it from events of other impressions."""
        return self.impression_id


class Feedback(msgspec.Struct, frozen=True, gc=False):
    """One reaction to an item of an impression: implicit (`kind`) or, where `grade` is set,
    explicit.

    At least one of `item` and `rank` is set. A rank without an item is ≥ 1. What joins by last
    touch has a visitor and an item, and an empty `impression_id`; all other has no visitor.
    """

    impression_id: str
    time_ms: int
    kind: str | None = None
    item: str | None = None
    rank: int | None = None
    grade: float | None = None
    visitor: str | None = None

    @property
    def identity(self) -> str:
        """What tells it from feedback on other impressions: the id, or the visitor's hash."""
        return self.impression_id or f"visitor {user_hashes([self.visitor or ''])[0]:016x}"


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """Something that was read and is not used: a record, or an element of one, that is no event, or
    a value that was left out of an event. `reason` is the counter's label, `detail` is for
    people."""

    reason: str
    detail: str = ""

    @property
    def skipped(self) -> bool:
        """True if the record itself is valid: it is not sent to the dead letters."""
        return self.reason in SKIP_REASONS or self.reason in DROP_REASONS


class Skipped(Rejected, frozen=True, gc=False):
    """A valid record, or an element of one, that a mapping leaves out: its `reason` is a skip
    reason, or that of a rule of the configuration."""

    @property
    def skipped(self) -> bool:
        """True: it is not sent to the dead letters."""
        return True


Event: TypeAlias = Impression | Feedback
Decoded: TypeAlias = Impression | Feedback | Rejected

# A plain record: one that these types describe completely, as they describe most records, so that
# the decoder alone checks it and no Python code reads its fields. Their limit is in characters
# where the rule is in bytes: a fourth of it, because no character has more than four.

LONG_RECORD_BYTES: Final = 65_536
"""A longer record is not read as a plain one. It is decoded when it is its turn, an array slice by
slice: one megabyte of `[{},{},…]` took a second in one step, of experiments a sixth."""
SURELY_SHORT: Final = MAX_TEXT_BYTES // 4
"""So many characters are never more than MAX_TEXT_BYTES."""
SECONDS_BELOW: Final = 10**11
MILLISECONDS_BELOW: Final = 10**14
"""A bare number as a time is in seconds or milliseconds by its magnitude."""

_Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=SURELY_SHORT)]
_AnyId: TypeAlias = _Id | Annotated[int, Meta(ge=-(2**62), le=2**62)]
PlainTimestamp: TypeAlias = Annotated[int, Meta(ge=SECONDS_BELOW, lt=MILLISECONDS_BELOW)] | str
_Rank: TypeAlias = Annotated[int, Meta(ge=-(2**62), le=2**62)]
_NULL: Final = Raw(b"null")


class PlainImpression(msgspec.Struct, tag_field="type", tag="impression", gc=False):
    """A plain impression: a whole first page without judgements. Raw fields are JSON that is not
    validated yet, nor is a timestamp that is text. A number is in milliseconds."""

    impression_id: _Id
    items: Raw
    timestamp: PlainTimestamp
    first_rank: Annotated[int, Meta(ge=1, le=1)] = 1
    attributes: Raw = _NULL
    experiments: Raw = _NULL
    grades: None = None
    user_id: Annotated[str, Meta(max_length=SURELY_SHORT)] | None = None
    """An empty one is none."""
    teams: None = None
    by_item: None = None


class PlainSearch(PlainImpression, tag_field="type", tag="impression", gc=False):
    """A plain impression with its query: a type of its own, so that queries that nobody asks for
    cost nothing. A query of another type sends the record to the decoder, which leaves it out."""

    query: str | None = None


class PlainVisit(PlainSearch, tag_field="type", tag="impression", gc=False):
    """A plain impression with its query and its visitor."""

    visitor: Annotated[str, Meta(max_length=SURELY_SHORT)] | None = None
    """An empty one is none: then it is `user_id`."""


class PlainFeedback(msgspec.Struct, tag_field="type", tag="feedback", gc=False):
    """Plain feedback: a reaction of some kind to an item, with or without its rank."""

    impression_id: _Id
    kind: _Id
    item: _AnyId
    timestamp: PlainTimestamp
    rank: _Rank | None = None
    grade: None = None


Plain: TypeAlias = PlainImpression | PlainSearch | PlainVisit | PlainFeedback


class Decoder(Protocol):
    """Reads records of a log."""

    def of_record(self, record: "LogRecord") -> Sequence[Decoded]:
        """The events of one record, in order. Never raises for any bytes."""

    def slices_of(self, record: "LogRecord") -> Iterator[Sequence[Decoded]]:
        """The same events in slices, each of which is decoded in a bounded time once it is asked
        for. At least one, which may be empty."""

    def plain(self, records: "LogRecords", most_bytes: int) -> PlainEvents:
        """What consecutive records of one topic come to, at a fraction of the cost. A record that
        is odd in any way, or longer than `most_bytes`, is left to `of_record`, and so is all of a
        record of which the caller refuses a part: callers validate the raw fields, and the times
        of plain events against those of their records. Never raises."""

    def is_mapping(self, record: "LogRecord") -> bool:
        """Whether a record is read by a mapping: then it is counted if `plain` leaves it."""

    @property
    def limits(self) -> "Limits":
        """The limits that each event is checked against."""


class ValueDecoder(Decoder, Protocol):
    """Reads the values of records of one format, which need no more than their time."""

    def __call__(self, value: bytes | None, record_time_ms: int | None) -> Sequence[Decoded]:
        """The events of one value, in order. Never raises for any bytes."""

    def slices(
        self, value: bytes | None, record_time_ms: int | None
    ) -> Iterator[Sequence[Decoded]]:
        """The same events in slices; see `slices_of`."""


BY_ID: Final = "id"
LAST_TOUCH: Final = "last_touch"
JOINS: Final = (BY_ID, LAST_TOUCH, "id, else last_touch")


class Limits(msgspec.Struct, frozen=True):
    """The limits that a format checks each event against."""

    depth: int = 100
    max_grade: float = 1.0
    max_future_ms: int = 300_000
    max_record_bytes: int = 1_048_576
    rank_base: int = 1
    """The rank that the producers of this format give to the first item; formats that define it
    ignore this."""
    ubi_lists: str = "logged"
    """What the lists of the format `ubi` are made of: one of `events.ubi.LISTS`."""
    attributes: tuple[str, ...] | None = None
    """The attributes that are needed: others are skipped unread. None: all are needed."""
    queries: bool = False
    """Whether queries are needed: else they are skipped unread."""
    join: str = BY_ID
    """How feedback finds its impression: one of `JOINS`. Visitors are read where some joins by last
    touch."""
    passes_on: bool = False
    """Whether attributes and queries that are not needed are read as well, for readers who may need
    them later. What cannot be read of them is left out unsaid: it is refused, and counted,
    nowhere."""

    def joins_by(self, impression_id: str | None, visitor: str | None) -> tuple[str, str | None]:
        """The id and the visitor by which feedback with both joins: one of them at most."""
        if impression_id and self.join != LAST_TOUCH:
            return impression_id, None
        return "", visitor if self.join != BY_ID else None

    @property
    def reads_queries(self) -> bool:
        """Whether queries are read."""
        return self.queries or self.passes_on

    def is_only_passed_on(self, attribute: str) -> bool:
        """Whether an attribute is read, and not needed."""
        return self.passes_on and self.attributes is not None and attribute not in self.attributes

    def needed_of(self, event: Event) -> Event:
        """The event without the attributes and the query that are only passed on."""
        if not isinstance(event, Impression):
            return event
        attributes = event.attributes
        if self.attributes is not None:
            attributes = {name: attributes[name] for name in self.attributes if name in attributes}
        query = event.query if self.queries else None
        return msgspec.structs.replace(event, attributes=attributes, query=query)


class LogRecord(Protocol):
    """The parts of a Kafka record that are read."""

    @property
    def topic(self) -> str: ...  # noqa: D102
    @property
    def partition(self) -> int: ...  # noqa: D102
    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def timestamp(self) -> int: ...  # noqa: D102
    @property
    def key(self) -> bytes | None: ...  # noqa: D102
    @property
    def value(self) -> bytes | None: ...  # noqa: D102
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...  # noqa: D102


class LogRecords(Protocol):
    """Consecutive records of one topic, n of them: a decoder asks for what it needs of them."""

    def __len__(self) -> int: ...  # noqa: D105

    def values(self) -> list[bytes]:
        """The value of each, (n,); empty where it has none."""

    def logged(self) -> Sequence[LogRecord]:
        """Each of them, (n,)."""
