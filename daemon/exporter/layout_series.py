"""Since when metrics are counted that a window cannot show yet, and the layouts of lanes, as
samples. Pure."""

from collections import Counter
from collections.abc import Iterator

from typing import TypeAlias

from ..plan import Plan
from ..telemetry import layout_families as families
from ..telemetry.family import Family
from .labels import escape
from .snapshot import SETTLED, Snapshot

Sample: TypeAlias = tuple[Family, str, float]
"""(family, labels, value)."""


def samples(snapshot: Snapshot, plan: Plan) -> Iterator[Sample]:
    """The samples of a snapshot."""
    generations = Counter(one.generation for one in snapshot.lanes if one.generation is not None)
    for generation, lanes in sorted(generations.items()):
        yield families.LAYOUT_LANES, f'generation="{generation}"', lanes
    yield from _since(snapshot, plan)


def _since(snapshot: Snapshot, plan: Plan) -> Iterator[Sample]:
    coverage = snapshot.coverage
    if coverage is None:
        return
    first_ms = {one.window: one.first_ms for one in snapshot.windows if one.view == SETTLED}
    for index, window in enumerate(plan.timing.windows):
        for metric, one in enumerate(plan.metrics):
            for grouping in plan.grouping_names:
                since_ms = coverage.since(metric, grouping, index)
                begins_ms = first_ms.get(window.name)
                if since_ms is not None and (begins_ms is None or since_ms > begins_ms):
                    labels = {"metric": one.name, "grouping": grouping, "window": window.name}
                    text = ",".join(f'{name}="{escape(of)}"' for name, of in labels.items())
                    yield families.COLUMN_SINCE, text, since_ms / 1000
