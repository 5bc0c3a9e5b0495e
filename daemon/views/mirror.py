"""A reader's copy of each lane of a namespace, kept up to date by what changed since the last read.

The exporter reads every lane about once a second, so a read transfers only what changed. Nothing
that a view contains is changed in place: pages and mappings are replaced, as requests are answered
from an earlier view in other threads.

A damaged lane is not read. What this process read of it before is a right copy, as of then, and
goes on to be summed; without a copy there is no sum, because one without the lane would be smaller
than the traffic.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from ..errors import Damaged
from ..experiments import Tallies
from ..lane import Pages, Rows, kept_from
from ..panes import PaneKey
from ..plan import BY_FEEDBACK, BY_JUDGEMENTS, Plan
from ..storage import (
    EXPERIMENTS_PREFIX,
    LAYOUTS_KEY,
    OPTIONAL_KEYS,
    ROW_KEYS,
    ClassesHead,
    DamagedLane,
    Head,
    LaneDelta,
    LaneLayouts,
    RowsHead,
    Store,
    TimelineHead,
    by_start,
    experiments as stored_experiments,
    ids_of,
    layouts_of,
    totals_page_of,
    translated,
    unpack_page,
    whole_or_damaged,
)
from ..telemetry import Telemetry
from .grading_files import LaneFiles
from .lane_view import LaneRows, LaneView, Names, files_of, shown_as


class RowsMirror:
    """The rows as of the last read."""

    def __init__(self, lane: int, plan: Plan, measure: str) -> None:
        self._lane, self._plan, self._keys = lane, plan, ROW_KEYS[measure]
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


class OptionalMirror(RowsMirror):
    """The rows of a measure that a plan may leave out, as of the last read."""

    def __init__(self, lane: int, plan: Plan, measure: str) -> None:
        super().__init__(lane, plan, measure)
        self._measure = measure
        self._columns: tuple[str, ...] = ()
        self._since_ms = 0

    def apply_delta(self, delta: LaneDelta) -> None:
        """Apply what changed of the pages of these rows. Raises Damaged."""
        head = delta.head.optional_rows.get(self._measure)
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
        plan = self._plan.optional.get(self._measure)
        return plan is not None and self._columns == plan.column_ids

    def view(self, head: Head) -> LaneRows | None:
        """The rows as a value; None where the lane has none, or other columns, or no files yet
        that grade them."""
        of, files = head.optional_rows.get(self._measure), None
        if of is None or not self._is_expected:
            return None
        if self._measure == BY_JUDGEMENTS:
            if head.judgements is None:
                return None
            files = _grading_files(self._lane, of, head.judgements)
        lost_hours = frozenset(of.lost_hours)
        return LaneRows(dict(self.panes), dict(self.hours), lost_hours, files)


def _grading_files(lane: int, of: RowsHead, files: TimelineHead) -> LaneFiles:
    graded, entries = files.history, files.timeline.entries
    return LaneFiles(
        of.since_ms,
        graded.entries,
        graded.refused,
        lane,
        latest_ms=of.latest_ms,
        first_ms=entries[0].start_ms if entries else 0,
    )


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
    _days: Mapping[str, stored_experiments.EndedDay] = field(default_factory=dict)
    """The ended days of experiments, by key."""

    def __post_init__(self) -> None:
        self.rows = RowsMirror(self.lane, self.plan, BY_FEEDBACK)
        self.optional = {
            measure: OptionalMirror(self.lane, self.plan, measure) for measure in OPTIONAL_KEYS
        }

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
        for rows in self.optional.values():
            rows.apply_delta(delta)
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
        if changed:
            with whole_or_damaged(f"lane {self.lane}, experiments"):
                days = stored_experiments.ended_days(changed)
                self._days = {**self._days, **days}
                self._blobs |= {key: data for key, data in changed.items() if key not in days}
                self.experiments = stored_experiments.read(self._blobs)
                stored_experiments.add_days(self.experiments, self._days.values())
        if not self.experiments.keys() <= stored:
            self.experiments = {name: t for name, t in self.experiments.items() if name in stored}
            self._blobs = stored_experiments.of_names(self._blobs, self.experiments)
            self._days = stored_experiments.of_names(self._days, self.experiments)

    def _experiments_lost_before(self, head: Head) -> Mapping[str, int]:
        """Those that count from where the lane began anew. One that was configured since counts
        from later on, and had nothing to lose."""
        pane_ms, tracking = head.whole_from(self.plan.timing.base_ms), self.plan.tracking
        if pane_ms is None or tracking is None:
            return {}
        if not head.sequence:
            return dict.fromkeys(tracking.digests(), pane_ms)
        known = head.state.experiments
        return {entry.name: pane_ms for entry in known if entry.since_ms == pane_ms}

    def _drop_old(self) -> None:
        watermark = self.watermark_ms
        if watermark is None:
            return
        self.rows.drop_old(watermark, self.settled_before)
        for rows in self.optional.values():
            rows.drop_old(watermark, self.plan.timing.final_before(watermark))

    @property
    def settled_before(self) -> int | None:
        """Base panes that start before this instant have settled."""
        return None if self.head is None else self.head.state.settled_before

    @property
    def watermark_ms(self) -> int | None:
        """The least watermark of its topic-partitions; None while one has none."""
        return None if self.head is None else self.head.watermark_ms

    def view(self) -> LaneView:
        """The lane as a value for the snapshot. It must have been read before."""
        assert self.head is not None
        optional = {measure: of.view(self.head) for measure, of in self.optional.items()}
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
            lost_before_ms=self.head.whole_from(self.plan.timing.base_ms),
            experiments_lost_before=self._experiments_lost_before(self.head),
            experiments_dropped_ms=max(
                (entry.dropped_ms for entry in self.head.state.experiments), default=0
            ),
            settled_before=self.settled_before,
            expires_ms=self.head.state.expires_ms,
            hours=dict(self.rows.hours),
            lost_hours=frozenset(self.head.state.lost_hours),
            queries=self.head.queries,
            layouts=self.layouts,
            rows={measure: rows for measure, rows in optional.items() if rows is not None},
            classes=_classes(self.lane, self.head.classes),
        )


def _classes(lane: int, head: ClassesHead | None) -> dict[str, LaneFiles]:
    if head is None:
        return {}
    return {
        attribute: files_of(lane, files.timeline, head.latest_ms)
        for attribute, files in head.timelines.items()
    }


STALLED_AFTER_S: Final = 15.0
"""A lane that neither commits nor writes an idle mark for this long has no owner, or its owner
gets no answer from Kafka."""


@dataclass
class _Pulse:
    """When a lane last showed that it has an owner."""

    mark: tuple[str, int, int | None]
    since_s: float


class Pulses:
    """When each lane last moved, by the monotonic clock of this process."""

    def __init__(self) -> None:
        self._pulses: dict[int, _Pulse] = {}

    def stalled(self, mirrors: Mapping[int, Mirror], now_s: float) -> str:
        """Note what moved; returns which lanes do not, or ""."""
        stalled = []
        for lane, mirror in sorted(mirrors.items()):
            if mirror.head is None:
                continue
            mark = (mirror.head.token, mirror.head.sequence, mirror.head.idle_ms)
            pulse = self._pulses.setdefault(lane, _Pulse(mark, now_s))
            if pulse.mark != mark:
                self._pulses[lane] = pulse = _Pulse(mark, now_s)
            if now_s - pulse.since_s > STALLED_AFTER_S:
                stalled.append(f"lane {lane} has not moved for {now_s - pulse.since_s:.0f} s")
        return f"{'; '.join(stalled)}: no owner, or no answer from Kafka" if stalled else ""


LANES_AT_ONCE: Final = 16

Reads: TypeAlias = list[tuple[Mirror, LaneDelta | None]]
"""What changed of each lane; None where it is damaged and its copy stays as it is."""


class Lanes(Protocol):
    """What a namespace knows of its lanes. All methods raise Unavailable."""

    async def lanes(self) -> int:
        """The number of lanes."""

    async def begun(self) -> frozenset[int]:
        """The lanes that have begun, as far as that is noted."""


class LaneReads:
    """The mirrors of one process, and what is wrong with the lanes that it cannot read."""

    def __init__(self, store: Store, lanes: Lanes, plan: Plan, telemetry: Telemetry) -> None:
        self._store = store
        self._lanes = lanes
        self._plan = plan
        self._telemetry = telemetry
        self.mirrors: dict[int, Mirror] = {}
        """The lanes that were read, damaged ones included where they were whole before. One without
        a head was read, but what was read is not applied yet."""
        self.damaged: dict[int, str] = {}
        """Lane → what is missing of it."""
        self.count = 0
        """The number of lanes, those included that were never claimed."""

    def forget(self) -> None:
        """Drop all copies: another process serves the scores."""
        self.mirrors.clear()
        self._note({})

    @property
    def without_copy(self) -> list[int]:
        """The damaged lanes of which this process has no copy."""
        return sorted(self.damaged.keys() - self._copies())

    def _copies(self) -> set[int]:
        return {lane for lane, mirror in self.mirrors.items() if mirror.head is not None}

    async def read(self) -> Reads:
        """What changed of every lane that was ever claimed. Raises Unavailable."""
        count = max(await self._lanes.lanes(), max(self.mirrors, default=-1) + 1)
        self.count = count
        # Asked first: a lane that begins meanwhile has a head by the time it is noted.
        begun = await self._lanes.begun() | self._copies()
        gate = asyncio.Semaphore(LANES_AT_ONCE)
        damaged = dict[int, str]()

        async def read(lane: int) -> tuple[Mirror, LaneDelta | None]:
            mirror = self.mirrors.get(lane) or Mirror(lane, self._plan)
            try:
                async with gate:
                    delta = await self._store.read(
                        lane, mirror.token, mirror.sequence, len(mirror.names)
                    )
            except Damaged as error:
                damaged[lane] = str(error)
                return mirror, None
            if delta is None and lane in begun:
                damaged[lane] = str(DamagedLane(lane, "its head is gone"))
            return mirror, delta

        reads = await asyncio.gather(*(read(lane) for lane in range(count)))
        self._note(damaged)
        self.mirrors |= {mirror.lane: mirror for mirror, delta in reads if delta is not None}
        return [(m, delta) for m, delta in reads if delta is not None or m.head is not None]

    def _note(self, damaged: dict[int, str]) -> None:
        for lane in self.damaged.keys() - damaged.keys():
            self._telemetry.lane_damaged.labels(str(lane)).set(0)
        for lane in damaged:
            self._telemetry.lane_damaged.labels(str(lane)).set(1)
        self.damaged = damaged
