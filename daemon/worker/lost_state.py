"""What a store lost of a lane, and from where it is read again."""

from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from ..config import Ago, LogEnd, Start
from ..errors import Unavailable
from ..events import timestamp_text
from ..storage import ClaimedLane
from ..telemetry import Telemetry
from .source import Source

log = structlog.get_logger(__name__)


class LostState:
    """Counts the lanes whose state was lost, and says from where each is rebuilt.

    A worker that owned the lane before knows it. One that did not asks the consumer group, which
    has a hint of how far some worker had come, outside Redis.
    """

    def __init__(self, source: Source, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._source = source
        self._telemetry = telemetry
        self._clock = clock

    async def note(
        self, claimed: ClaimedLane, start: Start, durable_offsets: Mapping[str, int]
    ) -> bool:
        """Count and log the lane if the store has no state of it, or older state than it had
        confirmed, where `durable_offsets` are those that this process knows. Returns whether it
        was lost."""
        offsets = dict(claimed.lane.offsets)
        lane_log = log.bind(lane=claimed.lane.number, offsets=offsets)
        if claimed.sequence > 0:
            to_read_again = Counter(durable_offsets) - Counter(offsets)
            if to_read_again:
                self._telemetry.lane_state_lost.labels("stored_offsets").inc()
                lane_log.warning(
                    "the store has older state of the lane: reading again from its offsets",
                    records_again=dict(to_read_again),
                )
            return bool(to_read_again)
        known = durable_offsets or await self._of_the_group(claimed.lane.number)
        if not any(known.values()):
            lane_log.info("lane begins")
            return False
        await self._note_whole(claimed, start, known)
        return True

    async def _note_whole(
        self, claimed: ClaimedLane, start: Start, known: Mapping[str, int]
    ) -> None:
        lane, offsets = claimed.lane.number, claimed.lane.offsets
        from_ms = rebuilt_from_ms(start, await self._first_times(lane), int(self._clock() * 1000))
        self._telemetry.lane_state_lost.labels("kafka_start").inc()
        self._telemetry.lane_rebuilt_from_s.labels(str(lane)).set(from_ms / 1000)
        older = "what is older is gone" if any(offsets.values()) else "and its log has all of it"
        log.error(
            f"the store lost the lane: it is read again, {older}",
            lane=lane,
            offsets=dict(offsets),
            rebuilt_from=timestamp_text(from_ms),
            records_again=dict(Counter(known) - Counter(offsets)),
        )

    async def _of_the_group(self, lane: int) -> Mapping[str, int]:
        try:
            return await self._source.group_offsets(lane)
        except Unavailable as error:
            log.warning("not known if the lane had state before", lane=lane, reason=str(error))
            return {}

    async def _first_times(self, lane: int) -> Mapping[str, int]:
        try:
            return await self._source.first_times(lane)
        except Unavailable:
            return {}


def rebuilt_from_ms(start: Start, first_times_ms: Mapping[str, int], now_ms: int) -> int:
    """The instant, by the Kafka timestamps of records, from which a lane that begins anew at
    `start` has every record; the clock where its logs are empty."""
    if start is LogEnd.LATEST:
        return now_ms
    logs_ms = max(first_times_ms.values(), default=now_ms)
    return max(now_ms - start.ms, logs_ms) if isinstance(start, Ago) else logs_ms


def skipped(begin: Mapping[str, int], durable_offsets: Mapping[str, int]) -> dict[str, int]:
    """How many records of each topic lie between the last offsets of a lane that the store lost and
    where it begins anew. With `start = "latest"` nobody reads them."""
    return {
        topic: begin[topic] - durable
        for topic, durable in durable_offsets.items()
        if begin[topic] > durable
    }
