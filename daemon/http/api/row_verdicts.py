"""The rows of a table say what the open changes above it say. Pure.

What an open change names is worse since its onset, and the row has its level since then beside that
before: a window that fills would dilute it, and what is usual would in time come from inside the
change. What is low only through that is diluted, and has its levels of the same times. What is
worse, or better, only because one of the stretches that are compared contains the time of a change
that is over is `recovered`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...changes import MeasuredChange, Moved, Series, Story
from ...events import timestamp_text
from ...exporter import Detection
from ...views import Segment
from .compared import Change, Estimate, Verdict

RowT = TypeVar("RowT", bound=Struct)
Interval: TypeAlias = tuple[float, float]
"""(begin, end) in ms of event time."""


LEAST_COMMON: Final = 0.05
"""What was low for a smaller part of the time before makes nothing look better."""


class ComparedSpans(NamedTuple):
    """What the rows of a table compare."""

    now: Interval
    before: Sequence[Interval]


@dataclass(frozen=True)
class Voice:
    """What the open changes of one measure say."""

    said: Mapping[Series, Mapping[str, Any]]
    """The fields of a row, by name."""
    shared: frozenset[Series]
    """What is low only through an open change."""
    low: Mapping[Segment, Sequence[Interval]]
    """When a segment was low by a change that is over, or is back live, or feedback was missing."""

    @classmethod
    def of(cls, found: Detection) -> "Voice":
        """Of the changes by the last look. What two name, the clearer one says."""
        named: dict[Series, Mapping[str, Any]] = {}
        shares: dict[Series, Mapping[str, Any]] = {}
        low: defaultdict[Segment, list[Interval]] = defaultdict(list)
        for was in found.lows:
            low[was.segment].append((was.begin_ms, was.end_ms))
        for story in found.open:
            if story.live is not None:
                for moved in (story.own, *story.also, *story.shares):
                    low[moved.series[:2]].append((story.fall.onset.likely, story.live.since_ms))
        for segment in found.segments:
            low[segment] += [(gap.begin_ms, gap.end_ms) for gap in found.gaps]
        for story in found.open:
            if story.live is not None:
                continue
            for moved in (story.own, *story.also):
                named.setdefault(moved.series, _since_onset(story, moved, "worse"))
            for moved in story.shares:
                shares.setdefault(moved.series, _since_onset(story, moved, "diluted"))
        return cls(shares | named, frozenset(shares), low)

    @cached_property
    def explained(self) -> frozenset[Segment]:
        """The segments of which some metric is low only through an open change."""
        return frozenset((grouping, segment) for grouping, segment, _ in self.shared)

    def of_row(self, row: RowT, series: Series, verdict: Verdict, spans: ComparedSpans) -> RowT:
        """The row of the series, which has this verdict, as the changes have it."""
        if series in self.said:
            return replace(row, **self.said[series])
        if verdict == "worse" and series[:2] in self.explained:
            return replace(row, verdict="diluted", since=None)
        if self.was_low(series, verdict, spans):
            return replace(row, verdict="recovered", since=None)
        return row

    def was_low(self, series: Series, verdict: Verdict, spans: ComparedSpans) -> bool:
        """Whether it is worse, or better, through what is over."""
        if verdict not in ("worse", "better"):
            return False
        low = self.low.get(series[:2], ())
        if verdict == "worse":
            return any(_common_ms(spans.now, each) > 0 for each in low)
        compared_ms = sum(end_ms - begin_ms for begin_ms, end_ms in spans.before)
        common_ms = max((sum(_common_ms(b, each) for b in spans.before) for each in low), default=0)
        return common_ms > LEAST_COMMON * compared_ms


def _common_ms(one: Interval, other: Interval) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


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


def in_one_voice(rows: Iterable[Change], voice: Voice, spans: ComparedSpans) -> tuple[Change, ...]:
    """The rows as the changes have them."""
    return tuple(
        voice.of_row(row, (row.grouping, row.segment, row.metric), row.verdict, spans)
        for row in rows
    )


def without_shared(
    rows: Iterable[Change], voice: Voice, spans: ComparedSpans
) -> tuple[Change, ...]:
    """The rows as they are, but what is low only through an open change is diluted, and what
    differs only through one that is over has recovered."""

    def told(row: Change) -> Change:
        series = (row.grouping, row.segment, row.metric)
        if row.verdict == "worse" and series in voice.shared:
            return replace(row, verdict="diluted")
        return (
            replace(row, verdict="recovered") if voice.was_low(series, row.verdict, spans) else row
        )

    return tuple(map(told, rows))
