"""Which falls are open: a fall that was called stays open until the score has recovered. Pure.

What was called is compared with what lay before it for as long as it is open, so that it neither
becomes its own baseline nor seems to recover while a window fills. The hours of a fall that is
over are left out of all later comparisons.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from .levels import Onsets
from .recovery import Falls, recovered
from .settings import WHOLE
from .timeline import HOUR_MS, MINUTE_MS, ScoreNoise, ScoreTimeline

MIXED: Final = "mixed"
"""Instead of the name of a file: lanes grade by different ones."""
Series: TypeAlias = tuple[str, str, str]
"""(grouping, segment, metric)."""

AT_ONCE_MS: Final = 10 * MINUTE_MS
"""Falls whose intervals are no further apart are one fault."""
LOW_Z: Final = -4.0
"""A segment is called diluted, or to have fallen too, from here on."""
REOPENS_MS: Final = 24 * HOUR_MS
"""A score that falls again so soon after its recovery had not recovered."""
KEPT_MS: Final = 22 * 24 * HOUR_MS
"""So long are falls that are over remembered: none of their hours tells what is usual, for which
three weeks are looked at."""
NEXT_DAY_MS: Final = 12 * HOUR_MS
"""What falls again so long after it last fell does so on another day."""
EVERY_DAY: Final = 3
"""What has fallen again on so many other days, each time within a day of its recovery, is how the
score moves: a night, and no fault."""
STANDING_MS: Final = 7 * 24 * HOUR_MS
"""What has been low for longer is the state of things, and no news."""
MISSED: Final = 30.0
"""A fall of which nothing is scored any more is over once so many impressions would have been, by
the share of the whole that it had: no chance leaves all of them out."""
MISSED_MS: Final = 30 * MINUTE_MS
"""It takes so long at least."""
DAY_MS: Final = 24 * HOUR_MS
"""Its share is that of so long; where it is not known, so long is waited."""


@dataclass(frozen=True)
class FallOnset:
    """When a fall began, in ms since the epoch."""

    likely: float
    earliest: float | None
    """None where it may be older than what is kept."""
    latest: float
    by_panes: bool
    """False where only hours tell it."""

    @property
    def width(self) -> float:
        """The length of the interval."""
        return float("inf") if self.earliest is None else self.latest - self.earliest


@dataclass(frozen=True)
class Graded:
    """The judgements that judged scores are made of. Those of others are another measure."""

    judgements: str
    """Name of the file, or `MIXED`."""
    since_ms: int
    """Since when they are in force."""


@dataclass(frozen=True)
class FaultName:
    """Under which segments and metric a fault is told."""

    grouping: str
    segments: tuple[str, ...]
    metric: str
    since_ms: int = 0
    """End of what had settled when it was told so first."""
    first: tuple[int, str, str] = (0, "", "")
    """(onset as first named in ms, grouping, segment) of its first name: they identify it."""
    renamed: bool = False
    size: str = ""
    """The word of SIZES that is told of it; empty before it is told."""
    share: str = ""
    """The word of SHARES that is told of it; empty where nothing is."""
    rival: "FaultName | None" = None
    """The name that it would get now, and since when; None where it is this one."""

    def is_same(self, other: "FaultName | None") -> bool:
        """Whether both name the same."""
        return other is not None and self.named == other.named

    @property
    def named(self) -> tuple[str, frozenset[str], str]:
        """What is named, whatever the order of the segments."""
        return self.grouping, frozenset(self.segments), self.metric


@dataclass(frozen=True)
class Fall:
    """One metric of one segment that fell."""

    series: Series
    first_ms: int
    """The onset as it was first named: identifies the fall whatever is learned later."""
    onset: FallOnset
    lanes: tuple[str, ...]
    """The comparisons that called it."""
    called_ms: int
    """End of what had settled when it was called first."""
    low_since_ms: float
    """The onset; of a fall that was reopened, that of the last time it fell; of one that got better
    without recovering, when it did."""
    recovered_ms: float | None = None
    name: FaultName | None = None
    """That of its fault, where it was the first of it to be called."""
    better_ms: float | None = None
    """Since when it is better, but not as good as before: then it is low since then."""
    graded: Graded | None = None
    """Of a judged score: by what. None of a score of feedback."""
    again: int = 0
    """On how many other days it fell again after it had recovered."""
    superseded: Graded | None = None
    """What came into force before a judged score had recovered: nothing can be compared with it any
    more."""
    scored_ms: int = 0
    """Until when it was scored, as far as it has been seen since the call, to ten minutes; 0 before
    that."""
    unscored_ms: int | None = None
    """Since when nothing of it is scored while the whole is, such as a version that was withdrawn:
    whether it recovered cannot be known."""

    @property
    def since_ms(self) -> float:
        """From when on it may have been low."""
        return self.onset.likely if self.onset.earliest is None else self.onset.earliest

    @property
    def ended_ms(self) -> float | None:
        """When it recovered, or nothing was comparable any more; None while it is open."""
        superseded_ms = None if self.superseded is None else self.superseded.since_ms
        ends = (self.recovered_ms, superseded_ms, self.unscored_ms)
        return next((float(end) for end in ends if end is not None), None)

    @property
    def is_unusual(self) -> bool:
        """Whether the score of its hours says nothing of what is usual: it is over, and not what
        happens every day."""
        return self.ended_ms is not None and self.again < EVERY_DAY

    def is_standing(self, end_ms: int) -> bool:
        """Whether it has been open for so long that it is no news."""
        return self.ended_ms is None and end_ms - self.onset.likely > STANDING_MS


@dataclass(frozen=True)
class FallCall:
    """What a lane says of one series now."""

    lane: str
    series: Series
    onset: FallOnset


@dataclass(frozen=True, eq=False)
class Look:
    """The timeline that a lane looked at; series by index."""

    timeline: ScoreTimeline
    series: Sequence[Series]
    directions: Floats
    noise: ScoreNoise
    graded: Graded | None = None
    """Where the scores are judged: by what, in all bins."""

    @property
    def end_ms(self) -> int:
        """The end of what has settled."""
        return int(self.timeline.ends[-1])


def calls_of(look: Look, lane: str, which: Integers, began: Onsets) -> list[FallCall]:
    """What a lane calls, the series by index, with their onsets. Without an onset the fall is older
    than what tells it: a day, which is the longest window that calls."""
    timeline, calls = look.timeline, []
    for index, series in enumerate(which.tolist()):
        times = (began.likely[index], began.earliest[index], began.latest[index])
        likely, earliest, latest = (None if np.isnan(time) else float(time) for time in times)
        if likely is None or latest is None:
            day_ago = float(look.end_ms - 24 * HOUR_MS)
            onset = FallOnset(day_ago, None, day_ago, by_panes=False)
        else:
            at = int(np.searchsorted(timeline.ends, likely, side="right"))
            by_panes = not timeline.hourly[min(at, len(timeline.hourly) - 1)]
            onset = FallOnset(likely, earliest, latest, by_panes)
        calls.append(FallCall(lane, look.series[series], onset))
    return calls


def fallen(
    falls: Iterable[Fall], series: Sequence[Series], starts: Integers, ends: Integers
) -> Booleans:
    """(bins, series): where a series had fallen, by what is over and not usual."""
    at = {each: index for index, each in enumerate(series)}
    found = np.zeros((len(starts), len(at)), np.bool_)
    for fall in falls:
        if fall.is_unusual and fall.series in at:
            inside = (ends > fall.since_ms) & (starts < (fall.ended_ms or 0.0))
            found[inside, at[fall.series]] = True
    return found


def without_falls(look: Look, falls: Iterable[Fall]) -> ScoreTimeline:
    """The timeline without the bins in which a series had fallen by what is over and not usual."""
    timeline = look.timeline
    left_out = fallen(falls, look.series, timeline.starts, timeline.ends)
    return timeline.only(~left_out) if left_out.any() else timeline


def advanced(falls: Sequence[Fall], look: Look, calls: Iterable[FallCall]) -> tuple[Fall, ...]:
    """The falls after one more look: those that calls open, over where they have recovered, or
    nothing of them is scored any more."""
    by_series: dict[Series, list[Fall]] = {}
    for fall in falls:
        if fall.ended_ms is None or look.end_ms - fall.ended_ms < KEPT_MS:
            by_series.setdefault(fall.series, []).append(fall)
    for call in calls:
        of_series = by_series.setdefault(call.series, [])
        of_series[-1:] = _called(of_series[-1] if of_series else None, call, look)
    for changed in (_risen, _seen):
        for series, fall in changed(_open_of(by_series), look):
            by_series[series][-1] = fall
    return tuple(fall for of_series in by_series.values() for fall in of_series)


def _open_of(by_series: Mapping[Series, Sequence[Fall]]) -> dict[Series, Fall]:
    last = ((series, of_series[-1]) for series, of_series in by_series.items())
    return {series: fall for series, fall in last if fall.ended_ms is None}


def superseded(falls: Iterable[Fall], graded: Graded) -> tuple[Fall, ...]:
    """The falls now that these judgements are in force: one that is open by earlier judgements is
    over, since what follows is another measure."""
    return tuple(
        (
            replace(fall, superseded=graded)
            if fall.ended_ms is None
            and fall.graded is not None
            and fall.graded.since_ms < graded.since_ms
            else fall
        )
        for fall in falls
    )


def _called(last: Fall | None, call: FallCall, look: Look) -> list[Fall]:
    """The last fall of a series, and the one that the call opens, if it opens one."""
    onset, end_ms = call.onset, look.end_ms
    opened = Fall(
        call.series,
        round(onset.likely),
        onset,
        (call.lane,),
        end_ms,
        low_since_ms=onset.likely,
        graded=look.graded,
    )
    if last is None:
        return [opened]
    lanes = tuple(dict.fromkeys((*last.lanes, call.lane)))
    if last.ended_ms is None:
        return [_refined(replace(last, lanes=lanes), onset)]
    if onset.latest <= last.ended_ms:
        return [last]
    if end_ms - last.ended_ms < REOPENS_MS:
        is_later = onset.likely - last.low_since_ms >= NEXT_DAY_MS
        opened = replace(last, low_since_ms=onset.likely, better_ms=None, lanes=lanes)
        return [replace(opened, recovered_ms=None, unscored_ms=None, again=last.again + is_later)]
    return [last, opened]


def _refined(fall: Fall, onset: FallOnset) -> Fall:
    """The fall with a better onset: panes tell a narrower interval, which meets the known one."""
    known = fall.onset
    meet = onset.earliest is not None and onset.earliest <= known.latest
    meet &= known.earliest is None or known.earliest <= onset.latest
    if not (onset.by_panes and meet and onset.width < known.width):
        return fall
    fell_once = fall.low_since_ms == known.likely
    low_since_ms = onset.likely if fell_once else fall.low_since_ms
    return replace(fall, onset=onset, low_since_ms=low_since_ms)


def _risen(open_now: Mapping[Series, Fall], look: Look) -> Iterator[tuple[Series, Fall]]:
    """The falls that have recovered, or got better."""
    at = {series: index for index, series in enumerate(look.series)}
    falls = [fall for series, fall in open_now.items() if series in at]
    if not falls:
        return
    indices = np.array([at[fall.series] for fall in falls], np.int64)
    fell = Falls(
        np.array([fall.onset.likely for fall in falls]),
        np.array([fall.low_since_ms for fall in falls]),
        np.array([max(fall.onset.latest, fall.low_since_ms) for fall in falls]),
    )
    risen = recovered(
        look.timeline.of(indices), look.directions[indices], fell, look.noise.of(indices)
    )
    for fall, whole, partly in zip(falls, risen.whole.tolist(), risen.partly.tolist(), strict=True):
        if not np.isnan(whole):
            yield fall.series, replace(fall, recovered_ms=whole)
        elif partly > fall.low_since_ms + AT_ONCE_MS:
            yield fall.series, replace(fall, low_since_ms=partly, better_ms=partly)


def _seen(open_now: Mapping[Series, Fall], look: Look) -> Iterator[tuple[Series, Fall]]:
    """The falls with until when they were scored; over where they would have been since then."""
    at = {series: index for index, series in enumerate(look.series)}
    nothing = np.zeros(len(look.timeline.starts))
    for series, fall in open_now.items():
        own, whole = (
            look.timeline.scored[:, at[each]] if each in at else nothing
            for each in (series, (*WHOLE, series[2]))
        )
        known_ms = fall.scored_ms or fall.called_ms
        last_ms = int(look.timeline.ends[own > 0].max(initial=known_ms))
        if look.end_ms - last_ms >= MISSED_MS and _is_missed(own, whole, last_ms, look):
            yield series, replace(fall, unscored_ms=last_ms)
        elif last_ms - known_ms >= AT_ONCE_MS:
            yield series, replace(fall, scored_ms=last_ms)


def _is_missed(own: Floats, whole: Floats, last_ms: int, look: Look) -> bool:
    """Whether of what was scored of the whole since an instant some would have been of a segment:
    (bins,) each."""
    starts, ends = look.timeline.starts, look.timeline.ends
    day = (ends > last_ms - DAY_MS) & (ends <= last_ms)
    of_day, since = float(own[day].sum()), float(whole[starts >= last_ms].sum())
    if not of_day:
        return since >= MISSED and look.end_ms - last_ms >= DAY_MS
    return since * of_day >= MISSED * float(whole[day].sum())
