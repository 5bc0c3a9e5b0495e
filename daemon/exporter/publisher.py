"""From the lanes as they were read to everything that is served, snapshot after snapshot.

Pure apart from what it remembers between two snapshots: the highest counters, the segments that
have counters, and the results that cost much and seldom change.

The lanes as of one snapshot, kept for requests that need single panes: values that are never
changed again.

Few requests need panes, so nothing is summed for them before they ask.

What the HTTP server serves: made off the event loop, swapped as one value, never changed.

The text of /metrics has two parts: the snapshot's, which has megabytes and is rendered and
compressed once per snapshot, and the process's own, rendered at each scrape. A scrape gets both as
one gzip stream: the deflated blocks of the first part are kept, those of the second follow, and
the checksum continues where the first part's ended. So a scrape compresses kilobytes only.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Final, TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Floats

from ..changes import DEFAULTS, ChangeSettings, Fall, Marker, ordered
from ..experiments import NOTHING, Findings, FindingsCache
from ..lane import Rows
from ..panes import pane_start
from ..plan import Plan
from ..storage import StoredPast
from ..views import (
    HighestTotals,
    HourHistory,
    HourSources,
    Indices,
    LaneView,
    PreviousSelection,
    Report,
    Segment,
    Selection,
    Snapshot,
    classes_by_attribute,
    counters_of,
    covered,
    refusals,
    scores,
    selection,
    snapshot,
    words_of,
)
from . import baselines, exposition, sample_series
from .baselines import Usual
from .detector import Basis, ChangeDetector, Detection
from .exposition import Chunks, Exposition
from .first_sights import CatchUpProgress, FirstSights
from .judged import JudgedScores, Scorer, rows_plan
from .judged_falls import JudgedBasis, JudgedFalls
from .timelines import Measuring


@dataclass(frozen=True)
class Reading:
    """One snapshot, the lanes that it sums, and the segments with gauges."""

    plan: Plan
    views: Sequence[LaneView]
    snapshot: Snapshot
    selection: Selection
    experiments: Findings = NOTHING
    judged: Detection = Detection()
    """What fell and has not recovered, as of the last look."""
    by_judgements: JudgedScores | None = None
    """None where no metrics are judged."""
    judged_falls: Detection = Detection()
    """The same of judged scores."""
    usual: Usual = Usual()
    """The last hours, and the same hours before."""
    markers: tuple[Marker, ...] = ()
    """What people marked, by time."""
    of_hours: HourSources | None = None
    """None: the hours of the lanes alone."""
    outages: frozenset[int] = frozenset()
    """Starts of hours that say nothing about what is usual."""

    @cached_property
    def hour_sources(self) -> HourSources:
        """Where the rows of hours come from."""
        return self.of_hours or HourSources.of(self.views, (), self.plan)

    @cached_property
    def _selected_rows(self) -> Sequence[Mapping[int, Indices]]:
        """For each lane: page → the rows of the selection where its segments count."""
        return [
            {
                page: self.selection.rows_of(lane.names.of_page(page))
                for page in {page for pages in lane.panes.values() for page in pages}
            }
            for lane in self.views
        ]

    def _pages(self, window: int, start: int) -> Iterator[tuple[Indices, Rows]]:
        """((n,) rows of the selection, (n, columns) rows) of each page of a pane, lane by lane."""
        for lane, selected in zip(self.views, self._selected_rows, strict=True):
            for page, rows in lane.panes.get((window, start), {}).items():
                yield selected[page], rows[: len(selected[page])]

    def panes(self, window: int, starts: Sequence[int], segment: Segment) -> Rows:
        """(starts, columns): a selected segment in each of these panes of the window."""
        wanted = self.selection.segments.index(segment)
        summed = np.zeros((len(starts), self.plan.row_width), np.int64)
        for index, start in enumerate(starts):
            for selected, rows in self._pages(window, start):
                summed[index] += rows[selected == wanted].sum(axis=0)
        return summed

    def column(self, window: int, starts: Sequence[int], column: int) -> Floats:
        """(starts, selected segments): one column in each of these panes of the window."""
        size = len(self.selection.segments) + 1
        summed = np.zeros((len(starts), size))
        for index, start in enumerate(starts):
            for selected, rows in self._pages(window, start):
                summed[index] += np.bincount(selected, rows[:, column], size)
        return summed[:, :-1]


_GZIP_LEVEL: Final = 1
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""No name and no time, so that the same text gives the same bytes; XFL 4: the fastest level."""
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
"""Without zlib's own header: the gzip header and trailer are put around the blocks here."""
TAKEN_OVER: Final = (
    "namespace {0} serves the scores now: stop the daemons of this one; where it should serve"
    " again, stop those of {0} for a minute"
)


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One condition of the process's readiness; `detail` states what is wrong, or worth knowing
    where the condition holds."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class MetricsText:
    """The beginning of the text of /metrics, plain and as deflated blocks that more may follow."""

    plain: Chunks = ()
    deflated: bytes = b""
    crc: int = 0

    def with_rest(self, rest: bytes) -> tuple[bytes, ...]:
        """The parts of the whole text, which ends with `rest`."""
        return (*self.plain, rest)

    def with_rest_gzipped(self, rest: bytes) -> tuple[bytes, ...]:
        """The parts of the whole text, which ends with `rest`, as one gzip stream."""
        compressor = _compressor()
        end = compressor.compress(rest) + compressor.flush(zlib.Z_FINISH)
        size = (sum(map(len, self.plain)) + len(rest)) & 0xFFFFFFFF
        trailer = struct.pack("<II", zlib.crc32(rest, self.crc), size)
        return (_GZIP_HEADER, self.deflated, end + trailer)


