"""The native format: one JSON object per event. Pure.

    {"type":"impression","impression_id":"q1","timestamp":"2026-11-20T12:00:00.000Z",
     "items":["d3","d7"],"first_rank":1,"attributes":{"country":"US"},
     "experiments":{"ranker-v2":"treatment"},"user_id":"u9","grades":{"d3":2}}
    {"type":"impression","impression_id":"q2","timestamp":"2026-11-20T12:00:00.000Z",
     "items":["d3","d7","d1"],"experiments":{"ranker-v3":"interleaved"},
     "teams":["ranker-v3","control",null]}
    {"type":"feedback","impression_id":"q1","timestamp":1795176005000,
     "kind":"click","item":"d7","rank":2,"grade":null}

Every event passes here, so there are three readers, each faster than the next. The
plain one has the decoder check a record completely, and leaves lists and attributes as raw JSON
(see `event_types.PlainImpression`). The fast one has the decoder check what a type can express, and
builds the event. The careful one gets what the fast one refuses (invalid records, but also numbers
as attributes and the like), reads it field by field, and states what is wrong. What one reader
accepts, the slower ones would read alike.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeGuard, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple, replace

from .attributes import (
    Scalar,
    Trimmed,
    as_fields,
    can_be_fields,
    read_carefully,
    scalar_text,
    without_empty,
)
from .event_types import (
    BY_ID,
    LAST_TOUCH,
    MAX_TEXT_BYTES,
    MILLISECONDS_BELOW,
    SECONDS_BELOW,
    SURELY_SHORT,
    Event,
    Feedback,
    Impression,
    Limits,
    Plain,
    PlainFeedback,
    PlainImpression,
    PlainSearch,
    PlainTimestamp,
    PlainVisit,
)
from .fields import (
    RANK_LIMIT,
    InvalidField,
    check_item_or_rank,
    check_joins,
    grade_value,
    grade_values,
    identifier,
    missing,
    timestamp_ms,
    timestamp_text,
    too_long,
)

_BACKSLASH: Final = ord("\\")

# These limits are in characters. Only some records need the limit in bytes of `_check_bytes`.
_Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_BYTES)]
_AnyId: TypeAlias = _Id | int
_Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_BYTES)]
_Timestamp: TypeAlias = str | int | float
_Rank: TypeAlias = Annotated[int, Meta(ge=-RANK_LIMIT, le=RANK_LIMIT)]
_FirstRank: TypeAlias = Annotated[int, Meta(ge=1, le=RANK_LIMIT)]
_Names: TypeAlias = tuple[str, ...] | None


class _Impression(Struct, tag_field="type", tag="impression", gc=False):
    impression_id: _AnyId
    timestamp: _Timestamp
    items: tuple[_AnyId, ...]
    first_rank: _FirstRank | None = 1
    attributes: dict[_Text, _Text] | None = None
    experiments: dict[_Text, _Text] | None = None
    grades: dict[_Id, float] | None = None
    user_id: _Text | int | None = None
    teams: None = None
    by_item: None = None


class _Search(_Impression, tag_field="type", tag="impression", gc=False):
    query: str | None = None


class _Visit(_Search, tag_field="type", tag="impression", gc=False):
    visitor: _Text | int | None = None


class _Reaction(Struct, tag_field="type", tag="feedback", gc=False, kw_only=True):
    """Feedback where some of it joins by last touch."""

    impression_id: _AnyId | None = None
    timestamp: _Timestamp
    kind: _Text | None = None
    item: _AnyId | None = None
    rank: _Rank | None = None
    grade: float | None = None
    visitor: _Text | int | None = None
    user_id: _Text | int | None = None


class _Feedback(Struct, tag_field="type", tag="feedback", gc=False):
    impression_id: _AnyId
    timestamp: _Timestamp
    kind: _Text | None = None
    item: _AnyId | None = None
    rank: _Rank | None = None
    grade: float | None = None


read_plain: Final = msgspec.json.Decoder(PlainImpression | PlainFeedback).decode
"""Reads one plain record; raises ValueError or RecursionError for any other."""
_read_plain_searches: Final = msgspec.json.Decoder(PlainSearch | PlainFeedback).decode
"""The same, with queries."""
_read_plain_visits: Final = msgspec.json.Decoder(PlainVisit).decode
_read_plain_visits_and_ids: Final = msgspec.json.Decoder(PlainVisit | PlainFeedback).decode
"""The same, with visitors: of feedback only what has an id is plain, where that counts."""


def plain_reader(limits: Limits) -> Callable[[bytes], Plain]:
    """Return what reads plain records, with their queries where those are needed."""
    if limits.join == LAST_TOUCH:
        return _read_plain_visits
    if limits.join != BY_ID:
        return _read_plain_visits_and_ids
    return _read_plain_searches if limits.reads_queries else read_plain


class TimedImpression(Struct, tag_field="type", tag="impression", gc=False):
    """The time of an impression, as the record has it."""

    timestamp: PlainTimestamp


class TimedFeedback(Struct, tag_field="type", tag="feedback", gc=False):
    """The time of feedback, as the record has it."""

    timestamp: PlainTimestamp


TIMED_DECODER: Final = msgspec.json.Decoder(TimedImpression | TimedFeedback)
"""Reads the kind and the time of a record at half the cost of `read_plain`, and checks nothing
else: if the record has an event, it is of this kind and time. Raises ValueError or RecursionError
for a record that must be read in full to know them."""


def reader(
    limits: Limits, read_rest: Callable[[bytes, Limits], Event | Trimmed] = read_carefully
) -> Callable[[bytes], Event | Trimmed]:
    """Return the reader of one native event: fast where possible, else `read_rest`.

    Every event pays for each line here: string ids, text attributes and milliseconds cost no call.
    """
    depth, max_grade = limits.depth, limits.max_grade
    names = None if limits.passes_on else limits.attributes
    if names is not None and not can_be_fields(names):
        return lambda value: read_rest(value, limits)
    needs_queries = limits.reads_queries
    impression_type, feedback_type = _types(limits, names)
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(impression_type | feedback_type).decode

    def read(value: bytes) -> Event | Trimmed:
        try:
            wire = decode(value)
            time_ms = wire.timestamp
            if type(time_ms) is not int or not SECONDS_BELOW <= time_ms < MILLISECONDS_BELOW:
                time_ms = timestamp_ms(time_ms)
            # In ASCII without escapes, or in so few bytes, no text exceeds the limit in bytes.
            if len(value) > MAX_TEXT_BYTES and (_BACKSLASH in value or not value.isascii()):
                _check_bytes(wire)
            if type(wire) is impression_type:
                query = wire.query if needs_queries and isinstance(wire, _Search) else None
                shown = _impression(wire, time_ms, depth, max_grade, names, query)
                return _seen(shown, wire.visitor) if isinstance(wire, _Visit) else shown
            if type(wire) is _Reaction:
                return _reaction(wire, time_ms, limits)
            impression_id, item, kind = wire.impression_id, wire.item, wire.kind
            if type(item) is str and type(impression_id) is str and kind and wire.grade is None:
                return Feedback(impression_id, time_ms, kind, item, wire.rank)
            return _feedback(wire, time_ms, max_grade)
        except (ValueError, RecursionError):
            return read_rest(value, limits)

    return read


def _types(limits: Limits, names: _Names) -> tuple[type[_Impression], type[Struct]]:
    """Return the record types that read no more than is asked for."""
    shown: type[_Impression] = _Search if limits.reads_queries else _Impression
    reacted: type[Struct] = _Feedback
    if limits.join != BY_ID:
        shown, reacted = _Visit, _Reaction
    if limits.passes_on:
        return _with_attributes(dict[_Text, _Text | int | float | bool | None], shown), reacted
    if names is None:
        return shown, reacted
    return _with_attributes(as_fields(names, _Text | None, None), shown), reacted


def _with_attributes(kind: Any, base: type[_Impression]) -> type[_Impression]:
    """Return the record type whose attributes are of this type, or null."""
    fields = [("attributes", kind | None, None)]
    made = msgspec.defstruct("AttributedImpression", fields, bases=(base,), gc=False)
    return cast(type[_Impression], made)


def _impression(
    wire: _Impression,
    time_ms: int,
    depth: int,
    max_grade: float,
    names: _Names,
    query: str | None,
) -> Impression:
    impression_id, items, user_id = wire.impression_id, wire.items, wire.user_id
    grades, first_rank = wire.grades, wire.first_rank or 1
    if type(impression_id) is not str:
        impression_id = identifier("impression_id", impression_id)
    if not _all_strings(items):
        items = _as_strings(items)
    if len(items) >= depth or first_rank > 1:
        items = items[: max(0, depth - first_rank + 1)]
    if user_id is not None and type(user_id) is not str:
        user_id = identifier("user_id", user_id)
    elif not user_id:
        user_id = None
    return Impression(
        impression_id,
        time_ms,
        items,
        first_rank,
        _attributes(wire, names),
        without_empty(wire.experiments or {}),
        grade_values("grades", grades, max_grade) if grades else {},
        user_id,
        query=query,
    )


def _seen(shown: Impression, visitor: str | int | None) -> Impression:
    """The impression with its visitor."""
    if visitor is not None and type(visitor) is not str:
        visitor = identifier("visitor", visitor)
    return replace(shown, visitor=visitor or shown.user_id)


def _reaction(wire: _Reaction, time_ms: int, limits: Limits) -> Feedback:
    texts = wire.impression_id, wire.item, wire.visitor or wire.user_id or None
    id_, item, visitor = (t if t is None or type(t) is str else identifier("", t) for t in texts)
    impression_id, visitor = limits.joins_by(id_, visitor)
    grade = None if wire.grade is None else grade_value("grade", wire.grade, limits.max_grade)
    check_item_or_rank(item, wire.rank)
    check_joins(impression_id, visitor, item)
    if grade is None and wire.kind is None:
        raise missing("kind, grade")
    return Feedback(impression_id, time_ms, wire.kind, item, wire.rank, grade, visitor)


def _attributes(wire: _Impression, names: _Names) -> dict[str, str]:
    attributes: Any = wire.attributes
    if attributes is None:
        return {}
    if names is None:
        if not _all_strings(tuple(attributes.values())):
            attributes = {name: scalar_text(name, one) or "" for name, one in attributes.items()}
        return without_empty(attributes)
    texts = astuple(attributes)
    if all(texts):
        return dict(zip(names, texts))
    return {name: text for name, text in zip(names, texts) if text}


def _feedback(wire: _Feedback, time_ms: int, max_grade: float) -> Feedback:
    impression_id, kind, item, grade = wire.impression_id, wire.kind, wire.item, wire.grade
    if type(impression_id) is not str:
        impression_id = identifier("impression_id", impression_id)
    if type(item) is not str:
        item = None if item is None else identifier("item", item)
        check_item_or_rank(item, wire.rank)
    if grade is not None:
        grade = grade_value("grade", grade, max_grade)
    elif kind is None:
        raise missing("kind, grade")
    return Feedback(impression_id, time_ms, kind, item, wire.rank, grade)


def _all_strings(items: tuple[Scalar, ...]) -> TypeGuard[tuple[str, ...]]:
    """Whether all items are strings. A failing join shows it in a fifth of the time that isinstance
    for each takes."""
    try:
        "".join(items)  # type: ignore[arg-type]  # raises for other types
    except TypeError:
        return False
    return True


def _as_strings(items: tuple[str | int, ...]) -> tuple[str, ...]:
    strings = tuple(map(str, items))
    if max(map(len, strings)) > MAX_TEXT_BYTES:
        raise InvalidField("bad_id")
    return strings


def _check_bytes(wire: _Impression | _Feedback | _Reaction) -> None:
    """Raise `InvalidField` where a text of few enough characters has too many bytes."""
    texts: list[object]
    if isinstance(wire, _Impression):
        texts = [wire.impression_id, wire.user_id, *wire.items, *(wire.grades or ())]
        texts += [wire.visitor] if isinstance(wire, _Visit) else []
        attributes: Any = wire.attributes
        for named in (attributes, wire.experiments):
            if isinstance(named, Struct):
                texts += astuple(named)
            elif named:
                texts += [*named, *named.values()]
    else:
        texts = [wire.impression_id, wire.kind, wire.item]
        texts += [wire.visitor, wire.user_id] if isinstance(wire, _Reaction) else []
    for text in texts:
        if type(text) is str and len(text) > SURELY_SHORT and too_long(text):
            raise InvalidField("bad_id")


class _ImpressionText(msgspec.Struct, tag_field="type", tag="impression", omit_defaults=True):
    impression_id: str
    timestamp: int | str
    items: tuple[str, ...]
    first_rank: int = 1
    attributes: dict[str, str] = {}
    experiments: dict[str, str] = {}
    grades: dict[str, float] = {}
    user_id: str | None = None
    teams: tuple[str | None, ...] = ()
    by_item: bool = False
    query: str | None = None
    visitor: str | None = None


class _FeedbackText(
    msgspec.Struct, tag_field="type", tag="feedback", omit_defaults=True, kw_only=True
):
    impression_id: str = ""
    timestamp: int | str
    kind: str | None = None
    item: str | None = None
    rank: int | None = None
    grade: float | None = None
    visitor: str | None = None


_encode: Final = msgspec.json.Encoder().encode


def native_text(event: Event) -> bytes:
    """Return the event as one line of JSON, from which a reader of the native format with the same
    limits makes the same event. A record of another format may be shorter than this."""
    # A bare number of so few milliseconds would be read as seconds.
    small = event.time_ms < SECONDS_BELOW
    timestamp = timestamp_text(event.time_ms) if small else event.time_ms
    if isinstance(event, Impression):
        return _encode(
            _ImpressionText(
                event.impression_id,
                timestamp,
                event.items,
                event.first_rank,
                event.attributes,
                event.experiments,
                event.grades,
                event.user_id,
                event.teams,
                event.by_item,
                event.query,
                None if event.visitor == event.user_id else event.visitor,
            )
        )
    assert isinstance(event, Feedback)
    return _encode(
        _FeedbackText(
            impression_id=event.impression_id,
            timestamp=timestamp,
            kind=event.kind,
            item=event.item,
            rank=event.rank,
            grade=event.grade,
            visitor=event.visitor,
        )
    )
