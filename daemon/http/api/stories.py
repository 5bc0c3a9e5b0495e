"""Open and closed changes, and the headline, as the API returns them. Pure.

What got worse since when, and each segment now and before.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

import msgspec

from ...changes import (
    EDGE_MS,
    HOUR_MS,
    MINUTE_MS,
    FeedbackGap,
    Incident,
    Marker,
    MeasuredChange,
    Moved,
    Noticed,
    Silence,
    Story,
    acknowledgement,
    beside,
    family,
    nearest,
    noticed,
    plan_of,
    sentences,
)
from ...events import timestamp_text
from ...exporter import Detection, Reading
from ...plan import Plan
from ...views import SETTLED
from .changes import (
    Another,
    BackLive,
    Explained,
    GradedBy,
    Headline,
    HeadlineParts,
    Incidents,
    Level,
    Marks,
    Noticeable,
    OpenChange,
    Situation,
    State,
    Tone,
    incidents_of,
)
from .compared import FALSE_CALLS, Change, recent_rows, usual_rows
from .headline_parts import (
    is_recent,
    looks_like,
    onset_of,
    parts_of_change,
    parts_of_quiet,
    parts_of_silence,
    situation,
    with_gap,
)
from .history import Stretch
from .markers import Acknowledged, acknowledged, shown
from .parameters import BadRequest, Query
from .row_verdicts import ComparedSpans, Voice, in_one_voice, without_shared
from .traffic import OpenTrafficChange, is_of_all, traffic

GAP_IS_NEWS_MS: Final = 24 * HOUR_MS
"""So long it is said of which time no feedback came."""
LEAST_GAP_MS: Final = 2 * MINUTE_MS
"""A shorter time is left out without a word."""
MOST_TRAFFIC: Final = 3
"""So many numbers that are far from usual are told beside the headline."""


def headline(reading: Reading, now_ms: float | None = None) -> Headline:
    """The worst open change, one that nobody planned before all others; before what was planned or
    is back, a number of all searches that is far from usual; else that nothing is worse, and what
    would have been noticed.
    Without `now_ms` it is now as the events have it."""
    said, gap = _headline(reading, now_ms), _gap(reading.clicks.changes)
    if said.parts is None or reading.silences:
        return said
    parts, details = said.parts, [said.detail]
    if gap is not None:
        parts = with_gap(parts, gap)
        details.append(sentences.no_feedback(gap, reading.snapshot.as_of_ms or 0))
    found = traffic(reading)
    tone, text, beside = said.tone, said.text, [change.text for change in found]
    if tone != "worse" and any(map(is_of_all, found)):
        tone, text, details = "worse", beside.pop(0), [said.text, *details]
        parts = msgspec.structs.replace(parts, far=found[0].metric)
    detail = " ".join(filter(None, (*details, *beside[:MOST_TRAFFIC])))
    return msgspec.structs.replace(said, tone=tone, text=text, detail=detail, parts=parts)


def _gap(found: Detection) -> FeedbackGap | None:
    """The last time of which no feedback came, where that is news."""
    since_ms = (found.end_ms or 0) - GAP_IS_NEWS_MS
    long = (gap for gap in reversed(found.gaps) if gap.end_ms - gap.begin_ms >= LEAST_GAP_MS)
    return next((gap for gap in long if gap.end_ms > since_ms), None)


def _headline(reading: Reading, now_ms: float | None) -> Headline:
    as_of_ms, markers = reading.snapshot.as_of_ms, reading.markers
    judged = reading.clicks.changes
    found = incidents_of(reading)
    if as_of_ms is not None and reading.silences:
        return _silent(reading.silences[0], found, reading, as_of_ms)
    if as_of_ms is not None and found.open:
        return _worst(found.open, reading, as_of_ms, as_of_ms if now_ms is None else now_ms)
    metric, falls = _noticed(judged, reading.plan)
    if as_of_ms is None or judged.end_ms is None or not falls:
        watching = sentences.watching(judged.begin_ms, as_of_ms or 0)
        quiet = None if as_of_ms is None else parts_of_quiet(judged.begin_ms)
        return Headline("", watching, "", None, quiet)
    standing = [sentences.headline(incident.story, as_of_ms) for incident in found.standing]
    ended = [_sentence(incident.story, as_of_ms, markers) for incident in found.closed[:1]]
    cannot_tell = [entry.text for entry in undecided(reading)]
    detail = " ".join((*ended, *standing, *cannot_tell))
    last = judged.gaps[-1] if judged.gaps else None
    is_unknown = last is not None and last.end_ms + EDGE_MS >= judged.end_ms
    until_ms = last.begin_ms if last is not None and is_unknown else judged.end_ms
    parts = parts_of_quiet(judged.begin_ms, metric, falls, until_ms)
    if found.closed and is_recent(found.closed[0].story, as_of_ms):
        parts = _parts(found.closed[0].story, reading, as_of_ms)
    if ended and parts.state == "repaired":
        return Headline("good", ended[0], " ".join((*standing, *cannot_tell)), None, parts)
    said = sentences.good(falls, metric, until_ms, as_of_ms)
    return Headline("good", said, detail, None, parts)


def _silent(silence: Silence, found: Incidents, reading: Reading, as_of_ms: int) -> Headline:
    """Above all else: what the scores said of the time before is beside it."""
    last = [_sentence(each.story, as_of_ms, reading.markers) for each in found.open[:1]]
    text = sentences.silent(silence, as_of_ms)
    return Headline("worse", text, " ".join(last), None, parts_of_silence(silence))


def _parts(story: Story, reading: Reading, as_of_ms: int) -> HeadlineParts:
    plan = plan_of(story, reading.markers, as_of_ms)
    state = situation(story, plan is not None, as_of_ms)
    marker = plan or nearest(story, reading.markers)
    return parts_of_change(story, state, marker, reading.plan.timing.settle_ms)


def _worst(news: Sequence[Incident], reading: Reading, as_of_ms: int, now_ms: float) -> Headline:
    markers = reading.markers
    plans = {incident.identity: plan_of(incident.story, markers, as_of_ms) for incident in news}
    incident = min(news, key=lambda each: (plans[each.identity] is not None, _is_back(each)))
    known = _known(incident, reading, now_ms)
    more, parts = len(news) - 1, [] if known is None else [sentences.acknowledged(known, as_of_ms)]
    parts.append(sentences.detail(incident.story))
    if incident.beside is not None:
        parts += [_sentence(incident.beside, as_of_ms, markers), sentences.doubts(incident.beside)]
    elif incident.is_by_judgements_alone and reading.clicks.changes.end_ms is not None:
        parts.append(sentences.judged_alone(reading.clicks.changes.end_ms, as_of_ms))
    if more:
        parts.append(f"{more} more {'change is' if more == 1 else 'changes are'} open.")
    text = _sentence(incident.story, as_of_ms, markers)
    told = _parts(incident.story, reading, as_of_ms)
    tones: dict[Situation, Tone] = {"planned": "", "repaired": "good"}
    tone = tones.get(told.state, "worse")
    return Headline(tone, text, " ".join(filter(None, parts)), incident.identity, told)


def _is_back(incident: Incident) -> bool:
    """Whether live traffic says that it is over: it must not hide one that is not."""
    return incident.story.live is not None


def open_changes(
    reading: Reading, now_ms: float
) -> tuple[tuple[OpenChange, ...], tuple[OpenChange, ...], tuple[OpenChange, ...]]:
    """(open, closed, standing)."""
    found, as_of_ms = incidents_of(reading), reading.snapshot.as_of_ms or 0
    of_open, of_closed, of_standing = (
        tuple(_entry(incident, reading, as_of_ms, now_ms) for incident in part)
        for part in (found.open, found.closed, found.standing)
    )
    return of_open, of_closed, of_standing


def undecided(reading: Reading) -> tuple[OpenChange, ...]:
    """What nobody can tell of judged scores, as entries."""
    stories = () if reading.judged is None else reading.judged.changes.undecided
    as_of_ms = reading.snapshot.as_of_ms or 0
    return tuple(
        _change(story, story.identity, None, as_of_ms, reading.markers, None) for story in stories
    )


def noticeable(reading: Reading) -> tuple[Noticeable, ...]:
    """For each metric of the whole the smallest fall that would have been noticed."""
    judged, found = reading.clicks.changes, []
    for index, metric in enumerate(reading.plan.metrics):
        for fall in noticed(judged.noticeable, index, judged.end_ms or 0)[:1]:
            began = timestamp_text(round(fall.begun_ms))
            found.append(
                Noticeable("all", "all", metric.name, fall.lane, round(fall.drop, 4), began)
            )
    return tuple(found)


def _noticed(judged: Detection, plan: Plan) -> tuple[str, tuple[Noticed, ...]]:
    """The metric that would tell a fall of the whole, and its falls that would have been
    noticed."""
    metrics = enumerate(metric.name for metric in plan.metrics)
    for index, name in sorted(metrics, key=lambda one: family(one[1])):
        if falls := noticed(judged.noticeable, index, judged.end_ms or 0):
            return name, falls
    return "", ()


def _state(story: Story, markers: Marks, as_of_ms: int) -> State:
    fall = story.fall
    if fall.recovered_ms is not None:
        return "recovered"
    if fall.superseded is not None:
        return "superseded"
    if fall.incomparable_ms is not None:
        return "unscored"
    if story.is_undecided:
        return "undecided"
    if fall.is_standing(as_of_ms):
        return "standing"
    return "open" if plan_of(story, markers, as_of_ms) is None else "planned"


def _sentence(story: Story, as_of_ms: int, markers: Marks) -> str:
    """The sentence of a change, with what was planned or what is named beside it."""
    if story.fall.ended_ms is not None:
        return sentences.recovery(story, as_of_ms)
    if story.is_undecided:
        return sentences.headline(story, as_of_ms)
    plan = plan_of(story, markers, as_of_ms)
    if plan is not None and not story.fall.is_standing(as_of_ms):
        return sentences.planned(story, as_of_ms, plan)
    return sentences.headline(story, as_of_ms, nearest(story, markers))


def _entry(incident: Incident, reading: Reading, as_of_ms: int, now_ms: float) -> OpenChange:
    markers, known = reading.markers, acknowledged(_known(incident, reading, now_ms))
    other, beside_it = incident.beside, None
    if other is not None:
        beside_it = _change(other, other.identity, None, as_of_ms, markers, known)
    return _change(incident.story, incident.identity, beside_it, as_of_ms, markers, known)


def _known(incident: Incident, reading: Reading, now_ms: float) -> Marker | None:
    """The acknowledgement of a change that is open."""
    if not incident.is_open:
        return None
    return acknowledgement(incident.ids, reading.acknowledged, now_ms)


def _change(
    story: Story,
    identity: str,
    other: OpenChange | None,
    as_of_ms: int,
    markers: Marks,
    known: Acknowledged | None,
) -> OpenChange:
    grouping, segment, metric = story.fall.series
    ended, unscored = story.fall.recovered_ms, story.fall.incomparable_ms
    return OpenChange(
        id=identity,
        state=_state(story, markers, as_of_ms),
        metric=metric,
        grouping=grouping,
        segment=segment,
        segments=story.segments,
        direction="worse",
        onset=onset_of(story.fall.onset),
        level_before=_level(story.own.before, "weeks" if story.by_weeks else "hour"),
        level_now=_level(story.own.now, None),
        change_ratio=story.own.change_ratio,
        z=story.z,
        called_by=story.lanes,
        called_at=timestamp_text(story.called_ms),
        view="settled",
        recovered=None if ended is None else timestamp_text(round(ended)),
        unscored_since=None if unscored is None else timestamp_text(unscored),
        back_live=_back_live(story),
        explained_by=_explained(story),
        pattern=looks_like(story.pattern),
        also=_others(story.also),
        diluted=_others(story.diluted),
        markers=tuple(shown(marker) for marker in beside(story, markers)),
        text=_sentence(story, as_of_ms, markers),
        acknowledged=known,
        judged=story.fall.graded is not None,
        graded=_graded(story),
        beside=other,
    )


def _back_live(story: Story) -> BackLive | None:
    live = story.live
    if live is None or story.fall.ended_ms is not None:
        return None
    return BackLive(timestamp_text(live.since_ms), live.mean, timestamp_text(live.settled_ms))


def _graded(story: Story) -> GradedBy | None:
    graded, other = story.fall.graded, story.fall.superseded
    if graded is None:
        return None
    before, now = story.own.judged_shares
    best_before, best_now = story.own.best_case
    return GradedBy(
        judgements=graded.judgements,
        since=timestamp_text(graded.since_ms),
        items_share_before=before,
        items_share=now,
        best_case_before=best_before,
        best_case=best_now,
        superseded_by=None if other is None else other.judgements,
        superseded_at=None if other is None else timestamp_text(other.since_ms),
        doubts=sentences.doubts(story),
    )


def _level(measured: MeasuredChange, basis: Literal["hour", "weeks"] | None) -> Level:
    return Level(measured.mean, measured.stderr, measured.scored, basis)


def _explained(story: Story) -> Explained | None:
    found = story.explanation
    if found is None:
        return None
    return Explained(
        found.grouping,
        found.segments,
        found.carried,
        story.share,
        found.within,
        found.mix,
        found.whole,
    )


def _others(moved: tuple[Moved, ...]) -> tuple[Another, ...]:
    return tuple(
        Another(each.series[2], each.series[0], each.series[1], each.change_ratio) for each in moved
    )


Against: TypeAlias = Literal["worst", "hour", "day", "weeks"]
AGAINST: Final[tuple[Against, ...]] = ("worst", "hour", "day", "weeks")


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requested changes, segment by segment. Before the first event the periods are null."""

    as_of: str | None
    window: str
    view: str
    now: Stretch | None
    before: Stretch | None
    """The latest of `periods`."""
    periods: tuple[Stretch, ...]
    """What `now` is compared with: one period, or the same hours of up to three weeks, the latest
    first. The means before are over all of them, each with the same weight."""
    remark: str | None
    """Why there is nothing to compare with, and from when on there is; null where there is."""
    beyond: float
    """How many times its noise a difference must exceed to be called. Grows with the number of
    segments, so that false calls stay rare."""
    changes: tuple[Change, ...]
    against: Against
    """`worst`: where a change is open, a row is what it was before that and has been since.
    `hour`: the window now and an hour before. `day`: the last settled hours and
    the same hours yesterday. `weeks`: the same of up to three weeks. The last hours are the
    shortest of 1, 6 and 24 that are as long as the window, or 24."""
    settled_until: str | None
    """End of what has settled when changes were looked for last."""
    headline: Headline
    noticeable: tuple[Noticeable, ...]
    open: tuple[OpenChange, ...]
    """Of all metrics and segments, judged ones included, the clearest first."""
    closed: tuple[OpenChange, ...]
    """Those that recovered within the last day, or ended otherwise."""
    standing: tuple[OpenChange, ...]
    """Open ones that have lasted for more than a week."""
    undecided: tuple[OpenChange, ...]
    """No changes: what a judged score lost if items without a judgement are irrelevant, and did not
    lose if they are as good as judged ones."""
    traffic: tuple[OpenTrafficChange, ...]
    """What is far from usual in the data behind the scores; what an open change tells is left
    out."""


