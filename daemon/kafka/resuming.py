"""Where reading of a lane resumes, once its logs are known to be the ones that were read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from ..storage.log_marks import LogMark, LogMarks
from ..telemetry.kafka_faults import NoteFault, ignore_fault
from ..worker.source import LogChanged, OffsetBeyondEnd, PartitionStatus
from .aiokafka_patches import client_of
from .log_identity import ids_by_leader, require_same_records, require_same_topic
from .offsets import log_bounds, resume_offsets
from .topic_ids import Fence, is_fetched_by_id
from .topic_partition import TopicPartition

NEVER_READ: Final = LogMark()

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Resumption:
    """Where each log of a lane is read on, by topic."""

    offsets: Mapping[str, int]
    gaps: Mapping[str, int]
    """How many records were deleted unread, for the topics that lost any."""
    topic_ids: Mapping[TopicPartition, str]


@dataclass
class KnownLogs:
    """The logs that this process reads."""

    fence: Fence = field(default_factory=dict)
    """Their topic ids: fetches bring records of these topics only."""
    _ends: dict[TopicPartition, tuple[str | None, int]] = field(default_factory=dict)
    _warned: bool = False

    def note_ends(self, partitions: Sequence[PartitionStatus]) -> None:
        """Remember how far each log reached: when it is gone, nobody else knows."""
        for partition in partitions:
            if partition.next_offset is not None and partition.lag_records is not None:
                place = TopicPartition(partition.topic, partition.partition)
                end = partition.next_offset + partition.lag_records
                self._ends[place] = (self.fence.get(place), end)

    def open(self, consumer: Any, topic_ids: Mapping[TopicPartition, str]) -> None:
        """Fence the logs of a lane that is being opened."""
        self.fence.update(topic_ids)
        if self._warned or (topic_ids and is_fetched_by_id(client_of(consumer))):
            return
        self._warned = True
        logger.warning(
            "the brokers cannot fetch by topic id",
            advice="A topic that is deleted and created again is noticed when its lanes are opened"
            " only, not while they are read: stop the workers before you recreate one, or upgrade"
            " to Kafka 3.1 or later.",
        )

    def _unread(self, place: TopicPartition, stored: int, topic_id: str | None) -> int | None:
        """Return how many records the log was seen to have after the offset, or None where that is
        not known of the log with this topic id."""
        known_id, end = self._ends.get(place, (None, -1))
        return None if end < stored or known_id != topic_id else end - stored

    async def resumption(
        self,
        consumer: Any,
        topic_partitions: Sequence[TopicPartition],
        stored: Mapping[str, int],
        marks: LogMarks,
        note: NoteFault = ignore_fault,
    ) -> Resumption:
        """Return where the logs of a lane are read on from these offsets.

        Raises LogChanged where one of them is not the log of its mark, or ends before the offset;
        Unavailable.
        """
        # The lane is not open. Since this process read it, another may have begun another log: the
        # id of that time would let no fetch find the last record.
        for place in topic_partitions:
            self.fence.pop(place, None)
        bounds = await log_bounds(consumer, topic_partitions)
        # After the bounds: see `topic_ids`.
        client = client_of(consumer)
        ids = await ids_by_leader(client, topic_partitions)
        try:
            for place in topic_partitions:
                mark = marks.get(place.topic, NEVER_READ)
                require_same_topic(place, stored[place.topic], mark, ids.get(place))
            offsets, gaps = resume_offsets(topic_partitions, stored, bounds, note, ids)
            for place in topic_partitions:
                mark = marks.get(place.topic, NEVER_READ)
                await require_same_records(client, place, stored[place.topic], mark, ids.get(place))
        except LogChanged as error:
            note("log_shorter" if isinstance(error, OffsetBeyondEnd) else "log_replaced")
            place = TopicPartition(error.topic, error.partition)
            mark = marks.get(error.topic, NEVER_READ)
            error.unread = self._unread(place, error.stored, mark.topic_id)
            raise
        return Resumption(offsets, gaps, ids)


async def ids_by_topic(consumer: Any, topic_partitions: Sequence[TopicPartition]) -> dict[str, str]:
    """Return the topic ids of one lane's logs, where the cluster has topic ids. Raises
    Unavailable.
    """
    ids = await ids_by_leader(client_of(consumer), topic_partitions)
    return {topic: topic_id for (topic, _), topic_id in ids.items()}
