"""Markers as the API takes and returns them: the rules of a posted one. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from ...changes import KINDS, MOST_CHARACTERS, Kind, Marker, MarkerReach
from ...events import timestamp_text
from .parameters import BadRequest, Query, object_of, quoted, refuse_unknown, text_of, time_of

AHEAD_MS: Final = 366 * 86_400_000
"""How far ahead a marker may lie."""
_KEYS: Final = ("id", "at", "until", "kind", "text", "scope")
_SCOPE_KEYS: Final = ("metric", "grouping", "segment")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_ID_RULE: Final = "must be 1 to 64 of the characters A-Z a-z 0-9 . _ -, the first a letter or digit"


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


class Acknowledged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """That somebody knows of an open change."""

    text: str
    at: str
    until: str
    """From then on it is not said any more."""
    by: str | None
    """The user who logged in; null without passwords."""


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
class MarkerRules:
    """What a posted marker is checked against."""

    metrics: Sequence[str] = ()
    groupings: Sequence[str] = ()
    keep_ms: int = 0


def shown(marker: Marker) -> MarkerAnswer:
    """The marker as it is returned."""
    assert marker.kind != "acknowledged", "said of its change"
    scope = marker.scope
    return MarkerAnswer(
        id=marker.id,
        at=timestamp_text(marker.at_ms),
        until=None if marker.until_ms is None else timestamp_text(marker.until_ms),
        kind=marker.kind,
        text=marker.text,
        scope=MarkerScope(scope.metric, scope.grouping, scope.segment),
    )


def acknowledged(marker: Marker | None) -> Acknowledged | None:
    """The acknowledgement as it is returned."""
    if marker is None:
        return None
    assert marker.until_ms is not None, "each has an end"
    return Acknowledged(
        marker.text, timestamp_text(marker.at_ms), timestamp_text(marker.until_ms), marker.by
    )


def posted(body: bytes, fresh_id: str, now_ms: int, rules: MarkerRules) -> tuple[Marker, bool]:
    """(the marker of a posted body, whether the body says when it happened). Without an id it gets
    `fresh_id`, without a time `now_ms`. Raises BadRequest with the value and the rule."""
    fields = object_of(body)
    refuse_unknown("", fields, _KEYS)
    at_ms = time_of(fields, "at")
    marker = Marker(
        id=_id(fields.get("id"), fresh_id),
        at_ms=now_ms if at_ms is None else at_ms,
        kind=_kind(fields.get("kind")),
        text=text_of(fields.get("text")),
        until_ms=time_of(fields, "until"),
        scope=_scope(fields.get("scope"), rules),
    )
    _check_times(marker, fields, now_ms, rules.keep_ms)
    return marker, at_ms is not None


def is_same(marker: Marker, stored: Marker, says_when: bool) -> bool:
    """Whether a posted marker is the stored one of its id, posted again."""
    return (marker if says_when else replace(marker, at_ms=stored.at_ms)) == stored


def span(query: Query) -> tuple[float, float]:
    """The times `from` and `to` in ms, everything by default. Raises BadRequest."""
    values = {name: given[0] for name, given in query.items()}
    from_ms, to_ms = time_of(values, "from"), time_of(values, "to")
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise BadRequest(400, f"from={values['from']}: must be before to={values['to']}")
    return (
        float("-inf") if from_ms is None else from_ms,
        float("inf") if to_ms is None else to_ms,
    )


def _id(value: Any, fresh_id: str) -> str:
    if value is None:
        return fresh_id
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise BadRequest(400, f"id={quoted(value)}: {_ID_RULE}")
    return value


def _kind(value: Any) -> Kind:
    for kind in KINDS:
        if value == kind:
            return kind
    raise BadRequest(400, f"kind={quoted(value)}: must be one of {', '.join(KINDS)}")


def _scope(value: Any, rules: MarkerRules) -> MarkerReach:
    if value is None:
        return MarkerReach()
    if not isinstance(value, dict):
        names = ", ".join(_SCOPE_KEYS)
        raise BadRequest(400, f"scope={quoted(value)}: must be an object with some of {names}")
    refuse_unknown("scope.", value, _SCOPE_KEYS)
    for name, allowed in (("metric", rules.metrics), ("grouping", rules.groupings)):
        given = value.get(name)
        if given is not None and given not in allowed:
            rule = f"must be one of {'; '.join(sorted(allowed))}"
            raise BadRequest(400, f"scope.{name}={quoted(given)}: {rule}")
    segment = value.get("segment")
    if segment is not None and (not isinstance(segment, str) or "grouping" not in value):
        rule = "must be a text, and scope.grouping must be given"
        raise BadRequest(400, f"scope.segment={quoted(segment)}: {rule}")
    if segment is not None and len(segment) > MOST_CHARACTERS:
        rule = f"must have at most {MOST_CHARACTERS} characters"
        raise BadRequest(400, f"scope.segment={quoted(segment)}: {rule}")
    return MarkerReach(value.get("metric"), value.get("grouping"), segment)


def _check_times(marker: Marker, fields: Mapping[str, Any], now_ms: int, keep_ms: int) -> None:
    earliest, latest = now_ms - keep_ms, now_ms + AHEAD_MS
    for name, time_ms in (("at", marker.at_ms), ("until", marker.until_ms)):
        if time_ms is not None and not earliest <= time_ms <= latest:
            rule = "must be within history.days before now, or at most a year ahead"
            bounds = f"from {timestamp_text(earliest)} to {timestamp_text(latest)}"
            raise BadRequest(400, f"{name}={quoted(fields[name])}: {rule}: {bounds}")
    if marker.until_ms is None:
        return
    if marker.kind != "planned":
        rule = "only kind=planned has an end"
        raise BadRequest(400, f"until={quoted(fields['until'])}: {rule}: leave it out")
    if marker.until_ms <= marker.at_ms:
        rule = f"must be after at={timestamp_text(marker.at_ms)}"
        raise BadRequest(400, f"until={quoted(fields['until'])}: {rule}")
