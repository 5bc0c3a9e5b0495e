"""Logs that records of aborted transactions were left out: at most one line a minute for each
partition.
"""

from collections.abc import Mapping

import structlog

from ..telemetry.kafka_faults import ADVICE, NoteFault
from ..telemetry.rate_limit import RateLimit
from .topic_partition import TopicPartition

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
