"""The design effect of this installation's searches, and how its scores drift, measured from the
last weeks of hours.

Pure apart from what it remembers: the rows of some segments in each hour, which are unpacked some
hours at a time, so that no snapshot waits for weeks of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Final

import numpy as np

from relevanced.metrics import Floats

from ..changes import (
    DAY,
    DRIFT_HOURS,
    ChangeSettings,
    HourSums,
    is_of_failures,
    measured,
    measured_drift,
    used,
)
from ..lane import Rows
from ..panes import pane_start
from ..plan import OTHER, Plan
from ..views import WHOLE, HourHistory, Segment, Selection, Snapshot
from .baselines import outages

SEGMENTS: Final = 8
"""How many segments of each grouping are measured: the busiest."""
HOURS_AT_ONCE: Final = 168
"""Hours that one snapshot unpacks at most."""


@dataclass(frozen=True)
class MeasuredNoise:
    """What was measured."""

    used: float
    """The design effect to judge with."""
    measured: float | None = None
    """None until it is known."""
    drift_ratios: Mapping[str, float] = field(default_factory=dict)
    """Metric → its drift from week to week, where that is known."""

    def applied(self, change_settings: ChangeSettings) -> ChangeSettings:
        """The settings with what is measured, where it is larger: what earlier weeks and days are
        compared with. Within hours no score drifts as far."""
        ratios = {
            name: max(change_settings.drift_of(name), ratio)
            for name, ratio in self.drift_ratios.items()
        }
        return replace(
            change_settings,
            design_effect=self.used,
            metric_drift_ratios={**change_settings.metric_drift_ratios, **ratios},
        )

    @property
    def of_judged(self) -> "MeasuredNoise":
        """The same for judged scores: drift is that of feedback."""
        return replace(self, drift_ratios={})


class Measuring:
    """Measures once an hour, when another hour has settled."""

    def __init__(self, plan: Plan, change_settings: ChangeSettings) -> None:
        self.found = MeasuredNoise(used(change_settings.design_effect, None))
        """As of the last hour that was measured."""
        self._plan = plan
        self._change_settings = change_settings
        self._segments: tuple[Segment, ...] = ()
        self._chosen_on: int | None = None
        self._rows: dict[int, tuple[object, Rows]] = {}
        """Start of an hour → its version, and the rows of the segments."""
        self._measured: tuple[tuple[int, object], ...] = ()
        """The hours that the result was measured from."""

    def take(self, history: HourHistory, snapshot: Snapshot, shown: Selection) -> MeasuredNoise:
        """Measure, if the hours are others than before and all of them are unpacked; returns what
        is known. `history` must have taken the lanes of the snapshot. Raises Damaged."""
        starts = _whole_hours(history, snapshot, self._plan, self._change_settings.time_zone)
        hours = tuple((start, history.version_of(start)) for start in starts)
        if not hours or _are_the_same_measured(hours, self._measured):
            return self.found
        self._choose(starts[-1], snapshot, shown)
        missing = [hour for hour in hours if not self._has(*hour)]
        for start, version in missing[:HOURS_AT_ONCE]:
            self._rows[start] = (version, history.rows_of(start, self._segments))
        if len(missing) <= HOURS_AT_ONCE:
            self._rows = {start: self._rows[start] for start in starts}
            groups = self._groups(starts)
            known = measured(each for of_metric in groups.values() for each in of_metric)
            effect = used(self._change_settings.design_effect, known)
            drifts = {name: measured_drift(each, effect) for name, each in groups.items()}
            ratios = {name: drift for name, drift in drifts.items() if drift is not None}
            self.found = MeasuredNoise(effect, known, ratios)
            self._measured = hours
        return self.found

    def _has(self, start: int, version: object) -> bool:
        return start in self._rows and self._rows[start][0] is version

    def _choose(self, last: int, snapshot: Snapshot, shown: Selection) -> None:
        """Choose the segments, once a day: others would have to be unpacked for all hours."""
        day = last // (DAY * self._plan.hour_ms)
        if day == self._chosen_on:
            return
        self._chosen_on = day
        chosen = (WHOLE, *sorted(_busiest(snapshot, shown)))
        if chosen != self._segments:
            self._segments, self._rows = chosen, {}

    def _groups(self, starts: list[int]) -> dict[str, list[HourSums]]:
        """Metric → the segments of each grouping, from the first of the hours to the last."""
        groups: dict[str, list[HourSums]] = {metric.name: [] for metric in self._plan.metrics}
        length = (starts[-1] - starts[0]) // self._plan.hour_ms + 1
        rows = np.zeros((len(self._segments), length, self._plan.row_width))
        for start in starts:
            rows[:, (start - starts[0]) // self._plan.hour_ms] = self._rows[start][1]
        for grouping in self._plan.grouping_names:
            own = rows[[name == grouping for name, _ in self._segments]]
            for index, metric in enumerate(self._plan.metrics):
                column = self._plan.metric_column(index)
                if len(own):
                    groups[metric.name].append(
                        _hours(
                            own[:, :, column : column + 3],
                            metric.unit,
                            self._change_settings.drift_of(metric.name),
                            is_of_failures(metric),
                        )
                    )
        return groups


def _whole_hours(history: HourHistory, snapshot: Snapshot, plan: Plan, zone: tzinfo) -> list[int]:
    """The starts of the hours that count: whole ones of the last weeks, without outages and losses,
    oldest first."""
    if snapshot.as_of_ms is None or not history.starts:
        return []
    end_ms = pane_start(snapshot.as_of_ms - plan.timing.settle_ms, plan.hour_ms)
    # The first hour is left out: the lane may have begun within it.
    begin_ms = max(min(history.starts) + plan.hour_ms, end_ms - DRIFT_HOURS * plan.hour_ms)
    covered = range(begin_ms, end_ms, plan.hour_ms)
    left_out = outages(history.traffic(), covered, zone) | history.lost
    return [start for start in covered if start not in left_out]


def _are_the_same_measured(
    hours: tuple[tuple[int, object], ...], before: tuple[tuple[int, object], ...]
) -> bool:
    return len(hours) == len(before) and all(
        start == other and version is known
        for (start, version), (other, known) in zip(hours, before, strict=True)
    )


def _busiest(snapshot: Snapshot, shown: Selection) -> Iterator[Segment]:
    """The busiest segments of each grouping that have series of their own."""
    impressions = shown.ranking(snapshot)
    left: dict[str, int] = {}
    for _, segment in sorted(zip(impressions, shown.segments, strict=True), reverse=True):
        grouping, value = segment
        if segment != WHOLE and value != OTHER and left.setdefault(grouping, SEGMENTS):
            left[grouping] -= 1
            yield segment


def _hours(columns: Floats, unit: int, drift_ratio: float, failures: bool) -> HourSums:
    """From (series, hours, 3) of scored impressions, sums and squares in a metric's unit."""
    scored, sums, squares = columns[..., 0], columns[..., 1] / unit, columns[..., 2] / unit
    several = scored > 1
    means = np.divide(sums, scored, out=np.zeros_like(sums), where=scored > 0)
    spread = np.maximum(squares - sums * means, 0.0)
    variances = np.divide(spread, scored - 1, out=np.zeros_like(sums), where=several)
    return HourSums(np.where(several, scored, 0.0), means, variances, drift_ratio, failures)
