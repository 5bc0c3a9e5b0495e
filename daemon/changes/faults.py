"""The falls of one fault stay together from its onset to its end. Pure.

A fault lowers many scores: those of the segments that carry it, and of all that share traffic with
them. Each of these falls proves its own recovery, the shallow ones a day late. So the deepest
decides: when it has recovered, the fault is over for every score that is not low since. Only what
is still low is left of the fault, as of then, and the deepest of that decides next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from relevanced.metrics import Floats

from .accepted import accepted, without_accepted, without_ended_rises
from .advanced import advanced
from .ledger import (
    AT_ONCE_MS,
    LOW_Z,
    REOPENS_MS,
    Fall,
    FallCall,
    FallOnset,
    FaultName,
    Look,
    Series,
)
from .levels import Loss, level, loss, within
from .recovery import before_from
from .scan import LEAST_LOSS
from .timeline import HOUR_MS, ScoreTimeline

LATELY_MS: Final = 48 * HOUR_MS
"""What ended longer ago decides about nothing that is open, whatever their intervals say."""
DEPTH_MS: Final = 24 * HOUR_MS
"""How deep a score fell is measured over so long at most."""


@dataclass(frozen=True)
class FallGroup:
    """The falls of one fault."""

    open: tuple[Fall, ...]
    """Those to tell. For the first ten minutes behind the recovery of the deepest none: what is
    left is not known yet."""
    over: tuple[Fall, ...] = ()
    """Those that are over, of segments that no open one is of; none while the deepest is open."""
    back: frozenset[Series] = frozenset()
    """What has recovered of the fault: it names nothing that is open."""

    @property
    def name(self) -> FaultName | None:
        """The name that it was given first of those that it still has."""
        names = (fall.name for fall in (*self.open, *self.over) if fall.name is not None)
        return min(names, key=lambda name: name.since_ms, default=None)


@dataclass(frozen=True)
class Followed:
    """What a look leaves."""

    falls: tuple[Fall, ...]
    faults: tuple[FallGroup, ...]


@dataclass(frozen=True, eq=False)
class Levels:
    """What scores lost over some stretch."""

    look: Look
    """Without the bins of falls that are over: what is before a fall is read here."""
    whole: ScoreTimeline
    """With all bins."""

    @cached_property
    def index(self) -> Mapping[Series, int]:
        """Where each series is in the look."""
        return {series: at for at, series in enumerate(self.look.series)}

    def z(
        self,
        of: Sequence[Fall | FallCall],
        from_ms: Sequence[float],
        until_ms: Sequence[float],
    ) -> Floats:
        """(falls,): what each lost over its stretch against what was before its onset, in errors; 0
        where either is unknown. The series must be in the look."""
        if not of:
            return np.zeros(0)
        return np.nan_to_num(self._lost(of, from_ms, until_ms).z)

    def are_low(self, of: Sequence[Fall | FallCall], from_ms: Sequence[float]) -> Sequence[bool]:
        """Whether each is low from an instant on, by the thresholds of a call."""
        if not of:
            return ()
        lost = self._lost(of, from_ms, [float(self.look.end_ms)] * len(of))
        with np.errstate(invalid="ignore"):
            is_low = (lost.z < LOW_Z) & (lost.amount > LEAST_LOSS * np.abs(lost.expected))
        return [bool(each) for each in is_low]

    def _lost(
        self,
        of: Sequence[Fall | FallCall],
        from_ms: Sequence[float],
        until_ms: Sequence[float],
    ) -> Loss:
        which = np.array([self.index[each.series] for each in of], np.int64)
        onset_ms = np.array([each.onset.likely for each in of])
        look, begin_ms = self.look, before_from(onset_ms, self.look.end_ms)
        clean, whole = look.timeline.of(which), self.whole.of(which)
        stretch = within(whole, np.array(from_ms), np.array(until_ms))
        return loss(
            level(clean, within(clean, begin_ms, onset_ms)),
            level(whole, stretch),
            look.directions[which],
            look.noise.of(which),
        )


def followed(
    falls: Sequence[Fall], look: Look, whole: ScoreTimeline, calls: Iterable[FallCall]
) -> Followed:
    """The falls after one more look, and the faults that they make. `look` lacks the bins of falls
    that are over, `whole` has all."""
    levels, calls = Levels(look, whole), [*calls]
    still, usual = accepted(falls, look, whole, calls)
    calls, rises = without_ended_rises((*still, *usual), look, without_accepted(usual, calls))
    news = _without_past(still, levels, calls)
    return kept_together((*advanced(still, look, news), *usual, *rises), levels)


def kept_together(falls: Sequence[Fall], levels: Levels) -> Followed:
    """The falls, over where the fault that they are of is over for them. What is accepted stays as
    it is, and so do rises: they are of no fault."""
    usual = tuple(fall for fall in falls if not fall.is_followed)
    falls = [fall for fall in falls if fall.is_followed]
    since_ms = levels.look.end_ms - LATELY_MS
    apart = [
        f for f in falls if f.series not in levels.index or (f.ended_ms or since_ms) < since_ms
    ]
    kept, faults = list(apart), [_parted(together) for together in _together(apart)]
    known = [fall for fall in falls if fall not in apart]
    for together in _adopted(_together(known), levels):
        settled, fault = _settled(together, levels)
        kept += settled
        faults.append(fault)
    of_fall = {(fall.series, fall.first_ms): fall for fall in kept}
    in_order = (of_fall[fall.series, fall.first_ms] for fall in falls)
    return Followed((*in_order, *usual), tuple(faults))


def _parted(falls: Iterable[Fall]) -> FallGroup:
    """A fault of which nothing is known but its falls."""
    together = tuple(falls)
    still = tuple(fall for fall in together if fall.ended_ms is None)
    return FallGroup(still, tuple(fall for fall in together if fall.ended_ms is not None))


def _without_past(
    falls: Sequence[Fall], levels: Levels, calls: Iterable[FallCall]
) -> list[FallCall]:
    """The calls without those of what is over: a window that contains its hours calls what is not
    low any more. A score that has just recovered has to be low against what was before its fall."""
    end_ms, news = levels.look.end_ms, []
    doubtful: list[tuple[FallCall, Fall | FallCall, float]] = []
    last = {fall.series: fall for fall in falls}
    over = [(f.since_ms - AT_ONCE_MS, f.ended_ms) for f in falls if f.ended_ms is not None]
    for call in calls:
        at_ms, own = call.onset.likely, last.get(call.series)
        ends = [end for begin, end in over if begin <= at_ms <= end]
        own_ended_ms = -np.inf if own is None else own.ended_ms
        if own_ended_ms is None or call.series not in levels.index:
            news.append(call)
        elif own is not None and own.anew_ms is not None and at_ms > own_ended_ms:
            news.append(call)  # what lay before the last one is hidden
        elif own is not None and end_ms - own_ended_ms < REOPENS_MS:
            from_ms = at_ms if at_ms > own_ended_ms else own_ended_ms + AT_ONCE_MS
            doubtful.append((call, own, from_ms))
        elif ends:
            doubtful.append((call, call, max(ends) + AT_ONCE_MS))
        else:
            news.append(call)
    against, starts_ms = [each for _, each, _ in doubtful], [since for *_, since in doubtful]
    are_low = levels.are_low(against, starts_ms)
    return news + [call for (call, *_), is_low in zip(doubtful, are_low, strict=True) if is_low]


def _together(falls: Sequence[Fall]) -> list[list[Fall]]:
    """The falls whose intervals meet, together: that of the narrowest interval is that of the
    fault, so that a wide one does not join faults that are hours apart."""
    found: list[tuple[float, float, list[Fall]]] = []
    for fall in sorted(falls, key=lambda each: (each.onset.width, each.onset.likely)):
        onset = fall.onset
        earliest = -np.inf if onset.earliest is None else onset.earliest
        for first, last, members in found:
            if earliest <= last + AT_ONCE_MS and first <= onset.latest + AT_ONCE_MS:
                members.append(fall)
                break
        else:
            first = max(fall.since_ms, onset.likely - AT_ONCE_MS)
            last = min(onset.latest, onset.likely + AT_ONCE_MS)
            found.append((first, last, [fall]))
    return [members for *_, members in found]


def _adopted(groups: list[list[Fall]], levels: Levels) -> list[list[Fall]]:
    """The groups, where a larger one also has what is only dated elsewhere, and each what fell
    again during it."""
    largest_first = sorted(groups, key=len, reverse=True)
    for at, fault in enumerate(largest_first):
        for other in largest_first[at + 1 :]:
            if 0 < len(other) < len(fault):
                _move(other, fault, _also_of(fault, other, levels))
    for fault in largest_first:
        for other in largest_first:
            if fault and other is not fault:
                _move(other, fault, _fell_again_in(fault, other))
    return [group for group in groups if group]


def _move(source: list[Fall], target: list[Fall], falls: Sequence[Fall]) -> None:
    target += falls
    source[:] = [fall for fall in source if fall not in falls]


def _life_ms(fault: Sequence[Fall]) -> tuple[float, float]:
    """(onset, end): the end is infinite while one of its falls is open."""
    narrowest: FallOnset = min((fall.onset for fall in fault), key=lambda onset: onset.width)
    ends = (np.inf if fall.ended_ms is None else fall.ended_ms for fall in fault)
    return narrowest.likely, max(ends)


def _also_of(fault: Sequence[Fall], others: Sequence[Fall], levels: Levels) -> list[Fall]:
    """Which of the others are of a larger fault: all where they began inside it and it is over, and
    else those called since it began that are dated before it and were not low then."""
    began_ms, ended_ms = _life_ms(fault)
    if ended_ms < np.inf and began_ms <= _life_ms(others)[0] <= ended_ms:
        return list(others)
    earlier = [
        fall
        for fall in others
        if fall.onset.likely < began_ms <= fall.called_ms <= ended_ms + REOPENS_MS
    ]
    onsets_ms = [fall.onset.likely for fall in earlier]
    z = levels.z(earlier, onsets_ms, [began_ms - AT_ONCE_MS] * len(earlier))
    return [fall for fall, each in zip(earlier, z, strict=True) if each >= LOW_Z]


def _fell_again_in(fault: Sequence[Fall], others: Sequence[Fall]) -> list[Fall]:
    """Which of the others had recovered from a former fault, and are low since an instant inside
    this one, which is over: this one lowered them again, so that its end decides about them."""
    began_ms, ended_ms = _life_ms(fault)
    if ended_ms == np.inf:
        return []
    return [
        fall
        for fall in others
        if fall.ended_ms is None and fall.onset.latest < began_ms <= fall.low_since_ms <= ended_ms
    ]


def _settled(together: Sequence[Fall], levels: Levels) -> tuple[list[Fall], FallGroup]:
    """The falls of a fault, with what ended with its deepest."""
    falls, end_ms, ended_ms = list(together), float(levels.look.end_ms), -np.inf
    while True:
        rest = [f for f in falls if f.ended_ms is None or f.ended_ms > ended_ms]
        still = tuple(fall for fall in rest if fall.ended_ms is None)
        over = tuple(fall for fall in falls if fall.ended_ms is not None)
        if not still:
            return falls, FallGroup((), over)
        back = frozenset(f.series for f in over) - {f.series for f in still}
        carrier_ms = _carrier_ended(rest, FallGroup(still, over).name, levels, ended_ms)
        if carrier_ms is None:
            named = {fall.series[:2] for fall in still}
            others = (fall for fall in over if fall.series[:2] not in named)
            return falls, FallGroup(still, tuple(others) if ended_ms > -np.inf else (), back)
        ended_ms = carrier_ms
        if ended_ms + AT_ONCE_MS >= end_ms:
            return falls, FallGroup((), over)
        falls = _ended_with(falls, ended_ms, levels)


def _carrier_ended(
    falls: Sequence[Fall], name: FaultName | None, levels: Levels, since_ms: float
) -> float | None:
    """When the score that the fault is named by recovered, or the deepest; None where neither
    has."""
    named = () if name is None else [(name.grouping, each, name.metric) for each in name.segments]
    ends = [fall.ended_ms for fall in falls if fall.series in named]
    known = [each for each in ends if each is not None]
    if ends and len(known) == len(ends):
        return max(known)
    return _deepest(falls, levels, since_ms).ended_ms


def _deepest(falls: Sequence[Fall], levels: Levels, since_ms: float) -> Fall:
    """The one that lost most in errors while it was low, from `since_ms` on."""
    end_ms = float(levels.look.end_ms)
    first_ms = [
        f.onset.likely if since_ms == -np.inf else max(f.low_since_ms, since_ms) for f in falls
    ]
    last_ms = [
        min(end_ms if fall.ended_ms is None else fall.ended_ms, first + DEPTH_MS)
        for fall, first in zip(falls, first_ms, strict=True)
    ]
    return falls[int(np.argmin(levels.z(falls, first_ms, last_ms)))]


def _ended_with(falls: Sequence[Fall], ended_ms: float, levels: Levels) -> list[Fall]:
    """The falls, over where they are not low behind the end of the deepest, and else low since."""
    still = [fall for fall in falls if fall.ended_ms is None]
    since_ms = [max(ended_ms, fall.onset.latest) for fall in still]
    from_ms = [each + AT_ONCE_MS for each in since_ms]
    changed = {
        fall.series: (
            replace(fall, low_since_ms=max(since, fall.low_since_ms))
            if is_low
            else replace(fall, recovered_ms=since)
        )
        for fall, since, is_low in zip(still, since_ms, levels.are_low(still, from_ms), strict=True)
    }
    return [changed[f.series] if f.ended_ms is None else f for f in falls]
