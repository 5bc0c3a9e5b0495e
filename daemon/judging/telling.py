"""Which changes the falls make: of all scores that fell at the same time, which one tells it, which
segments carry it, what it looks like, and what is low only because it shares traffic. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from relevanced.metrics.lists import Floats

from . import carriers
from .carriers import Explanation
from .counted import Counts, side_of
from .evidence import evidence, largest_mix_share
from .evidence import Noise as EvidenceNoise
from .ledger import Fall, Look, Series
from .levels import Level, level, loss, within
from .patterns import Pattern, pattern_of
from .recovery import before_from
from .settings import Judging
from .story import ALL, Measured, Moved, Story
from .timeline import HOUR_MS, MINUTE_MS

FAMILIES: Final = ("RR", "Success", "P", "ERR", "nDCG")
"""The score that tells a change is of the first of these families that fell."""
AT_ONCE_MS: Final = 10 * MINUTE_MS
"""Falls whose intervals are no further apart are one fault."""
LATELY_MS: Final = 24 * HOUR_MS
"""The level now is that since the onset, at most so long."""
LOW_Z: Final = -4.0
"""A segment is called diluted, or to have fallen too, from here on."""


@dataclass(frozen=True, eq=False)
class Scene:
    """All that stories are made from: the look, and the counts of each segment in its bins."""

    look: Look
    counts: Counts
    judging: Judging

    @cached_property
    def index(self) -> Mapping[Series, int]:
        """Where each series is in the look."""
        return {series: index for index, series in enumerate(self.look.series)}

    def stories(self, falls: Sequence[Fall]) -> tuple[Story, ...]:
        """The open faults, the largest first."""
        open_now = [fall for fall in falls if fall.recovered_ms is None]
        found = [self._story(together) for together in _at_once(open_now)]
        return tuple(sorted(found, key=lambda story: story.z or 0.0))

    def ended(self, falls: Sequence[Fall], since_ms: float) -> tuple[Story, ...]:
        """The faults that are over since then, the latest first: once each, by the fall that named
        them."""
        over = [f for f in falls if f.recovered_ms is not None and f.recovered_ms >= since_ms]
        found = [self._story(together) for together in _at_once(over)]
        return tuple(sorted(found, key=lambda story: -(story.fall.recovered_ms or 0.0)))

    def _story(self, together: Sequence[Fall]) -> Story:
        known = [fall for fall in together if fall.series in self.index]
        if not known:
            unknown, fall = Measured(None, None, 0), together[0]
            own = Moved(fall.series, unknown, unknown, 0.0, (0, 0))
            return Story(fall, fall.series[1:2], own, False, None, fall.lanes, fall.called_ms)
        since = min(known, key=lambda fall: fall.onset.width).onset.likely
        return _Fault(self, known, since).story()


def _at_once(falls: Sequence[Fall]) -> list[list[Fall]]:
    """The falls whose intervals meet, together."""

    def earliest(fall: Fall) -> float:
        return fall.onset.likely if fall.onset.earliest is None else fall.onset.earliest

    found: list[list[Fall]] = []
    until = -np.inf
    for fall in sorted(falls, key=earliest):
        if earliest(fall) > until + AT_ONCE_MS:
            found.append([])
        found[-1].append(fall)
        # The narrowest bound: a wide interval must not join faults that are hours apart.
        until = max(until, min(fall.onset.latest, fall.onset.likely + AT_ONCE_MS))
    return found


class _Fault:
    """Falls of one time, all series compared across it."""

    def __init__(self, scene: Scene, falls: Sequence[Fall], since_ms: float) -> None:
        self.scene, self.look, self.falls = scene, scene.look, falls
        ends = [fall.recovered_ms for fall in falls if fall.recovered_ms is not None]
        self.end_ms = float(min(ends)) if len(ends) == len(falls) else float(self.look.end_ms)
        self.since_ms = since_ms
        now_from = max(since_ms, self.end_ms - LATELY_MS)
        self.before_share, self.now_share = (
            self._within(float(before_from(np.array(since_ms), int(self.end_ms))), since_ms),
            self._within(now_from, self.end_ms),
        )
        self.before = level(self.look.timeline, self.before_share)
        self.now = level(self.look.timeline, self.now_share)
        self.loss = loss(self.before, self.now, self.look.directions, self.look.noise)

    def _within(self, from_ms: float, until_ms: float) -> Floats:
        """(bins, 1)."""
        return within(self.look.timeline, np.array([from_ms]), np.array([until_ms]))

    def story(self) -> Story:
        index, z = self.scene.index, self.loss.z
        metric = min(
            (fall.series[2] for fall in self.falls),
            key=lambda name: (_family(name), _lowest(self.falls, name, index, z)),
        )
        of_metric = [fall for fall in self.falls if fall.series[2] == metric]
        explanation = carriers.explained(self._groupings(metric))
        grouping, segments = self._named(of_metric, explanation)
        series = (grouping, segments[0], metric)
        fall = next((each for each in self.falls if each.series == series), of_metric[0])
        at = index.get(series, index[fall.series])
        first = min(self.falls, key=lambda each: each.called_ms)
        shown = Fall(
            series, first.first_ms, fall.onset, fall.lanes, fall.called_ms, fall.low_since_ms,
            fall.recovered_ms,
        )  # fmt: skip
        others = tuple(self._others(shown.series, segments))
        return Story(
            fall=shown,
            segments=segments,
            own=self._moved(series, at),
            by_weeks=bool(self.loss.by_weeks[at]),
            z=_or_none(float(z[at])),
            lanes=tuple(dict.fromkeys(lane for each in self.falls for lane in each.lanes)),
            called_ms=first.called_ms,
            explanation=explanation,
            pattern=self._pattern(grouping, segments),
            also=tuple(moved for moved, is_own in others if is_own),
            shares=tuple(moved for moved, is_own in others if not is_own),
        )

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
        whole = [fall for fall in falls if fall.series[:2] == ALL]
        lowest = min(falls, key=lambda fall: float(np.nan_to_num(z[index[fall.series]])))
        grouping, segment, _ = (whole[0] if whole else lowest).series
        return grouping, (segment,)

    def _groupings(self, metric: str) -> dict[str, carriers.Change]:
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
    ) -> carriers.Change:
        tiny = np.finfo(np.float64).tiny
        errors = np.nan_to_num(self.loss.error[at], nan=1.0)
        return carriers.Change(
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
            own = series[0] == shown[0] and series[1] in named
            if is_low and series != shown:
                yield self._moved(series, index), own

    def _moved(self, series: Series, at: int) -> Moved:
        impressions = [
            self.scene.counts.summed(series[0], series[1:2], share)["impressions"]
            for share in (self.before_share, self.now_share)
        ]
        return Moved(
            series,
            _measured(self.before, at, self.look, self.loss.expected),
            _measured(self.now, at, self.look, self.now.mean),
            float(np.nan_to_num(self.loss.error[at])),
            (round(impressions[0]), round(impressions[1])),
        )

    def _pattern(self, grouping: str, segments: tuple[str, ...]) -> Pattern | None:
        pair = _pair([name for *_, name in self.scene.index])
        sides = [
            side_of(
                self.scene.counts.summed(grouping, segments, share),
                self._score(share, grouping, segments, pair[0]),
                self._score(share, grouping, segments, pair[1]),
            )
            for share in (self.now_share, self.before_share)
        ]
        judging = self.scene.judging
        noise = EvidenceNoise(
            self.look.noise.design_effect, judging.drift_ratio, judging.share_drift_ratio
        )
        mix = largest_mix_share(self._mixes()) if grouping == "all" else float("nan")
        return pattern_of(evidence(sides[0], sides[1], 1.0, noise, mix_share=mix))

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
            if (grouping, segment) == ALL and _family(metric) < 2:
                for change in self._groupings(metric).values():
                    mix, own = float(change.mix.sum()), float(change.within.sum())
                    yield float(self.loss.z[index]), mix, own


def _family(metric: str) -> int:
    name = metric.partition("@")[0].partition("(")[0]
    order = {**{known: at for at, known in enumerate(FAMILIES)}, "nDCG": len(FAMILIES) + 1}
    return order.get(name, len(FAMILIES))


def _lowest(falls: Sequence[Fall], metric: str, index: Mapping[Series, int], z: Floats) -> float:
    return min(
        float(np.nan_to_num(z[index[fall.series]])) for fall in falls if fall.series[2] == metric
    )


def _pair(metrics: Sequence[str]) -> tuple[str | None, str | None]:
    """The deepest Success for which there is an RR of the same parameters, and that RR; else the
    deepest Success alone."""
    names = dict.fromkeys(metrics)
    successes = [name for name in names if name.startswith("Success@")]
    successes.sort(key=lambda name: -int(name.rpartition("@")[2]))
    for name in successes:
        rr = name.replace("Success", "RR", 1)
        if rr in names:
            return name, rr
    return (successes[0] if successes else None), None


def _measured(of: Level, at: int, look: Look, means: Floats) -> Measured:
    stderr = of.stderr(look.noise)
    return Measured(
        _or_none(float(means[at])), _or_none(float(stderr[at])), round(float(of.scored[at]))
    )


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
