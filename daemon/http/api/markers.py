"""Markers as the API takes and returns them: the rules of a posted one. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec


from ...events.fields import InvalidField
from ...events.timestamps import timestamp_ms, timestamp_text
from ...judging.markers import KINDS, MOST_CHARACTERS, Kind, Marker, Scope
from .parameters import BadRequest, Parameter

MOST_BYTES: Final = 8_192
"""Most bytes of a posted body."""
AHEAD_MS: Final = 366 * 86_400_000
"""How far ahead a marker may lie."""
SPAN: Final = (
    Parameter("from", "Markers from this time on, such as 2026-11-20T12:00:00Z."),
    Parameter("to", "Markers before this time."),
)
_KEYS: Final = ("id", "at", "until", "kind", "text", "scope")
_SCOPE_KEYS: Final = ("metric", "grouping", "segment")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_ID_RULE: Final = "must be 1 to 64 of the characters A-Z a-z 0-9 . _ -, the first a letter or digit"
_TIME_RULE: Final = "must be a time with its zone such as 2026-11-20T12:00:00Z"
_VALUE_CHARACTERS: Final = 80
"""So much of a refused value is repeated."""


class MarkerScope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a marker is about; null stands for all."""

    metric: str | None = None
    grouping: str | None = None
    segment: str | None = None


class MarkerAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that happened, or is planned."""

    id: str
    at: str
    until: str | None
    """Until when a fall is planned; null without an end."""
    kind: Kind
    """`release` is named beside a change that began soon after it. `planned` also tells that a
    fall is meant."""
    text: str
    scope: MarkerScope


class MarkerPosted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A marker as it is posted: only kind and text must be given."""

    kind: Kind
    text: str
    id: str | None = None
    """A name of the client's, so that posting twice sets one marker."""
    at: str | None = None
    """RFC 3339, with a zone; now by default."""
    until: str | None = None
    """Of kind `planned` only: no fall is planned after this."""
    scope: MarkerScope | None = None


class Markers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The markers of a span, by time."""

    markers: tuple[MarkerAnswer, ...]


class Removed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The marker that was removed."""

    id: str


@dataclass(frozen=True)
class Known:
    """What a posted marker is checked against."""

    now_ms: int
    keep_ms: int
    metrics: Sequence[str]
    groupings: Sequence[str]


def shown(marker: Marker) -> MarkerAnswer:
    """The marker as it is returned."""
    scope = marker.scope
    return MarkerAnswer(
        id=marker.id,
        at=timestamp_text(marker.at_ms),
        until=None if marker.until_ms is None else timestamp_text(marker.until_ms),
        kind=marker.kind,
        text=marker.text,
        scope=MarkerScope(scope.metric, scope.grouping, scope.segment),
    )


def posted(body: bytes, fresh_id: str, known: Known) -> tuple[Marker, bool]:
    """(the marker of a posted body, whether the body says when it happened). Without an id it gets
    `fresh_id`, without a time that of the clock. Raises BadRequest with the value and the rule."""
    fields = _object(body)
    _refuse_unknown("", fields, _KEYS)
    at_ms = _time(fields, "at")
    marker = Marker(
        id=_id(fields.get("id"), fresh_id),
        at_ms=known.now_ms if at_ms is None else at_ms,
        kind=_kind(fields.get("kind")),
        text=_text(fields.get("text")),
        until_ms=_time(fields, "until"),
        scope=_scope(fields.get("scope"), known),
    )
    _check_times(marker, fields, known)
    return marker, at_ms is not None


def is_same(marker: Marker, stored: Marker, says_when: bool) -> bool:
    """Whether a posted marker is the stored one of its id, posted again."""
    return (marker if says_when else replace(marker, at_ms=stored.at_ms)) == stored


