"""Open changes as samples: what the alert rules compare, and what their texts say. Pure."""

from collections.abc import Iterator
from math import isfinite
from typing import Final

from ..changes import Moved, ToldChange
from ..plan import Plan
from ..telemetry import FAMILIES
from .measures import Detection
from .sample_series import Sample, escape, label_names, segment_labels

BOUNDS: Final = ("earliest", "likely", "latest")
"""Values of the label `bound` of an onset."""
SIDES: Final = ("before", "now")
"""Values of the label `side`."""


def open_change_samples(measure: str, found: Detection, plan: Plan) -> Iterator[Sample]:
    """The samples of the changes of a measure; what is unknown is absent. `plan` has the groupings
    of its segments."""
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    names = label_names(plan.groupings)
    segments = segment_labels([each.series[:2] for each in found.told], attributes, names)
    for change, segment in zip(found.told, segments, strict=True):
        metric = escape(change.series[2])
        yield from _of(change, f'measure="{measure}",metric="{metric}",{segment}')


def _of(change: ToldChange, labels: str) -> Iterator[Sample]:
    story, moved, onset = change.story, change.moved, change.onset
    told = f'against="{change.against}",pattern="{change.pattern}",urgency="{change.urgency}"'
    yield FAMILIES["relevanced_change_open"], f"{labels},{told}", 1
    bounds = (onset.earliest, onset.likely, onset.latest)
    for bound, time_ms in zip(BOUNDS, bounds, strict=True):
        if time_ms is not None:
            yield FAMILIES[
                "relevanced_change_open_since_timestamp_seconds"
            ], f'{labels},bound="{bound}"', time_ms / 1000
    for side, measured in zip(SIDES, (moved.before, moved.now), strict=True):
        if measured.mean is not None:
            yield FAMILIES["relevanced_change_open_score"], f'{labels},side="{side}"', round(
                measured.mean, 6
            )
    yield from _judged(moved, labels)
    yield FAMILIES["relevanced_change_open_scored_impressions"], labels, moved.now.scored
    if change.loss_ratio is not None:
        yield FAMILIES["relevanced_change_open_loss_ratio"], labels, round(change.loss_ratio, 6)
    if change.z is not None and isfinite(change.z):
        yield FAMILIES["relevanced_change_open_z"], labels, round(change.z, 3)
    if story.explanation is not None:
        yield FAMILIES["relevanced_change_open_carried_ratio"], labels, round(
            story.explanation.carried, 4
        )
    named, pattern = f"{story.fall.series[0]} {_listed(story.segments)}", story.pattern
    words, look_at = ("", "") if pattern is None else (pattern.words, pattern.look_at)
    info = {"named": named, "words": words, "look_at": look_at}
    text = ",".join(f'{name}="{escape(value)}"' for name, value in info.items())
    yield FAMILIES["relevanced_change_open_text"], f"{labels},{text}", 1


def _judged(moved: Moved, labels: str) -> Iterator[Sample]:
    """What stands beside a judged score."""
    for name, values in (
        ("relevanced_change_open_best_case_score", moved.best_case),
        ("relevanced_change_open_judged_items_ratio", moved.judged_shares),
    ):
        for side, value in zip(SIDES, values, strict=True):
            if value is not None:
                yield FAMILIES[name], f'{labels},side="{side}"', round(value, 6)


def _listed(segments: tuple[str, ...]) -> str:
    """`DE`, `DE and FR`, `DE, FR and IT`."""
    *first, last = segments
    return f"{', '.join(first)} and {last}" if first else last
