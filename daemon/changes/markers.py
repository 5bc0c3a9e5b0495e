"""Markers: what people say happened, and when. Pure.

A marker never explains a change by itself: it is named beside one that began soon after it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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
class MarkerReach:
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
    kind: Kind | Literal["acknowledged"]
    text: str
    until_ms: int | None = None
    """Until when a fall is planned, or a change acknowledged; None without an end."""
    scope: MarkerReach = MarkerReach()
    change: str | None = None
    """The id of the change that is acknowledged."""
    by: str | None = None
    """Who acknowledged it, where that is known."""


def ordered(markers: Iterable[Marker]) -> tuple[Marker, ...]:
    """The markers by time, the earliest first."""
    return tuple(sorted(markers, key=lambda marker: (marker.at_ms, marker.id)))


def happened(markers: Iterable[Marker]) -> tuple[Marker, ...]:
    """Those that say what happened or is planned: all but acknowledgements."""
    return tuple(marker for marker in markers if marker.kind != "acknowledged")


def acknowledgement(
    ids: Collection[str], markers: Iterable[Marker], now_ms: float
) -> Marker | None:
    """The latest acknowledgement of a change that has had these ids, until its end."""
    found = [marker for marker in ordered(markers) if marker.change in ids]
    return found[-1] if found and now_ms < (found[-1].until_ms or 0) else None


def between(markers: Iterable[Marker], from_ms: float, to_ms: float) -> tuple[Marker, ...]:
    """The markers from `from_ms` on and before `to_ms`, by time."""
    return ordered(marker for marker in markers if from_ms <= marker.at_ms < to_ms)


def expired(markers: Iterable[Marker], now_ms: int, keep_ms: int) -> tuple[str, ...]:
    """The ids of the markers that ended more than `keep_ms` ago."""
    before = now_ms - keep_ms
    return tuple(m.id for m in markers if max(m.at_ms, m.until_ms or 0) < before)


def newest(markers: Iterable[Marker], now_ms: int, within_ms: int, most: int) -> Sequence[Marker]:
    """Of each kind at most so many of the latest markers that have come and are not older."""
    found = between(markers, now_ms - within_ms, now_ms + 1)
    of_kind: Mapping[str, list[Marker]] = {kind: [] for kind in KINDS}
    for marker in found:
        of_kind[marker.kind].append(marker)
    return [marker for kind in KINDS for marker in of_kind[kind][-most:]]
