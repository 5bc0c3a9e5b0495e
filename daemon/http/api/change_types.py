"""What the API returns of changes: the headline, and each fault as an entry."""

from typing import Literal, TypeAlias

import msgspec

from .markers import MarkerAnswer

State: TypeAlias = Literal["open", "planned", "recovered", "standing", "superseded"]
Tone: TypeAlias = Literal["worse", "good", ""]


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
    judged: bool
    """Whether `metric` is scored by judgements. It is another measure than a metric of feedback of
    the same name, and its chart is that of /api/v1/judged/history."""
    graded: GradedBy | None
    """null of a change of feedback."""
    beside: "OpenChange | None"
    """The same fault by the other measure, and no entry of its own: a judged change and one of
    feedback that began at most an hour apart and name a segment in common, or one of them the
    whole."""


class Noticeable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest fall of the whole that would be noticed in 9 of 10 cases."""

    grouping: str
    segment: str
    metric: str
    lane: str
    smallest_drop: float
    """As a share of the score."""
