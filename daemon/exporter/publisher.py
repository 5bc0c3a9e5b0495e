"""From the lanes as they were read to everything that is served, snapshot after snapshot.

Pure apart from what it remembers between two snapshots: the highest counters, the segments that
have counters, and the results that cost much and seldom change. What it makes is made off the event
loop, swapped as one value and never changed. Few requests need single panes, so a snapshot keeps
its lanes for them, and nothing is summed before they ask.

The text of /metrics has two parts: the snapshot's, which has megabytes and is rendered and
compressed once per snapshot, and the process's own, rendered at each scrape. A scrape gets both as
one gzip stream: the deflated blocks of the first part are kept, those of the second follow, and the
checksum continues where the first part's ended. So a scrape compresses kilobytes only.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import msgspec

from ..changes import DEFAULTS, ChangeSettings, Marker, Silence, happened, ordered
from ..experiments import NO_FINDINGS, Findings, FindingsCache
from ..plan import Plan
from ..storage import StoredPast
from ..views import (
    HighestTotals,
    LaneView,
    PreviousSelection,
    Report,
    Selection,
    Snapshot,
    classes_by_attribute,
    counters_of,
    covered,
    refusals,
    scores as scoring,
    selection,
    snapshot,
    words_of,
)
from . import exposition, sample_series
from .arrivals import Arrivals, per_hour
from .catching_up import CatchUpProgress
from .design_effects import Measuring
from .exposition import Chunks, Exposition
from .measures import MeasureScores, Told, measures_of
from .open_changes import floor_samples, open_change_samples, traffic_change_samples
from .releases import FirstSights
from .scorer import Scorer, no_bins


@dataclass(frozen=True)
class Reading:
    """The scores of all measures at one instant, and what is known beside them."""

    scores: tuple[MeasureScores, ...]
    """Those of clicks first."""
    experiments: Findings = NO_FINDINGS
    change_settings: ChangeSettings = DEFAULTS
    """With the design effect that is used, measured or set."""
    markers: tuple[Marker, ...] = ()
    """What people marked, by time."""
    acknowledged: tuple[Marker, ...] = ()
    """What people acknowledged, by time."""
    silences: tuple[Silence, ...] = ()
    """What has stopped."""

    @property
    def clicks(self) -> MeasureScores:
        """By feedback."""
        return self.scores[0]

    @property
    def judged(self) -> MeasureScores | None:
        """By judgements; None where no metrics are judged."""
        return next((scores for scores in self.scores if scores.measure.is_graded), None)

    @property
    def plan(self) -> Plan:
        """That of the lanes."""
        return self.clicks.plan

    @property
    def views(self) -> Sequence[LaneView]:
        """The lanes."""
        return self.clicks.views

    @property
    def snapshot(self) -> Snapshot:
        """Their sum."""
        return self.clicks.snapshot

    @property
    def selection(self) -> Selection:
        """The segments with gauges."""
        return self.clicks.selection


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

    @property
    def has_started(self) -> bool:
        """True where nothing keeps the process from its work; lanes may need help all the same."""
        return all(condition.ok for condition in self.conditions if condition.name in _STARTING)


_STARTING: Final = ("started", "group", "snapshot")
"""Conditions that say whether a process could begin its work."""


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
    judged = reading.judged
    if judged is not None:
        # Other lanes and the scores of clicks are as good as without judgements.
        found.append(Condition("judged_scores", True, words_of(judged.files, judged.grading)))
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


class KeptTexts:
    """The texts of one measure, each made anew where what it shows is another object."""

    def __init__(self) -> None:
        self._kept: dict[Callable[[MeasureScores], Exposition], tuple[object, Exposition]] = {}

    def of(
        self, render: Callable[[MeasureScores], Exposition], scores: MeasureScores, shown: object
    ) -> Exposition:
        """The text of what is shown of the scores."""
        kept = self._kept.get(render)
        if kept is None or kept[0] is not shown:
            kept = self._kept[render] = shown, render(scores)
        return kept[1]


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
        self.exemplar = ""
        """The end of the line of the score sum of all traffic, as the caller read it last."""
        self.first_sights: tuple[Marker, ...] = ()
        """Those of new versions that are not stored yet; the caller may store them."""
        self._first_sights = FirstSights(plan, version_attribute)
        self._plan, self._change_settings = plan, change_settings
        self._totals = HighestTotals()
        self._findings = FindingsCache(plan.tracking, plan.metrics)
        self._measuring = Measuring(plan, change_settings)
        self._measured: object = None
        """The comparisons when the design effect was measured."""
        self._scorers = [Scorer(measure, change_settings) for measure in measures_of(plan)]
        self._arrivals = Arrivals()
        self._texts = [KeptTexts() for _ in self._scorers]

    @property
    def told(self) -> Told:
        """The falls of all measures that are open or over, and when feedback was missing: another
        process may take them over."""
        falls = tuple(fall for scorer in self._scorers for fall in scorer.falls)
        return Told(falls, self._scorers[0].gaps)

    @told.setter
    def told(self, told: Told) -> None:
        self._scorers[0].gaps = told.gaps
        for scorer in self._scorers:
            is_graded = scorer.measure.is_graded
            scorer.falls = tuple(f for f in told.falls if (f.graded is not None) == is_graded)

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
        views = covered(views, self._plan)
        raised = self._totals.raised(views) if with_series else views
        requested = self.previous.segments if with_series else ()
        whole = snapshot.evaluate(raised, self._plan, requested, now_ms)
        gauges = selection.busiest(whole, self._plan)
        # What was counted, not what counters show after a roll-back: only one process knows that.
        counted = replace(whole, counts=snapshot.sum_counts(views)) if with_series else whole
        report = scoring.report(counted, gauges, self._plan)
        experiments = self._findings.of(
            [view.experiments for view in views], whole.as_of_ms, report.as_of
        )
        found = self._scores(views, counted, gauges)
        marked = happened(self.markers)
        self.first_sights = self._first_sights.of(views, whole.as_of_ms, marked)
        reading = Reading(
            found,
            experiments,
            self._measuring.found.applied(self._change_settings),
            ordered((*marked, *self.first_sights)),
            tuple(each for each in self.markers if each not in marked),
            self._arrivals.of(found[0], self._scorers[0].history),
        )
        texts = self._series(whole, reading) if with_series else Exposition()
        return publish(texts, report, reading, ())

    def _scores(
        self, views: Sequence[LaneView], whole: Snapshot, gauges: Selection
    ) -> tuple[MeasureScores, ...]:
        """The scores of every measure, and what fell."""
        found = [scorer.of(views, whole, gauges, self.past) for scorer in self._scorers]
        if found[0].comparisons is not self._measured:
            self._measured = found[0].comparisons
            self._measuring.take(self._scorers[0].history, whole, gauges)
        noise = self._measuring.found
        graded = (scorer.bins for scorer in self._scorers if scorer.measure.is_graded)
        bins = next(graded, no_bins)
        return tuple(
            replace(scores, changes=scorer.look(noise, bins))
            for scores, scorer in zip(found, self._scorers, strict=True)
        )

    def _series(self, whole: Snapshot, reading: Reading) -> Exposition:
        """The series of all the traffic: of the one process that serves them."""
        counters, self.previous = counters_of(whole, reading.selection, self._plan, self.previous)
        noise, found = self._measuring.found, list[Exposition]()
        for scores, kept in zip(reading.scores, self._texts, strict=True):
            found.append(kept.of(exposition.render_windows, scores, scores.snapshot))
            if scores is reading.clicks:
                found.append(
                    exposition.render_traffic(
                        whole, counters, self._plan, reading.experiments, self.exemplar
                    )
                )
            found.append(kept.of(exposition.render_compared, scores, scores.comparisons))
            found.append(exposition.render_grading(scores))
            if scores is reading.clicks:
                measured = noise.used, noise.measured, noise.drift_ratios
                found.append(exposition.render_design_effect(*measured))
                found.append(kept.of(_changes, scores, scores.changes))
        classes = classes_by_attribute(reading.views, self._plan)
        graded = () if reading.judged is None else reading.judged.files
        samples = (
            *sample_series.file_samples(graded, classes),
            *(
                sample
                for scores in reading.scores
                for sample in open_change_samples(scores.measure.name, scores.changes, self._plan)
            ),
            *traffic_change_samples(reading.clicks, reading.change_settings),
            *floor_samples(reading.clicks, reading.change_settings),
            *exposition.marker_samples(reading.markers, whole.as_of_ms),
            *exposition.arrival_samples(per_hour(reading.views, self._plan, whole.as_of_ms)),
            *exposition.silence_samples(
                reading.silences, reading.clicks.changes.gaps, whole.as_of_ms
            ),
        )
        return exposition.joined(*found, exposition.render_changes(samples))


def _changes(scores: MeasureScores) -> Exposition:
    """What fell, since when, and what could be noticed."""
    return exposition.render_changes(exposition.change_samples(scores.changes, scores.plan))
