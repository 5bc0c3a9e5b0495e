"""A reader's copy of the judged rows of one lane, kept up to date as that of its rows is."""

from ..plan import Plan
from ..storage.head import Head
from ..storage.keys import JUDGED
from ..storage.store import LaneDelta
from .judged_files import LaneFiles
from .lane_view import JudgedLane
from .rows_mirror import RowsMirror


class JudgedMirror(RowsMirror):
    """The judged rows as of the last read."""

    def __init__(self, lane: int, plan: Plan) -> None:
        super().__init__(lane, plan, JUDGED)
        self._columns: tuple[str, ...] = ()
        self._since_ms = 0

    def apply_delta(self, delta: LaneDelta) -> None:
        """Apply what changed of the pages of judged rows. Raises Damaged."""
        head = delta.head.judged
        columns, since_ms = ((), 0) if head is None else (head.columns, head.since_ms)
        # A lane whose columns begin anew has unlinked all its pages.
        if delta.whole or (columns, since_ms) != (self._columns, self._since_ms):
            self._columns, self._since_ms = columns, since_ms
            self.clear()
        if self._is_expected:
            self.apply(delta.pages)

    @property
    def _is_expected(self) -> bool:
        """Whether the columns of the lane are those of the plan."""
        judged = self._plan.judged
        return judged is not None and self._columns == judged.column_ids

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
            dict(self.panes),
            dict(self.hours),
            frozenset(head.judged.lost_hours),
        )
