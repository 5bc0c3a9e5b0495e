"""The rows of a table say what the open changes above it say. Pure.

What an open change names is worse since its onset, and the row has its level since then beside that
before: a window that fills would dilute it, and what is usual would in time come from inside the
change. What is low only through that is diluted, and has its levels of the same times.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...changes import MeasuredChange, Moved, Series, Story
from ...events import timestamp_text
from ...exporter import Detection
from ...views import Segment
from .compared import Change, Estimate, Verdict

RowT = TypeVar("RowT", bound=Struct)


@dataclass(frozen=True)
class Voice:
    """What the open changes of one measure say."""

    said: Mapping[Series, Mapping[str, Any]]
    """The fields of a row, by name."""
    shared: frozenset[Series]
    """What is low only through an open change."""
    ended_ms: Mapping[Segment, float]
    """Until when a segment was low by a change that is over, or is back live, or feedback was
    missing: what contains that time is low through it."""

    @classmethod
    def of(cls, found: Detection) -> "Voice":
        """Of the changes by the last look. What two name, the clearer one says."""
        named: dict[Series, Mapping[str, Any]] = {}
        shares: dict[Series, Mapping[str, Any]] = {}
        ended: dict[Segment, float] = {}
        for story in (*found.open, *found.closed):
            ended_ms = story.live.since_ms if story.live else story.fall.recovered_ms
            if ended_ms is not None:
                for moved in (story.own, *story.also, *story.shares):
                    segment = moved.series[:2]
                    ended[segment] = max(ended_ms, ended.get(segment, ended_ms))
        gap_ms = max((gap.end_ms for gap in found.gaps), default=None)
        if gap_ms is not None:
            for segment in found.segments:
                ended[segment] = max(gap_ms, ended.get(segment, gap_ms))
        for story in found.open:
            if story.live is not None:
                continue
            for moved in (story.own, *story.also):
                named.setdefault(moved.series, _since_onset(story, moved, "worse"))
            for moved in story.shares:
                shares.setdefault(moved.series, _since_onset(story, moved, "diluted"))
        return cls(shares | named, frozenset(shares), ended)

    @cached_property
    def explained(self) -> frozenset[Segment]:
        """The segments of which some metric is low only through an open change."""
        return frozenset((grouping, segment) for grouping, segment, _ in self.shared)

    def of_row(self, row: RowT, series: Series, verdict: Verdict, begin_ms: float) -> RowT:
        """The row of the series, which has this verdict, as the changes have it. `begin_ms`: when
        the period now begins."""
        if series in self.said:
            return replace(row, **self.said[series])
        if verdict == "worse" and series[:2] in self.explained:
            return replace(row, verdict="diluted", since=None)
        if verdict == "worse" and self.ended_ms.get(series[:2], begin_ms) > begin_ms:
            return replace(row, verdict="recovered", since=None)
        return row


def _since_onset(story: Story, moved: Moved, verdict: Verdict) -> Mapping[str, Any]:
    before, now = moved.before.mean, moved.now.mean
    said = {
        "now": _estimate(moved.now, moved.impressions[1]),
        "before": _estimate(moved.before, moved.impressions[0]),
        "difference": None if before is None or now is None else now - before,
        "noise": moved.error,
        "verdict": verdict,
        "since": timestamp_text(round(story.fall.onset.likely)),
    }
    if story.fall.graded is not None:
        for name, both in (("best_case", moved.best_case), ("items_share", moved.judged_shares)):
            said |= {f"{name}_before": both[0], f"{name}_now": both[1]}
    return said


def _estimate(measured: MeasuredChange, impressions: int) -> Estimate:
    return Estimate(measured.mean, measured.stderr, measured.scored, impressions)


def in_one_voice(rows: Iterable[Change], voice: Voice, begin_ms: float) -> tuple[Change, ...]:
    """The rows as the changes have them."""
    return tuple(
        voice.of_row(row, (row.grouping, row.segment, row.metric), row.verdict, begin_ms)
        for row in rows
    )


def without_shared(rows: Iterable[Change], voice: Voice, _: float) -> tuple[Change, ...]:
    """The rows as they are, but what is low only through an open change is diluted."""
    return tuple(
        (
            replace(row, verdict="diluted")
            if row.verdict == "worse" and (row.grouping, row.segment, row.metric) in voice.shared
            else row
        )
        for row in rows
    )
