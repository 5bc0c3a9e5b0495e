"""What a store lost of a lane, as far as the worker that owned the lane before can tell."""

from collections import Counter
from collections.abc import Mapping

import structlog

from ..storage.commit import ClaimedLane

log = structlog.get_logger(__name__)


def log_what_is_missing(claimed: ClaimedLane, durable_offsets: Mapping[str, int]) -> None:
    """Log if the store has no state of a lane, or older state than it had confirmed."""
    offsets = dict(claimed.lane.offsets)
    to_read_again = Counter(durable_offsets) - Counter(offsets)
    lane_log = log.bind(lane=claimed.lane.number, offsets=offsets)
    if claimed.sequence == 0 and durable_offsets:
        lane_log.error("the store lost the lane: it begins anew", records_again=dict(to_read_again))
    elif claimed.sequence == 0:
        lane_log.info("lane begins")
    elif to_read_again:
        lane_log.warning(
            "the store has older state of the lane: reading again",
            records_again=dict(to_read_again),
        )


def skipped(begin: Mapping[str, int], durable_offsets: Mapping[str, int]) -> dict[str, int]:
    """How many records of each topic lie between the last offsets of a lane that the store lost and
    where it begins anew. With `start = "latest"` nobody reads them."""
    return {
        topic: begin[topic] - durable
        for topic, durable in durable_offsets.items()
        if begin[topic] > durable
    }
