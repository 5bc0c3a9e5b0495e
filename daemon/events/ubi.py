"""User Behavior Insights (UBI 1.x), as search plugins and browsers write it: queries and events.
Pure.

A record with an `action_name` is an event and becomes feedback; any other is a query and becomes
an impression:

    {"application":"shop","query_id":"q1","timestamp":"2025-01-24T07:31:30.699+0000",
     "client_id":"c1","query_attributes":{"device":"ios","experiments":{"ranker":"b"}},
     "query_response_hit_ids":["d3","d7"]}
    {"action_name":"click","query_id":"q1","timestamp":"2025-01-24T07:31:42.001Z",
     "event_attributes":{"object":{"object_id":"d7"},"position":{"ordinal":2}}}

Lists are `logged` in queries, or are made of what was `shown`: then each event with the action
`impression` is one item of a list, at its ordinal, with the attributes of the event
(`event_attributes` in place of `query_attributes`), and queries are skipped.

The query is `user_query`, which the schema has in queries only: clients may add it to events with
the action `impression`. Attributes are `application` and the scalar values of `query_attributes`.
Members of the latter whose name begins with `experiment` are experiments instead: an object
`experiments` contains variants by experiment name; a scalar is the variant of the experiment of
that whole name (`"experiment_ranker": "b"`). One to which both give variants, and not the same,
has neither. Objects and arrays elsewhere are ignored.

Valid records without information on a result list are skipped: a query without a list that counts
(`no_list`), an event about no item of one (`no_item`), either of no search (`no_query_id`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from .attributes import Trimmed, attribute_texts, passed_on, query_text, raw_members
from .event_types import BY_ID, Event, Feedback, Impression, Limits
from .fields import (
    InvalidField,
    decoded,
    identifier,
    identifiers,
    kind_text,
    members,
    plain_values,
    present,
    raw_decoder,
    timestamp_ms,
    whole_rank,
)

# Field → the rejection reason of a number there that is too large for any type.
_ACTION_FIELD: Final = {"action_name": "wrong_type"}
_USER_FIELDS: Final = {"user_id": "bad_id", "client_id": "bad_id"}
_QUERY_FIELDS: Final = {
    "query_id": "bad_id",
    "timestamp": "bad_timestamp",
    "query_response_hit_ids": "bad_id",
    "query_response_object_ids": "bad_id",
} | _USER_FIELDS
_EVENT_FIELDS: Final = {
    "query_id": "bad_id",
    "timestamp": "bad_timestamp",
    "event_attributes": "wrong_type",
}
_NAMED_FIELDS: Final = ("application", "query_attributes")
_READ_FIELDS: Final = (*(_ACTION_FIELD | _QUERY_FIELDS | _EVENT_FIELDS), *_NAMED_FIELDS)
_FIELDS: Final = raw_decoder(_READ_FIELDS)
_FIELDS_AND_QUERY: Final = raw_decoder((*_READ_FIELDS, "user_query"))
"""Queries that nobody asks for cost nothing."""

LOGGED: Final = "logged"
SHOWN: Final = "shown"
LISTS: Final = (LOGGED, SHOWN)
"""What lists are made of: the list of a query, or an impression event for each item."""
_SHOWN_ACTION: Final = "impression"
_LISTS: Final = ("query_response_hit_ids", "query_response_object_ids")
"""The fields of the shown list: its name today, and its name in 2024."""
_EXPERIMENT: Final = "experiment"
_EXPERIMENTS: Final = "experiments"
_BULK_ACTION: Final = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(?:index|create)"[ \t\r\n]*:')
_BULK_ACTIONS: Final = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])


def is_bulk_action(value: bytes) -> bool:
    """Whether this is the action line before a document of an OpenSearch bulk file, not a
    record."""
    if not _BULK_ACTION.match(value):
        return False
    try:
        return len(decoded("record", value, _BULK_ACTIONS, "wrong_type")) == 1
    except InvalidField:
        return False


def reader(limits: Limits) -> Callable[[bytes], Event | Trimmed | None]:
    """Return the reader of one UBI query or event, which returns None for an action line."""

    fields = _FIELDS_AND_QUERY if limits.reads_queries else _FIELDS
    event_fields = _EVENT_FIELDS if limits.join == BY_ID else _EVENT_FIELDS | _USER_FIELDS

    def read(value: bytes) -> Event | Trimmed | None:
        if is_bulk_action(value):
            return None
        raw = decoded("record", value, fields, "wrong_type")
        action = plain_values(raw, _ACTION_FIELD)["action_name"]
        if action is None:
            return _read_query(raw, limits)
        if action == _SHOWN_ACTION and limits.ubi_lists == SHOWN:
            return _read_shown(raw, limits)
        return _read_event(action, plain_values(raw, event_fields), limits)

    return read


def _read_query(raw: msgspec.Struct, limits: Limits) -> Impression | Trimmed:
    application, query_attributes = getattr(raw, "application"), getattr(raw, "query_attributes")
    members_of_query = raw_members("query_attributes", query_attributes)
    values = plain_values(raw, _QUERY_FIELDS)
    query_id = identifier("query_id", _of_search(values))
    if limits.ubi_lists == SHOWN:
        raise InvalidField("no_list", "events.ubi_lists=shown: the list of a query does not count")
    listed = [name for name in _LISTS if values[name] is not None]
    if not listed:
        # Such logs often have an event for each item that was shown.
        rule = 'neither is there (or set events.ubi_lists = "shown")'
        raise InvalidField("no_list", f"{', '.join(_LISTS)}: {rule}")
    items = identifiers(listed[0], values[listed[0]])
    time_ms = timestamp_ms(present(values, "timestamp"))
    impression = Impression(query_id, time_ms, items[: limits.depth])
    impression, dropped = _with_query(impression, raw, limits)
    return _described(impression, values, application, members_of_query, limits, dropped)


def _with_query(
    impression: Impression, raw: msgspec.Struct, limits: Limits
) -> tuple[Impression, list[str]]:
    """The impression with its query where that is read, and why that is left out."""
    dropped: list[str] = []
    if limits.reads_queries:
        text = query_text(getattr(raw, "user_query"), dropped if limits.queries else [])
        impression = msgspec.structs.replace(impression, query=text)
    return impression, dropped


def _read_shown(raw: msgspec.Struct, limits: Limits) -> Impression | Trimmed:
    """An item that was shown, at its rank."""
    values = plain_values(raw, _EVENT_FIELDS | _USER_FIELDS)
    by_id = msgspec.structs.replace(limits, join=BY_ID)
    event = _read_event(_SHOWN_ACTION, values, by_id)
    if event.item is None or event.rank is None or event.rank < 1:
        rule = "an impression of an item must have both, and its rank must be >= 1"
        base = f"events.rank_base={limits.rank_base}"
        raise InvalidField("no_item", f"object_id, ordinal: {rule} ({base})")
    impression = Impression(
        impression_id=event.impression_id,
        time_ms=event.time_ms,
        items=(event.item,) if event.rank <= limits.depth else (),
        first_rank=event.rank,
        by_item=True,
    )
    details = raw_members("event_attributes", getattr(raw, "event_attributes"))
    impression, dropped = _with_query(impression, raw, limits)
    return _described(impression, values, getattr(raw, "application"), details, limits, dropped)


def _described(
    impression: Impression,
    values: Mapping[str, object],
    application: Raw,
    details: Mapping[str, Raw],
    limits: Limits,
    dropped: list[str],
) -> Impression | Trimmed:
    """The impression with the attributes and experiments of the details, and its user. `dropped`:
    why values are left out already."""
    # Plugins write an empty string where the browser sent no user.
    user_field = next((name for name in _USER_FIELDS if values[name] not in (None, "")), None)
    given = _attributes(application, details)
    needed = given
    if limits.attributes is not None:
        needed = {name: given[name] for name in limits.attributes if name in given}
    whole = msgspec.structs.replace(
        impression,
        attributes=passed_on(given, limits) | attribute_texts(needed, dropped),
        experiments=_experiments(details, dropped),
        user_id=None if user_field is None else identifier(user_field, values[user_field]),
        visitor=None if limits.join == BY_ID else _client(values),
    )
    return Trimmed(whole, tuple(dropped)) if dropped else whole


def _attributes(application: Raw, query_attributes: Mapping[str, Raw]) -> dict[str, Raw]:
    named = {
        name: raw for name, raw in query_attributes.items() if not name.startswith(_EXPERIMENT)
    }
    if bytes(application) != b"null":
        named["application"] = application
    return _scalars(named)


def _experiments(query_attributes: Mapping[str, Raw], dropped: list[str]) -> dict[str, str]:
    named = {name: raw for name, raw in query_attributes.items() if name.startswith(_EXPERIMENT)}
    texts, variants = attribute_texts(_scalars(named), dropped), named.get(_EXPERIMENTS)
    if variants is None or not bytes(variants).startswith(b"{"):
        return texts
    inner = raw_members("query_attributes.experiments", variants)
    listed = attribute_texts(_scalars(inner), dropped)
    disputed = {name for name in texts.keys() & listed.keys() if texts[name] != listed[name]}
    dropped += ["two_variants"] * len(disputed)
    return {name: text for name, text in (texts | listed).items() if name not in disputed}


def _scalars(named: Mapping[str, Raw]) -> dict[str, Raw]:
    """Return the scalar members: objects and arrays can be neither a segment nor a variant."""
    return {name: raw for name, raw in named.items() if not bytes(raw).startswith((b"{", b"["))}


def _read_event(action: object, values: Mapping[str, object], limits: Limits) -> Feedback:
    query_id, visitor = _joins_by(values, limits)
    details = members("event_attributes", values["event_attributes"])
    item = members("event_attributes.object", details.get("object")).get("object_id")
    ordinal = members("event_attributes.position", details.get("position")).get("ordinal")
    if isinstance(ordinal, dict):
        ordinal = ordinal.get("index")
    feedback = Feedback(
        impression_id=query_id,
        time_ms=timestamp_ms(present(values, "timestamp")),
        kind=kind_text("action_name", action),
        item=None if item is None else identifier("object_id", item),
        rank=None if ordinal is None else _rank(ordinal, limits.rank_base),
        visitor=visitor,
    )
    if feedback.item is None and (visitor or feedback.rank is None or feedback.rank < 1):
        raise InvalidField("no_item", "object_id, ordinal: the event is about no item of a list")
    return feedback


def _joins_by(values: Mapping[str, object], limits: Limits) -> tuple[str, str | None]:
    if limits.join == BY_ID:
        return identifier("query_id", _of_search(values)), None
    stated = values["query_id"]
    id_ = None if stated in (None, "") else identifier("query_id", stated)
    found = limits.joins_by(id_, _client(values))
    if found == ("", None):
        rule = "the event belongs to no search, and to nobody"
        raise InvalidField("no_query_id", f"query_id, {', '.join(_USER_FIELDS)}: {rule}")
    return found


def _client(values: Mapping[str, object]) -> str | None:
    """Who saw a list, or reacted: the client, which a login does not change, else the user."""
    named = [name for name in reversed(_USER_FIELDS) if values[name] not in (None, "")]
    return identifier(named[0], values[named[0]]) if named else None


def _of_search(values: Mapping[str, object]) -> object:
    """The id of the search, which pages that are about none leave out, or empty."""
    if values["query_id"] in (None, ""):
        raise InvalidField("no_query_id", "query_id: the record belongs to no search")
    return values["query_id"]


def _rank(ordinal: object, rank_base: int) -> int:
    return whole_rank("ordinal", whole_rank("ordinal", ordinal) - rank_base + 1)
