"""A simulated site of two countries as lanes, of which one falls, for tests of what is judged."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from relevanced.daemon.lane import Rows
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import pack_page
from relevanced.daemon.timing import timing
from relevanced.daemon.views import WHOLE, LaneView, Names
from relevanced.metrics import parse
from tests.lane_views import pages_of

SEED = 20261123
MINUTE_MS = 60_000
NOW_MS = 1_795_176_000_000
PLAN = Plan(
    timing=timing([("5m", 300), ("1h", 3600), ("24h", 86400)], attribution_s=60, lateness_s=4),
    metrics=(parse("Success@10"), parse("RR@10"), parse("Abandonment")),
    groupings=(("country",),),
    grades={"click": 1.0},
    max_segments=10,
    history_hours=840,
)
Shape: TypeAlias = Callable[[int], float]
NAMES = (WHOLE, ("country", "DE"), ("country", "US"))


class Site:
    """Searches of two countries since `begin_ms`, those of a minute at its start; all metrics of
    the countries `fall` get worse at `break_ms`."""

    def __init__(
        self,
        begin_ms: int,
        break_ms: int,
        drop: float,
        per_minute: float = 120,
        fall: tuple[str, ...] = ("DE",),
        shape: Shape = lambda time_ms: 1.0,
    ) -> None:
        """`shape`: by which factor searches find more or less at a time, whatever else falls."""
        self.names = NAMES
        rng = np.random.default_rng(SEED)
        minutes = range(pane_start(begin_ms, MINUTE_MS), NOW_MS + HOUR_MS, MINUTE_MS)
        self.parts: dict[int, Rows] = {}
        self._packed: dict[tuple[int, bytes], dict[int, bytes]] = {}
        for start in minutes:
            rows = np.zeros((3, PLAN.row_width), np.int64)
            for row, (_, country) in enumerate(NAMES[1:], 1):
                falls = start >= break_ms and country in fall
                level = 0.7 * (1 - drop * falls) * shape(start)
                rows[row] = self._row(rng.poisson(per_minute / 2), level, rng)
            rows[0] = rows[1] + rows[2]
            self.parts[start] = rows

    @staticmethod
    def _row(searches: int, level: float, rng: np.random.Generator) -> list[int]:
        found = rng.random(searches) < level
        rank = np.where(found, 1 / rng.integers(1, 4, searches), 0.0)
        row = [searches, int(found.sum()), 0, int(found.sum()), 10 * searches, 100 * searches]
        for metric, values in zip(PLAN.metrics, (found, rank, ~found), strict=True):
            scaled = np.rint(values * metric.unit).astype(np.int64)
            squares = np.rint(values.astype(float) ** 2 * metric.unit).astype(np.int64)
            row += [searches, int(scaled.sum()), int(squares.sum())]
        return row

    def lane(self, as_of_ms: int) -> LaneView:
        """What is kept when the watermark is here. Panes shorter than a minute have it whole."""
        cells: dict[tuple[int, int], Rows] = {}
        hours: dict[int, Rows] = {}
        settled_ms = as_of_ms - PLAN.timing.settle_ms
        windows = [
            (index, window.pane_ms, PLAN.timing.dropped_before(window, as_of_ms))
            for index, window in enumerate(PLAN.timing.windows)
        ]
        for start, rows in self.parts.items():
            if start >= as_of_ms:
                continue
            for index, pane_ms, kept_from in windows:
                key = (index, pane_start(start, pane_ms))
                if key[1] >= kept_from:
                    cells[key] = cells[key] + rows if key in cells else rows
            if start < settled_ms:
                hour = pane_start(start, HOUR_MS)
                hours[hour] = hours[hour] + rows if hour in hours else rows
        return LaneView(
            lane=0,
            token="t",
            sequence=1,
            names=Names(self.names),
            panes={key: pages_of(rows) for key, rows in cells.items()},
            totals={},
            counts={"events": {"impression": 1}},
            watermark_ms=as_of_ms,
            settled_before=pane_start(settled_ms, PLAN.timing.base_ms),
            hours={hour: self._pack(hour, rows) for hour, rows in hours.items()},
        )

    def _pack(self, hour: int, rows: Rows) -> dict[int, bytes]:
        """The same object for the same rows: as a lane that did not change."""
        key = (hour, rows.tobytes())
        if key not in self._packed:
            pages = pages_of(rows).items()
            self._packed[key] = {page: pack_page(kept) for page, kept in pages}
        return self._packed[key]


def wave(height: float) -> Shape:
    """So much more is found at 14:00 UTC, and less at 02:00."""
    return lambda at_ms: 1 + height * math.sin(2 * math.pi * (at_ms / HOUR_MS - 8) / 24)


def nights(drop: float, hour: float = 1) -> Shape:
    """So much less is found from this hour of a day in UTC to 08:00."""
    return lambda at_ms: 1 - drop * (hour <= at_ms / HOUR_MS % 24 < 8)
