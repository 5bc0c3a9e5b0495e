"""What keeps a process from reading topic-partitions, and when it tries again: errors, fetches
without an answer, a consumer without signs of life, aborted transactions. The rules keep no client
and no clock: both are given.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from ..backoff import doubled_s
from ..telemetry import ADVICE, NoteFault, RateLimit
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


def is_stuck(now_s: float, last_answer_s: float, session_timeout_s: float) -> bool:
    """Whether a consumer that got no answer since then is better replaced.

    Two session timeouts: longer than any rebalance takes, and by then the lanes belong to others
    anyway.
    """
    return now_s - last_answer_s > 2 * session_timeout_s


class Pulse:
    """Whether a consumer shows signs of life: answers to fetches, and assignments."""

    def __init__(self, now_s: float) -> None:
        self.waits = True
        """For an assignment."""
        self._answered_ms: Mapping[TopicPartition, int | None] = {}
        self._since_s = now_s

    def is_stuck(
        self,
        answered_ms: Mapping[TopicPartition, int | None],
        now_s: float,
        session_timeout_s: float,
    ) -> bool:
        """Whether there was none for so long that the consumer is better replaced. `answered_ms`
        has the time of the last answer to each topic-partition that is fetched now."""
        if not self.waits and (answered_ms != self._answered_ms or not answered_ms):
            self._since_s = now_s
        self._answered_ms = answered_ms
        return is_stuck(now_s, self._since_s, session_timeout_s)


class UnansweredFetches:
    """Finds the topic-partitions whose fetches are not answered while those of others are."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[int | None, float]] = {}
        """The last answer to each, and when this was first seen to be the last."""
        self._answered_s = -math.inf
        """When an answer to any of them was last seen."""

    def find(
        self, answered_ms: Mapping[TopicPartition, int | None], now_s: float, longest_s: float
    ) -> list[TopicPartition]:
        """Return those without an answer for longer than `longest_s`.

        `answered_ms` has the time of the last answer to each topic-partition that is being fetched
        now. Returns none where no fetch at all was answered in the last half of `longest_s`: then
        it is the cluster that does not answer.
        """
        before = self._since
        if any(tp in before and before[tp][0] != answer for tp, answer in answered_ms.items()):
            self._answered_s = now_s
        self._since = {
            tp: last if last[0] == answer else (answer, now_s)
            for tp, answer in answered_ms.items()
            for last in [before.get(tp, (answer, now_s))]
        }
        silent = [tp for tp, (_, since_s) in self._since.items() if now_s - since_s > longest_s]
        return silent if now_s - self._answered_s <= longest_s / 2 else []


logger = structlog.get_logger(__name__)


class AbortedLog:
    """Counts and logs what was left out of each topic-partition."""

    def __init__(self, note: NoteFault) -> None:
        self._note = note
        self._rate_limit = RateLimit[TopicPartition]()

    def report(self, left_out: Mapping[TopicPartition, int], now_s: float) -> None:
        """Report that so many more records were left out of each; a line's `records` are those
        since the line before.
        """
        for topic_partition, count in left_out.items():
            self._note("aborted")
            records = self._rate_limit.due(topic_partition, count, now_s)
            if records is None:
                continue
            logger.info(
                "aborted transaction left out",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                records=records,
                advice=ADVICE["aborted"],
            )
