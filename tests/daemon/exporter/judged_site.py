"""A simulated site whose lists are judged, as lanes, for tests of which judged scores fell."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.lane import Pages, Rows
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import BY_JUDGEMENTS
from relevanced.daemon.storage import pack_page
from relevanced.daemon.timing import timing
from relevanced.daemon.views import WHOLE, LaneFiles, LaneRows, LaneView, Names
from relevanced.metrics import Floats
from tests.daemon.changes.sites import drifts
from tests.judged_lanes import NOON, PLAN as BASE, ROWS, entry
from tests.lane_views import pages_of

MINUTE_MS: Final = 60_000
PART_MS: Final = 2 * MINUTE_MS
PLAN: Final = replace(
    BASE,
    timing=timing([("1h", 3600), ("24h", 86_400)], attribution_s=1800, lateness_s=60),
    max_segments=100,
)
ONE_FILE: Final = LaneFiles(0, (entry(NOON - 40 * 24 * HOUR_MS),))
UNIT: Final = 1_000_000
SPREAD: Final = 0.2
"""Standard deviation of the score of a list."""
DESIGN_EFFECT: Final = 1.2

Level: TypeAlias = Callable[[int, str], float]
"""(time, country) → mean score."""


class JudgedSite:
    """Lists of some countries since `begin_ms`, every two minutes; scores drift as those of clicks
    are taken to."""

    def __init__(
        self,
        level: Level,
        begin_ms: int,
        end_ms: int,
        countries: tuple[str, ...] = ("DE", "US"),
        *,
        per_hour: int = 3000,
        judged: float | Callable[[int], float] = 0.9,
        best_case: Level | None = None,
        seed: int = 20261123,
    ) -> None:
        """`judged`: the share of the places, which may depend on the time; `best_case`: None for
        what is as the score."""
        self.rng = np.random.default_rng(seed)
        self.names = (WHOLE, *(("country", country) for country in countries))
        self.starts = range(pane_start(begin_ms, PART_MS), end_ms, PART_MS)
        """The first instant of each part."""
        levels = [
            np.array([[of(at, country) for country in countries] for at in self.starts])
            for of in (level, best_case or level)
        ]
        shares = [judged(at) if callable(judged) else judged for at in self.starts]
        self.parts = self._rows(levels, np.array(shares), per_hour * PART_MS / HOUR_MS)
        """(parts, segments, columns)."""
        self._packed: dict[tuple[int, int], dict[int, bytes]] = {}
        self._pages: dict[tuple[int, int, int], Pages] = {}

    def _rows(self, readings: Sequence[Floats], shares: Floats, per_part: float) -> Rows:
        """(parts, segments, columns), the whole first."""
        parts, countries = readings[0].shape
        lists = self.rng.poisson(per_part, readings[0].shape)
        drift = 1 + 0.006 * drifts(np.full(parts, PART_MS / HOUR_MS), countries, self.rng)
        rows = np.zeros((parts, countries + 1, ROWS.row_width), np.int64)
        own = rows[:, 1:]
        own[..., 0], own[..., 1] = lists, 10 * lists
        own[..., 2] = np.rint(10 * lists * shares[:, None])
        columns = range(3, ROWS.row_width, 3)
        of_each = [levels for levels in readings for _ in ROWS.metrics]
        for column, levels in zip(columns, of_each, strict=True):
            noise = SPREAD * np.sqrt(DESIGN_EFFECT * lists)
            sums = lists * levels * drift + noise * self.rng.standard_normal(levels.shape)
            mean = sums / np.maximum(lists, 1)
            own[..., column] = lists
            own[..., column + 1] = np.rint(UNIT * sums)
            own[..., column + 2] = np.rint(UNIT * lists * (SPREAD**2 + mean**2))
        rows[:, 0] = own.sum(axis=1)
        return rows

    def lane(self, until_ms: int, files: LaneFiles = ONE_FILE) -> LaneView:
        """What is kept when judged rows are final until then."""
        watermark_ms = until_ms + PLAN.timing.lateness_ms
        panes: dict[tuple[int, int], Pages] = {}
        for index, window in enumerate(PLAN.timing.windows):
            kept_ms = PLAN.timing.dropped_before(window, watermark_ms)
            for start in range(max(kept_ms, self.starts[0]), until_ms, window.pane_ms):
                panes[index, start] = self._page(
                    index, start, min(start + window.pane_ms, until_ms)
                )
        first = pane_start(self.starts[0], HOUR_MS)
        hours = {
            start: self._hour(start, min(start + HOUR_MS, until_ms))
            for start in range(first, until_ms, HOUR_MS)
        }
        return LaneView(
            lane=0,
            token="t",
            sequence=1,
            names=Names(self.names),
            panes={(0, pane_start(until_ms, PART_MS) - PART_MS): self._traffic()},
            totals={},
            counts={"events": {"impression": 1}},
            watermark_ms=watermark_ms,
            settled_before=until_ms - PLAN.timing.attribution_ms,
            rows={BY_JUDGEMENTS: LaneRows(panes, hours, files=files)},
        )

    def _traffic(self) -> Pages:
        """The rows of feedback: one search of every segment, too few to say anything."""
        rows = np.zeros((len(self.names), PLAN.row_width), np.int64)
        rows[:, 0] = 1
        return pages_of(rows)

    def _sum(self, from_ms: int, until_ms: int) -> Rows:
        first = (max(from_ms, self.starts[0]) - self.starts[0]) // PART_MS
        summed: Rows = self.parts[first : (until_ms - self.starts[0]) // PART_MS].sum(axis=0)
        return summed

    def _page(self, index: int, from_ms: int, until_ms: int) -> Pages:
        """The same object for the same rows: as a lane that did not change."""
        key = (index, from_ms, until_ms)
        if key not in self._pages:
            self._pages[key] = pages_of(self._sum(from_ms, until_ms))
        return self._pages[key]

    def _hour(self, from_ms: int, until_ms: int) -> dict[int, bytes]:
        key = (from_ms, until_ms)
        if key not in self._packed:
            pages = pages_of(self._sum(from_ms, until_ms))
            self._packed[key] = {page: pack_page(rows) for page, rows in pages.items()}
        return self._packed[key]


def reading(
    site: JudgedSite, until_ms: int, publisher: Publisher, files: LaneFiles = ONE_FILE
) -> Reading:
    """What is published when judged rows are final until then."""
    as_of_ms = until_ms + PLAN.timing.lateness_ms
    found = publisher.publish([site.lane(until_ms, files)], as_of_ms, with_series=False).reading
    assert found is not None
    return found
