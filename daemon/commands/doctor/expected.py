"""What traffic like that of a sample comes to: its size, and the smallest drop that would be seen.
Pure but for the time that the caller measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Final

import numpy as np

from ...events.types import Impression
from ...exporter import snapshot
from ...judging.noise import Noise
from ...judging.noticeable import by_earlier
from ...lane.lane import Lane
from ...plan import Plan
from ..recorded.views import view_of
from .looked import Looked, Seen, in_one_lane

BYTES_IN_MEMORY: Final = 196
BYTES_IN_REDIS: Final = 49
"""Of an open impression."""
ROW_BYTES: Final = 43
"""Of a row in Redis: a segment in a pane or an hour."""
JOIN_US: Final = 10.0
"""Processor time of an event beyond its decoding."""
HOURS_A_DAY: Final = 24
DAY_S: Final = 86_400
EARLIER_DAYS: Final = 3
"""That a day is compared with."""
LEAST_SCORED: Final = 30
"""Fewer impressions of a sample say nothing of how their scores spread."""
LEAST_A_DAY: Final = 200
"""As `judging.smallest_sample`."""
COMPARED_WINDOWS: Final = 3


@dataclass(frozen=True)
class Size:
    """What to expect of the daemon."""

    events_per_s: float
    series: int
    redis_bytes: float
    memory_bytes: float
    """Of open impressions, all workers together, beyond that of the process."""
    cores: float
    """On the machine that looked at the sample."""


@dataclass(frozen=True)
class Smallest:
    """The smallest drop of a segment that would be seen in a day."""

    grouping: str
    segment: str
    scored_per_day: float
    drop: float | None
    """As a share of the score, seen in 9 of 10 cases; None: too little traffic, or unknown."""


def span_s(seen: Sequence[Seen]) -> float:
    """The time from the first event to the last, in seconds."""
    times = [one.event.time_ms for one in seen]
    return (max(times) - min(times)) / 1000 if times else 0.0


def size_of(looked: Looked, plan: Plan, segments: int, history_days: int) -> Size | None:
    """What so many segments come to; None where the sample has no length. `looked.decode_us` is
    what an event took to decode."""
    seconds = span_s(looked.seen)
    if not seconds:
        return None
    timing = plan.timing
    open_s = (timing.settle_ms + timing.base_ms) / 1000
    still_open = sum(isinstance(one.event, Impression) for one in looked.seen) / seconds * open_s
    per_s = len(looked.seen) / seconds
    panes = sum(window.pane_count for window in timing.windows) + history_days * HOURS_A_DAY
    return Size(
        per_s,
        segments * _series(plan),
        still_open * BYTES_IN_REDIS + segments * panes * ROW_BYTES,
        still_open * BYTES_IN_MEMORY,
        per_s * (looked.decode_us + JOIN_US) / 1e6,
    )


def _series(plan: Plan) -> int:
    """Of one segment: both views of each window, comparisons with what is usual, and counters."""
    metrics = len(plan.metrics)
    views = 2 * len(plan.timing.windows) * (4 + 3 * metrics)
    return views + 2 * COMPARED_WINDOWS * (6 + 2 * metrics) + 4 + 3 * metrics


def lane_of(looked: Looked, plan: Plan) -> Lane:
    """A lane that has the whole sample."""
    return in_one_lane(looked.seen, replace(plan, history_hours=0))


def smallest_drops(lane: Lane, seconds: float, metric_index: int, noise: Noise) -> list[Smallest]:
    """For each segment of a lane with so many seconds of traffic, by grouping, those with the most
    traffic first."""
    view = view_of(lane)
    known = snapshot.evaluate([view], lane.plan, view.names.segments)
    rows = snapshot.with_everything(known, [view], lane.plan).windows[-1].rows
    means, errors = snapshot.estimates(rows, lane.plan, metric_index)
    scored = rows[:, lane.plan.metric_column(metric_index)]
    found = [
        _smallest(*segment, int(count), float(mean), float(error), seconds, noise)
        for segment, count, mean, error in zip(known.segments, scored, means, errors, strict=True)
    ]
    order = {name: place for place, name in enumerate(lane.plan.grouping_names)}
    return sorted(found, key=lambda one: (order[one.grouping], -one.scored_per_day, one.segment))


def _smallest(
    grouping: str,
    segment: str,
    scored: int,
    mean: float,
    error: float,
    seconds: float,
    noise: Noise,
) -> Smallest:
    per_day = scored / seconds * DAY_S if seconds else 0.0
    if scored < LEAST_SCORED or per_day < LEAST_A_DAY or not mean > 0:
        return Smallest(grouping, segment, per_day, None)
    deviation = error * sqrt(scored)
    relative = deviation / mean * sqrt((1 + 1 / EARLIER_DAYS) / per_day)
    drop = by_earlier(HOURS_A_DAY, np.array([relative]), EARLIER_DAYS, "week", noise)[0]
    return Smallest(
        grouping, segment, per_day, None if drop in (inf,) or drop >= 1 else float(drop)
    )
