"""Open and closed changes, and the headline, as the API returns them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ...events.timestamps import timestamp_text
from ...exporter.judgements import Judgement
from ...exporter.pane_reader import Reading
from ...judging import sentences
from ...judging.ledger import Onset as KnownOnset
from ...judging.markers import Marker, beside, nearest, plan_of
from ...judging.patterns import Pattern
from ...judging.story import Measured, Moved, Story
from ...judging.incidents import Incident, incidents
from .change_types import (
    Another,
    Explained,
    GradedBy,
    Headline,
    Level,
    LooksLike,
    Noticeable,
    Onset,
    OpenChange,
    State,
    Tone,
)
from .markers import shown

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
    by_feedback, judged = reading.judged, reading.judged_falls
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


def headline(reading: Reading) -> Headline:
    """The worst open change, one that nobody planned before all others; else that nothing is
    worse, and what would have been noticed."""
    as_of_ms, judged, markers = reading.snapshot.as_of_ms, reading.judged, reading.markers
    found = incidents_of(reading)
    if as_of_ms is not None and found.open:
        return _worst(found.open, reading, as_of_ms)
    if as_of_ms is None or judged.end_ms is None:
        return Headline("", sentences.watching(judged.begin_ms, as_of_ms or 0), "", None)
    least, lane = _best(judged)
    if lane is None:
        return Headline("", sentences.watching(judged.begin_ms, as_of_ms), "", None)
    standing = [sentences.headline(incident.story, as_of_ms) for incident in found.standing]
    ended = [_sentence(incident.story, as_of_ms, markers) for incident in found.closed[:1]]
    detail = " ".join((*ended, *standing))
    return Headline("good", sentences.good(least, lane), detail, None)


def _worst(news: Sequence[Incident], reading: Reading, as_of_ms: int) -> Headline:
    markers = reading.markers
    plans = {incident.identity: plan_of(incident.story, markers, as_of_ms) for incident in news}
    incident = min(news, key=lambda each: plans[each.identity] is not None)
    tone: Tone = "worse" if plans[incident.identity] is None else ""
    more, parts = len(news) - 1, [sentences.detail(incident.story)]
    if incident.beside is not None:
        parts += [_sentence(incident.beside, as_of_ms, markers), sentences.doubts(incident.beside)]
    elif incident.story.fall.graded is not None and reading.judged.end_ms is not None:
        parts.append(sentences.judged_alone(reading.judged.end_ms, as_of_ms))
    if more:
        parts.append(f"{more} more {'change is' if more == 1 else 'changes are'} open.")
    text = _sentence(incident.story, as_of_ms, markers)
    return Headline(tone, text, " ".join(filter(None, parts)), incident.identity)


def open_changes(
    reading: Reading,
) -> tuple[tuple[OpenChange, ...], tuple[OpenChange, ...], tuple[OpenChange, ...]]:
    """(open, closed, standing)."""
    found, as_of_ms, markers = (
        incidents_of(reading),
        reading.snapshot.as_of_ms or 0,
        reading.markers,
    )
    of_open, of_closed, of_standing = (
        tuple(_entry(incident, as_of_ms, markers) for incident in part)
        for part in (found.open, found.closed, found.standing)
    )
    return of_open, of_closed, of_standing


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
    fall = story.fall
    if fall.recovered_ms is not None:
        return "recovered"
    if fall.superseded is not None:
        return "superseded"
    if fall.is_standing(as_of_ms):
        return "standing"
    return "open" if plan_of(story, markers, as_of_ms) is None else "planned"


def _sentence(story: Story, as_of_ms: int, markers: Marks) -> str:
    """The sentence of a change, with what was planned or what is named beside it."""
    if story.fall.ended_ms is not None:
        return sentences.recovery(story, as_of_ms)
    plan = plan_of(story, markers, as_of_ms)
    if plan is not None and not story.fall.is_standing(as_of_ms):
        return sentences.planned(story, as_of_ms, plan)
    return sentences.headline(story, as_of_ms, nearest(story, markers))


def _entry(incident: Incident, as_of_ms: int, markers: Marks) -> OpenChange:
    other = incident.beside
    other_entry = None if other is None else _change(other, other.identity, None, as_of_ms, markers)
    return _change(incident.story, incident.identity, other_entry, as_of_ms, markers)


def _change(
    story: Story, identity: str, other: OpenChange | None, as_of_ms: int, markers: Marks
) -> OpenChange:
    grouping, segment, metric = story.fall.series
    ended = story.fall.recovered_ms
    return OpenChange(
        id=identity,
        state=_state(story, markers, as_of_ms),
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
        judged=story.fall.graded is not None,
        graded=_graded(story),
        beside=other,
    )


def _graded(story: Story) -> GradedBy | None:
    graded, other = story.fall.graded, story.fall.superseded
    if graded is None:
        return None
    before, now = story.judged_shares or (None, None)
    return GradedBy(
        judgements=graded.judgements,
        since=timestamp_text(graded.since_ms),
        items_share_before=before,
        items_share=now,
        superseded_by=None if other is None else other.judgements,
        superseded_at=None if other is None else timestamp_text(other.since_ms),
        doubts=sentences.doubts(story),
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
