"""A reader's copy of one row set of a lane, kept up to date by what changed since the last read.

Nothing that a view contains is changed in place: pages and mappings are replaced instead.
"""

from collections.abc import Callable, Mapping

from ..lane.paged_rows import Pages, Rows
from ..lane.row_set import kept_from
from ..panes import PaneKey
from ..plan import Plan
from ..storage.head import whole_or_damaged
from ..storage.keys import RowKeys
from ..storage.packing import unpack_page
from ..storage.rows import by_start


class RowsMirror:
    """The rows as of the last read."""

    def __init__(self, lane: int, plan: Plan, keys: RowKeys) -> None:
        self._lane, self._plan, self._keys = lane, plan, keys
        self.panes: dict[PaneKey, Pages] = {}
        self.hours: dict[int, Mapping[int, bytes]] = {}
        """Start of an hour → page → rows, packed as they are stored: there are many and few are
        needed. The pages of an hour are replaced, never changed, so that identity tells whether
        they are the same."""

    def clear(self) -> None:
        """Forget all."""
        self.panes, self.hours = {}, {}

    def apply(
        self, pages: Mapping[str, bytes], unpacked: Callable[[bytes], Rows] = unpack_page
    ) -> None:
        """Replace the pages among these values of a lane. `unpacked`: rows of a pane. Raises
        Damaged."""
        with whole_or_damaged(f"lane {self._lane}, {self._keys.panes}"):
            panes, hours = by_start(pages.items(), self._keys, self._plan.timing)
            for start, packed in hours.items():
                self.hours[start] = {**self.hours.get(start, {}), **packed}
            for key, packed in panes.items():
                rows = {page: unpacked(data) for page, data in packed.items()}
                self.panes[key] = {**self.panes.get(key, {}), **rows}

    def drop_old(self, watermark_ms: int, final_before: int | None) -> None:
        """Drop what the lane does not keep any more."""
        timing = self._plan.timing
        limits = [timing.dropped_before(span, watermark_ms) for span in timing.windows]
        self.panes = {key: rows for key, rows in self.panes.items() if key[1] >= limits[key[0]]}
        if final_before is not None:
            first = kept_from(final_before, self._plan)
            self.hours = {start: pages for start, pages in self.hours.items() if start >= first}
