"""What is usual by what lasts, and what only ends a rise that did not. Pure.

A fall that lasts is accepted: then what lay before it is left out. So is a rise: a week after it,
weeks that had it beside weeks that had not would say that the score should rise again.

A rise that ends before it is accepted, such as a campaign or a day of news, is no evidence: the
score did not fall where it is what it was for weeks before, and no hour of the rise is usual.

What was accepted remembers the score before it, which no hour tells later: what falls back to that
has ended the rise, and a rise that comes nowhere near it was no repair.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Floats

from .evidence import STANDS_Z
from .ledger import (
    ACCEPTED_MS,
    DAY_MS,
    KEPT_MS,
    LOW_Z,
    Fall,
    FallCall,
    FallOnset,
    Look,
    Series,
)
from .levels import Loss, as_usual, level, loss, onsets, within
from .recovery import ERRORS, before_from
from .scan import LEAST_LOSS, threshold
from .timeline import HOUR_MS, ScoreTimeline

LASTING_MS: Final = 3 * DAY_MS
"""So long a rise must have lasted, against as long before."""
DAYS_BEFORE: Final = (4, 5, 6)
"""Before a rise that has not lasted so long."""


def accepted(
    falls: Sequence[Fall], look: Look, whole: ScoreTimeline, calls: Iterable[FallCall]
) -> tuple[list[Fall], list[Fall]]:
    """(the falls that are followed, what is accepted and the rises that are over), which are
    remembered for as long as weeks before them are looked at. `whole` has all bins."""
    end_ms = look.end_ms
    by_hour = {call.series: call for call in calls if call.lane == "hour"}
    again_ms = {
        fall.onset.likely
        for fall in falls
        if fall.is_standing(end_ms)
        and fall.series in by_hour
        and fall.is_before(by_hour[fall.series])
    }
    rises = {fall.series: fall for fall in falls if fall.rose and fall.accepted_ms is not None}
    still: list[Fall] = []
    usual: list[Fall] = []
    for fall in falls:
        at_ms = fall.onset.likely
        if not fall.is_followed:
            usual += [fall] if end_ms - at_ms < KEPT_MS else []
        elif fall.is_standing(end_ms) and (
            end_ms - at_ms >= ACCEPTED_MS
            # With what fell with it: it is one fault.
            or any(abs(at_ms - each) <= HOUR_MS for each in again_ms)
        ):
            usual.append(_as_usual(fall, look))
        elif fall.series in rises and _ended_rise(rises[fall.series], fall, look, whole):
            usual.append(_as_usual(fall, look))
        else:
            still.append(fall)
    low = {fall.series for fall in still if fall.ended_ms is None}
    usual = [fall for fall in usual if not _is_belied(fall, look)]
    return still, [*usual, *_raised(look, low)]


def without_accepted(usual: Iterable[Fall], calls: Iterable[FallCall]) -> Iterator[FallCall]:
    """The calls without those by what was before an accepted fall: its hours were compared until
    then. What was before a rise calls nothing."""
    last = {fall.series: fall for fall in usual if not fall.rose}
    for call in calls:
        fall = last.get(call.series)
        if fall is None or fall.is_before(call) or call.onset.likely > (fall.accepted_ms or 0):
            yield call


def without_ended_rises(
    falls: Iterable[Fall], look: Look, calls: Iterable[FallCall]
) -> tuple[list[FallCall], list[Fall]]:
    """(the calls without those of lane `hour` by a rise that is over, these rises).

    What is no lower than the weeks before had it, nor than the days before the rise, is low only
    against the rise. Not where a fall is open; and where one was accepted, which the weeks before
    have, only a rise that was no repair of it: one that was nearer to what they have than to what
    was before the fall.
    """
    calls = [*calls]
    if look.timeline.usual is None:
        return calls, []
    fell = [fall for fall in falls if not fall.rose and fall.ended_ms is None]
    low = {fall.series for fall in fell if fall.accepted_ms is None}
    by_hour = [call for call in calls if call.lane == "hour" and call.series not in low]
    is_over = _end_rises(by_hour, look, _fell_from(fell, look))
    ended = [call for call, over in zip(by_hour, is_over.tolist(), strict=True) if over]
    series = {call.series for call in ended}
    news = [call for call in calls if call.lane != "hour" or call.series not in series]
    return news, [*_over(ended, look)]


def _fell_from(accepted_falls: Iterable[Fall], look: Look) -> Mapping[Series, float]:
    """Of each series the least good score from which it fell for good, times its direction; NaN
    where one is not known."""
    found: dict[Series, float] = {}
    for fall in accepted_falls:
        if fall.series in look.series:
            direction = look.directions[look.series.index(fall.series)]
            before = np.nan if fall.before is None else direction * fall.before
            found[fall.series] = float(np.minimum(found.get(fall.series, np.inf), before))
    return found


def _end_rises(
    calls: Sequence[FallCall], look: Look, fell_from: Mapping[Series, float]
) -> Booleans:
    """(calls,): whether each is by a rise that is over."""
    rows = np.array([look.series.index(call.series) for call in calls], np.int64)
    timeline, directions, noise = look.timeline.of(rows), look.directions[rows], look.noise.of(rows)
    timeline = timeline.alone
    onset_ms = np.array([call.onset.likely for call in calls])
    end_ms = np.full(len(calls), float(look.end_ms))
    now = level(timeline, within(timeline, onset_ms, end_ms))
    rise = level(timeline, within(timeline, before_from(onset_ms, look.end_ms), onset_ms))
    days = [within(timeline, onset_ms - day * DAY_MS, end_ms - day * DAY_MS) for day in DAYS_BEFORE]
    before = level(timeline, np.sum(days, axis=0))
    gained = loss(as_usual(rise), rise, -directions, noise)
    by_weeks, by_days = (loss(each, now, directions, noise) for each in (as_usual(now), before))
    with np.errstate(invalid="ignore"):
        is_raised = gained.amount > LEAST_LOSS * np.abs(gained.expected)
        is_low = by_days.amount > LEAST_LOSS * np.abs(by_days.expected)
        is_low &= by_days.z < STANDS_Z
        is_usual = (by_weeks.z >= LOW_Z) & ~is_low & ~np.isnan(by_days.z)
    first_ms, last_ms = (onset_ms - day * DAY_MS for day in (DAYS_BEFORE[-1], DAYS_BEFORE[0]))
    whole_days = within(timeline, first_ms, last_ms)
    usual = directions * level(timeline, whole_days).mean
    high = np.array([fell_from.get(call.series, np.inf) for call in calls])
    return np.asarray(is_raised & is_usual & ~_may_repair(gained, usual, high), np.bool_)


def _may_repair(gained: Loss, usual: Floats, high: Floats) -> Booleans:
    """(calls,): whether each rise may be the repair of a fall from `high` to what is usual, both
    times the direction."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lost_ratio = (high - usual) / np.abs(usual)
        most = np.abs(gained.expected) * lost_ratio / 2 - ERRORS * gained.least_error
        return np.asarray(~np.isposinf(high) & ~(gained.amount < most), np.bool_)


