"""Which scores fell in recorded buckets: a look after each bucket, as the daemon looks. Pure."""

from dataclasses import replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ...exporter.judged import rows_plan
from ...exporter.judgements import look_at
from ...exporter.selection import Selection
from ...judging.counted import Counts
from ...judging.design_effect import used
from ...judging.ledger import (
    Call,
    Fall,
    Graded,
    Look,
    advanced,
    calls_of,
    superseded,
    without_falls,
)
from ...judging.onset import onsets
from ...judging.scan import MOST_BEFORE_MS, scan
from ...judging.settings import Judging
from ...judging.story import Story
from ...judging.telling import Scene
from ...judging.timeline import Timeline
from ...lane.lane import Lane
from .buckets import OverTime
from .judged import JudgedHours, rows_of

Fallen: TypeAlias = tuple[tuple[Story, ...], tuple[Story, ...]]
"""(the changes that are open at the end, those that are over)."""


def fallen(
    found: OverTime, judging: Judging, graded: Graded | None = None, other: Graded | None = None
) -> Fallen:
    """What fell by lane `hour`, with the design effect of the settings, or that of a site of which
    none has been measured. Of judged scores with what grades them, and what did afterwards."""
    whole = replace(_look_at(found, judging), graded=graded)
    falls: tuple[Fall, ...] = ()
    for bins in range(2, len(found.starts) + 1):
        seen = replace(whole, timeline=whole.timeline.first(bins))
        look = replace(seen, timeline=without_falls(seen, falls))
        falls = advanced(falls, look, _calls(look))
    if other is not None:
        falls = superseded(falls, other)
    names = found.plan.count_columns
    counts = Counts(
        {segment: index for index, segment in enumerate(found.selection.segments)},
        found.rows[..., : len(names)],
        names,
    )
    scene = Scene(whole, counts, judging)
    return (scene.stories(falls), scene.ended(falls, 0.0)) if len(found.starts) else ((), ())


def judged_fallen(
    judged: JudgedHours,
    lane: Lane,
    shown: Selection,
    span: range,
    length_ms: int,
    judging: Judging,
) -> Fallen:
    """The same of judged scores in buckets of this length: of what each file graded, one after the
    other."""
    plan, since_ms = rows_plan(lane.plan), rows_of(lane).since_ms
    in_force = [Graded(entry.name, max(entry.start_ms, since_ms)) for entry in judged.entries]
    of_files: list[Fallen] = []
    for graded, other in zip_longest(in_force, in_force[1:]):
        stop = span.stop if other is None else min(other.since_ms, span.stop)
        part = range(max(graded.since_ms, span.start), stop)
        found = OverTime.of(judged.buckets(lane, part, length_ms), lane, shown, part, plan)
        of_files.append(fallen(found, judging.of_judged, graded, other))
    return (
        tuple(story for open_now, _ in of_files for story in open_now),
        tuple(story for _, over in of_files for story in over),
    )


def _look_at(found: OverTime, judging: Judging) -> Look:
    plan, segments = found.plan, found.selection.segments
    rows = found.rows[..., len(plan.count_columns) : plan.weight_column]
    units = np.array([metric.unit for metric in plan.metrics], np.float64)
    shape = (len(found.starts), len(segments) * len(plan.metrics))
    scored, sums, squares = (
        (rows[..., which::3] / scale).reshape(shape)
        for which, scale in ((0, 1.0), (1, units), (2, units))
    )
    ends = found.starts + plan.hour_ms
    hourly = np.zeros(len(ends), np.bool_)
    timeline = Timeline(found.starts, ends, scored, sums, squares, hourly)
    return look_at(timeline, segments, plan, judging, used(judging.design_effect, None))


def _calls(look: Look) -> list[Call]:
    found = scan(look.timeline, look.directions, look.noise)
    which = np.flatnonzero(found.called).astype(np.int64)
    since = found.since_ms[which]
    since -= np.maximum(look.end_ms - since, MOST_BEFORE_MS)
    began = onsets(look.timeline.of(which), look.directions[which], since, look.noise.of(which))
    return calls_of(look, "hour", which, began)
