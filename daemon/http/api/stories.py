"""Open and closed changes, and the headline, as the API returns them. Pure."""

from typing import Literal, TypeAlias

import msgspec
import numpy as np

from ...events.timestamps import timestamp_text
from ...exporter.judgements import Judgement
from ...exporter.pane_reader import Reading
from ...judging import sentences
from ...judging.ledger import Onset as KnownOnset
from ...judging.markers import Marker, beside, nearest, plan_of
from ...judging.patterns import Pattern
from ...judging.story import Measured, Moved, Story
from .markers import MarkerAnswer, shown

State: TypeAlias = Literal["open", "planned", "recovered", "standing"]
Marks: TypeAlias = tuple[Marker, ...]
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


class OpenChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault: a score that fell, until it has recovered."""

    id: str
    state: State
    """`planned`: as a marker says; `standing`: low for more than a week."""
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


class Noticeable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest fall of the whole that would be noticed in 9 of 10 cases."""

    grouping: str
    segment: str
    metric: str
    lane: str
    smallest_drop: float
    """As a share of the score."""


def headline(judged: Judgement, as_of_ms: int | None, markers: Marks = ()) -> Headline:
    """The worst open change, one that nobody planned before all others; else that nothing is
    worse, and what would have been noticed."""
    if as_of_ms is None or judged.end_ms is None:
        return Headline("", sentences.watching(judged.begin_ms, as_of_ms or 0), "", None)
    news = [story for story in judged.open if not story.fall.is_standing(judged.end_ms)]
    plans = {story.identity: plan_of(story, markers, as_of_ms) for story in news}
    if news:
        story = min(news, key=lambda each: plans[each.identity] is not None)
        text = _sentence(story, as_of_ms, markers)
        tone: Tone = "worse" if plans[story.identity] is None else ""
        more = len(news) - 1
        others = f" {more} more {'change is' if more == 1 else 'changes are'} open." * (more > 0)
        return Headline(tone, text, sentences.detail(story) + others, story.identity)
    least, lane = _best(judged)
    if lane is None:
        return Headline("", sentences.watching(judged.begin_ms, as_of_ms), "", None)
    standing = [sentences.headline(story, as_of_ms) for story in judged.open]
    ended = [sentences.recovery(story, as_of_ms) for story in judged.closed[:1]]
    detail = " ".join((*ended, *standing))
    return Headline("good", sentences.good(least, lane), detail, None)


def open_changes(
    judged: Judgement, as_of_ms: int, markers: Marks = ()
) -> tuple[tuple[OpenChange, ...], tuple[OpenChange, ...], tuple[OpenChange, ...]]:
    """(open, closed, standing)."""
    end_ms = judged.end_ms or as_of_ms
    standing = [story for story in judged.open if story.fall.is_standing(end_ms)]
    news = [story for story in judged.open if story not in standing]
    return (
        tuple(
            _change(story, _state(story, markers, as_of_ms), as_of_ms, markers) for story in news
        ),
        tuple(_change(story, "recovered", as_of_ms, markers) for story in judged.closed),
        tuple(_change(story, "standing", as_of_ms, markers) for story in standing),
    )


def noticeable(reading: Reading) -> tuple[Noticeable, ...]:
    """For each metric of the whole the lane that notices the smallest fall."""
    judged, found = reading.judged, []
    for index, metric in enumerate(reading.plan.metrics):
        least = {lane: float(drops[index]) for lane, drops in judged.noticeable.items()}
        lane = min(least, key=lambda name: least[name], default=None)
        if lane is not None and least[lane] < 1:
            found.append(Noticeable("all", "all", metric.name, lane, round(least[lane], 4)))
    return tuple(found)


def _best(judged: Judgement) -> tuple[float | None, str | None]:
    """(the smallest fall of any metric of the whole that would be noticed, its lane)."""
    least: tuple[float | None, str | None] = (None, None)
    for lane, drops in judged.noticeable.items():
        of_whole = drops[: len(drops) // max(len(judged.segments), 1)]
        drop = float(np.min(of_whole, initial=1.0))
        if drop < (1.0 if least[0] is None else least[0]):
            least = (drop, lane)
    return least


def _state(story: Story, markers: Marks, as_of_ms: int) -> State:
    return "open" if plan_of(story, markers, as_of_ms) is None else "planned"


def _sentence(story: Story, as_of_ms: int, markers: Marks) -> str:
    """The sentence of a change, with what was planned or what is named beside it."""
    if story.fall.recovered_ms is not None:
        return sentences.recovery(story, as_of_ms)
    plan = plan_of(story, markers, as_of_ms)
    if plan is not None and not story.fall.is_standing(as_of_ms):
        return sentences.planned(story, as_of_ms, plan)
    return sentences.headline(story, as_of_ms, nearest(story, markers))


def _change(story: Story, state: State, as_of_ms: int, markers: Marks) -> OpenChange:
    grouping, segment, metric = story.fall.series
    ended = story.fall.recovered_ms
    return OpenChange(
        id=story.identity,
        state=state,
        metric=metric,
        grouping=grouping,
        segment=segment,
        segments=story.segments,
        direction="worse",
        onset=_onset(story.fall.onset),
        level_before=_level(story.own.before, "weeks" if story.by_weeks else "hour"),
        level_now=_level(story.own.now, None),
        change_ratio=story.own.change_ratio,
        z=story.z,
        called_by=story.lanes,
        called_at=timestamp_text(story.called_ms),
        view="settled",
        recovered=None if ended is None else timestamp_text(round(ended)),
        explained_by=_explained(story),
        pattern=_pattern(story.pattern),
        also=_others(story.also),
        diluted=_others(story.diluted),
        markers=tuple(shown(marker) for marker in beside(story, markers)),
        text=_sentence(story, as_of_ms, markers),
    )


def _onset(onset: KnownOnset) -> Onset:
    latest = timestamp_text(round(onset.latest))
    if onset.earliest is None:
        return Onset(None, None, latest, "unknown")
    earliest, at = (timestamp_text(round(each)) for each in (onset.earliest, onset.likely))
    return Onset(at, earliest, latest, "panes" if onset.by_panes else "hours")


def _level(measured: Measured, basis: Literal["hour", "weeks"] | None) -> Level:
    return Level(measured.mean, measured.stderr, measured.scored, basis)


def _explained(story: Story) -> Explained | None:
    found = story.explanation
    if found is None:
        return None
    return Explained(
        found.grouping, found.segments, found.carried, found.within, found.mix, found.whole
    )


def _pattern(pattern: Pattern | None) -> LooksLike | None:
    return None if pattern is None else LooksLike(pattern.name, pattern.words, pattern.look_at)


def _others(moved: tuple[Moved, ...]) -> tuple[Another, ...]:
    return tuple(
        Another(each.series[2], each.series[0], each.series[1], each.change_ratio) for each in moved
    )
