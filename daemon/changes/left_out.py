"""Which bins are left out of a timeline: what says nothing of what is usual, or lies before what
is no news any more. Pure."""

from collections.abc import Iterable, Sequence

import numpy as np

from relevanced.metrics import Booleans, Integers

from .ledger import Fall, Look, Series
from .timeline import ScoreTimeline


def fallen(
    falls: Iterable[Fall], series: Sequence[Series], starts: Integers, ends: Integers
) -> Booleans:
    """(bins, series): where a series says nothing of what is usual: where it had fallen, by what is
    over, or what was before a fall that was accepted."""
    at = {each: index for index, each in enumerate(series)}
    found = np.zeros((len(starts), len(at)), np.bool_)
    for fall in falls:
        if fall.series in at:
            found[:, at[fall.series]] |= fall.leaves_out(starts, ends)
    return found


def without_falls(look: Look, falls: Iterable[Fall]) -> ScoreTimeline:
    """The timeline without the bins in which a series had fallen by what is over and not usual."""
    timeline = look.timeline
    left_out = fallen(falls, look.series, timeline.starts, timeline.ends)
    return timeline.only(~left_out) if left_out.any() else timeline


def without_standing(look: Look, falls: Iterable[Fall]) -> ScoreTimeline:
    """The timeline without the bins that lie before falls that have been open for more than a week:
    the clearest fall of such a series is the next one."""
    timeline, at = look.timeline, {series: index for index, series in enumerate(look.series)}
    left_out = np.zeros(timeline.scored.shape, np.bool_)
    for fall in falls:
        if fall.is_standing(look.end_ms) and fall.series in at:
            left_out[:, at[fall.series]] |= fall.begins_after(timeline.starts)
    return timeline.only(~left_out) if left_out.any() else timeline
