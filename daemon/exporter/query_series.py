"""What the tables of queries of all lanes come to, as samples: no text of any query. Pure."""

from collections.abc import Iterator

from typing import TypeAlias

from ..storage.query_head import QueryHead
from ..telemetry import query_families as families
from ..telemetry.family import Family
from .snapshot import Snapshot

Sample: TypeAlias = tuple[Family, str, float]
"""(family, labels, value)."""


def _bytes_of(head: QueryHead) -> int:
    return sum(head.hours.values()) + sum(head.examples.values())


def samples(snapshot: Snapshot) -> Iterator[Sample]:
    """The samples of a snapshot; none where no lane keeps queries."""
    heads = [lane.queries for lane in snapshot.lanes if lane.queries is not None]
    if not heads:
        return
    yield families.QUERY_TABLES_BYTES, "", sum(map(_bytes_of, heads))
    # Of lanes that closed an earlier hour last, nothing counts: they are of another hour.
    latest = max(head.closed_ms or 0 for head in heads)
    counts = [head.last_counts for head in heads if head.closed_ms == latest]
    impressions = sum(whole for _, whole in counts)
    if impressions:
        yield families.QUERY_OTHER_SHARE, "", sum(other for other, _ in counts) / impressions
