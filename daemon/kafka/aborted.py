"""The log's line on records of aborted transactions: at most one a minute for each partition."""

from collections.abc import Mapping

import structlog

from ..telemetry.kafka_faults import ADVICE, NoteFault
from ..telemetry.rate_limit import Sayings
from .lanes import Place

logger = structlog.get_logger(__name__)


class Aborted:
    """What was said of them."""

    def __init__(self, note: NoteFault) -> None:
        self._note = note
        self._sayings = Sayings[Place]()

    def tell(self, left_out: Mapping[Place, int], now_s: float) -> None:
        """So many records were left out of each place; the line's `records` are those since the
        one before."""
        for place, count in left_out.items():
            self._note("aborted")
            records = self._sayings.due(place, count, now_s)
            if records is None:
                continue
            topic, partition = place
            logger.info(
                "aborted transaction left out",
                topic=topic,
                partition=partition,
                records=records,
                advice=ADVICE["aborted"],
            )