@dataclass(frozen=True)
class Published:
    """Everything that requests are answered from.

    Before the first snapshot, and in a process that is only a worker, the texts are empty and
    `report` and `reading` are None. A process that stands by has empty texts.
    """

    conditions: tuple[Condition, ...] = (Condition("started", False, "the process is starting"),)
    text: MetricsText = MetricsText()
    openmetrics: MetricsText = MetricsText()
    report: Report | None = None
    reading: Reading | None = None
    """The lanes, for requests that need panes; None exactly where `report` is."""
    catching_up: CatchUpProgress | None = None
    """Of a namespace that has not caught up with its logs yet."""
    successor: str | None = None
    """The namespace that serves instead of this one."""
    recording: str | None = None
    """What is served where it is no live traffic."""

    @property
    def ready(self) -> bool:
        """True where every condition holds."""
        return all(condition.ok for condition in self.conditions)


def has_caught_up(published: Published, was_ready: bool) -> list[Condition]:
    """Whether the process may replace others, once that is known. One that has been ready stays
    ready while lost state is read again: it is as good as any other."""
    successor, progress = published.successor, published.catching_up
    if published.reading is None:
        return []
    if successor is not None:
        return [Condition("caught_up", False, TAKEN_OVER.format(successor))]
    if progress is None:
        return [Condition("caught_up", True)]
    lost = "Redis lost the state, which is read again: " if was_ready else ""
    return [Condition("caught_up", was_ready, lost + progress.words())]


def of_reading(published: Published, was_ready: bool) -> list[Condition]:
    """The conditions that what is served says by itself."""
    found = has_caught_up(published, was_ready)
    reading = published.reading
    if reading is None:
        return found
    graded = reading.by_judgements
    if graded is not None:
        # Other lanes and the scores of clicks are as good as without judgements.
        found.append(Condition("judged_scores", True, words_of(graded.files, graded.measure)))
    for attribute, lanes in classes_by_attribute(reading.views, reading.plan).items():
        found.append(Condition(f"classes of {attribute}", True, "; ".join(refusals(lanes))))
    return found


def publish(
    exposition: Exposition, report: Report, reading: Reading, conditions: Sequence[Condition]
) -> Published:
    """Compress the texts of a snapshot. Takes long: meant for a thread."""
    return Published(
        conditions=tuple(conditions),
        text=metrics_text(exposition.text),
        openmetrics=metrics_text(exposition.openmetrics),
        report=report,
        reading=reading,
    )


