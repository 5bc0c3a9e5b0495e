"""Which falls are open: a fall that was called stays open until the score has recovered. Pure.

What was called is compared with what lay before it for as long as it is open, so that it neither
becomes its own baseline nor seems to recover while a window fills. The hours of a fall that is
over are left out of all later comparisons.

What lasts is accepted: then what lay before it is left out. So is a rise: a week after it, weeks
that had it beside weeks that had not would say that the score should rise again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from .levels import Loss, Onsets, level, loss, onsets, within
from .recovery import Falls, recovered
from .scan import LEAST_LOSS, threshold
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
KEPT_MS: Final = 35 * 24 * HOUR_MS
"""So long are falls that are over remembered, as `GAPS_KEPT_MS`: none of their hours tells what is
usual, for which three weeks are looked at from each of the last two."""
NEXT_DAY_MS: Final = 12 * HOUR_MS
"""What falls again so long after it last fell does so on another day."""
EVERY_DAY: Final = 3
"""What has fallen again on so many other days, each time within a day of its recovery, is how the
score moves: a night, and no fault."""
STANDING_MS: Final = 7 * 24 * HOUR_MS
"""What has been low for longer is the state of things, and no news."""
ACCEPTED_MS: Final = 13 * 24 * HOUR_MS
"""What has been low for so long is what is usual now. Timelines reach two weeks back: until then
they have a day before it."""
LASTING_MS: Final = 3 * 24 * HOUR_MS
"""So long a rise must have lasted, against as long before."""
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
    anew_ms: int | None = None
    """Since when the series is measured anew: by another rule of its segments, or metric."""
    accepted_ms: int | None = None
    """Since when it is what is usual, and not followed any more."""
    rose: bool = False
    """Whether it is a rise. That is never told: it is accepted once it has lasted."""

    @property
    def since_ms(self) -> float:
        """From when on it may have been low."""
        return self.onset.likely if self.onset.earliest is None else self.onset.earliest

    @property
    def ended_ms(self) -> float | None:
        """When it recovered, or nothing was comparable any more; None while it is open, or where it
        was accepted."""
        superseded_ms = None if self.superseded is None else self.superseded.since_ms
        ends = (self.recovered_ms, superseded_ms, self.incomparable_ms)
        return next((float(end) for end in ends if end is not None), None)

    @property
    def incomparable_ms(self) -> int | None:
        """Since when nothing of it is scored that can be compared."""
        return self.anew_ms if self.unscored_ms is None else self.unscored_ms

    @property
    def is_unusual(self) -> bool:
        """Whether hours say nothing of what is usual by it: it was accepted, or is over and not
        what happens every day."""
        is_over = self.ended_ms is not None and self.again < EVERY_DAY
        return is_over or self.accepted_ms is not None

    def leaves_out(self, starts: Integers, ends: Integers) -> Booleans:
        """(bins,): which of them say nothing of what is usual: its own, or those before it where it
        was accepted."""
        if self.accepted_ms is not None:
            return self.begins_after(starts)
        if self.is_unusual:
            return (ends > self.since_ms) & (starts < (self.ended_ms or 0.0))
        return np.zeros(len(starts), np.bool_)

    def begins_after(self, starts: Integers) -> Booleans:
        """(bins,): which of them start before the level of now begins."""
        return starts < max(self.onset.latest, self.low_since_ms)

    def is_standing(self, end_ms: int) -> bool:
        """Whether it has been open for so long that it is no news."""
        return (
            self.ended_ms is None
            and self.accepted_ms is None
            and end_ms - self.onset.likely > STANDING_MS
        )

    def is_before(self, call: "FallCall") -> bool:
        """Whether a call of the same series is of another fall, long after the begin of this one
        and by what was just before."""
        earliest = call.onset.earliest if call.lane == "hour" else None
        return earliest is not None and earliest - self.onset.likely > STANDING_MS


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


def accepted(
    falls: Sequence[Fall], look: Look, calls: Iterable[FallCall]
) -> tuple[list[Fall], list[Fall]]:
    """(the falls that are followed, what is accepted), which is remembered for as long as weeks
    before it are looked at."""
    end_ms = look.end_ms
    by_hour = {call.series: call for call in calls if call.lane == "hour"}
    again_ms = {
        fall.onset.likely
        for fall in falls
        if fall.is_standing(end_ms)
        and fall.series in by_hour
        and fall.is_before(by_hour[fall.series])
    }
    still: list[Fall] = []
    usual: list[Fall] = []
    for fall in falls:
        at_ms = fall.onset.likely
        if fall.accepted_ms is not None:
            usual += [fall] if end_ms - at_ms < KEPT_MS else []
        elif fall.is_standing(end_ms) and (
            end_ms - at_ms >= ACCEPTED_MS
            # With what fell with it: it is one fault.
            or any(abs(at_ms - each) <= HOUR_MS for each in again_ms)
        ):
            usual.append(replace(fall, accepted_ms=end_ms))
        else:
            still.append(fall)
    low = {fall.series for fall in still if fall.ended_ms is None}
    return still, [*usual, *_raised(look, low)]


def without_accepted(usual: Iterable[Fall], calls: Iterable[FallCall]) -> Iterator[FallCall]:
    """The calls without those by what was before an accepted fall: its hours were compared until
    then. What was before a rise calls nothing."""
    last = {fall.series: fall for fall in usual if not fall.rose}
    for call in calls:
        fall = last.get(call.series)
        if fall is None or fall.is_before(call) or call.onset.likely > (fall.accepted_ms or 0):
            yield call


def _raised(look: Look, low: set[Series]) -> Iterator[Fall]:
    """The series that have got better for good, by what earlier weeks have at these hours, other
    than those that are low."""
    end_ms = float(look.end_ms)
    if look.timeline.usual is None or look.timeline.starts[0] > end_ms - 2 * LASTING_MS:
        return
    since_ms = end_ms - LASTING_MS
    lasting, first_day, last_day = (
        _gain(look, since_ms, *span)
        for span in ((since_ms, end_ms), (since_ms, since_ms + DAY_MS), (end_ms - DAY_MS, end_ms))
    )
    limit = threshold(int(np.count_nonzero(look.directions)))
    with np.errstate(invalid="ignore"):
        is_raised = (lasting.z < limit) & (lasting.by_weeks > 0)
        for gain in (lasting, first_day, last_day):
            is_raised &= gain.amount > LEAST_LOSS * np.abs(gain.expected)
    which = [at for at in np.flatnonzero(is_raised).tolist() if look.series[at] not in low]
    rows = np.array(which, np.int64)
    from_ms = np.full(len(rows), look.end_ms - 2 * LASTING_MS)
    began = onsets(look.timeline.of(rows), -look.directions[rows], from_ms, look.noise.of(rows))
    for at, likely, latest in zip(which, began.likely, began.latest, strict=True):
        if np.isfinite(likely) and np.isfinite(latest):
            onset = FallOnset(float(likely), None, float(latest), by_panes=False)
            rose = Fall(look.series[at], round(likely), onset, (), look.end_ms, float(likely))
            yield replace(rose, graded=look.graded, accepted_ms=look.end_ms, rose=True)


def _gain(look: Look, since_ms: float, from_ms: float, until_ms: float) -> Loss:
    """What each series has gained over a stretch, against `LASTING_MS` before an instant."""
    timeline = look.timeline
    before, now = (
        level(timeline, within(timeline, np.array([begin]), np.array([end])))
        for begin, end in ((since_ms - LASTING_MS, since_ms), (from_ms, until_ms))
    )
    return loss(before, now, -look.directions, look.noise)


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
            and fall.accepted_ms is None
            and fall.graded is not None
            and fall.graded.since_ms < graded.since_ms
            else fall
        )
        for fall in falls
    )


def measured_anew(
    falls: Iterable[Fall], begins: Callable[[Series], int | None]
) -> tuple[Fall, ...]:
    """The falls now that series begin at these instants, in ms: one that is open from before is
    over, since what follows is another measure, or another segment of that name."""

    def is_over(fall: Fall) -> bool:
        begins_ms = begins(fall.series)
        is_open = fall.ended_ms is None and fall.accepted_ms is None
        return is_open and begins_ms is not None and fall.low_since_ms < begins_ms

    return tuple(
        replace(fall, anew_ms=begins(fall.series)) if is_over(fall) else fall for fall in falls
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
    if end_ms - last.ended_ms < REOPENS_MS and last.anew_ms is None:
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
