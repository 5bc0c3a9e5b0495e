"""Recorded scores over time: the settled rows of each bucket of event time. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Final

import numpy as np

from relevanced.metrics.lists import Floats, Integers

from ...exporter.lane_view import Names
from ...exporter.selection import Selection
from ...lane import row_set, settling
from ...lane.lane import Lane
from ...lane.paged_rows import Pages, Rows
from ...panes import HOUR_MS, pane_start
from ...plan import Plan
from .views import view_of

NO_END: Final = 1 << 30
"""So many buckets are kept: all of them."""


def plan_in_buckets(plan: Plan, length_ms: int, *, is_judged: bool = False) -> Plan:
    """The plan with buckets of this length in place of hours, or with parts of them where lists are
    graded. Raises ValueError for a length that is no multiple of the shortest pane."""
    base_ms = plan.timing.base_ms
    if length_ms < base_ms or length_ms % base_ms:
        raise ValueError(
            f"{length_ms / 1000:g} s: must be a multiple of the shortest pane,"
            f" {base_ms / 1000:g} s"
        )
    part_ms = part_of(length_ms, base_ms) if is_judged else length_ms
    return replace(plan, hour_ms=part_ms, history_hours=NO_END)


def part_of(length_ms: int, base_ms: int) -> int:
    """The longest part of buckets of this length within which no file of judgements starts: they
    start at whole hours. The base pane, where hours are no multiples of it.

    >>> part_of(5_400_000, 60_000) // 60_000, part_of(42_000, 14_000)
    (30, 14000)
    """
    part_ms = gcd(length_ms, HOUR_MS)
    return base_ms if part_ms % base_ms else part_ms


def settle_rest(lane: Lane) -> None:
    """Settle what is open, as if time had passed since the last event. The lane can take no more
    events afterwards."""
    for topic, mark in lane.watermarks.items():
        if mark is not None:
            length = lane.plan.timing.settle_ms + lane.plan.timing.base_ms
            lane.watermarks[topic] = mark + length
    settling.settle(lane)


@dataclass
class Buckets:
    """Takes the buckets of a lane over while events are applied to it: a lane keeps those that can
    still change only."""

    length_ms: int
    pages: dict[int, Mapping[int, Rows]] = field(default_factory=dict)
    """Start of a bucket, or of a part of one → its pages of rows."""
    settled_ms: int = 0
    """What begins here or later may lack feedback that came after the end of the files."""

    def take(self, lane: Lane) -> None:
        """Take over what has settled. Before the lane starts its next batch."""
        if lane.settled_before is not None:
            still_open = row_set.open_hour(lane.settled_before, lane.plan)
            self._take(lane, still_open)

    def finish(self, lane: Lane) -> None:
        """Take over the rest, as if time had passed since the last event. The lane can take no more
        events afterwards."""
        self.settled_ms = lane.settled_before or 0
        settle_rest(lane)
        self._take(lane, np.iinfo(np.int64).max)

    def _take(self, lane: Lane, before_ms: int) -> None:
        for start, rows in lane.hours.items():
            if start < before_ms:
                self.pages[start] = rows.pages


@dataclass(frozen=True, eq=False)
class OverTime:
    """The shown segments in each bucket that has an impression, oldest first."""

    plan: Plan
    selection: Selection
    starts: Integers
    """(buckets,) ms since the epoch."""
    rows: Floats
    """(buckets, segments, columns)."""
    settled_ms: int
    """See `Buckets`."""

    @property
    def settled(self) -> "OverTime":
        """The buckets that have settled."""
        kept = self.starts + self.plan.hour_ms <= self.settled_ms
        return replace(self, starts=self.starts[kept], rows=self.rows[kept])

    @property
    def end_ms(self) -> int:
        """The end of the last bucket; 0 where there is none."""
        return int(self.starts[-1]) + self.plan.hour_ms if len(self.starts) else 0

    @classmethod
    def of(
        cls, buckets: Buckets, lane: Lane, selection: Selection, span: range, plan: Plan
    ) -> "OverTime":
        """The buckets that begin in the span; `plan` is that of their rows."""
        plan = replace(plan, hour_ms=buckets.length_ms)
        return cls.of_parts(
            buckets.pages.items(), view_of(lane).names, selection, plan, span, buckets.settled_ms
        )

    @classmethod
    def of_parts(
        cls,
        parts: Iterable[tuple[int, Pages]],
        names: Names,
        selection: Selection,
        plan: Plan,
        span: range,
        settled_ms: int,
    ) -> "OverTime":
        """The sums of the parts, each with its start, by buckets of the plan's `hour_ms`, as far as
        these begin in the span."""
        sums: dict[int, Floats] = {}
        for start, pages in parts:
            bucket = pane_start(start, plan.hour_ms)
            if span.start <= bucket < span.stop:
                rows = selection.fold_pages(pages, names, plan.row_width)
                sums[bucket] = sums[bucket] + rows if bucket in sums else rows
        starts = sorted(sums)
        shape = (len(starts), len(selection.segments), plan.row_width)
        return cls(
            plan,
            selection,
            np.array(starts, np.int64),
            np.array([sums[start] for start in starts], float).reshape(shape),
            settled_ms,
        )
