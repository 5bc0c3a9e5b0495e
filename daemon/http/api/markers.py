"""Markers as the API takes and returns them: the rules of a posted one. Pure.

What the API returns of changes: the headline, and each fault as an entry.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

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


State: TypeAlias = Literal["open", "planned", "recovered", "standing", "superseded"]
Tone: TypeAlias = Literal["worse", "good", ""]


Lane: TypeAlias = Literal["hour", "day", "weeks"]
Size: TypeAlias = Literal["slightly", "clearly", "much"]
Situation: TypeAlias = Literal[
    "silent", "open", "planned", "partly", "repaired", "standing", "good", "first"
]


class NamedMarker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The marker that is named beside a change, and how far from its onset."""

    text: str
    before_seconds: float
    """From the marker to the likeliest onset; below 0 where it is later."""


class HeadlineParts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the headline is made of: each place tells it in words and a time zone of its own."""

    state: Situation
    """`silent`: searches or feedback have stopped since the onset; `partly`: better, not as good as
    before yet; `repaired`: back to normal within the last 6 h, and nothing else is open; `first`:
    there is nothing to compare with yet."""
    metric: str | None
    """What `before` and `now` are means of: the share of searches that find a click, where that
    fell too, else the metric that tells the change; null where none is told."""
    grouping: str
    segments: tuple[str, ...]
    before: float | None
    now: float | None
    """Since the onset, at most of the last 24 hours; of a change that is over, until its end."""
    size: Size | None
    """Of the change, as a share of `before`: below 10 %, below 30 %, or more. A word that was told
    stays until the size is 3 % beyond it."""
    onset: "Onset | None"
    better: str | None
    """Since when it is better."""
    ended: str | None
    """Since when it is back to normal."""
    final: str | None
    """When live traffic will have settled by which it is back to normal; null where all of it
    has."""
    traffic_share: float | None
    """Of all searches since the onset, that of the segments; null where it is not known, or the
    change is everywhere."""
    pattern: "LooksLike | None"
    marker: NamedMarker | None
    noticed: tuple["NoticedFall", ...]
    """While search is good, the falls of the metric that tells a change which would have been
    noticed: the smallest, and the smallest that began within 4 h where that one is a quarter
    larger."""
    watching_since: str | None
    """Begin of what is looked at for changes."""
    stopped: Literal["searches", "feedback"] | None = None
    """What does not come any more."""
    usual_per_hour: float | None = None
    """How many of these come in an hour like this one."""
    partitions: tuple[int, ...] = ()
    """Those from which they do not come; empty where it is all."""
    rejected: int = 0
    """Records that were rejected since then."""


class Headline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of search in a sentence: the worst of all metrics and segments, whatever the
    request asks for."""

    tone: Tone
    """`worse` while a change is open, `good` where none is, empty while nothing is known or all
    open changes are planned."""
    text: str
    detail: str
    """Who carries it, what it looks like, and where to look; empty where there is nothing to
    say."""
    change: str | None
    """The id of the change that it tells."""
    parts: HeadlineParts | None = None
    """null where nothing has been read yet."""


class Onset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a change began, as an interval of event time."""

    at: str | None
    """The likeliest instant; null where it is older than what is kept."""
    earliest: str | None
    latest: str | None
    from_: Literal["panes", "hours", "unknown"] = msgspec.field(name="from")
    """What tells it."""


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mean score over a stretch of event time."""

    mean: float | None
    stderr: float | None
    """Standard error, widened by the design effect."""
    scored: int
    """Impressions for which the metric is defined."""
    basis: Literal["hour", "weeks"] | None = None
    """Of the level before: `hour`, what lay just before the change; `weeks`, that as far from its
    own earlier weeks as these are from the weeks of now."""


class Explained(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The segments that carry a change of the whole."""

    grouping: str
    segments: tuple[str, ...]
    carried: float
    """Their share of the change of the whole."""
    words: str
    """The same as it is told: below 40 %, below 60 %, below 90 %, or more. What was told stays
    until the share is 4 % beyond it."""
    within: float
    """Their part of the change, from their own scores."""
    mix: float
    """The part that comes from all shares of the traffic."""
    whole: float
    """The change of the whole."""


class LooksLike(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a change looks like."""

    name: str
    words: str
    look_at: str


class Another(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another score that moved at the same time."""

    metric: str
    grouping: str
    segment: str
    change_ratio: float | None


class GradedBy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By what a judged change is scored: all of it by one file."""

    judgements: str
    """Name of the file."""
    since: str
    """Event time from which on it grades."""
    items_share_before: float | None
    """Share of the first places of the lists whose item was judged before the change."""
    items_share: float | None
    """The same since its onset."""
    superseded_by: str | None
    """The file that came into force before the score had recovered, `mixed` where lanes then grade
    by different ones; null where none has. Nothing that follows can be compared with it."""
    superseded_at: str | None
    """Since when it is in force."""
    doubts: str
    """In words: that little of the lists is judged, or less than before; empty where nothing is to
    say."""


class OpenChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault: a score that fell, until it has recovered. Where both feedback and judgements show
    it, the entry is that of feedback, unless that has recovered alone."""

    id: str
    state: State
    """`planned`: as a marker says; `standing`: low for more than a week; `superseded`: a judged
    change that had not recovered when other judgements came into force."""
    metric: str
    grouping: str
    segment: str
    segments: tuple[str, ...]
    """All that are named, of one grouping; `segment` is the first."""
    direction: Literal["worse"]
    onset: Onset
    level_before: Level
    level_now: Level
    """Since the onset, at most of the last 24 hours; of a change that is over, until its end."""
    change_ratio: float | None
    z: float | None
    """The change in standard errors, negative where it is worse."""
    called_by: tuple[str, ...]
    """The comparisons that called it: `hour`, `day`, `weeks`."""
    called_at: str
    """What had settled by then was enough to call it."""
    view: Literal["settled"]
    recovered: str | None
    explained_by: Explained | None
    """null where it is everywhere, or too small to say."""
    pattern: LooksLike | None
    also: tuple[Another, ...]
    """Other metrics of the same segments that are worse."""
    diluted: tuple[Another, ...]
    """Segments that are low only because they share traffic with those that are named."""
    markers: tuple[MarkerAnswer, ...]
    """What happened at its onset, or less than 10 min before: not what caused it."""
    text: str
    acknowledged: Acknowledged | None
    """null where nobody did, or its end has come. No alert is held back by it."""
    judged: bool
    """Whether `metric` is scored by judgements. It is another measure than a metric of feedback of
    the same name, and its chart is that of /api/v1/judged/history."""
    graded: GradedBy | None
    """null of a change of feedback."""
    beside: "OpenChange | None"
    """The same fault by the other measure, and no entry of its own: a judged change and one of
    feedback that began at most an hour apart and name a segment in common, or one of them the
    whole."""


class NoticedFall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fall of all searches that would have been noticed in 9 of 10 cases."""

    metric: str
    drop: float
    """As a share of the score."""
    began_before: str
    """If it began by then; what began later has not settled for long enough."""
    lane: Lane
    """With what it was compared."""


class Noticeable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest fall of the whole that would have been noticed in 9 of 10 cases."""

    grouping: str
    segment: str
    metric: str
    lane: str
    smallest_drop: float
    """As a share of the score."""
    began_before: str
    """If it began by then."""
