"""The judged rows of a replay: it grades by the whole index, as new lanes do. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...exporter.judged_files import LaneFiles
from ...exporter.lane_view import JudgedLane
from ...judgements.grades import Judgements
from ...judgements.index import Entry
from ...judgements.timeline import Timeline
from ...lane import row_set, judged_settling
from ...lane.judged import row_width
from ...lane.judged_rows import LaneJudged
from ...lane.lane import Lane
from ...lane.paged_rows import PagedRows, Rows
from ...panes import pane_start
from ...storage.packing import pack_page, unpack_page
from .buckets import Buckets

BASE: Final = 0
"""The window whose panes are the base panes."""


@dataclass
class JudgedHours:
    """Gives the lane of a replay its files, and takes over its judged hours: a lane keeps those
    that can still change only."""

    timeline: Timeline
    judgements: Mapping[Entry, Judgements]
    hours: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """Start of an hour, or of a part of a bucket → page → its rows as far as they are final,
    packed."""
    final_ms: int = 0
    """What begins here or later may lack searches that came after the end of the files."""

    def begin(self, lane: Lane) -> None:
        """Let a lane that has seen nothing grade."""
        rows_of(lane).prepare(self.timeline, self.judgements)

    def take(self, lane: Lane) -> None:
        """Take over the hours that a batch changed. Before the lane starts its next batch."""
        judged = rows_of(lane)
        for start, page in judged.hour_pages:
            self.hours.setdefault(start, {})[page] = pack_page(judged.hours[start].page(page))

    def finish(self, lane: Lane) -> None:
        """Take over the rest, once the lane has settled as if time had passed."""
        self.final_ms = rows_of(lane).final_before or 0
        judged_settling.settle_judged(lane)
        self.take(lane)

    def view(self, lane: Lane) -> JudgedLane:
        """The judged rows as a reader of the store would see them."""
        judged, before = rows_of(lane), lane.settled_before
        first = 0 if before is None else row_set.kept_from(before, lane.plan)
        return JudgedLane(
            LaneFiles(judged.since_ms, self.timeline.entries, lane=lane.number),
            {key: rows.pages for key, rows in judged.panes.items()},
            {start: dict(pages) for start, pages in self.hours.items() if start >= first},
        )

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The files that grade, by ascending start."""
        return self.timeline.entries

    def buckets(self, lane: Lane, span: range, length_ms: int) -> Buckets:
        """The buckets of this length that lie in the span and are final."""
        final_ms = rows_of(lane).final_before or 0
        until_ms = min(span.stop, final_ms) - length_ms
        pages: dict[int, Mapping[int, Rows]] = {
            start: {page: unpack_page(data) for page, data in packed.items()}
            for start, packed in self.hours.items()
            if span.start <= pane_start(start, length_ms) <= until_ms
        }
        return Buckets(length_ms, pages, final_ms)

    def by_file(self, lane: Lane) -> dict[Entry, PagedRows]:
        """The sums of all that each file graded, final or not, by ascending start. Raises
        OverflowError."""
        judged, sums = rows_of(lane), dict[Entry, PagedRows]()

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


def rows_of(lane: Lane) -> LaneJudged:
    """The judged rows of a lane that grades."""
    assert lane.judged is not None
    return lane.judged
