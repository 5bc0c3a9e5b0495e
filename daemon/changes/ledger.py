"""Falls as they are remembered, and what a look is and calls. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from .levels import Onsets
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
EVERY_DAY: Final = 3
"""What has fallen again on so many other days, each time within a day of its recovery, is how the
score moves: a night, and no fault."""
STANDING_MS: Final = 7 * 24 * HOUR_MS
"""What has been low for longer is the state of things, and no news."""
ACCEPTED_MS: Final = 13 * 24 * HOUR_MS
"""What has been low for so long is what is usual now. Timelines reach two weeks back: until then
they have a day before it."""
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
    """Whether it is a rise. That is never told: it is accepted once it has lasted, and known as one
    that is over where it ended before."""
    before: float | None = None
    """The score before it, of what was accepted; None where that is not known. No hour tells it
    any more."""

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
        """Since when nothing of it is scored that can be compared; None where it had recovered."""
        if self.recovered_ms is not None:
            return None
        return self.anew_ms if self.unscored_ms is None else self.unscored_ms

    @property
    def is_followed(self) -> bool:
        """Whether looks say what became of it."""
        return self.accepted_ms is None and not self.rose

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
    over, since what follows is another measure, or another segment of that name. No fall of that
    is compared with what one from before had lost, or fell from."""

    def now(fall: Fall) -> Fall:
        begins_ms = begins(fall.series)
        if begins_ms is None or fall.low_since_ms >= begins_ms:
            return fall
        is_over = fall.is_followed and fall.anew_ms is None
        return replace(fall, anew_ms=begins_ms if is_over else fall.anew_ms, before=None)

    return tuple(now(fall) for fall in falls)
