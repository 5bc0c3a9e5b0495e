"""A simulated shop as one lane of the product: searches of countries, devices and arms of an
experiment over weeks, with faults that begin, end and overlap.

Each search finds nothing, or no click, or its first click at some rank; `design_effect` comes from
searches that are made twice with the same outcome.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

import numpy as np

from relevanced.daemon.changes import ChangeSettings
from relevanced.daemon.exporter import Detection, Publisher
from relevanced.daemon.lane import PAGE_ROWS
from relevanced.daemon.panes import HOUR_MS, pane_start
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import pack_page
from relevanced.daemon.timing import timing
from relevanced.daemon.views import LaneView, Names
from relevanced.metrics import Booleans, Floats, Integers, parse

PANE_MS: Final = 120_000
PER_HOUR: Final = HOUR_MS // PANE_MS
BEGIN_MS: Final = 1_790_553_600_000
"""A Monday, 00:00 UTC."""
COUNTRIES: Final = {"US": 0.45, "DE": 0.30, "FR": 0.13, "UK": 0.07, "JP": 0.05}
DEVICES: Final = {"desktop": 0.40, "ios": 0.35, "android": 0.25}
ARMS: Final = {"control": 0.5, "treatment": 0.5}
CELLS: Final = tuple(product(COUNTRIES, DEVICES, ARMS))
"""(country, device, arm) of each cell of traffic."""
SHARES: Final = np.array([COUNTRIES[c] * DEVICES[d] * ARMS[a] for c, d, a in CELLS])
SEGMENTS: Final = (
    ("all", "all"),
    *(("country", country) for country in COUNTRIES),
    *(("device", device) for device in DEVICES),
    *(("country,device", f"{country},{device}") for country in COUNTRIES for device in DEVICES),
    *(("experiment:x", arm) for arm in ARMS),
)
MEMBERS: Final = np.array(
    [
        [
            segment in ("all", country, device, f"{country},{device}", arm)
            for country, device, arm in CELLS
        ]
        for _, segment in SEGMENTS
    ],
    np.float64,
)
"""(segments, cells)."""
METRICS: Final = ("Success@10", "RR@10", "P@1", "P@5", "ERR@10", "nDCG@10", "Abandonment")
PLAN: Final = Plan(
    timing=timing([("1h", 3600), ("24h", 86400)], attribution_s=1800, lateness_s=60),
    metrics=tuple(
        parse(name, **({"max_grade": 1.0} if name == "ERR@10" else {})) for name in METRICS
    ),
    groupings=(("country",), ("device",), ("country", "device"), ("experiment:x",)),
    grades={"click": 1.0},
    max_segments=100,
    history_hours=840,
)
RANKS: Final = np.arange(1, 11)
NO_CLICK: Final = 1
"""Outcomes: 0 is an empty list, 1 no click, `NO_CLICK` + r the first click at rank r."""
USUAL_RANKS: Final = np.array([0.46, 0.19, 0.11, 0.075, 0.055, 0.04, 0.03, 0.02, 0.012, 0.008])
FOUND: Final = 0.68
EMPTY: Final = 0.02
MORE_CLICKS: Final = 0.25
"""Probability of one more click after the first."""
DESIGN_EFFECT: Final = 1.2
VALUES: Final[Mapping[str, Floats]] = {
    "Success@10": np.r_[0, 0, np.ones(10)],
    "RR@10": np.r_[0, 0, 1 / RANKS],
    "P@1": np.r_[0, 0, RANKS == 1],
    "P@5": np.r_[0, 0, (RANKS <= 5) / 5],
    "ERR@10": np.r_[0, 0, 0.5 / RANKS],
    "nDCG@10": np.r_[np.nan, np.nan, 1 / np.log2(RANKS + 1)],
    "Abandonment": np.r_[np.nan, 1, np.zeros(10)],
}
"""Value of each metric by outcome; NaN where it is undefined."""


@dataclass
class Traffic:
    """What a fault may change: (panes, cells) each, but `ranks`, which is (panes, cells, 10)."""

    hours: Floats
    """(panes,) hours since the beginning."""
    searches: Floats
    """Expected."""
    found: Floats
    """Probability of a click, in lists that are not empty."""
    ranks: Floats
    """Probability of each rank of the first click."""
    empty: Floats
    more: Floats
    """Probability of one more click."""


@dataclass(frozen=True)
class Fault:
    """Something breaks in some cells, for some hours."""

    play: Callable[[Traffic, tuple[Integers, Integers]], None]
    begin_h: float
    end_h: float
    where: Mapping[int, str] = field(default_factory=dict)
    """Position in a cell's name → what must stand there: 0 country, 1 device, 2 arm."""

    def apply(self, traffic: Traffic) -> None:
        """Change the traffic."""
        panes = (traffic.hours >= self.begin_h) & (traffic.hours < self.end_h)
        cells = np.array(
            [all(cell[at] == name for at, name in self.where.items()) for cell in CELLS]
        )
        self.play(traffic, np.ix_(panes, cells))


