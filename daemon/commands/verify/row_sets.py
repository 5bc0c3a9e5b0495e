"""The rows of one measure as they are stored, against those that the log proves. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ...events.timestamps import timestamp_text
from ...lane.paged_rows import PagedRows, Pages
from ...lane.row_set import RowSet, kept_from, open_hour
from ...panes import PaneKey
from ...plan import Plan
from ...storage.head import Head
from .differences import Difference, Differences
from .rows import Matching, beside
from .stored import Packed


@dataclass
class RowsComparison:
    """What was compared so far."""

    measure: str
    """Of which `Difference.what` begins with this."""
    plan: Plan
    head: Head
    stored: tuple[Mapping[PaneKey, Packed], Mapping[int, Packed]]
    """Pages of panes that are kept, and of hours."""
    columns: Sequence[str]
    matching: Matching
    summed: Collection[int]
    """Groupings of which only the sum over all segments is compared."""
    differences: Differences
    hours_from: int
    """The lane has whole hours from here on."""
    panes_from: Sequence[int]
    """The same of panes, by window."""
    lost_hours: Collection[int]
    unpacked: Callable[[Packed, int | None, int], Pages]
    """(pages, hour if they are of one, start) → rows, as far as the lane had them by then."""
    covered: Callable[[Pages, int], Pages] = lambda pages, start: pages
    """Proven rows of a start, as far as the stored lane had them by then."""
    hours: int = 0
    panes: int = 0
    _seen: set[int] = field(default_factory=set)

    def past_hours(self, rows: RowSet, settled_before: int | None, first_ms: int | None) -> None:
        """Compare the hours that cannot change any more; see `Watching`."""
        if settled_before is not None:
            still_open = open_hour(settled_before, self.plan)
            for start in [start for start in rows.hours if start < still_open]:
                self._hour(start, rows.hours[start].pages, first_ms)

    def finish(self, rows: RowSet, first_ms: int | None) -> None:
        """Compare all that is left, once the lane has read up to the stored offsets."""
        stored_panes, stored_hours = self.stored
        for start, of in rows.hours.items():
            self._hour(start, of.pages, first_ms)
        for start in sorted(stored_hours.keys() - self._seen):
            self._hour(start, {}, first_ms)
        empty, windows = PagedRows(len(self.columns)), self.plan.timing.windows
        for key in sorted(stored_panes.keys() | rows.panes.keys()):
            window, start = key
            if first_ms is not None and start >= max(first_ms, self.panes_from[window]):
                self.panes += 1
                at = self._at("pane", start=timestamp_text(start), window=windows[window].name)
                stored = self.unpacked(stored_panes.get(key, {}), None, start)
                self.compare(at, stored, rows.panes.get(key, empty).pages, start)

    def _hour(self, start: int, proven: Pages, first_ms: int | None) -> None:
        self._seen.add(start)
        before = self.head.state.settled_before
        is_kept = before is not None and start >= kept_from(before, self.plan)
        if start in self.lost_hours or not is_kept or first_ms is None:
            return
        if start >= max(first_ms, self.hours_from):
            self.hours += 1
            stored = self.unpacked(self.stored[1].get(start, {}), start, start)
            self.compare(self._at("hour", start=timestamp_text(start)), stored, proven, start)

    def _at(self, kind: str, start: str, window: str | None = None) -> "partial[Difference]":
        return partial(Difference, f"{self.measure}{kind}", start=start, window=window)

    def compare(self, at: "partial[Difference]", stored: Pages, proven: Pages, start: int) -> None:
        """Compare rows of one start."""
        proven, names = self.covered(proven, start), self.plan.grouping_names
        compared = beside(self.matching, stored, proven, len(self.columns))
        count, unequal = compared.unequal(self.summed)
        self.differences.compared += compared.stored.size
        named = (
            at(
                self.columns[one.column],
                one.stored,
                one.proven,
                grouping=names[one.grouping] if one.grouping >= 0 else None,
                segment="(all together)" if one.segment is None else one.segment,
            )
            for one in unequal
        )
        self.differences.note(named, count)
