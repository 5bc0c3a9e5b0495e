"""The parts of the headline: its state, subject, instants, levels, and cause. Pure."""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from ...changes import HOUR_MS, FallOnset, FeedbackGap, Marker, Noticed, Pattern, Silence, Story
from ...events import timestamp_text
from ...plan import ALL
from .changes import (
    HeadlineParts,
    Lane,
    LooksLike,
    NamedMarker,
    NoticedFall,
    Onset,
    Situation,
    Size,
)
from .history import Stretch

RECENT_MS: Final = 6 * HOUR_MS
"""So long the headline tells of a change that is over, while nothing is worse."""


def onset_of(onset: FallOnset) -> Onset:
    """The onset with the interval that contains it."""
    latest = timestamp_text(round(onset.latest))
    if onset.earliest is None:
        return Onset(None, None, latest, "unknown")
    earliest, at = (timestamp_text(round(each)) for each in (onset.earliest, onset.likely))
    return Onset(at, earliest, latest, "panes" if onset.by_panes else "hours")


def looks_like(pattern: Pattern | None) -> LooksLike | None:
    """The pattern as the API returns it."""
    return None if pattern is None else LooksLike(pattern.name, pattern.words, pattern.look_at)


def parts_of_change(
    story: Story, state: Situation, marker: Marker | None, settle_ms: int
) -> HeadlineParts:
    """What is told of a change, with the marker beside it. Times are ms of event time."""
    fall, live = story.fall, story.live
    shown = story.understood
    ended_ms, final_ms = fall.ended_ms, None
    if state == "repaired" and ended_ms is None and live is not None:
        ended_ms, final_ms = live.since_ms, live.since_ms + settle_ms
    return HeadlineParts(
        state=state,
        metric=shown.series[2],
        grouping=fall.series[0],
        segments=story.segments,
        before=shown.before.mean,
        now=shown.now.mean,
        size=cast(Size | None, story.size or None),
        onset=onset_of(fall.onset),
        better=None if fall.better_ms is None else timestamp_text(round(fall.better_ms)),
        ended=None if ended_ms is None else timestamp_text(round(ended_ms)),
        final=None if final_ms is None else timestamp_text(final_ms),
        traffic_share=_traffic_share(story),
        pattern=looks_like(story.pattern),
        marker=None if marker is None else _named(marker, fall.onset),
        noticed=(),
        watching_since=None,
    )


def parts_of_quiet(
    begin_ms: float | None,
    metric: str | None = None,
    falls: Sequence[Noticed] = (),
    until_ms: int | None = None,
) -> HeadlineParts:
    """What is told while nothing is worse, as is known up to `until_ms`: which falls of a metric
    would have been noticed; without any there is nothing to compare with."""
    return HeadlineParts(
        state="good" if falls else "first",
        metric=None,
        grouping=ALL,
        segments=(ALL,),
        before=None,
        now=None,
        size=None,
        onset=None,
        better=None,
        ended=None,
        final=None,
        traffic_share=None,
        pattern=None,
        marker=None,
        noticed=tuple(
            NoticedFall(
                metric or "", fall.drop, timestamp_text(round(fall.begun_ms)), cast(Lane, fall.lane)
            )
            for fall in falls
        ),
        watching_since=None if begin_ms is None else timestamp_text(round(begin_ms)),
        known_until=None if until_ms is None else timestamp_text(until_ms),
    )


def with_gap(parts: HeadlineParts, gap: FeedbackGap) -> HeadlineParts:
    """The same, with the time of which no feedback came."""
    told = Stretch(timestamp_text(gap.begin_ms), timestamp_text(gap.end_ms))
    return msgspec.structs.replace(parts, no_feedback=told)


def parts_of_silence(silence: Silence) -> HeadlineParts:
    """What is told where searches or feedback have stopped."""
    at = timestamp_text(silence.since_ms)
    return msgspec.structs.replace(
        parts_of_quiet(None),
        state="silent",
        onset=Onset(at, at, at, "panes"),
        stopped=silence.stream,
        usual_per_hour=silence.usual_per_hour,
        partitions=silence.partitions,
        rejected=silence.rejected,
    )


def situation(story: Story, is_planned: bool, as_of_ms: int) -> Situation:
    """In which state a change is."""
    if story.fall.ended_ms is not None:
        return "repaired"
    if story.fall.is_standing(as_of_ms):
        return "standing"
    if is_planned:
        return "planned"
    if story.live is not None:
        return "repaired"
    return "open" if story.fall.better_ms is None else "partly"


def is_recent(story: Story, as_of_ms: int) -> bool:
    """Whether it went back to normal so lately that it is told first."""
    recovered_ms = story.fall.recovered_ms
    return recovered_ms is not None and as_of_ms - recovered_ms <= RECENT_MS


def _traffic_share(story: Story) -> float | None:
    if story.fall.series[0] == ALL:
        return None
    known = {moved.series[:2]: moved.impressions[1] for moved in (*story.shares, *story.also)}
    known[story.own.series[:2]] = story.own.impressions[1]
    counts = [known.get((story.fall.series[0], segment)) for segment in story.segments]
    whole = known.get((ALL, ALL))
    if not whole or None in counts:
        return None
    return min(1.0, sum(filter(None, counts)) / whole)


def _named(marker: Marker, onset: FallOnset) -> NamedMarker:
    return NamedMarker(marker.text, (onset.likely - marker.at_ms) / 1000)