def span(query: Mapping[str, Sequence[str]]) -> tuple[float, float]:
    """The times `from` and `to` in ms, everything by default. Raises BadRequest."""
    values = {name: given[0] for name, given in query.items()}
    from_ms, to_ms = _time(values, "from"), _time(values, "to")
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise BadRequest(400, f"from={values['from']}: must be before to={values['to']}")
    return (
        float("-inf") if from_ms is None else from_ms,
        float("inf") if to_ms is None else to_ms,
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(400, f"the body: must be a JSON object: {error}") from error
    if not isinstance(decoded, dict):
        raise BadRequest(400, "the body: must be a JSON object")
    return decoded


def _refuse_unknown(place: str, fields: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in fields:
        if name not in names:
            raise BadRequest(400, f"{place}{_quoted(name)}: must be one of {', '.join(names)}")


def _id(value: Any, fresh_id: str) -> str:
    if value is None:
        return fresh_id
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise BadRequest(400, f"id={_quoted(value)}: {_ID_RULE}")
    return value


def _kind(value: Any) -> Kind:
    for kind in KINDS:
        if value == kind:
            return kind
    raise BadRequest(400, f"kind={_quoted(value)}: must be one of {', '.join(KINDS)}")


def _text(value: Any) -> str:
    is_text = isinstance(value, str) and value.isprintable() and value.strip()
    if not is_text or len(value) > MOST_CHARACTERS:
        rule = f"must be 1 to {MOST_CHARACTERS} printable characters, not only spaces"
        raise BadRequest(400, f"text={_quoted(value)}: {rule}")
    return str(value)


def _scope(value: Any, known: Known) -> Scope:
    if value is None:
        return Scope()
    if not isinstance(value, dict):
        names = ", ".join(_SCOPE_KEYS)
        raise BadRequest(400, f"scope={_quoted(value)}: must be an object with some of {names}")
    _refuse_unknown("scope.", value, _SCOPE_KEYS)
    for name, allowed in (("metric", known.metrics), ("grouping", known.groupings)):
        given = value.get(name)
        if given is not None and given not in allowed:
            rule = f"must be one of {'; '.join(sorted(allowed))}"
            raise BadRequest(400, f"scope.{name}={_quoted(given)}: {rule}")
    segment = value.get("segment")
    if segment is not None and (not isinstance(segment, str) or "grouping" not in value):
        rule = "must be a text, and scope.grouping must be given"
        raise BadRequest(400, f"scope.segment={_quoted(segment)}: {rule}")
    if segment is not None and len(segment) > MOST_CHARACTERS:
        rule = f"must have at most {MOST_CHARACTERS} characters"
        raise BadRequest(400, f"scope.segment={_quoted(segment)}: {rule}")
    return Scope(value.get("metric"), value.get("grouping"), segment)


def _time(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise BadRequest(400, f"{name}={_quoted(value)}: {_TIME_RULE}")
        return timestamp_ms(value, name)
    except InvalidField as error:
        raise BadRequest(400, f"{name}={_quoted(value)}: {_TIME_RULE}") from error


def _check_times(marker: Marker, fields: Mapping[str, Any], known: Known) -> None:
    earliest, latest = known.now_ms - known.keep_ms, known.now_ms + AHEAD_MS
    for name, time_ms in (("at", marker.at_ms), ("until", marker.until_ms)):
        if time_ms is not None and not earliest <= time_ms <= latest:
            rule = "must be within history.days before now, or at most a year ahead"
            bounds = f"from {timestamp_text(earliest)} to {timestamp_text(latest)}"
            raise BadRequest(400, f"{name}={_quoted(fields[name])}: {rule}: {bounds}")
    if marker.until_ms is None:
        return
    if marker.kind != "planned":
        rule = "only kind=planned has an end"
        raise BadRequest(400, f"until={_quoted(fields['until'])}: {rule}: leave it out")
    if marker.until_ms <= marker.at_ms:
        rule = f"must be after at={timestamp_text(marker.at_ms)}"
        raise BadRequest(400, f"until={_quoted(fields['until'])}: {rule}")


def _quoted(value: Any) -> str:
    """The value in one line, cut where it is long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = text[:_VALUE_CHARACTERS] + "…" * (len(text) > _VALUE_CHARACTERS)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
