"""What is far from usual in the data behind the scores, as the API returns it. Pure."""

from collections.abc import Iterator

import msgspec

from ...changes import TrafficChange, TrafficMetric, sentences
from ...exporter import Reading
from ...views import WHOLE


class OpenTrafficChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of a segment that is far from usual in the last hour that has settled."""

    metric: TrafficMetric
    """`impressions`: almost none come any more; `feedback_share`: fewer of them get feedback;
    `zero_results_share`: more of them return no results."""
    grouping: str
    segment: str
    before: float
    """What is usual at this hour: impressions, or a share of them."""
    now: float
    z: float | None
    """The change of a share in standard errors; null of impressions."""
    text: str


def traffic(reading: Reading) -> tuple[OpenTrafficChange, ...]:
    """The changes of all searches first. None while searches or feedback have stopped: that tells
    them all. Of a share that changed for all searches, segments are left out."""
    if reading.silences:
        return ()
    return tuple(
        OpenTrafficChange(
            change.metric,
            *change.segment,
            round(change.before, 6),
            round(change.now, 6),
            None if change.z is None else round(change.z, 3),
            sentences.traffic(change),
        )
        for change in sorted(_told(reading), key=_is_of_segment)
    )


def is_of_all(change: OpenTrafficChange) -> bool:
    """Whether it is one of all searches."""
    return (change.grouping, change.segment) == WHOLE


def _told(reading: Reading) -> Iterator[TrafficChange]:
    of_all = {change.metric for change in reading.traffic if not _is_of_segment(change)}
    for change in reading.traffic:
        if not _is_of_segment(change) or change.metric not in of_all:
            yield change


def _is_of_segment(change: TrafficChange) -> bool:
    return change.segment != WHOLE
