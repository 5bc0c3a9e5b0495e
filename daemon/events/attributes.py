"""The careful reader of native events, and the values that any reader may leave out: attributes,
experiments and the query of an impression. Pure.

A bad value does not cost the impression: what cannot be a segment, or a query, is left out, and the
impression counts without it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Struct

from .event_types import BY_ID, DROP_REASONS, Event, Feedback, Impression, Limits
from .fields import (
    ABSENT,
    InvalidField,
    check_item_or_rank,
    check_joins,
    decoded,
    grade_value,
    grade_values,
    identifier,
    identifiers,
    kind_text,
    missing,
    plain_values,
    present,
    raw_decoder,
    refused,
    team_names,
    timestamp_ms,
    too_long,
    whole_rank,
)

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
Scalar: TypeAlias = str | int | float | bool | None
_SCALAR: Final = msgspec.json.Decoder(Scalar)
_QUERY: Final = msgspec.json.Decoder(str | None)
_EMPTY_ARRAY: Final = re.compile(rb"\s*\[\s*\]\s*")
_NO_FIELD: Final = re.compile(r'[\\"\x00-\x1f]')
"""Characters that the decoder does not accept in the name of a field."""


@final
class Trimmed(msgspec.Struct, frozen=True):
    """An impression without some values of its record, and the reason for each that is left out."""

    event: Impression
    dropped: tuple[str, ...]


def as_fields(names: Sequence[str], kind: object, default: object) -> type[msgspec.Struct]:
    """Return a struct type with a field for each name: the decoder skips all other members of an
    object without reading them."""
    fields = [(f"member_{index}", kind, default) for index in range(len(names))]
    rename = {field[0]: name for field, name in zip(fields, names, strict=True)}
    return msgspec.defstruct("Members", fields, rename=rename, gc=False)


def can_be_fields(names: Iterable[str]) -> bool:
    """Whether `as_fields` accepts these names."""
    return not any(_NO_FIELD.search(name) for name in names)


def raw_members(
    name: str, raw: msgspec.Raw | bytes, needed: tuple[str, ...] | None = None
) -> dict[str, msgspec.Raw]:
    """Return the members of an object (only of the `needed` names, if given) as raw JSON.

    Null reads as an empty object, and so does the empty array that PHP writes for it.
    """
    if _EMPTY_ARRAY.fullmatch(raw):
        return {}
    if needed is None:
        return decoded(name, raw, _MEMBERS, "wrong_type") or {}
    if not can_be_fields(needed):
        return {key: value for key, value in raw_members(name, raw).items() if key in needed}
    found = decoded(name, raw, _members_decoder(needed), "wrong_type")
    return {} if found is None else dict(zip(needed, msgspec.structs.astuple(found), strict=True))


@lru_cache(maxsize=8)
def _members_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct | None]:
    decoder: msgspec.json.Decoder[msgspec.Struct | None]
    decoder = msgspec.json.Decoder(as_fields(names, msgspec.Raw, ABSENT) | None)
    return decoder


def attribute_texts(raws: Mapping[str, msgspec.Raw], dropped: list[str]) -> dict[str, str]:
    """Return attributes or experiments as text; null and an empty text read as missing.

    A value that cannot be used is left out, and its reason is added to `dropped`.
    """
    texts = {}
    for name, raw in raws.items():
        try:
            text = _attribute_text(name, raw)
        except InvalidField as error:
            if error.reason not in DROP_REASONS:
                raise
            dropped.append(error.reason)
            continue
        if text:
            texts[name] = text
    return texts


def _attribute_text(name: str, raw: msgspec.Raw) -> str | None:
    return scalar_text(name, decoded(name, raw, _SCALAR, "bad_value"))


def scalar_text(name: str, value: Scalar) -> str | None:
    """Return the text of one attribute; None for null and an empty text. Raises InvalidField with
    the reason to leave it out."""
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    if too_long(name) or too_long(text):
        raise InvalidField("long_name" if too_long(name) else "long_value")
    return text


def passed_on(raws: Mapping[str, msgspec.Raw], limits: Limits) -> dict[str, str]:
    """Return as text the attributes that are only passed on: as far as they can be attributes, for
    nobody has asked for them."""
    texts = {}
    for name, raw in raws.items():
        if limits.is_only_passed_on(name):
            try:
                text = _attribute_text(name, raw)
            except InvalidField:
                continue
            if text:
                texts[name] = text
    return texts


def without_empty(texts: dict[str, str]) -> dict[str, str]:
    """Return the texts that are not empty."""
    return texts if all(texts.values()) else {name: text for name, text in texts.items() if text}


def query_text(raw: msgspec.Raw, dropped: list[str]) -> str | None:
    """Return the text of a query; null reads as missing.

    A value that is no text, or no UTF-8, is left out, and its reason is added to `dropped`: the
    record would be accepted without it, whatever it is.
    """
    try:
        text: str | None = decoded("query", raw, _QUERY, "bad_query")
    except InvalidField:
        dropped.append("bad_query")
        return None
    return text


# Field → the rejection reason of a number there that is too large for any type.
_IMPRESSION_FIELDS: Final = {
    "impression_id": "bad_id",
    "timestamp": "bad_timestamp",
    "items": "bad_id",
    "first_rank": "bad_rank",
    "grades": "bad_grade",
    "user_id": "bad_id",
    "teams": "wrong_type",
    "by_item": "wrong_type",
}
_FEEDBACK_FIELDS: Final = {
    "impression_id": "bad_id",
    "timestamp": "bad_timestamp",
    "kind": "wrong_type",
    "item": "bad_id",
    "rank": "bad_rank",
    "grade": "bad_grade",
}
_VISITOR_FIELDS: Final = {"visitor": "bad_id", "user_id": "bad_id"}
_TYPE_FIELD: Final = {"type": "wrong_type"}
_NAMED_FIELDS: Final = ("attributes", "experiments", "query")
_READ_FIELDS: Final = (*_TYPE_FIELD, *(_IMPRESSION_FIELDS | _FEEDBACK_FIELDS), *_NAMED_FIELDS)
_FIELDS: Final = raw_decoder(_READ_FIELDS)
_FIELDS_AND_VISITOR: Final = raw_decoder((*_READ_FIELDS, "visitor"))
"""Visitors that nobody asks for cost nothing."""


def read_carefully(value: bytes, limits: Limits) -> Event | Trimmed:
    """Return the event of one object, read field by field and slowly. Raises `InvalidField`, with a
    sentence for people, for the first rule that it breaks."""
    with_visitors = limits.join != BY_ID
    decoder = _FIELDS_AND_VISITOR if with_visitors else _FIELDS
    raw = decoded("record", value, decoder, "wrong_type")
    kind = present(plain_values(raw, _TYPE_FIELD), "type")
    if kind == "impression":
        return _read_impression(raw, limits)
    if kind == "feedback":
        fields = _FEEDBACK_FIELDS | _VISITOR_FIELDS if with_visitors else _FEEDBACK_FIELDS
        return _read_feedback(plain_values(raw, fields), limits)
    if isinstance(kind, str):
        raise refused("unknown_type", "type", kind, "must be impression or feedback")
    raise refused("wrong_type", "type", kind, "must be a string")


def _read_impression(raw: Struct, limits: Limits) -> Impression | Trimmed:
    values = plain_values(raw, _IMPRESSION_FIELDS)
    attributes, experiments, query = (getattr(raw, name) for name in _NAMED_FIELDS)
    others = _passed_on(attributes, limits)
    attributes = raw_members("attributes", attributes, limits.attributes)
    experiments = raw_members("experiments", experiments)
    impression_id = identifier("impression_id", present(values, "impression_id"))
    time_ms = timestamp_ms(present(values, "timestamp"))
    items = identifiers("items", present(values, "items"))
    first_rank = 1
    if values["first_rank"] is not None:
        first_rank = whole_rank("first_rank", values["first_rank"], least=1)
    user_id = values["user_id"]
    user_id = None if user_id in (None, "") else identifier("user_id", user_id)
    visitor = None if limits.join == BY_ID else _visitor(plain_values(raw, _VISITOR_FIELDS))
    _check_by_item(values, items)
    dropped: list[str] = []
    unsaid = dropped if limits.queries else []
    impression = Impression(
        impression_id=impression_id,
        time_ms=time_ms,
        items=items[: max(0, limits.depth - first_rank + 1)],
        first_rank=first_rank,
        attributes=others | attribute_texts(attributes, dropped),
        experiments=attribute_texts(experiments, dropped),
        grades=grade_values("grades", values["grades"], limits.max_grade),
        user_id=user_id,
        teams=team_names("teams", values["teams"])[: max(0, limits.depth)],
        by_item=values["by_item"] is True,
        query=query_text(query, unsaid) if limits.reads_queries else None,
        visitor=visitor,
    )
    return Trimmed(impression, tuple(dropped)) if dropped else impression


def _passed_on(raw: msgspec.Raw, limits: Limits) -> dict[str, str]:
    if not limits.passes_on:
        return {}
    try:
        return passed_on(raw_members("attributes", raw), limits)
    except InvalidField:  # the name of one is broken
        return {}


def _joins_by(values: Mapping[str, object], limits: Limits) -> tuple[str, str | None]:
    if limits.join == BY_ID:
        return identifier("impression_id", present(values, "impression_id")), None
    stated = values["impression_id"]
    id_ = None if stated is None else identifier("impression_id", stated)
    return limits.joins_by(id_, _visitor(values))


def _visitor(values: Mapping[str, object]) -> str | None:
    """Who saw a list, or reacted: `visitor`, else `user_id`."""
    found = [(name, values[name]) for name in _VISITOR_FIELDS]
    named = [identifier(*one) for one in found if one[1] not in (None, "")]
    return named[0] if named else None


def _check_by_item(values: Mapping[str, object], items: tuple[str, ...]) -> None:
    by_item = values["by_item"]
    if by_item is not None and type(by_item) is not bool:
        raise refused("wrong_type", "by_item", by_item, "must be true or false")
    if by_item and len(items) > 1:
        raise refused("wrong_type", "items", list(items), "at most one item where by_item is true")
    if by_item and values["teams"] is not None:
        raise refused("wrong_type", "teams", values["teams"], "cannot be logged item by item")


def _read_feedback(values: Mapping[str, object], limits: Limits) -> Feedback:
    impression_id, visitor = _joins_by(values, limits)
    time_ms = timestamp_ms(present(values, "timestamp"))
    kind, item, rank, grade = (values[name] for name in ("kind", "item", "rank", "grade"))
    if kind is None and grade is None:
        raise missing("kind, grade")
    feedback = Feedback(
        impression_id=impression_id,
        time_ms=time_ms,
        kind=None if kind is None else kind_text("kind", kind),
        item=None if item is None else identifier("item", item),
        rank=None if rank is None else whole_rank("rank", rank),
        grade=None if grade is None else grade_value("grade", grade, limits.max_grade),
        visitor=visitor,
    )
    check_item_or_rank(feedback.item, feedback.rank)
    check_joins(impression_id, visitor, feedback.item)
    return feedback
