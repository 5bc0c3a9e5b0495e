"""Which falls are open: a fall that was called stays open until the score has recovered. Pure.

What was called is compared with what lay before it for as long as it is open, so that it neither
becomes its own baseline nor seems to recover while a window fills. The hours of a fall that is
over are left out of all later comparisons.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from relevanced.metrics import Floats

from .ledger import (
    AT_ONCE_MS,
    DAY_MS,
    KEPT_MS,
    REOPENS_MS,
    Fall,
    FallCall,
    FallOnset,
    Look,
    Series,
)
from .recovery import Falls, recovered
from .settings import WHOLE
from .timeline import HOUR_MS, MINUTE_MS

NEXT_DAY_MS: Final = 12 * HOUR_MS
"""What falls again so long after it last fell does so on another day."""
MISSED: Final = 30.0
"""A fall of which nothing is scored any more is over once so many impressions would have been, by
the share of the whole that it had: no chance leaves all of them out."""
MISSED_MS: Final = 30 * MINUTE_MS
"""It takes so long at least."""


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
