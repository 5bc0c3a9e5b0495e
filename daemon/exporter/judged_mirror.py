"""A reader's copy of the judged rows of one lane, kept up to date as that of its rows is."""

from collections.abc import Mapping

from ..lane import hours
from ..lane.judged import final_before_ms
from ..lane.paged_rows import Pages
from ..panes import PaneKey
from ..plan import Plan
from ..storage.head import Head, whole_or_damaged
from ..storage.judged import parse_judged_hour_key, parse_judged_key
from ..storage.packing import unpack_page
from ..storage.store import LaneDelta
from .judged_files import LaneFiles
from .lane_view import JudgedLane


class JudgedMirror:
    """The judged rows as of the last read. Nothing that a view contains is changed in place."""

    def __init__(self, lane: int, plan: Plan) -> None:
        self._lane, self._plan = lane, plan
        self._columns: tuple[str, ...] = ()
        self._since_ms = 0
        self._panes: dict[PaneKey, Pages] = {}
        self._hours: dict[int, Mapping[int, bytes]] = {}

    def apply(self, delta: LaneDelta, pages: Mapping[str, bytes]) -> None:
        """Apply what changed of the pages of judged rows. Raises Damaged."""
        head = delta.head.judged
        columns, since_ms = ((), 0) if head is None else (head.columns, head.since_ms)
        # A lane whose columns begin anew has unlinked all its pages.
        if delta.whole or (columns, since_ms) != (self._columns, self._since_ms):
            self._columns, self._since_ms = columns, since_ms
            self._panes, self._hours = {}, {}
        if not self._is_expected:
            return
        changed: dict[PaneKey, dict[int, bytes]] = {}
        for key, data in pages.items():
            with whole_or_damaged(f"lane {self._lane}, {key}"):
                if (of_hour := parse_judged_hour_key(key)) is not None:
                    start, page = of_hour
                    self._hours[start] = {**self._hours.get(start, {}), page: data}
                elif (of_pane := parse_judged_key(self._plan.timing, key)) is not None:
                    changed.setdefault(of_pane[0], {})[of_pane[1]] = data
        for pane, packed in changed.items():
            with whole_or_damaged(f"lane {self._lane}, judged rows"):
                rows = {page: unpack_page(data) for page, data in packed.items()}
            self._panes[pane] = {**self._panes.get(pane, {}), **rows}

    @property
    def _is_expected(self) -> bool:
        """Whether the columns of the lane are those of the plan."""
        judged = self._plan.judged
        return judged is not None and self._columns == judged.column_ids

    def drop_old(self, watermark_ms: int) -> None:
        """Drop what the lane does not keep at this watermark."""
        timing, plan = self._plan.timing, self._plan
        limits = [timing.dropped_before(span, watermark_ms) for span in timing.windows]
        self._panes = {key: rows for key, rows in self._panes.items() if key[1] >= limits[key[0]]}
        first_ms = hours.kept_from(final_before_ms(watermark_ms, timing), plan)
        self._hours = {start: pages for start, pages in self._hours.items() if start >= first_ms}

    def view(self, head: Head) -> JudgedLane | None:
        """The judged rows as a value; None where the lane has none, or other columns."""
        if head.judged is None or head.judgements is None or not self._is_expected:
            return None
        graded, entries = head.judgements.history, head.judgements.timeline.entries
        files = LaneFiles(
            head.judged.since_ms,
            graded.entries,
            graded.refused,
            self._lane,
            latest_ms=head.judged.latest_ms,
            first_ms=entries[0].start_ms if entries else 0,
        )
        return JudgedLane(
            files,
            dict(self._panes),
            dict(self._hours),
            frozenset(head.judged.lost_hours),
        )