def ranking(flat: float, lost: float) -> Callable[[Traffic, tuple[Integers, Integers]], None]:
    """So much of the order is lost, and with it so many of the clicks."""

    def play(traffic: Traffic, at: tuple[Integers, Integers]) -> None:
        traffic.ranks[at] = (1 - flat) * traffic.ranks[at] + flat / len(RANKS)
        traffic.found[at] *= 1 - lost

    return play


def index(empty: float) -> Callable[[Traffic, tuple[Integers, Integers]], None]:
    """So many lists are empty that were not."""

    def play(traffic: Traffic, at: tuple[Integers, Integers]) -> None:
        traffic.empty[at] += empty * (1 - traffic.empty[at])

    return play


def tracker(lost: float) -> Callable[[Traffic, tuple[Integers, Integers]], None]:
    """So many clicks are lost; the second one stands in for a lost first one."""

    def play(traffic: Traffic, at: tuple[Integers, Integers]) -> None:
        traffic.found[at] *= 1 - lost * (1 - MORE_CLICKS)
        traffic.more[at] *= 1 - lost
        later = np.zeros_like(traffic.ranks[at])
        later[..., 1:] = traffic.ranks[at][..., :-1]
        mixed = traffic.ranks[at] + lost * MORE_CLICKS * later
        traffic.ranks[at] = mixed / mixed.sum(axis=-1, keepdims=True)

    return play


def fewer(share: float) -> Callable[[Traffic, tuple[Integers, Integers]], None]:
    """So many searches are missing: where cells differ in their scores, the mix shifts."""

    def play(traffic: Traffic, at: tuple[Integers, Integers]) -> None:
        traffic.searches[at] *= 1 - share

    return play


def drift(panes: int, series: int, rng: np.random.Generator, memory_h: float = 12.0) -> Floats:
    """(panes, series) of unit variance: an Ornstein-Uhlenbeck process."""
    kept = np.exp(-1 / PER_HOUR / memory_h)
    moves = rng.standard_normal((panes, series)) * np.sqrt(1 - kept * kept)
    walked = np.empty((panes, series))
    now = rng.standard_normal(series)
    for pane in range(panes):
        now = kept * now + moves[pane]
        walked[pane] = now
    return walked


