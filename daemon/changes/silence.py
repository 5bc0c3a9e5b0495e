"""Whether searches or feedback have stopped, of all partitions or some, by what is usual; and when
feedback was missing. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from .timeline import HOUR_MS, MINUTE_MS, from_the_top

Stream: TypeAlias = Literal["searches", "feedback"]
LEAST_SILENCE_MS: Final = 3 * MINUTE_MS
"""Nothing shorter is silence."""
USUAL_GAPS: Final = 20.0
"""Nor is what lasts less than so many times the usual time between two: in which fewer usually
come."""
QUICK_GAPS: Final = 50.0
SURE_MS: Final = 5 * MINUTE_MS
"""What lasts less than this is silence only after so many of them: where an hour has 1,000."""
USUAL_DELAYS: Final = 2.0
"""Nor what lasts less than so many times as long ago as the newest usually was."""


@dataclass(frozen=True)
class Silence:
    """Nothing comes."""

    stream: Stream
    since_ms: int
    usual_per_hour: float
    """In the busiest hour since then. 0: there has never been any."""
    partitions: tuple[int, ...] = ()
    """Those from which nothing comes; empty: none of all brings any."""
    rejected: int = 0
    """Records that were rejected since then, as far as is known."""


def silence(
    stream: Stream,
    since_ms: int,
    now_ms: int,
    expected: float,
    usual_per_hour: float,
    delay_ms: float = 0.0,
) -> Silence | None:
    """Whether nothing since then is news, where so many are usual from then to now. `delay_ms`: how
    long ago the newest usually was."""
    silent_ms = now_ms - since_ms
    if silent_ms < max(LEAST_SILENCE_MS, USUAL_DELAYS * delay_ms):
        return None
    is_sure = expected >= (USUAL_GAPS if silent_ms >= SURE_MS else QUICK_GAPS)
    return Silence(stream, since_ms, usual_per_hour) if is_sure else None


EDGE_MS: Final = 2 * MINUTE_MS
"""Of so long before and after a gap some feedback is missing, too: clicks come after their search,
and producers begin to send again one by one."""
GAPS_KEPT_MS: Final = 35 * 24 * HOUR_MS
"""So long are gaps remembered: no hour of theirs says what is usual."""


@dataclass(frozen=True)
class FeedbackGap:
    """A stretch of which searches came and no feedback: no score says anything of it."""

    begin_ms: int
    end_ms: int


def gaps_in(
    starts: Integers, ends: Integers, listed: Floats, feedback: Floats
) -> Iterator[FeedbackGap]:
    """The gaps in the bins of all traffic: (bins,) each. `listed`: searches with results.

    A run of bins without any feedback, from its first search on, is one where `USUAL_GAPS` pieces
    were to be expected by the other bins: by chance that happens once in e^20 runs.
    """
    is_empty = np.concatenate([[False], feedback == 0, [False]])
    first, last = np.flatnonzero(is_empty[1:] != is_empty[:-1]).reshape(-1, 2).T
    upto = from_the_top(listed)
    of_runs = upto[last] - upto[first]
    others = upto[-1] - of_runs
    is_gap = (others > 0) & (of_runs * feedback.sum() >= USUAL_GAPS * others)
    for begin, end in zip(first[is_gap].tolist(), last[is_gap].tolist(), strict=True):
        begin += int(np.argmax(listed[begin:end] > 0))
        yield FeedbackGap(int(starts[begin]), int([*starts, ends[-1]][end]))


def with_gaps(
    known: Sequence[FeedbackGap], found: Iterable[FeedbackGap], since_ms: int
) -> tuple[FeedbackGap, ...]:
    """The known gaps and those that were found, joined where they meet, oldest first, without those
    that were over by `since_ms`."""
    joined: list[FeedbackGap] = []
    for gap in sorted((*known, *found), key=lambda each: each.begin_ms):
        if gap.end_ms < since_ms:
            continue
        if joined and gap.begin_ms <= joined[-1].end_ms + 2 * EDGE_MS:
            end = max(joined[-1].end_ms, gap.end_ms)
            joined[-1] = FeedbackGap(joined[-1].begin_ms, end)
        else:
            joined.append(gap)
    return tuple(joined)


def are_in_gaps(starts: Integers, ends: Integers, gaps: Sequence[FeedbackGap]) -> Booleans:
    """(bins,): whether some of a bin is in a gap, or at its edges."""
    inside = np.zeros(len(starts), np.bool_)
    for gap in gaps:
        inside |= (ends > gap.begin_ms - EDGE_MS) & (starts < gap.end_ms + EDGE_MS)
    return inside
