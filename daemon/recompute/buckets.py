"""What a replay takes over of its lane: settled buckets of clicks, and judged hours. Pure.

A lane keeps what can still change only; a view shows it as a reader of the store would see it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Final

import numpy as np

from relevanced.metrics import Floats, Integers

from ..judgements import IndexEntry, Judgements, Timeline
from ..lane import Lane, PagedRows, Pages, Rows, kept_rows, row_width
from ..panes import HOUR_MS, pane_start
from ..plan import Plan
from ..storage import pack_page, unpack_page
from ..views import LaneFiles, LaneRows, LaneView, Names, Selection, selection, snapshot
from .driver import Settled, judged_rows


def view_of(lane: Lane) -> LaneView:
    """The view of the lane in memory, without hours and experiments."""
    names = lane.plan.grouping_names
    return LaneView(
        lane=lane.number,
        token="",
        sequence=0,
        names=Names((names[grouping], segment) for grouping, segment in lane.segments.names),
        panes={key: rows.pages for key, rows in lane.panes.items()},
        totals=lane.totals.pages,
        counts=lane.counts,
        watermark_ms=lane.watermark_ms,
    )


def selection_of(lane: Lane) -> selection.Selection:
    """The segments whose scores are shown: the busiest of all that the lane has counted."""
    view = view_of(lane)
    whole = snapshot.evaluate([view], lane.plan, view.names.segments)
    return selection.busiest(snapshot.with_everything(whole, [view], lane.plan), lane.plan)


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


@dataclass
class RecordedBuckets:
    """Takes the buckets of a lane over while events are applied to it: a lane keeps those that can
    still change only."""

    length_ms: int
    pages: dict[int, Mapping[int, Rows]] = field(default_factory=dict)
    """Start of a bucket, or of a part of one → its pages of rows."""
    settled_ms: int = 0
    """What begins here or later may lack feedback that came after the end of the files."""

    def take(self, settled: Settled) -> None:
        """See `LaneSink`."""
        self.pages |= {start: rows.pages for start, rows in settled.hours(settled.lane)}

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`."""
        self.settled_ms = settled.final_ms
        self.take(settled)


@dataclass(frozen=True, eq=False)
class BucketsOverTime:
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
    def settled(self) -> "BucketsOverTime":
        """The buckets that have settled."""
        kept = self.starts + self.plan.hour_ms <= self.settled_ms
        return replace(self, starts=self.starts[kept], rows=self.rows[kept])

    @property
    def end_ms(self) -> int:
        """The end of the last bucket; 0 where there is none."""
        return int(self.starts[-1]) + self.plan.hour_ms if len(self.starts) else 0

    @classmethod
    def of(
        cls, buckets: RecordedBuckets, lane: Lane, selection: Selection, span: range, plan: Plan
    ) -> "BucketsOverTime":
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
    ) -> "BucketsOverTime":
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


BASE: Final = 0
"""The window whose panes are the base panes."""


@dataclass
class JudgedHours:
    """Gives the lane of a replay its files, and takes over its judged hours: a lane keeps those
    that can still change only."""

    timeline: Timeline
    judgements: Mapping[IndexEntry, Judgements]
    hours: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """Start of an hour, or of a part of a bucket → page → its rows as far as they are final,
    packed."""
    final_ms: int = 0
    """What begins here or later may lack searches that came after the end of the files."""

    def begin(self, lane: Lane) -> None:
        """Let a lane that has seen nothing grade."""
        judged_rows(lane).files.prepare(self.timeline, self.judgements)

    def take(self, settled: Settled) -> None:
        """See `LaneSink`: what a batch changed, whether it can change again or not."""
        judged = judged_rows(settled.lane)
        for start, page in judged.hour_pages:
            self.hours.setdefault(start, {})[page] = pack_page(judged.hours[start].page(page))

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`."""
        self.final_ms = settled.judged_final_ms
        self.take(settled)

    def view(self, lane: Lane) -> LaneRows:
        """The judged rows as a reader of the store would see them."""
        judged, before = judged_rows(lane), lane.settled_before
        first = 0 if before is None else kept_rows.kept_from(before, lane.plan)
        return LaneRows(
            {key: rows.pages for key, rows in judged.panes.items()},
            {start: dict(pages) for start, pages in self.hours.items() if start >= first},
            files=LaneFiles(judged.since_ms, self.timeline.entries, lane=lane.number),
        )

    @property
    def entries(self) -> tuple[IndexEntry, ...]:
        """The files that grade, by ascending start."""
        return self.timeline.entries

    def buckets(self, lane: Lane, span: range, length_ms: int) -> RecordedBuckets:
        """The buckets of this length that lie in the span and are final."""
        final_ms = judged_rows(lane).final_before or 0
        until_ms = min(span.stop, final_ms) - length_ms
        pages: dict[int, Mapping[int, Rows]] = {
            start: {page: unpack_page(data) for page, data in packed.items()}
            for start, packed in self.hours.items()
            if span.start <= pane_start(start, length_ms) <= until_ms
        }
        return RecordedBuckets(length_ms, pages, final_ms)

    def by_file(self, lane: Lane) -> dict[IndexEntry, PagedRows]:
        """The sums of all that each file graded, final or not, by ascending start. Raises
        OverflowError."""
        judged, sums = judged_rows(lane), dict[IndexEntry, PagedRows]()

        def add(start: int, page: int, rows: Rows) -> None:
            entry = self.timeline.in_force(start)  # files start at whole hours
            if entry is not None and rows.any():
                sums.setdefault(entry, PagedRows(row_width(judged.plan))).add_page(page, rows)

        for start, packed in self.hours.items():
            for page, data in packed.items():
                add(start, page, unpack_page(data))
        for (window, start), paged in judged.panes.items():
            if window == BASE and (judged.final_before is None or start >= judged.final_before):
                for page, rows in paged.pages.items():
                    add(start, page, rows)
        return dict(sorted(sums.items()))
