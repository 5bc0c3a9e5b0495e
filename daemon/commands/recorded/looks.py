"""What an exporter would have said while recorded events were applied, and at their end. Pure,
apart from what it keeps from look to look.
"""

from dataclasses import replace

from ...exporter.judged_files import files_of
from ...exporter.lane_view import HourPages, LaneView
from ...exporter.published import Condition, Published
from ...exporter.publisher import Publisher
from ...judging.settings import Judging
from ...lane import row_set
from ...lane.class_settling import latest_ms
from ...lane.lane import Lane
from ...panes import HOUR_MS, pane_start
from ...plan import Plan
from ...storage.packing import pack_page
from .judged import JudgedHours
from .views import view_of


class Looks:
    """Looks at the lane of a replay."""

    def __init__(
        self,
        plan: Plan,
        judging: Judging,
        version_attribute: str | None = None,
        judged: JudgedHours | None = None,
    ) -> None:
        """`judged` takes the judged hours of the lane, before each look."""
        self.apart_ms = HOUR_MS
        """Event time between two looks. An exporter looks more often: a fall that begins and is
        over between two looks is not seen."""
        self._publisher = Publisher(plan, judging, version_attribute)
        self._plan, self._judged = plan, judged
        self._hours: dict[int, dict[int, bytes]] = {}
        self._looked_ms: int | None = None

    def take(self, lane: Lane) -> None:
        """Take over the hours, and look if it is time. Before the lane starts its next batch: it
        keeps the hours only that can still change."""
        if lane.settled_before is None:
            return
        for start, rows in lane.hours.items():
            self._hours[start] = {page: pack_page(rows.page(page)) for page in rows.page_numbers}
        first = row_set.kept_from(lane.settled_before, self._plan)
        self._hours = {start: pages for start, pages in self._hours.items() if start >= first}
        looked_ms = pane_start(lane.settled_before, self.apart_ms)
        if self._looked_ms is not None and looked_ms > self._looked_ms:
            self._publisher.publish([self._view(lane)], lane.watermark_ms or 0, with_series=False)
        self._looked_ms = looked_ms

    def published(self, lane: Lane, words: str) -> Published:
        """What is served when all events have been applied; `words` say of what it is."""
        at_ms = lane.watermark_ms or 0
        found = self._publisher.publish([self._view(lane)], at_ms)
        return replace(found, conditions=(Condition("recording", True, words),), recording=words)

    def _view(self, lane: Lane) -> LaneView:
        kept: HourPages = dict(self._hours)
        return replace(
            view_of(lane),
            experiments=dict(lane.experiments.by_name),
            settled_before=lane.settled_before,
            hours=kept,
            judged=None if self._judged is None else self._judged.view(lane),
            classes={
                attribute: files_of(lane.number, files.timeline, latest_ms(lane))
                for attribute, files in lane.class_files.items()
                if files.timeline is not None
            },
        )
