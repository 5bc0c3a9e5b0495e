"""What the API returns of changes: the headline, and each fault once, as an entry; what was planned
is told apart. Pure.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from ...changes import Incident, Marker, TrafficMetric, incidents, plan_of
from ...exporter import Detection, Reading
from .history import Stretch
from .markers import Acknowledged, MarkerAnswer

State: TypeAlias = Literal[
    "open", "planned", "recovered", "standing", "superseded", "undecided", "unscored"
]
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
    """How many of these usually come in the busiest hour since then."""
    partitions: tuple[int, ...] = ()
    """Those from which they do not come; empty where it is all."""
    rejected: int = 0
    """Records that were rejected since then."""
    known_until: str | None = None
    """While search is good: up to when that is known."""
    no_feedback: "Stretch | None" = None
    """When within the last 24 h searches came and no feedback: scores say nothing of that time."""
    far: TrafficMetric | None = None
    """What is told before the state, as that alarms nobody: the metric of `traffic` that is far
    from usual of all searches."""


class Headline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of search in a sentence: the worst of all metrics and segments, whatever the
    request asks for."""

    tone: Tone
    """`worse` while a change is open, or a number of all searches is far from usual; `good` where
    none is, or where live traffic shows that it is back; empty while nothing is known or all open
    changes are planned."""
    text: str
    detail: str
    """Who carries it, what it looks like, and where to look; empty where there is nothing to
    say."""
    change: str | None
    """The id of the change that it tells: behind `parts.far`, where that is set."""
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


class BackLive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What has not settled yet shows that a score is back: late feedback can only raise it."""

    since: str
    """Since when it is back."""
    mean: float
    """The score since then, at least: clicks still arrive for it."""
    known_until: str
    """End of what has settled, by which the score had not recovered."""


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
    best_case_before: float | None
    """The level before, if the items without a judgement were as good as the judged ones."""
    best_case: float | None
    """The same since the onset."""
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
    change that had not recovered when other judgements came into force; `undecided`: no change, as
    the best case of the items without a judgement is not low; `unscored`: over, as nothing of it is
    scored any more that can be compared."""
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
    unscored_since: str | None
    """Of what is `unscored`: when it ended."""
    back_live: BackLive | None
    """null where live traffic does not show that it is back, and once it has recovered."""
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


Marks: TypeAlias = tuple[Marker, ...]


@dataclass(frozen=True)
class Incidents:
    """Each incident once, by feedback and by judgements."""

    open: tuple[Incident, ...]
    """The clearest first."""
    closed: tuple[Incident, ...]
    """The latest first."""
    standing: tuple[Incident, ...]


def incidents_of(reading: Reading) -> Incidents:
    """All incidents, as of the last looks."""
    by_feedback = reading.clicks.changes
    judged = Detection() if reading.judged is None else reading.judged.changes
    as_of_ms = reading.snapshot.as_of_ms or 0
    together = incidents(
        (*by_feedback.open, *by_feedback.closed),
        (*judged.open, *judged.closed),
        reading.plan.timing.attribution_ms,
    )
    found = [
        each for incident in together for each in _by_plan(incident, reading.markers, as_of_ms)
    ]
    open_now = sorted((each for each in found if each.is_open), key=lambda each: each.story.z or 0)
    closed = [each for each in found if not each.is_open]
    return Incidents(
        tuple(each for each in open_now if not each.story.fall.is_standing(as_of_ms)),
        tuple(sorted(closed, key=lambda each: -(each.story.fall.ended_ms or 0.0))),
        tuple(each for each in open_now if each.story.fall.is_standing(as_of_ms)),
    )


def _by_plan(incident: Incident, markers: Marks, as_of_ms: int) -> tuple[Incident, ...]:
    """The incident, or both of its changes where a plan is of one of them only: what is planned
    must not hide what is not."""
    both = [story for story in (incident.story, incident.beside) if story is not None]
    planned = {plan_of(story, markers, as_of_ms) is not None for story in both}
    if len(planned) == 1:
        return (incident,)
    return tuple(Incident(story, None, story.identity) for story in both)


def all_open(reading: Reading) -> tuple[Incident, ...]:
    """The changes that are open, standing ones last."""
    found = incidents_of(reading)
    return (*found.open, *found.standing)
