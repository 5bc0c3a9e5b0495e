"""Markers: what people say happened, and when. Pure.

A marker never explains a change by itself: it is named beside one that began soon after it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .ledger import Onset
from .story import Story
from .timeline import MINUTE_MS

Kind: TypeAlias = Literal["release", "planned"]
KINDS: Final[tuple[Kind, ...]] = ("release", "planned")
REACH_MS: Final = 10 * MINUTE_MS
"""A marker at most so long before the interval of an onset is named beside it."""
MOST_MARKERS: Final = 2_000
"""Most markers of one namespace."""
MOST_CHARACTERS: Final = 200
"""Longest text of a marker."""


@dataclass(frozen=True)
class Scope:
    """What a marker is about; None stands for all."""

    metric: str | None = None
    grouping: str | None = None
    segment: str | None = None

    def holds(self, metric: str, grouping: str, segments: Sequence[str]) -> bool:
        """Whether it contains this metric of all these segments of a grouping."""
        return (
            self.metric in (None, metric)
            and self.grouping in (None, grouping)
            and (self.segment is None or set(segments) == {self.segment})
        )


@dataclass(frozen=True)
class Marker:
    """Something that happened, or is planned, from `at_ms` on. Times are ms of event time."""

    id: str
    at_ms: int
    kind: Kind
    text: str
    until_ms: int | None = None
    """Until when a fall is planned; None without an end."""
    scope: Scope = Scope()


def ordered(markers: Iterable[Marker]) -> tuple[Marker, ...]:
    """The markers by time, the earliest first."""
    return tuple(sorted(markers, key=lambda marker: (marker.at_ms, marker.id)))


def between(markers: Iterable[Marker], from_ms: float, to_ms: float) -> tuple[Marker, ...]:
    """The markers from `from_ms` on and before `to_ms`, by time."""
    return ordered(marker for marker in markers if from_ms <= marker.at_ms < to_ms)


def expired(markers: Iterable[Marker], now_ms: int, keep_ms: int) -> tuple[str, ...]:
    """The ids of the markers that ended more than `keep_ms` ago."""
    before = now_ms - keep_ms
    return tuple(m.id for m in markers if max(m.at_ms, m.until_ms or 0) < before)


def beside(story: Story, markers: Iterable[Marker]) -> tuple[Marker, ...]:
    """The markers whose scope contains the change and that lie at its onset, by time: from 10 min
    before the earliest instant to the latest. None where it is unknown when the change began."""
    return ordered(
        marker
        for marker in markers
        if _is_at(marker, story.fall.onset) and marker.scope.holds(*_named(story))
    )


def plan_of(story: Story, markers: Iterable[Marker], now_ms: float) -> Marker | None:
    """The latest plan that a change follows; None where it follows none.

    Every score that fell with the change must be planned: a plan for RR@10 does not excuse a fall
    of Success@10.
    """
    plans = [
        marker
        for marker in beside(story, markers)
        if marker.kind == "planned" and (marker.until_ms is None or now_ms <= marker.until_ms)
        if all(marker.scope.holds(*moved) for moved in _also(story))
    ]
    return plans[-1] if plans else None


def nearest(story: Story, markers: Iterable[Marker]) -> Marker | None:
    """Of the markers beside a change the one that is nearest to its likeliest onset."""
    likely = story.fall.onset.likely
    return min(beside(story, markers), key=lambda m: abs(m.at_ms - likely), default=None)


def newest(markers: Iterable[Marker], now_ms: int, within_ms: int, most: int) -> Sequence[Marker]:
    """Of each kind at most so many of the latest markers that have come and are not older."""
    found = between(markers, now_ms - within_ms, now_ms + 1)
    of_kind: Mapping[str, list[Marker]] = {kind: [] for kind in KINDS}
    for marker in found:
        of_kind[marker.kind].append(marker)
    return [marker for kind in KINDS for marker in of_kind[kind][-most:]]


def _is_at(marker: Marker, onset: Onset) -> bool:
    if onset.earliest is None:
        return False
    ends_ms = marker.at_ms if marker.until_ms is None else marker.until_ms
    last_ms = ends_ms if marker.kind == "planned" else marker.at_ms
    return onset.earliest - REACH_MS <= last_ms and marker.at_ms <= onset.latest


def _named(story: Story) -> tuple[str, str, Sequence[str]]:
    grouping, _, metric = story.fall.series
    return metric, grouping, story.segments


def _also(story: Story) -> list[tuple[str, str, Sequence[str]]]:
    return [(each.series[2], each.series[0], each.series[1:2]) for each in story.also]
