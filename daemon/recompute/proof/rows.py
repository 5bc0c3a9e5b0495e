"""The rows of each measure as they are stored, against those that the log proves. Pure.

Judged rows are graded again by the files of the lane itself: see `files`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ...events import timestamp_text
from ...exporter import rows_plan
from ...lane import (
    JUDGED_COUNT_COLUMNS,
    JUDGED_METRIC_COLUMNS,
    Lane,
    OptionalRows,
    PagedRows,
    Pages,
    RowSet,
    kept_from,
)
from ...panes import PaneKey
from ...plan import BY_JUDGEMENTS, Plan
from ...storage import Head, unpack_page, whole_or_damaged
from ..driver import Settled
from .differences import Difference, Differences, LeftOut, Matching, beside
from .files import Files
from .stored import Packed, StoredLane

LOST: Final = "the store has lost a part of them"
LOG_GONE: Final = "the log no longer has their records"
NOT_YET: Final = "of a layout that the lane had before, or in the middle of a change"


def left_out_hours(
    what: str,
    stored: Collection[int],
    plan: Plan,
    first_ms: int | None,
    lost: Collection[int],
    since_ms: int,
) -> Iterator[LeftOut]:
    """Those of stored hours that are not compared, by their starts, and why."""
    by_reason: dict[str, list[int]] = {}
    for start in sorted(stored):
        if start in lost:
            by_reason.setdefault(LOST, []).append(start)
        elif first_ms is None or start < first_ms:
            by_reason.setdefault(LOG_GONE, []).append(start)
        elif start < since_ms:
            by_reason.setdefault(NOT_YET, []).append(start)
    for reason, starts in by_reason.items():
        yield LeftOut(f"{what} {_spans(starts, plan.hour_ms)}", reason)


def _spans(starts: Sequence[int], hour_ms: int) -> str:
    """Starts, ascending, as spans of hours that follow one another."""
    firsts = [at for at in starts if at - hour_ms not in starts]
    lasts = [at for at in starts if at + hour_ms not in starts]
    pairs = [tuple(map(timestamp_text, pair)) for pair in zip(firsts, lasts, strict=True)]
    return ", ".join(one if one == other else f"{one} to {other}" for one, other in pairs)


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
    summed: Callable[[int], Collection[int]]
    """Start → groupings of which only the sum over all segments is compared."""
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
    unknown: Callable[[int], Sequence[int]] = lambda start: ()
    """Start → columns that are not compared."""
    hours: int = 0
    panes: int = 0
    _seen: set[int] = field(default_factory=set)

    def take(self, settled: Settled, rows: RowSet) -> None:
        """Compare the hours of these rows that are over and proven."""
        for start, of in settled.hours(rows):
            self._hour(start, of.pages, settled.first_ms)

    def finish(self, settled: Settled, rows: RowSet) -> None:
        """Compare all that is left, once the lane has read up to the stored offsets."""
        first_ms = settled.first_ms
        stored_panes, stored_hours = self.stored
        for start, of in rows.hours.items():
            self._hour(start, of.pages, first_ms)
        for start in sorted(stored_hours.keys() - self._seen):
            self._hour(start, {}, first_ms)
        kept = {start for start in {*stored_hours, *self.lost_hours} if self._is_kept(start)}
        self.differences.left_out += left_out_hours(
            f"{self.measure}hours", kept, self.plan, first_ms, self.lost_hours, self.hours_from
        )
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
        if start in self.lost_hours or not self._is_kept(start) or first_ms is None:
            return
        if start >= max(first_ms, self.hours_from):
            self.hours += 1
            stored = self.unpacked(self.stored[1].get(start, {}), start, start)
            self.compare(self._at("hour", start=timestamp_text(start)), stored, proven, start)

    def _is_kept(self, start: int) -> bool:
        before = self.head.state.settled_before
        return before is not None and start >= kept_from(before, self.plan)

    def _at(self, kind: str, start: str, window: str | None = None) -> "partial[Difference]":
        return partial(Difference, f"{self.measure}{kind}", start=start, window=window)

    def compare(self, at: "partial[Difference]", stored: Pages, proven: Pages, start: int) -> None:
        """Compare rows of one start."""
        proven, names = self.covered(proven, start), self.plan.grouping_names
        rows = beside(self.matching, stored, proven, len(self.columns))
        unknown = self.unknown(start)
        rows.stored[:, unknown] = rows.proven[:, unknown] = 0
        compared, count, unequal = rows.unequal(self.summed(start))
        self.differences.compared += compared * (len(self.columns) - len(unknown))
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


NOT_PROVABLE: Final = "{} rows are not provable: "
NONE_YET: Final = "the lane has none yet"
OTHER_COLUMNS: Final = "the lane has other {} metrics than this configuration"
AHEAD: Final = (
    "they began in mid-life, and which impressions of wrong clocks came before that is not stored"
)


@dataclass(frozen=True)
class OptionalMeasure:
    """A measure whose rows a plan may leave out, as differences name it."""

    title: str
    columns: Callable[[Plan], Sequence[str]]
    """The names of the columns of its rows."""
    plan: Callable[[Plan], Plan]
    """That of its rows, where it is on."""


def _judged_columns(plan: Plan) -> Sequence[str]:
    names = () if plan.judged is None else [metric.name for metric in plan.judged.metrics]
    return [
        *JUDGED_COUNT_COLUMNS,
        *(f"{n} {c}" for n in names for c in JUDGED_METRIC_COLUMNS),
        *(f"{n} best-case {c}" for n in names for c in JUDGED_METRIC_COLUMNS),
    ]


OPTIONAL_MEASURES: Final = {BY_JUDGEMENTS: OptionalMeasure("judged", _judged_columns, rows_plan)}


class OptionalComparison:
    """What was compared of the rows of one such measure of a lane."""

    def __init__(
        self,
        measure: str,
        stored: StoredLane,
        plan: Plan,
        matching: Matching,
        summed: Callable[[int], Collection[int]],
        differences: Differences,
    ) -> None:
        """`summed`: see `RowsComparison`."""
        self.notes: list[str] = []
        self.is_on = False
        self._measure, self._of = measure, OPTIONAL_MEASURES[measure]
        self._matching = matching
        self._stored, self._head = stored, stored.head.optional_rows.get(measure)
        since_ms = 0 if self._head is None else self._head.since_ms
        self._coverage = stored.coverage
        if measure in plan.optional:
            self._coverage = stored.coverage_of_measure(self._of.plan(plan))
        self.rows = RowsComparison(
            measure=f"{self._of.title} ",
            plan=plan,
            head=stored.head,
            stored=stored.optional_rows[measure],
            columns=self._of.columns(plan),
            matching=matching,
            summed=summed,
            differences=differences,
            hours_from=max(since_ms, self._coverage.hours),
            panes_from=[max(since_ms, begins_ms) for begins_ms in self._coverage.windows],
            lost_hours=() if self._head is None else self._head.lost_hours,
            unpacked=lambda pages, hour, start: self._unpacked(pages, start),
            covered=self._covered,
        )

    @property
    def is_whole(self) -> bool:
        """Whether it has all that the stored lane has counted."""
        head = self._head
        return self.is_on and head is not None and not head.since_ms and not head.from_slot

    @property
    def begins(self) -> Mapping[str, int | None]:
        """Where the stored rows begin; None where they always were."""
        head, title = self._head, self._of.title
        if head is None:
            return {}
        first = {f"slot of the first {title} list": head.from_slot or None}
        return {f"{title} rows": head.since_ms or None, **first}

    def begins_from(self, hour: int | None) -> Mapping[str, int | None]:
        """The same of a lane of which the first whole hour starts then; None: all are."""
        return {} if self._head is None else {f"{self._of.title} rows": hour}

    def begin(self, lane: Lane, files: Files[Any], *, is_whole: bool) -> None:
        """Let the rows of the lane that is to be compared, which has seen nothing, begin as the
        stored ones did, where that is known. `files`: by which they are graded."""
        rows = lane.optional_rows.get(self._measure)
        if rows is not None:
            obstacle = files.obstacle or self._begun(rows, lane, is_whole=is_whole)
            self.is_on = not obstacle
            not_provable = NOT_PROVABLE.format(self._of.title)
            self.notes += [f"{not_provable}{obstacle}"] if obstacle else files.notes
            self.rows.differences.note(files.moved, len(files.moved))

    def _begun(self, rows: OptionalRows, lane: Lane, *, is_whole: bool) -> str:
        """Let them begin; returns why they cannot."""
        head = self._head
        if head is None:
            return NONE_YET
        if head.columns != lane.plan.optional[self._measure].column_ids:
            return OTHER_COLUMNS.format(self._of.title)
        # Slots follow the order of impressions: that of the only topic, or one that is not known.
        is_known = is_whole and len(lane.offsets) == 1
        if head.from_slot and not is_known:
            if any(self._stored.head.counts.get("ahead_events", {}).values()):
                return AHEAD
        rows.begin(head.from_slot if is_known else 0, head.since_ms)
        return ""

    def take(self, settled: Settled) -> None:
        """See `LaneSink`."""
        if self.is_on:
            self.rows.take(settled, settled.lane.optional_rows[self._measure])

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`."""
        if self.is_on:
            self.rows.finish(settled, settled.lane.optional_rows[self._measure])

    def _unpacked(self, packed: Packed, start: int) -> Pages:
        with whole_or_damaged(f"lane {self._stored.lane}"):
            rows = {page: unpack_page(data) for page, data in packed.items()}
        return self._stored.covered(rows, self._stored.names, start, self._coverage)

    def _covered(self, pages: Pages, start: int) -> Pages:
        return self._stored.covered(pages, self._matching.proven, start, self._coverage)
