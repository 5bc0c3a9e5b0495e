"""The log's line on records that no event could be made of: one of each reason a minute, for
counters say how many there are, and the dead letters which."""

from collections.abc import Sequence
from typing import Final

import structlog

from ..telemetry.rate_limit import Sayings
from .batch import DeadLetter

log = structlog.get_logger(__name__)

DETAIL_CHARACTERS: Final = 200
ADVICE: Final = (
    "Look at what produces them. Where events.dead_letter_topic is set they are kept there; they"
    " are counted by reason, and reading goes on."
)


class Refusals:
    """What was said of them by one process."""

    def __init__(self) -> None:
        self._sayings = Sayings[str]()

    def tell(self, dead: Sequence[DeadLetter], now_s: float) -> None:
        """Say it of the first of each reason, unless that was said within a minute; `records` are
        those since."""
        for letter in dead:
            reason, record = letter.reason, letter.record
            records = self._sayings.due(reason, 1, now_s)
            if records is None:
                continue
            log.warning(
                "records refused",
                reason=reason,
                records=records,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                detail=letter.detail[:DETAIL_CHARACTERS],
                advice=ADVICE,
            )
