"""What is served, as one value: texts, the scores behind every answer, and whether the process is
ready. Pure.

The text of /metrics has two parts: the snapshot's, which has megabytes and is rendered and
compressed once per snapshot, and the process's own, rendered at each scrape. A scrape gets both as
one gzip stream: the deflated blocks of the first part are kept, those of the second follow, and the
checksum continues where the first part's ended. So a scrape compresses kilobytes only.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import msgspec

from ..changes import DEFAULTS, ChangeSettings, Marker, Silence, TrafficChange
from ..experiments import NO_FINDINGS, Findings
from ..plan import Plan
from ..views import (
    LaneView,
    Report,
    Selection,
    Snapshot,
    classes_by_attribute,
    refusals,
    words_of,
)
from .catching_up import CatchUpProgress
from .exposition import Chunks, Exposition
from .measures import MeasureScores


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
    traffic: tuple[TrafficChange, ...] = ()
    """What is far from usual in the data behind the scores of clicks."""

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