def metrics_text(plain: Chunks) -> MetricsText:
    """The beginning of the text of /metrics, compressed so that more can follow.

    Z_SYNC_FLUSH ends on a byte boundary without ending the stream. The compressor that continues
    it begins with an empty window, which deflate allows.
    """
    compressor = _compressor()
    deflated = [compressor.compress(chunk) for chunk in plain]
    deflated.append(compressor.flush(zlib.Z_SYNC_FLUSH))
    return MetricsText(plain, b"".join(deflated), reduce(_checked, plain, 0))


def _checked(crc: int, chunk: bytes) -> int:
    return zlib.crc32(chunk, crc)


def _compressor() -> "zlib._Compress":
    return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)


_ComparedKey: TypeAlias = tuple[int | None, tuple[Segment, ...], tuple[int, ...], frozenset[int]]
"""(base pane that contains as_of, segments that gauges show, hours that the lanes contain, hours
that they lost)."""


class Publisher:
    """Makes what is served of the lanes, and remembers what the next snapshot depends on."""

    def __init__(
        self,
        plan: Plan,
        change_settings: ChangeSettings = DEFAULTS,
        version_attribute: str | None = None,
    ) -> None:
        self.previous = PreviousSelection()
        """The segments with counters, as of the last snapshot; the caller stores and restores
        it."""
        self.markers: tuple[Marker, ...] = ()
        """What is stored, as the caller read it last."""
        self.past: Sequence[StoredPast] = ()
        """The hours that were filled, as the caller read them last."""
        self.first_sights: tuple[Marker, ...] = ()
        """Those of new versions that are not stored yet; the caller may store them."""
        self._first_sights = FirstSights(plan, version_attribute)
        self._plan, self._change_settings = plan, change_settings
        self._totals = HighestTotals()
        self._findings = FindingsCache(plan.tracking, plan.metrics)
        self._history = HourHistory(plan)
        self._measuring = Measuring(plan, change_settings)
        self._compared_key: _ComparedKey | None = None
        self._compared_texts: Exposition | None = None
        self._comparisons: Sequence[baselines.BaselineComparison] = ()
        self._outages: frozenset[int] = frozenset()
        self._detector = ChangeDetector(plan, change_settings)
        self._scorer = None if plan.judged is None else Scorer(plan)
        self._judged_falls: JudgedFalls | None = None
        if plan.judged is not None:
            self._judged_falls = JudgedFalls(rows_plan(plan), change_settings)
        self._judged = Detection()
        self._judged_texts = Exposition()
        self._graded_scores: JudgedScores | None = None
        self._graded_texts = Exposition()

    @property
    def falls(self) -> tuple[Fall, ...]:
        """The falls that are open or over, which another process may take over: of scores of
        feedback, and of judged ones."""
        judged = () if self._judged_falls is None else self._judged_falls.falls
        return (*self._detector.falls, *judged)

    @falls.setter
    def falls(self, falls: tuple[Fall, ...]) -> None:
        self._detector.falls = tuple(fall for fall in falls if fall.graded is None)
        if self._judged_falls is not None:
            self._judged_falls.falls = tuple(fall for fall in falls if fall.graded is not None)

    def forget_totals(self) -> None:
        """Forget the highest totals: another process serves the counters from now on."""
        self._totals = HighestTotals()

    def publish(
        self, views: Sequence[LaneView], now_ms: int, *, with_series: bool = True
    ) -> Published:
        """Sum the lanes as of the clock at the latest, render and compress the result. Raises
        Damaged and OverflowError.

        Without the series the texts are empty, and nothing of the counters is remembered. The
        answers are the same. Takes long: meant for a thread, and for one call at a time.
        """
        read, views = views, covered(views, self._plan)
        raised = self._totals.raised(views) if with_series else views
        requested = self.previous.segments if with_series else ()
        whole = snapshot.evaluate(raised, self._plan, requested, now_ms)
        gauges = selection.busiest(whole, self._plan)
        # What was counted, not what counters show after a roll-back: only one process knows that.
        counted = replace(whole, counts=snapshot.sum_counts(views)) if with_series else whole
        report = scores.report(counted, gauges, self._plan)
        experiments = self._findings.of(
            [view.experiments for view in views], whole.as_of_ms, report.as_of
        )
        self._compare(views, whole, gauges)
        scorer = self._scorer
        by_judgements = None
        if scorer is not None:
            by_judgements = scorer.of(read, whole.as_of_ms, gauges, whole.coverage)
        basis = Basis(gauges, self._comparisons, self._measuring.found.used)
        basis = basis if scorer is None else replace(basis, judged=scorer.bins)
        judged = self._detector.look(views, self._history, basis, whole.as_of_ms)
        judged_falls = self._look_at_judged(read, by_judgements)
        used = replace(self._change_settings, design_effect=self._measuring.found.used)
        usual = Usual(self._comparisons, used)
        self.first_sights = self._first_sights.of(views, whole.as_of_ms, self.markers)
        markers = ordered((*self.markers, *self.first_sights))
        reading = Reading(
            self._plan,
            views,
            counted,
            gauges,
            experiments,
            judged,
            by_judgements,
            judged_falls,
            usual,
            markers,
            self._history.sources,
            self._outages,
        )
        texts = self._series(whole, reading) if with_series else Exposition()
        return publish(texts, report, reading, ())

    def _look_at_judged(self, views: Sequence[LaneView], scores: JudgedScores | None) -> Detection:
        """Which judged scores fell."""
        if self._scorer is None or self._judged_falls is None or scores is None:
            return Detection()
        basis = JudgedBasis(scores, self._scorer.history, self._measuring.found.used)
        return self._judged_falls.look(views, basis)

    def _series(self, whole: Snapshot, reading: Reading) -> Exposition:
        """The series of all the traffic: of the one process that serves them."""
        gauges = reading.selection
        counters, self.previous = counters_of(whole, gauges, self._plan, self.previous)
        texts = exposition.render(whole, gauges, counters, self._plan, reading.experiments)
        texts = exposition.joined(texts, self._compared(gauges))
        texts = exposition.joined(texts, self._changes(reading.judged))
        texts = exposition.joined(texts, self._graded(reading.by_judgements))
        graded = reading.by_judgements
        classes = classes_by_attribute(reading.views, self._plan)
        refused = sample_series.file_samples(() if graded is None else graded.files, classes)
        texts = exposition.joined(texts, exposition.render_changes(refused))
        marked = exposition.marker_samples(reading.markers, whole.as_of_ms)
        return exposition.joined(texts, exposition.render_changes(marked))

    def _compare(self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection) -> None:
        """Compare the last hours with their baselines, no more often than once per base pane: it
        costs as much as all the rest."""
        self._history.take(views, self.past)
        as_of_ms = whole.as_of_ms
        pane = None if as_of_ms is None else pane_start(as_of_ms, self._plan.timing.base_ms)
        key = (pane, gauges.segments, self._history.starts, self._history.lost)
        if key != self._compared_key:
            self._comparisons = baselines.compare(self._history, views, whole, gauges, self._plan)
            self._measuring.take(self._history, whole, gauges)
            self._outages = baselines.left_out(self._history)
            self._compared_key, self._compared_texts = key, None

    def _compared(self, gauges: Selection) -> Exposition:
        """The texts of the last hours and their baselines, kept while these are the same."""
        if self._compared_texts is None:
            effect = self._measuring.found
            self._compared_texts = exposition.joined(
                exposition.render_compared(self._comparisons, gauges, self._plan),
                exposition.render_design_effect(effect.used, effect.measured),
            )
        return self._compared_texts

    def _graded(self, scores: JudgedScores | None) -> Exposition:
        """The texts of the judged scores, kept while these are the same."""
        if scores is not None and scores is not self._graded_scores:
            self._graded_scores, self._graded_texts = scores, exposition.render_judged(scores)
        return self._graded_texts

    def _changes(self, judged: Detection) -> Exposition:
        """The texts of what fell, since when, and what could be noticed."""
        if judged is not self._judged:
            found = exposition.change_samples(judged, self._plan)
            self._judged, self._judged_texts = judged, exposition.render_changes(found)
        return self._judged_texts
