"""When a consumer is better replaced, and which partitions get no answer while others do. Knows no
client and no clock.
"""

import math
from collections.abc import Mapping

from .topic_partition import TopicPartition


def is_stuck(now_s: float, last_answer_s: float, session_timeout_s: float) -> bool:
    """Whether a consumer that got no answer since then is better replaced.

    Two session timeouts: longer than any rebalance takes, and by then the lanes belong to others
    anyway.
    """
    return now_s - last_answer_s > 2 * session_timeout_s


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
