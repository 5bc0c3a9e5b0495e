"""A reader's memory of one lane: what it has read so far, kept up to date by what changed. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..experiments.tallies import Tallies
from ..lane import hours
from ..lane.paged_rows import Pages, Rows
from ..panes import PaneKey
from ..plan import Plan
from ..storage import experiments as keeping
from ..storage.head import Head, whole_or_damaged
from ..storage.keys import EXPERIMENTS_PREFIX, HOURS_PREFIX, parse_hour_page_key, parse_page_key
from ..storage.packing import unpack_page
from ..storage.store import LaneDelta
from .lane_view import LaneView, Names


@dataclass
class Mirror:
    """One lane as it was read last. `head` is None before the first read."""

    lane: int
    plan: Plan
    head: Head | None = None
    names: Names = field(default_factory=Names)
    panes: dict[PaneKey, Pages] = field(default_factory=dict)
    totals: Pages = field(default_factory=dict)
    experiments: Mapping[str, Tallies] = field(default_factory=dict)
    _blobs: dict[str, bytes] = field(default_factory=dict)
    """Of the experiments, by key."""
    hours: dict[int, Mapping[int, bytes]] = field(default_factory=dict)
    """As they are stored: few of them are asked for, and they are many. The pages of an hour are
    replaced, never changed, so that who holds them can tell whether they are the same."""

    @property
    def token(self) -> str:
        """The token it was read under; "" before the first read."""
        return "" if self.head is None else self.head.token

    @property
    def sequence(self) -> int | None:
        """The sequence it was read at."""
        return None if self.head is None else self.head.sequence

    def apply(self, delta: LaneDelta) -> None:
        """Take in what changed. Raises Damaged; the mirror is of no use then."""
        if delta.whole:
            self.names, self.panes, self.totals = Names(), {}, {}
            self.experiments, self._blobs = {}, {}
            self.hours = {}
        self.head = delta.head
        self.names.append((self.plan.grouping_names[number], name) for number, name in delta.names)
        fresh: dict[PaneKey | None, dict[int, Rows]] = {}
        experiments = {
            key: d for key, d in delta.pages.items() if key.startswith(EXPERIMENTS_PREFIX)
        }
        self._take_experiments(experiments)
        for key, data in delta.pages.items():
            if key in experiments:
                continue
            with whole_or_damaged(f"lane {self.lane}, {key}"):
                if key.startswith(HOURS_PREFIX):
                    self._take_hour(key, data)
                    continue
                pane, page = parse_page_key(key)
                fresh.setdefault(pane, {})[page] = unpack_page(data)
        self._take_rows(fresh)
        self._drop_old()

    def _take_experiments(self, changed: Mapping[str, bytes]) -> None:
        assert self.head is not None
        held = {one.name for one in self.head.state.experiments}
        if changed:
            self._blobs |= changed
            with whole_or_damaged(f"lane {self.lane}, experiments"):
                self.experiments = keeping.read(self._blobs)
        if not self.experiments.keys() <= held:
            self.experiments = {name: t for name, t in self.experiments.items() if name in held}
            self._blobs = keeping.of_names(self._blobs, self.experiments)

    def _take_hour(self, key: str, data: bytes) -> None:
        start, page = parse_hour_page_key(key)
        self.hours[start] = {**self.hours.get(start, {}), page: data}

    def _take_rows(self, fresh: Mapping[PaneKey | None, Pages]) -> None:
        """Put pages in the place of others. A view may hold what was there: it is not touched."""
        for pane, pages in fresh.items():
            if pane is None:
                self.totals = {**self.totals, **pages}
            else:
                self.panes[pane] = {**self.panes.get(pane, {}), **pages}

    def _drop_old(self) -> None:
        watermark = self.watermark_ms
        if watermark is None:
            return
        timing = self.plan.timing
        limits = [timing.dropped_before(span, watermark) for span in timing.windows]
        self.panes = {key: rows for key, rows in self.panes.items() if key[1] >= limits[key[0]]}
        if self.settled_before is not None:
            first = hours.kept_from(self.settled_before, self.plan)
            self.hours = {start: pages for start, pages in self.hours.items() if start >= first}

    @property
    def settled_before(self) -> int | None:
        """Base panes that start before this instant have settled."""
        return None if self.head is None else self.head.state.settled_before

    @property
    def watermark_ms(self) -> int | None:
        """The lane's watermark."""
        if self.head is None or not self.head.watermarks:
            return None
        marks = [mark for mark in self.head.watermarks.values() if mark is not None]
        return min(marks) if len(marks) == len(self.head.watermarks) else None

    def view(self) -> LaneView:
        """The lane for the snapshot. Must have been read."""
        assert self.head is not None
        return LaneView(
            lane=self.lane,
            token=self.head.token,
            sequence=self.head.sequence,
            names=self.names,
            panes=dict(self.panes),
            totals=self.totals,
            counts=self.head.counts,
            watermark_ms=self.watermark_ms,
            idle_ms=self.head.idle_ms,
            offsets=self.head.offsets,
            experiments=self.experiments,
            settled_before=self.settled_before,
            hours=dict(self.hours),
        )
