"""A lane as one read of the store found it, packed as it is stored. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ...experiments import Tallies
from ...lane import BEFORE, PAGE_ROWS, Pages, Rows, kept_rows
from ...panes import PaneKey
from ...plan import ALL, BY_FEEDBACK, Plan
from ...storage import (
    ADMITTED_KEY,
    EXPERIMENTS_PREFIX,
    LAYOUTS_KEY,
    OPTIONAL_KEYS,
    ROW_KEYS,
    Head,
    LaneLayouts,
    block_key,
    by_start,
    experiments as stored_experiments,
    layouts_of,
    totals_page_of,
    translated,
    unpack_page,
    whole_or_damaged,
)
from ...views import Coverage

NOT_COUNTED: Final = -1
Packed = Mapping[int, bytes]
"""Page → its rows, as they are stored."""
PackedRows = tuple[Mapping[PaneKey, Packed], Mapping[int, Packed]]
"""(panes, hours by their starts in ms)."""


@dataclass(frozen=True)
class WriterValues:
    """What only the writer of a lane reads, as of its head."""

    names: Mapping[str, bytes]
    blobs: Mapping[str, bytes | None]


@dataclass(frozen=True)
class StoredLane:
    """One lane at one commit: that of `head`."""

    lane: int
    head: Head
    plan: Plan
    layouts: LaneLayouts | None
    """None before its first commit."""
    names: Sequence[tuple[int, str]]
    """(grouping index, segment) by segment id; index NOT_COUNTED of groupings that the plan does
    not have, and of what was counted before the lane had a grouping."""
    panes: Mapping[PaneKey, Packed]
    totals: Packed
    hours: Mapping[int, Packed]
    """By the start of the hour in ms."""
    experiments: Mapping[str, Tallies]
    """By name."""
    queries: Mapping[str, bytes | None] = field(default_factory=dict)
    """Key → value of what the head lists of tables of queries; None where it was gone by then."""
    optional_rows: Mapping[str, PackedRows] = field(default_factory=dict)
    """By the name of every measure that a plan may leave out."""
    writer: WriterValues | None = None
    """None where the lane went on while it was read."""

    @cached_property
    def coverage(self) -> Coverage:
        """From when on the lane has what its plan says."""
        return Coverage.of([] if self.layouts is None else [self.layouts.since], self.plan)

    @property
    def has_one_admission(self) -> bool:
        """Whether the lane always admitted values by the same rule, and noted by the same panes
        when each was last seen."""
        layouts = () if self.layouts is None else self.layouts.layouts
        return len({each.admission for each in layouts}) <= 1

    def coverage_of_measure(self, plan: Plan) -> Coverage:
        """The same of rows beside those of clicks, whose own plan this is."""
        layouts = () if self.layouts is None else (self.layouts.of_measure(plan),)
        return Coverage.of([each.since for each in layouts], plan)

    @property
    def whole_from(self) -> int | None:
        """The first base pane of which the lane has all, where it began anew after a loss."""
        return self.head.whole_from(self.plan.timing.base_ms)

    def rows(self, pages: Packed, hour: int | None, start: int) -> Pages:
        """The rows of pages of an hour, or of a pane, as far as the lane had them by then. Raises
        Damaged."""
        layout = None if self.layouts is None else self.layouts.last
        with whole_or_damaged(f"lane {self.lane}"):
            if self.layouts is not None and hour is not None:
                layout = self.layouts.of_hour(hour)
            rows = {page: unpack_page(data) for page, data in pages.items()}
            if layout is not None:
                rows = {page: translated(of, layout, self.plan) for page, of in rows.items()}
        return self.covered(rows, self.names, start)

    def covered(
        self,
        pages: Pages,
        names: Sequence[tuple[int, str]],
        start: int,
        coverage: Coverage | None = None,
    ) -> Pages:
        """Rows of segments with these names, as far as the lane had them by then. `coverage`: that
        of their measure; None: they are of clicks."""
        of = coverage or self.coverage
        if of.is_whole and not any(grouping == NOT_COUNTED for grouping, _ in names):
            return pages
        return {
            page: self._covered(rows, names_of(names, page), start, of)
            for page, rows in pages.items()
        }

    def _covered(
        self, rows: Rows, names: Sequence[tuple[int, str]], start: int, coverage: Coverage
    ) -> Rows:
        known = (*self.plan.grouping_names, "")  # the last one is that of NOT_COUNTED
        rows = coverage.without_hidden(rows, [(known[of], name) for of, name in names], start)
        left_out = [line for line, (of, _) in enumerate(names) if of == NOT_COUNTED]
        if left_out:
            rows = rows.copy()
            rows[left_out] = 0
        return rows


def names_of(names: Sequence[tuple[int, str]], page: int) -> Sequence[tuple[int, str]]:
    """The names of the segments of a page."""
    return names[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]


def begin_of(head: Head) -> dict[str, int]:
    """Return the offsets at which a lane began, by log: without the logs which others have replaced
    since, and those of which nothing says it."""
    return {log: at for log, at in (head.start or {}).items() if log not in head.replaced_logs}


def stored_lane(
    lane: int,
    head: Head,
    names: Sequence[tuple[int, str]],
    pages: Mapping[str, bytes],
    plan: Plan,
    queries: Mapping[str, bytes | None] | None = None,
    writer: WriterValues | None = None,
) -> StoredLane:
    """Return the lane of a whole read: its head, the names of its segments but for the whole, and
    its pages by key.

    A page that was dropped while the lane was read, in several calls, is left out: after the last
    call, everything else is as of its head. Raises Damaged."""
    layouts = None
    with whole_or_damaged(f"lane {lane}"):
        layouts = layouts_of(pages)
        panes, of_hours = by_start(pages.items(), ROW_KEYS[BY_FEEDBACK], plan.timing)
        optional = {
            measure: by_start(pages.items(), keys, plan.timing)
            for measure, keys in OPTIONAL_KEYS.items()
        }
        at = {key: page for key in pages if (page := totals_page_of(key)) is not None}
        totals = {page: pages[key] for key, page in at.items()}
        blobs = {key: data for key, data in pages.items() if key.startswith(EXPERIMENTS_PREFIX)}
        known = [entry.name for entry in head.state.experiments]
        blobs = stored_experiments.of_names(blobs, known)
        experiments = stored_experiments.read(blobs)
        stored_experiments.add_days(experiments, stored_experiments.ended_days(blobs).values())
    return StoredLane(
        lane,
        head,
        plan,
        layouts,
        [(0, ALL), *_named(names, layouts, plan)],
        _kept_panes(panes, head, plan),
        totals,
        _kept_hours(of_hours, head, plan),
        experiments,
        queries=queries or {},
        optional_rows={
            measure: (_kept_panes(of_panes, head, plan), hours)
            for measure, (of_panes, hours) in optional.items()
        },
        writer=writer,
    )


def query_keys_of(head: Head) -> list[str]:
    """The keys of tables and examples of queries that a head lists."""
    queries = head.queries
    if queries is None:
        return []
    return [*queries.part_keys, *queries.hour_keys, *queries.example_keys]


def writer_keys(head: Head) -> list[str]:
    """The keys of what only the writer of a lane reads."""
    blocks = [block_key(entry.number) for entry in head.state.blocks]
    parts = [] if head.queries is None else head.queries.part_keys
    return [*blocks, *parts, LAYOUTS_KEY, ADMITTED_KEY]


def _named(
    names: Sequence[tuple[int, str]], layouts: LaneLayouts | None, plan: Plan
) -> list[tuple[int, str]]:
    """The names of segments with the indices of their groupings in the plan."""
    known, stored = plan.grouping_names, () if layouts is None else layouts.grouping_names
    at = [known.index(name) if name in known else NOT_COUNTED for name in stored]
    return [(NOT_COUNTED if name == BEFORE else at[of], name) for of, name in names]


def _kept_panes(
    panes: Mapping[PaneKey, Packed], head: Head, plan: Plan
) -> Mapping[PaneKey, Packed]:
    """The panes that a lane still keeps."""
    watermark, timing = head.watermark_ms, plan.timing
    if watermark is None:
        return panes
    limits = [timing.dropped_before(span, watermark) for span in timing.windows]
    return {key: pages for key, pages in panes.items() if key[1] >= limits[key[0]]}


def _kept_hours(found: Mapping[int, Packed], head: Head, plan: Plan) -> Mapping[int, Packed]:
    settled_before = head.state.settled_before
    if settled_before is None:
        return found
    first, lost = kept_rows.kept_from(settled_before, plan), set(head.state.lost_hours)
    return {s: pages for s, pages in found.items() if s >= first and s not in lost}
