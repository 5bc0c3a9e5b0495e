"""Which topic-partition is to blame when a fetch fails, and when it is tried again. Knows no client
and no clock.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from ..backoff import doubled_s
from .topic_partition import TopicPartition

FIRST_RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 60.0


@dataclass(frozen=True)
class PartitionFault:
    """Why a topic-partition cannot be read, and when it is tried again."""

    reason: str
    retry_s: float
    failures: int


class PartitionFaults:
    """The topic-partitions that failed, or may have.

    An error of the client names no topic-partition, and costs the records of all that were read
    together. So all of them become *suspects*, which are read one by one until each has either
    been read to its end or failed alone. One that failed alone is *excluded*: it is not read for
    a pause that grows with every failure, and is then a suspect again.
    """

    def __init__(self) -> None:
        self.suspects: dict[TopicPartition, int] = {}
        """With the time, in ms, since when each is a suspect."""
        self.failed: dict[TopicPartition, PartitionFault] = {}

    def suspect(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Make suspects of all that were in a failed fetch, but those that had failed before: they
        were not in it.
        """
        self.suspects.update({tp: now_ms for tp in topic_partitions if tp not in self.failed})

    def exclude(self, topic_partition: TopicPartition, reason: str, now_s: float) -> bool:
        """Record that it failed alone. True where it had not failed yet, or for another reason."""
        before = self.failed.get(topic_partition)
        failures = before.failures + 1 if before else 1
        retry_s = now_s + doubled_s(failures, FIRST_RETRY_S, LONGEST_RETRY_S)
        self.failed[topic_partition] = PartitionFault(reason, retry_s, failures)
        self.suspects.pop(topic_partition, None)
        return before is None or before.reason != reason

    def clear(self, topic_partition: TopicPartition) -> bool:
        """Record that it was read without error. True where it had failed before."""
        self.suspects.pop(topic_partition, None)
        return self.failed.pop(topic_partition, None) is not None

    def retry(self, now_s: float, now_ms: int) -> list[TopicPartition]:
        """Make suspects of the excluded ones whose pause is over, and return them."""
        due = [
            topic_partition
            for topic_partition, fault in self.failed.items()
            if fault.retry_s <= now_s and topic_partition not in self.suspects
        ]
        self.suspects.update(dict.fromkeys(due, now_ms))
        return due

    def excluded(self) -> set[TopicPartition]:
        """Return the topic-partitions that are not read for now."""
        return self.failed.keys() - self.suspects.keys()

    def keep(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Forget all others: they are not read by this process any more."""
        self.suspects = {tp: since for tp, since in self.suspects.items() if tp in topic_partitions}
        self.failed = {tp: fault for tp, fault in self.failed.items() if tp in topic_partitions}