def _over(ended: Sequence[FallCall], look: Look) -> Iterator[Fall]:
    """The rises that ended as lane `hour` calls it."""
    rows = np.array([look.series.index(call.series) for call in ended], np.int64)
    onset_ms = np.array([call.onset.likely for call in ended])
    timeline = look.timeline.of(rows)
    timeline = timeline.only(timeline.starts[:, None] < onset_ms)
    from_ms = np.asarray(onset_ms - LASTING_MS - DAY_MS, np.int64)
    began = onsets(timeline, -look.directions[rows], from_ms, look.noise.of(rows))
    # Where no bin tells its begin: what the call compared with.
    unknown_ms = before_from(onset_ms, look.end_ms)
    begins = (np.where(np.isnan(each), unknown_ms, each) for each in (began.likely, began.latest))
    for call, likely, latest, earliest in zip(ended, *begins, began.earliest, strict=True):
        since_ms = None if np.isnan(earliest) else float(earliest)
        onset = FallOnset(float(likely), since_ms, float(latest), by_panes=False)
        rose = Fall(call.series, round(likely), onset, (), look.end_ms, float(likely))
        yield replace(rose, recovered_ms=call.onset.latest, graded=look.graded, rose=True)


def _is_belied(rise: Fall, look: Look) -> bool:
    """Whether what follows a rise that is over is low by the weeks before, as minutes could not
    tell when it was called: it ended in a fall."""
    ended_ms = rise.recovered_ms
    if not rise.rose or ended_ms is None or rise.series not in look.series:
        return False
    if look.timeline.usual is None or look.end_ms - ended_ms > DAY_MS:
        return False
    row = np.array([look.series.index(rise.series)], np.int64)
    timeline = look.timeline.of(row).alone
    now = level(timeline, within(timeline, np.array([ended_ms]), np.array([float(look.end_ms)])))
    lost = loss(as_usual(now), now, look.directions[row], look.noise.of(row))
    is_low = (lost.z < LOW_Z) & (lost.amount > LEAST_LOSS * np.abs(lost.expected))
    return bool(is_low[0])


def _ended_rise(rise: Fall, fall: Fall, look: Look, whole: ScoreTimeline) -> bool:
    """Whether a fall ended a rise that had been accepted, and has lasted as long: the score is what
    it was before both."""
    lasted_ms = fall.onset.likely - rise.onset.likely
    low_ms = look.end_ms - fall.onset.likely
    is_long = 0 < lasted_ms <= low_ms and low_ms >= LASTING_MS
    if not is_long or fall.ended_ms is not None or fall.series not in look.series:
        return False
    at = look.series.index(fall.series)
    before = rise.before
    if before is None:
        before = _score_until(rise.onset.likely, whole, at)
    now = _score_until(float(look.end_ms), whole, at)
    if before is None or now is None:
        return False
    return bool(look.directions[at] * (before - now) <= LEAST_LOSS * abs(before))


def _as_usual(fall: Fall, look: Look) -> Fall:
    """The fall or rise, now that it is accepted."""
    before = None
    if fall.series in look.series:
        at = look.series.index(fall.series)
        before = _score_until(fall.onset.likely, look.timeline, at)
    return replace(fall, accepted_ms=look.end_ms, before=before)


def _score_until(end_ms: float, timeline: ScoreTimeline, series: int) -> float | None:
    """The mean of a series, by index, over as long as a rise must last, as far as it is kept."""
    own = timeline.of(np.array([series], np.int64)).alone
    stretch = within(own, np.array([end_ms - LASTING_MS]), np.array([end_ms]))
    mean = float(level(own, stretch).mean[0])
    return None if np.isnan(mean) else mean


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
            yield _as_usual(replace(rose, graded=look.graded, rose=True), look)


def _gain(look: Look, since_ms: float, from_ms: float, until_ms: float) -> Loss:
    """What each series has gained over a stretch, against `LASTING_MS` before an instant."""
    timeline = look.timeline
    before, now = (
        level(timeline, within(timeline, np.array([begin]), np.array([end])))
        for begin, end in ((since_ms - LASTING_MS, since_ms), (from_ms, until_ms))
    )
    return loss(before, now, -look.directions, look.noise)
