"""The log's line on records of aborted transactions: at most one a minute for each partition."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import structlog

from relevanced.daemon.faults import ADVICE, NoteFault
from relevanced.daemon.kafka.lanes import Place

SAY_AGAIN_AFTER_S: Final = 60.0

logger = structlog.get_logger(__name__)


class Aborted:
    """What was said of them."""

    def __init__(self, note: NoteFault) -> None:
        self._note = note
        self._said_s: dict[Place, float] = {}
        self._unsaid: Counter[Place] = Counter()

    def tell(self, left_out: Mapping[Place, int], now_s: float) -> None:
        """So many records were left out of each place; the line's `records` are those since the
        one before."""
        for place, records in left_out.items():
            self._note("aborted")
            self._unsaid[place] += records
            if now_s - self._said_s.get(place, -math.inf) < SAY_AGAIN_AFTER_S:
                continue
            self._said_s[place] = now_s
            topic, partition = place
            logger.info(
                "aborted transaction left out",
                topic=topic,
                partition=partition,
                records=self._unsaid.pop(place),
                advice=ADVICE["aborted"],
            )