class Shop:
    """Some days of traffic, and the lane that has read them up to an instant."""

    def __init__(
        self,
        days: float,
        per_hour: float,
        seed: int,
        faults: Sequence[Fault] = (),
        *,
        night: float = 0.4,
        cell_drift: float = 0.003,
    ) -> None:
        rng = np.random.default_rng(seed)
        panes = round(days * 24 * PER_HOUR)
        traffic = _usual(panes, per_hour, rng, night, cell_drift)
        for fault in faults:
            fault.apply(traffic)
        self.rows = _rows(traffic, rng)
        """(panes, segments, columns)."""
        self._pages: dict[tuple[int, int, int], dict[int, Integers]] = {}
        self._hours: dict[tuple[int, int], dict[int, bytes]] = {}

    def lane(self, as_of_ms: int) -> LaneView:
        """The lane whose watermark is this one."""
        plan, read = PLAN, (as_of_ms - BEGIN_MS) // PANE_MS
        until = (pane_start(as_of_ms - plan.timing.settle_ms, PANE_MS) - BEGIN_MS) // PANE_MS
        panes = {}
        for which, window in enumerate(plan.timing.windows):
            per_pane = window.pane_ms // PANE_MS
            from_ms = plan.timing.dropped_before(window, as_of_ms) + window.pane_ms - 1
            first = max(pane_start(from_ms, window.pane_ms), BEGIN_MS)
            for start in range(first, as_of_ms, window.pane_ms):
                at = (start - BEGIN_MS) // PANE_MS
                panes[which, start] = self._page(which, at, min(at + per_pane, read))
        first_hour = max(0, until // PER_HOUR - plan.history_hours)
        hours = {
            BEGIN_MS + hour * HOUR_MS: self._hour(hour, min((hour + 1) * PER_HOUR, until))
            for hour in range(first_hour, -(-until // PER_HOUR))
        }
        return LaneView(
            lane=0,
            token="t",
            sequence=1,
            names=Names({segment: at for at, segment in enumerate(SEGMENTS)}),
            panes=panes,
            totals={},
            counts={"events": {"impression": 1}},
            watermark_ms=as_of_ms,
            settled_before=BEGIN_MS + until * PANE_MS,
            hours=hours,
        )

    def _page(self, which: int, first: int, until: int) -> dict[int, Integers]:
        return self._pages.setdefault((which, first, until), {0: self._summed(first, until)})

    def _hour(self, hour: int, until: int) -> dict[int, bytes]:
        if (known := self._hours.get((hour, until))) is None:
            known = {0: pack_page(self._summed(hour * PER_HOUR, until))}
            self._hours[hour, until] = known
        return known

    def _summed(self, first: int, until: int) -> Integers:
        page = np.zeros((PAGE_ROWS, PLAN.row_width), np.int64)
        page[: len(SEGMENTS)] = self.rows[first:until].sum(axis=0)
        return page


def _usual(
    panes: int, per_hour: float, rng: np.random.Generator, night: float, cell_drift: float
) -> Traffic:
    hours = np.arange(panes) / PER_HOUR
    of_day = 1 + (1 - night) * np.sin(2 * np.pi * (hours - 9) / 24)
    level = 1 + 0.02 * np.sin(2 * np.pi * (hours - 6) / 24) + 0.006 * drift(panes, 1, rng)[:, 0]
    own = 1 + cell_drift * drift(panes, len(CELLS), rng)
    found = np.array([1 + 0.04 * np.sin(1.7 * cell) for cell in range(len(CELLS))])
    shape = (panes, len(CELLS))
    return Traffic(
        hours,
        per_hour / PER_HOUR * of_day[:, None] * SHARES,
        FOUND * found * level[:, None] * own,
        np.broadcast_to(USUAL_RANKS / USUAL_RANKS.sum(), (*shape, len(RANKS))).copy(),
        np.full(shape, EMPTY),
        np.full(shape, MORE_CLICKS),
    )


def _rows(traffic: Traffic, rng: np.random.Generator) -> Integers:
    found, empty = np.clip(traffic.found, 0, 0.98), traffic.empty
    chances = np.concatenate(
        [
            empty[..., None],
            ((1 - empty) * (1 - found))[..., None],
            ((1 - empty) * found)[..., None] * traffic.ranks,
        ],
        axis=-1,
    )
    twice = (DESIGN_EFFECT - 1) / (4 - 2 * DESIGN_EFFECT)
    once = traffic.searches / (1 + 2 * twice)
    outcomes = rng.poisson(once[..., None] * chances)
    outcomes += 2 * rng.poisson((twice * once)[..., None] * chances)
    clicked = outcomes[..., NO_CLICK + 1 :].sum(axis=-1)
    more = rng.binomial(clicked, np.clip(traffic.more, 0, 1))
    cells = _columns(outcomes, clicked, more)
    return np.asarray(np.einsum("sc,ncw->nsw", MEMBERS, cells).round(), np.int64)


def _columns(outcomes: Integers, clicked: Integers, more: Integers) -> Floats:
    """(panes, cells, columns)."""
    made = np.zeros((*clicked.shape, PLAN.row_width))
    searches, listed = outcomes.sum(axis=-1), outcomes[..., 1:].sum(axis=-1)
    counted = (searches, clicked, outcomes[..., 0], clicked + more, 10 * listed, 100 * listed)
    for at, column in enumerate(counted):
        made[..., at] = column
    for which, metric in enumerate(PLAN.metrics):
        values = VALUES[METRICS[which]]
        defined: Booleans = ~np.isnan(values)
        counts, at = outcomes[..., defined], PLAN.metric_column(which)
        made[..., at] = counts.sum(axis=-1)
        for power in (1, 2):
            made[..., at + power] = counts @ np.floor(metric.unit * values[defined] ** power + 0.5)
    return made


class Watch:
    """The product's judge looking at a shop again and again."""

    def __init__(self, shop: Shop, change_settings: ChangeSettings | None = None) -> None:
        self.shop = shop
        self.publisher = Publisher(PLAN, change_settings or ChangeSettings())

    def look(self, hour: float) -> Detection:
        """What is said when the traffic until this hour has been read."""
        as_of_ms = BEGIN_MS + round(hour * HOUR_MS / PANE_MS) * PANE_MS
        published = self.publisher.publish([self.shop.lane(as_of_ms)], as_of_ms, with_series=False)
        return published.reading.clicks.changes
