"""Which changes the falls make: of all scores that fell at the same time, which one tells it, which
segments carry it, what it looks like, and what is low only because it shares traffic. The name of
a fault holds still while the fault is open. Pure.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from relevanced.metrics import Floats

from . import patterns
from .evidence import (
    Counts,
    Noise as EvidenceNoise,
    Side,
    evidence,
    largest_mix_share,
    side_of,
)
from .faults import FallGroup, followed
from .ledger import LOW_Z, Fall, FallCall, FaultName, Look, Series
from .levels import JudgedBins, Loss, ScoreLevel, level, loss, within
from .patterns import Explanation, Pattern, pattern_of
from .recovery import before_from
from .settings import WHOLE, ChangeSettings, family, is_leading, pair
from .story import MeasuredChange, Moved, Story
from .timeline import HOUR_MS, MINUTE_MS, ScoreTimeline

LATELY_MS: Final = 24 * HOUR_MS
"""The level now is that since the onset, at most so long."""


@dataclass(frozen=True, eq=False)
class Scene:
    """All that stories are made from: the look, and the counts of each segment in its bins."""

    look: Look
    counts: Counts
    change_settings: ChangeSettings
    judged: Callable[[], JudgedBins | None] = lambda: None
    """The judged rows, asked for where there is a fault to tell; None where there are none."""

    @cached_property
    def judged_bins(self) -> JudgedBins | None:
        """The same, asked for once."""
        return self.judged()

    @cached_property
    def index(self) -> Mapping[Series, int]:
        """Where each series is in the look."""
        return {series: index for index, series in enumerate(self.look.series)}

    def stories(self, faults: Iterable[FallGroup]) -> tuple[Story, ...]:
        """What is open of the faults, the largest first."""
        found = [self._story(fault.open, fault.name, fault.back) for fault in faults if fault.open]
        return tuple(sorted(found, key=lambda story: story.z or 0.0))

    def ended(self, faults: Iterable[FallGroup], since_ms: float) -> tuple[Story, ...]:
        """What is over of the faults since then, the latest first: once each, by the fall that
        names it."""
        over = (
            ([fall for fall in fault.over if (fall.ended_ms or -np.inf) >= since_ms], fault.name)
            for fault in faults
        )
        found = [self._story(falls, name) for falls, name in over if falls]
        return tuple(sorted(found, key=lambda story: -(story.fall.ended_ms or 0.0)))

    def _story(
        self,
        together: Sequence[Fall],
        name: FaultName | None,
        back: frozenset[Series] = frozenset(),
    ) -> Story:
        known = [fall for fall in together if fall.series in self.index]
        if not known:
            unknown, fall = MeasuredChange(None, None, 0), together[0]
            own = Moved(fall.series, unknown, unknown, 0.0, (0, 0))
            return Story(fall, fall.series[1:2], own, False, None, fall.lanes, fall.called_ms)
        since = min(known, key=lambda fall: fall.onset.width).onset.likely
        return _Fault(self, known, since, back).story(name)


def named(falls: Sequence[Fall], stories: Iterable[Story]) -> tuple[Fall, ...]:
    """The falls with the names under which their faults were told."""
    names = {story.first: story.name for story in stories if story.first is not None}

    def of(fall: Fall) -> Fall:
        name = names.get((fall.series, fall.first_ms), fall.name)
        return fall if name == fall.name else replace(fall, name=name)

    return tuple(of(fall) for fall in falls)


def parted(stories: Iterable[Story]) -> tuple[tuple[Story, ...], tuple[Story, ...]]:
    """(those that are so, those of which nothing is known since the best case is not low)."""
    found = tuple(stories)
    return (
        tuple(story for story in found if not story.is_undecided),
        tuple(story for story in found if story.is_undecided),
    )


def undecided(
    scene: Scene, whole: ScoreTimeline, calls: Iterable[FallCall], known: Iterable[Story]
) -> tuple[Story, ...]:
    """What one reading calls and the best case does not know of, as stories of no change. `known`:
    what has been told already; `whole` as in `followed`."""
    said = {moved.series for story in known for moved in (story.own, *story.also, *story.shares)}
    said |= {series for story in known for series in story.fell}
    news = [call for call in calls if call.series not in said]
    if not news:
        return ()
    alone = replace(scene.look, timeline=scene.look.timeline.alone)
    stories = scene.stories(followed((), alone, whole.alone, news).faults)
    return tuple(story for story in stories if story.is_undecided)


class _Fault:
    """Falls of one time, all series compared across it."""

    def __init__(
        self,
        scene: Scene,
        falls: Sequence[Fall],
        since_ms: float,
        back: frozenset[Series],
        low_since_ms: float | None = None,
    ) -> None:
        self.scene, self.look, self.falls, self.back = scene, scene.look, falls, back
        ends = [fall.ended_ms for fall in falls if fall.ended_ms is not None]
        self.end_ms = float(min(ends)) if len(ends) == len(falls) else float(self.look.end_ms)
        self.since_ms = since_ms
        # Where the whole got better without recovering, a part of it was repaired: only what lies
        # behind that shows which segments carry the rest.
        turned_ms = (
            f.better_ms for f in falls if f.series[:2] == WHOLE and f.better_ms is not None
        )
        if low_since_ms is None:
            low_since_ms = max(since_ms, min(fall.low_since_ms for fall in falls), *turned_ms)
        now_from = max(low_since_ms, self.end_ms - LATELY_MS)
        self.spans = (
            (now_from, self.end_ms),
            (float(before_from(np.array(since_ms), int(self.end_ms))), since_ms),
        )
        self.now_share, self.before_share = (self._within(*span) for span in self.spans)
        self.before = level(self.look.timeline, self.before_share)
        self.now = level(self.look.timeline, self.now_share)
        self.loss = self._loss(self.before, self.now)
        self.best_case = self._best_case()

    def _loss(self, before: ScoreLevel, now: ScoreLevel) -> Loss:
        return loss(before, now, self.look.directions, self.look.noise)

    def _best_case(self) -> tuple[ScoreLevel, ScoreLevel, Loss] | None:
        """The levels and the loss by the other reading; None where there is one."""
        other = self.look.timeline.other
        if other is None:
            return None
        before, now = level(other, self.before_share), level(other, self.now_share)
        return before, now, self._loss(before, now)

    def _within(self, from_ms: float, until_ms: float) -> Floats:
        """(bins, 1)."""
        return within(self.look.timeline, np.array([from_ms]), np.array([until_ms]))

    def story(self, name: FaultName | None) -> Story:
        """`name`: that of the last look."""
        index, z = self.scene.index, self.loss.z
        best, explanation = self._best_name()
        now = held_name(name, best, self.falls, self.look.end_ms, self.back)
        grouping, segments, metric = now.grouping, now.segments, now.metric
        if not now.is_same(best):
            explanation = self._carried(now)
        of_metric = [fall for fall in self.falls if fall.series[2] == metric]
        series = (grouping, segments[0], metric)
        fall = next((each for each in self.falls if each.series == series), of_metric[0])
        at = index.get(series, index[fall.series])
        first = min(self.falls, key=lambda each: each.called_ms)
        shown = replace(fall, series=series, first_ms=first.first_ms)
        others = tuple(self._others(shown.series, segments))
        story = Story(
            fall=shown,
            segments=segments,
            own=self._since_better(fall)._moved(series, at),
            by_weeks=bool(self.loss.by_weeks[at]),
            z=_or_none(float(z[at])),
            lanes=tuple(dict.fromkeys(lane for each in self.falls for lane in each.lanes)),
            called_ms=first.called_ms,
            explanation=explanation,
            pattern=self._pattern(grouping, segments),
            also=tuple(moved for moved, is_own in others if is_own),
            shares=tuple(moved for moved, is_own in others if not is_own),
            fell=tuple(each.series for each in self.falls),
            name=now,
            first=(first.series, first.first_ms),
            best_case_z=None if self.best_case is None else float(self.best_case[2].z[at]),
        )
        return replace(story, name=replace(now, size=story.size, share=story.share))

    def _since_better(self, fall: Fall) -> "_Fault":
        """The same with the level of the fall since it got better: what it was before that would
        make it seem lower than it is."""
        if fall.better_ms is None:
            return self
        return _Fault(self.scene, self.falls, self.since_ms, self.back, fall.low_since_ms)

    def _best_name(self) -> tuple[FaultName, Explanation | None]:
        """By what is known now, and what explains it."""
        index, z = self.scene.index, self.loss.z
        metric = min(
            (fall.series[2] for fall in self.falls),
            key=lambda name: (family(name), _lowest(self.falls, name, index, z)),
        )
        of_metric = [fall for fall in self.falls if fall.series[2] == metric]
        groupings = self._groupings(metric)
        explanation = patterns.explained(groupings)
        if explanation is not None:
            grouping = explanation.grouping
            left = [s for s in explanation.segments if (grouping, s, metric) not in self.back]
            change = groupings[grouping]
            explanation = patterns.carried_by(grouping, change, left) if left else None
        grouping, segments = self._named(of_metric, explanation)
        first_ms = min(self.falls, key=lambda each: each.called_ms).first_ms
        name = FaultName(grouping, segments, metric, first=(first_ms, grouping, segments[0]))
        return name, explanation

    def _carried(self, name: FaultName) -> Explanation | None:
        """How much of the fall of the whole the named segments carry."""
        change = self._groupings(name.metric).get(name.grouping)
        return None if change is None else patterns.carried_by(name.grouping, change, name.segments)

    def _named(
        self, falls: Sequence[Fall], explanation: Explanation | None
    ) -> tuple[str, tuple[str, ...]]:
        """(grouping, segments) that are named."""
        z, index = self.loss.z, self.scene.index
        if explanation is not None:
            metric = falls[0].series[2]
            order = sorted(
                explanation.segments,
                key=lambda name: float(z[index[explanation.grouping, name, metric]]),
            )
            return explanation.grouping, tuple(order)
        if any(fall.series[:2] == WHOLE for fall in falls):
            return WHOLE[0], WHOLE[1:]
        lowest = min(falls, key=lambda fall: float(np.nan_to_num(z[index[fall.series]])))
        # A half of the traffic may be called first; where the whole is as clear, it is everywhere.
        whole = index.get((*WHOLE, lowest.series[2]))
        if whole is not None and z[whole] <= min(LOW_Z, z[index[lowest.series]]):
            return WHOLE[0], WHOLE[1:]
        grouping, segment, _ = lowest.series
        return grouping, (segment,)

    def _groupings(self, metric: str) -> dict[str, patterns.CarriedChange]:
        """The segments of each grouping across the fault, by one metric."""
        members: dict[str, list[tuple[str, int]]] = {}
        for (grouping, segment, name), index in self.scene.index.items():
            if name == metric and grouping != "all":
                members.setdefault(grouping, []).append((segment, index))
        return {
            grouping: self._change(
                tuple(name for name, _ in of_grouping),
                np.array([index for _, index in of_grouping], np.int64),
            )
            for grouping, of_grouping in members.items()
        }

    def _change(
        self, segments: tuple[str, ...], at: "np.typing.NDArray[np.int64]"
    ) -> patterns.CarriedChange:
        tiny = np.finfo(np.float64).tiny
        errors = np.nan_to_num(self.loss.error[at], nan=1.0)
        return patterns.CarriedChange(
            segments,
            np.nan_to_num(self.loss.expected[at]),
            np.nan_to_num(self.now.mean[at]),
            self.before.scored[at],
            self.now.scored[at],
            np.maximum(errors, tiny),
            bool(self.look.directions[at[0]] < 0),
        )

    def _others(self, shown: Series, named: tuple[str, ...]) -> Iterator[tuple[Moved, bool]]:
        """(what else is low, whether it belongs to what is named)."""
        for series, index in self.scene.index.items():
            is_low = self.loss.z[index] < LOW_Z
            if self.best_case is not None:
                is_low &= self.best_case[2].z[index] < LOW_Z
            own = series[0] == shown[0] and series[1] in named
            if is_low and series != shown:
                yield self._moved(series, index), own

    def _moved(self, series: Series, at: int) -> Moved:
        impressions = [
            self.scene.counts.summed(series[0], series[1:2], share)["impressions"]
            for share in (self.before_share, self.now_share)
        ]
        moved = Moved(
            series,
            _measured(self.before, at, self.look, self.loss.expected),
            _measured(self.now, at, self.look, self.now.mean),
            float(np.nan_to_num(self.loss.error[at])),
            (round(impressions[0]), round(impressions[1])),
            usual=_or_none(float(self.now.usual[at])),
        )
        if self.best_case is None:
            return moved
        _, now, lost = self.best_case
        share = partial(self.scene.counts.judged_share, series[0], series[1:2])
        return replace(
            moved,
            best_case=(_or_none(float(lost.expected[at])), _or_none(float(now.mean[at]))),
            judged_shares=(share(self.before_share), share(self.now_share)),
        )

    def _pattern(self, grouping: str, segments: tuple[str, ...]) -> Pattern | None:
        if self.look.graded is not None:
            return None  # judged rows say nothing of feedback, by which patterns are distinguished
        pair_of = pair([name for *_, name in self.scene.index])
        sides = [
            self._with_judged(
                side_of(
                    self.scene.counts.summed(grouping, segments, share),
                    self._score(share, grouping, segments, pair_of[0]),
                    self._score(share, grouping, segments, pair_of[1]),
                ),
                grouping,
                segments,
                span,
            )
            for share, span in zip((self.now_share, self.before_share), self.spans, strict=True)
        ]
        change_settings = self.scene.change_settings
        noise = EvidenceNoise(
            self.look.noise.design_effect,
            change_settings.drift_ratio,
            change_settings.share_drift_ratio,
        )
        mix = largest_mix_share(self._mixes()) if grouping == "all" else float("nan")
        return pattern_of(evidence(sides[0], sides[1], 1.0, noise, mix_share=mix))

    def _with_judged(
        self, side: Side, grouping: str, segments: tuple[str, ...], span: tuple[float, float]
    ) -> Side:
        judged = self.scene.judged_bins
        if judged is None:
            return side
        scores, best_case, impressions = judged.over(grouping, segments, *span)
        return replace(
            side, judged=scores, judged_best_case=best_case, judged_impressions=impressions
        )

    def _score(
        self, share: Floats, grouping: str, segments: tuple[str, ...], metric: str | None
    ) -> tuple[float, float]:
        """(mean, standard error for independent impressions) of some segments together."""
        nothing = (float("nan"), float("nan"))
        if metric is None:
            return nothing
        at = [self.scene.index[grouping, name, metric] for name in segments]
        timeline = self.look.timeline
        scored, total, squares = (
            float((share * each[:, at]).sum())
            for each in (timeline.scored, timeline.sums, timeline.squares)
        )
        if scored < 2:
            return nothing
        mean = total / scored
        spread = max(squares / scored - mean**2, 0.0)
        return mean, float(np.sqrt(spread / scored))

    def _mixes(self) -> Iterator[tuple[float, float, float]]:
        """(z of the whole, mix, within), for each metric RR or Success and each grouping."""
        for (grouping, segment, metric), index in self.scene.index.items():
            if (grouping, segment) == WHOLE and is_leading(metric):
                for change in self._groupings(metric).values():
                    mix, own = float(change.mix.sum()), float(change.within.sum())
                    yield float(self.loss.z[index]), mix, own


def _lowest(falls: Sequence[Fall], metric: str, index: Mapping[Series, int], z: Floats) -> float:
    known = np.nan_to_num(z)
    return min(float(known[index[fall.series]]) for fall in falls if fall.series[2] == metric)


def _measured(of: ScoreLevel, at: int, look: Look, means: Floats) -> MeasuredChange:
    stderr = of.stderr(look.noise)
    return MeasuredChange(
        _or_none(float(means[at])), _or_none(float(stderr[at])), round(float(of.scored[at]))
    )


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


LED_MS: Final = 10 * MINUTE_MS
"""The first name was given by a first look: another one has to be better for so long."""
STAYS_MS: Final = HOUR_MS
"""So long where the fault has got another name already."""


def held_name(
    name: FaultName | None,
    best: FaultName,
    falls: Iterable[Fall],
    end_ms: int,
    back: Collection[Series] = (),
) -> FaultName:
    """The name that a fault is told under now: that of the last look, unless nothing of the falls
    has it any more, a part of it is back, or `best` has been better for long enough. `best` has the
    identity of a fault that has no name yet."""
    if name is None:
        return replace(best, since_ms=end_ms)
    again = replace(best, since_ms=end_ms, first=name.first, renamed=True)
    if not _is_of(name, falls, back):
        return again
    if name.is_same(best):
        return name if name.rival is None else replace(name, rival=None)
    if name.rival is None or not name.rival.is_same(best):
        return replace(name, rival=replace(best, since_ms=end_ms))
    has_to_lead_ms = STAYS_MS if name.renamed else LED_MS
    return again if end_ms - name.rival.since_ms >= has_to_lead_ms else name


def _is_of(name: FaultName, falls: Iterable[Fall], back: Collection[Series]) -> bool:
    named = {(name.grouping, segment, name.metric) for segment in name.segments}
    return named.isdisjoint(back) and any(fall.series in named for fall in falls)
