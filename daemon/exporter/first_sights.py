"""The first sight of a version: a release that nobody has to mark.

Pure apart from what it keeps from look to look. A value of the version attribute is new where no
impression had it in the day before, as far as known, while others were there for an hour at least.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from ..changes import MINUTE_MS, MOST_CHARACTERS, Marker, ordered
from ..lane import PAGE_ROWS
from ..panes import pane_start
from ..plan import NONE, OTHER, Plan
from ..views import WHOLE, LaneView, Segment, coverage_of, kept_from

REACH_MS: Final = 24 * 60 * MINUTE_MS
"""First sights that are older are not marked: an exporter that starts would mark the past again."""
LEAST_KNOWN_MS: Final = 60 * MINUTE_MS
"""How long other impressions must have been there before."""
LEAST_IMPRESSIONS: Final = 10
"""Impressions from which on a value is one: a single one may be a mistake."""
MOST_NEW: Final = 20
"""New values in a day from which on an attribute is no version; none are marked then."""
SAME_MS: Final = 120 * MINUTE_MS
"""A release that somebody marked within this time and that names the value is the same."""
_IMPRESSIONS: Final = 0
_PREFIX: Final = "version-"


class FirstSights:
    """Finds the new values of one attribute."""

    def __init__(self, plan: Plan, attribute: str | None) -> None:
        self._plan = plan
        self._attribute = attribute
        self._decided: dict[str, Marker | None] = {}
        """Value → its marker, until that is stored; None where it is not new."""
        self._looked_at: int | None = None
        """The base pane of the last look."""

    def of(
        self, views: Sequence[LaneView], as_of_ms: int | None, known: Iterable[Marker]
    ) -> tuple[Marker, ...]:
        """The markers of new values that are not among the known ones yet, by time. Raises
        Damaged."""
        if self._attribute is None or as_of_ms is None:
            return ()
        known = tuple(known)
        stored = {marker.id for marker in known}
        for value, marker in self._decided.items():
            if marker is not None and marker.id in stored:
                self._decided[value] = None  # removed by hand later, it must not come again
        pane = pane_start(as_of_ms, self._plan.timing.base_ms)
        if pane != self._looked_at:
            self._looked_at = pane
            self._look(views, as_of_ms, known)
        found = [m for m in self._decided.values() if m and m.at_ms > as_of_ms - REACH_MS]
        return ordered(found) if len(found) <= MOST_NEW else ()

    def _look(self, views: Sequence[LaneView], as_of_ms: int, known: Sequence[Marker]) -> None:
        values = {
            value
            for view in views
            for grouping, value in view.names.segments
            if grouping == self._attribute and value not in self._decided
        }
        values -= {NONE, OTHER}
        if not values:
            return
        earliest = _Sightings(views, self._plan, as_of_ms, WHOLE)
        since_ms = coverage_of(views, self._plan).groupings.get(str(self._attribute), 0)
        known_from_ms = max(earliest.first_ms or 0, since_ms)
        for value in values:
            seen = _Sightings(views, self._plan, as_of_ms, (str(self._attribute), value))
            if seen.first_ms is None or seen.impressions < LEAST_IMPRESSIONS:
                continue
            known_ms = seen.first_ms - known_from_ms
            is_new = known_ms >= LEAST_KNOWN_MS and not self._is_marked(value, seen.at_ms, known)
            self._decided[value] = self._marker(value, seen.at_ms) if is_new else None

    def _is_marked(self, value: str, at_ms: int, known: Iterable[Marker]) -> bool:
        prefix = self._name(value)
        return any(
            (marker.id.startswith(prefix) and abs(marker.at_ms - at_ms) <= REACH_MS)
            or (value in marker.text and abs(marker.at_ms - at_ms) <= SAME_MS)
            for marker in known
        )

    def _marker(self, value: str, at_ms: int) -> Marker:
        text = f"{self._attribute} {value}"[:MOST_CHARACTERS]
        return Marker(f"{self._name(value)}{at_ms // 1000}", at_ms, "release", text)

    def _name(self, value: str) -> str:
        """What the id of a marker of this value begins with."""
        digest = hashlib.sha256(f"{self._attribute}={value}".encode()).hexdigest()
        return f"{_PREFIX}{digest[:12]}-"


class _Sightings:
    """The impressions of one segment in the last two days, in layers: the panes of each window,
    the finest first, then the hours."""

    def __init__(
        self, views: Sequence[LaneView], plan: Plan, as_of_ms: int, segment: Segment
    ) -> None:
        windows = range(len(plan.timing.windows))
        layers: list[dict[int, int]] = [{} for _ in windows]
        hours: dict[int, int] = {}
        oldest_ms = as_of_ms - 2 * REACH_MS
        for view in views:
            segment_id = view.names.ids.get(segment)
            if segment_id is None:
                continue
            page, line = divmod(segment_id, PAGE_ROWS)
            for (window, start), pages in view.panes.items():
                if page in pages:
                    _count(layers[window], start, pages[page][line])
            for start, packed in view.hours.items():
                if start >= oldest_ms and page in packed:
                    _count(hours, start, view.hour_rows(plan, start, page)[line])
        layers.append(hours)
        self.impressions = max(sum(layer.values()) for layer in layers)
        """In the layer that has the most."""
        firsts = [min(layer, default=None) for layer in layers]
        self.first_ms = min((first for first in firsts if first is not None), default=None)
        """Start of the first bin with an impression; None where there is none."""
        kept = [kept_from(views, plan, window) for window in windows]
        self.at_ms = next(
            (
                first
                for first, from_ms in zip(firsts, kept, strict=False)
                if first is not None and self.first_ms is not None and from_ms <= self.first_ms
            ),
            self.first_ms or 0,
        )
        """The same by the finest panes that reach back so far."""


def _count(layer: dict[int, int], start: int, row: np.ndarray) -> None:
    if row[_IMPRESSIONS]:
        layer[start] = layer.get(start, 0) + int(row[_IMPRESSIONS])
