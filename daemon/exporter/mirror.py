"""A reader's copy of one lane, kept up to date by what changed since the last read.

Pure. The exporter reads every lane about once a second, so a read transfers only what changed.
Nothing that a view contains is changed in place: requests are answered from an earlier view in
other threads while this one takes in what changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..experiments.tallies import Tallies
from ..lane.judged import final_before_ms
from ..lane.paged_rows import Pages, Rows
from ..plan import Plan
from ..storage import experiments as stored_experiments
from ..storage.class_files import ClassesHead
from ..storage.head import Head, whole_or_damaged
from ..storage.keys import CLICKS, EXPERIMENTS_PREFIX, totals_page_of
from ..storage.layouts import LAYOUTS_KEY, LaneLayouts, layouts_of, translated
from ..storage.log_marks import ids_of
from ..storage.packing import unpack_page
from ..storage.store import LaneDelta
from .judged_files import LaneFiles, files_of
from .judged_mirror import JudgedMirror
from .lane_view import LaneView, Names, shown_as
from .rows_mirror import RowsMirror


@dataclass
class Mirror:
    """One lane as of the last read. `head` is None before the first."""

    lane: int
    plan: Plan
    head: Head | None = None
    layouts: LaneLayouts | None = None
    """None before its first commit."""
    names: Names = field(default_factory=Names)
    totals: Pages = field(default_factory=dict)
    experiments: Mapping[str, Tallies] = field(default_factory=dict)
    _blobs: dict[str, bytes] = field(default_factory=dict)
    """The stored bytes of the experiments, by key; without their days."""
    _days: Mapping[str, bytes] = field(default_factory=dict)
    """The ended days of experiments, by key, packed as they are stored: few are ever asked for."""

    def __post_init__(self) -> None:
        self.rows = RowsMirror(self.lane, self.plan, CLICKS)
        self.judged = JudgedMirror(self.lane, self.plan)

    @property
    def token(self) -> str:
        """The owner's token at the last read; "" before the first."""
        return "" if self.head is None else self.head.token

    @property
    def sequence(self) -> int | None:
        """The sequence at the last read; None before the first."""
        return None if self.head is None else self.head.sequence

    def apply(self, delta: LaneDelta) -> None:
        """Apply what changed. Raises Damaged; the mirror must be thrown away then."""
        if delta.whole:
            self.names, self.totals = Names(), {}
            self.experiments, self._blobs, self._days = {}, {}, {}
            self.rows.clear()
        self.head = delta.head
        with whole_or_damaged(f"lane {self.lane}, {LAYOUTS_KEY}"):
            self.layouts = layouts_of(delta.pages) or self.layouts
            self._name(delta.names)
        self._apply_experiments(
            {key: data for key, data in delta.pages.items() if key.startswith(EXPERIMENTS_PREFIX)}
        )
        with whole_or_damaged(f"lane {self.lane}, totals"):
            for key, data in delta.pages.items():
                if (page := totals_page_of(key)) is not None:
                    self.totals = {**self.totals, page: self._rows(data)}
        self.rows.apply(delta.pages, self._rows)
        self.judged.apply_delta(delta)
        self._drop_old()

    def _name(self, names: Sequence[tuple[int, str]]) -> None:
        if names:
            assert self.layouts is not None
            groupings = self.layouts.grouping_names
            self.names.append(shown_as(groupings[of], segment) for of, segment in names)

    def _rows(self, data: bytes) -> Rows:
        """A page of panes or of totals, all of which are stored under the last layout."""
        rows = unpack_page(data)
        return rows if self.layouts is None else translated(rows, self.layouts.last, self.plan)

    def _apply_experiments(self, changed: Mapping[str, bytes]) -> None:
        assert self.head is not None
        stored = {entry.name for entry in self.head.state.experiments}
        days = stored_experiments.days_of(changed)
        if days:
            self._days = {**self._days, **days}
        if len(changed) > len(days):
            self._blobs |= {key: data for key, data in changed.items() if key not in days}
            with whole_or_damaged(f"lane {self.lane}, experiments"):
                self.experiments = stored_experiments.read(self._blobs)
        if not self.experiments.keys() <= stored:
            self.experiments = {name: t for name, t in self.experiments.items() if name in stored}
            self._blobs = stored_experiments.of_names(self._blobs, self.experiments)
            self._days = stored_experiments.of_names(self._days, self.experiments)

    def _drop_old(self) -> None:
        watermark = self.watermark_ms
        if watermark is None:
            return
        self.rows.drop_old(watermark, self.settled_before)
        self.judged.drop_old(watermark, final_before_ms(watermark, self.plan.timing))

    @property
    def settled_before(self) -> int | None:
        """Base panes that start before this instant have settled."""
        return None if self.head is None else self.head.state.settled_before

    @property
    def watermark_ms(self) -> int | None:
        """The least watermark of its topic-partitions; None while one has none."""
        if self.head is None or not self.head.watermarks:
            return None
        marks = [mark for mark in self.head.watermarks.values() if mark is not None]
        return min(marks) if len(marks) == len(self.head.watermarks) else None

    def view(self) -> LaneView:
        """The lane as a value for the snapshot. It must have been read before."""
        assert self.head is not None
        return LaneView(
            lane=self.lane,
            token=self.head.token,
            sequence=self.head.sequence,
            names=self.names,
            panes=dict(self.rows.panes),
            totals=self.totals,
            counts=self.head.counts,
            watermark_ms=self.watermark_ms,
            idle_ms=self.head.idle_ms,
            offsets=self.head.offsets,
            topic_ids=ids_of(self.head.logs),
            experiments=self.experiments,
            experiment_days=self._days,
            settled_before=self.settled_before,
            hours=dict(self.rows.hours),
            lost_hours=frozenset(self.head.state.lost_hours),
            queries=self.head.queries,
            layouts=self.layouts,
            judged=self.judged.view(self.head),
            classes=_classes(self.lane, self.head.classes),
        )


def _classes(lane: int, head: ClassesHead | None) -> dict[str, LaneFiles]:
    if head is None:
        return {}
    return {
        attribute: files_of(lane, files.timeline, head.latest_ms)
        for attribute, files in head.timelines.items()
    }
