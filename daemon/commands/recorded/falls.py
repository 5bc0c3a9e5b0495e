"""Which scores fell in recorded buckets: a look after each bucket, as the daemon looks. Pure."""

from dataclasses import replace
from typing import Final

import numpy as np

from ...judging.counted import Counts
from ...judging.design_effect import used
from ...judging.ledger import Call, Fall, Look, advanced, calls_of, without_falls
from ...judging.noise import Noise
from ...judging.onset import onsets
from ...judging.scan import MOST_BEFORE_MS, scan
from ...judging.settings import Judging
from ...judging.story import Story
from ...judging.telling import Scene
from ...judging.timeline import Timeline
from ...plan import COUNT_COLUMNS
from .buckets import OverTime

SIGNS: Final = {"up": 1.0, "down": -1.0, "none": 0.0}


def fallen(found: OverTime, judging: Judging) -> tuple[tuple[Story, ...], tuple[Story, ...]]:
    """(the changes that are open at the end, those that are over): by lane `hour`, with the design
    effect of the settings, or that of a site of which none has been measured."""
    whole = _look_at(found, judging)
    falls: tuple[Fall, ...] = ()
    for bins in range(2, len(found.starts) + 1):
        seen = replace(whole, timeline=whole.timeline.first(bins))
        look = replace(seen, timeline=without_falls(seen, falls))
        falls = advanced(falls, look, _calls(look))
    counts = Counts(
        {segment: index for index, segment in enumerate(found.selection.segments)},
        found.rows[..., : len(COUNT_COLUMNS)],
    )
    scene = Scene(whole, counts, judging)
    return (scene.stories(falls), scene.ended(falls, 0.0)) if len(found.starts) else ((), ())


def _look_at(found: OverTime, judging: Judging) -> Look:
    plan, segments = found.plan, found.selection.segments
    rows = found.rows[..., len(COUNT_COLUMNS) : plan.weight_column]
    units = np.array([metric.unit for metric in plan.metrics], np.float64)
    shape = (len(found.starts), len(segments) * len(plan.metrics))
    scored, sums, squares = (
        (rows[..., which::3] / scale).reshape(shape)
        for which, scale in ((0, 1.0), (1, units), (2, units))
    )
    ends = found.starts + plan.hour_ms
    hourly = np.zeros(len(ends), np.bool_)
    drifts = np.array([judging.drift_of(metric.name) for metric in plan.metrics])
    return Look(
        Timeline(found.starts, ends, scored, sums, squares, hourly),
        [(*segment, metric.name) for segment in segments for metric in plan.metrics],
        np.tile([SIGNS[metric.direction] for metric in plan.metrics], len(segments)),
        Noise(used(judging.design_effect, None), np.tile(drifts, len(segments))),
    )


def _calls(look: Look) -> list[Call]:
    found = scan(look.timeline, look.directions, look.noise)
    which = np.flatnonzero(found.called).astype(np.int64)
    since = found.since_ms[which]
    since -= np.maximum(look.end_ms - since, MOST_BEFORE_MS)
    began = onsets(look.timeline.of(which), look.directions[which], since, look.noise.of(which))
    return calls_of(look, "hour", which, began)
