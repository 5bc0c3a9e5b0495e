"""What was judged, as samples. Pure."""

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Final, TypeAlias

from ..judging.markers import Marker, newest
from ..plan import Plan
from ..telemetry import change_families as families
from ..telemetry.family import Family
from .judgements import Found, Judgement
from .labels import escape, label_names, segment_labels

Sample: TypeAlias = tuple[Family, str, float]
"""(family, labels, value)."""
MARKERS_WITHIN_MS: Final = 86_400_000
MARKERS_OF_KIND: Final = 5
"""Each text is a series of its own, so only the latest few of the last day are served."""


def samples(judged: Judgement, plan: Plan) -> Iterator[Sample]:
    """The samples of one look; what is unknown is absent."""
    attributes = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    segments = segment_labels(judged.segments, attributes, label_names(plan.groupings))
    metrics = [f'metric="{escape(metric.name)}",' for metric in plan.metrics]
    labels = [metric + segment for segment in segments for metric in metrics]
    for found in judged.found:
        yield from _of_found(found, labels)
    for against, least in judged.noticeable.items():
        for label, ratio in zip(labels, least.tolist(), strict=True):
            if ratio < 1:
                yield families.NOTICEABLE, f'{label},against="{against}"', round(ratio, 4)
    if judged.begin_ms is not None:
        yield families.HISTORY_BEGIN, "", judged.begin_ms / 1000


def _of_found(found: Found, labels: list[str]) -> Iterator[Sample]:
    bounds = (found.onsets.earliest, found.onsets.likely, found.onsets.latest)
    for index, series in enumerate(found.series.tolist()):
        label = f'{labels[series]},against="{found.against}"'
        if found.loss is not None and found.z is not None:
            yield families.LOSS_RATIO, label, round(float(found.loss[index]), 6)
            yield families.Z, label, round(float(found.z[index]), 3)
        for bound, times in zip(families.BOUNDS, bounds, strict=True):
            if isfinite(times[index]):
                yield families.ONSET, f'{label},bound="{bound}"', float(times[index]) / 1000


def marker_samples(markers: Iterable[Marker], now_ms: int | None) -> Iterator[Sample]:
    """The times of the latest markers, by kind and text; of two with the same labels the later."""
    if now_ms is None:
        return
    times: dict[str, float] = {}
    for marker in newest(markers, now_ms, MARKERS_WITHIN_MS, MARKERS_OF_KIND):
        scope = marker.scope
        named = {
            "kind": marker.kind,
            "text": marker.text,
            "metric": scope.metric,
            "scope": _scope_text(scope.grouping, scope.segment),
        }
        label = ",".join(f'{name}="{escape(value or "")}"' for name, value in named.items())
        times[label] = marker.at_ms / 1000
    for label, time_s in times.items():
        yield families.MARKER, label, time_s


def _scope_text(grouping: str | None, segment: str | None) -> str:
    """`country=DE`, `country`, or nothing where everything is meant."""
    return "=".join(filter(None, (grouping, segment)))