def changes(
    reading: Reading,
    window: str,
    view: str,
    wanted: Query,
    against: Against = "worst",
    now_ms: float | None = None,
) -> Changes:
    """The changes of the shown segments that pass the filters `wanted` (name → allowed values).
    Without `now_ms` it is now as the events have it. Raises BadRequest."""
    as_of_ms, judged = reading.snapshot.as_of_ms, reading.clicks.changes
    beyond = NormalDist().inv_cdf(1 - FALSE_CALLS / (2 * len(reading.selection.segments)))
    by_clock_ms = (as_of_ms or 0) if now_ms is None else now_ms
    open_now, closed, standing = open_changes(reading, by_clock_ms)
    if against == "day" or against == "weeks":
        if view != SETTLED:
            rule = f"must be {SETTLED} with against={against}, which compares whole hours"
            raise BadRequest(400, f"view={view}: {rule}")
        table = usual_rows(reading, window, wanted, against, beyond)
    else:
        table = recent_rows(reading, window, view, wanted, beyond)
    told = in_one_voice if against == "worst" else without_shared
    spans = ComparedSpans(
        (0, 0) if table.now is None else table.now.span, [p.span for p in table.periods]
    )
    table = replace(table, rows=told(table.rows, Voice.of(judged), spans))
    return Changes(
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        window=window,
        view=view,
        now=table.now,
        before=table.periods[0] if table.periods else None,
        periods=table.periods,
        remark=table.remark,
        beyond=beyond,
        changes=table.rows,
        against=against,
        settled_until=None if judged.end_ms is None else timestamp_text(judged.end_ms),
        headline=headline(reading, by_clock_ms),
        noticeable=noticeable(reading),
        open=open_now,
        closed=closed,
        standing=standing,
        undecided=undecided(reading),
        traffic=traffic(reading),
    )
