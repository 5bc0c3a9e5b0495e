"""The log's line on records that no event could be made of: one of each reason a minute, for
counters say how many there are, and the dead letters which."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import structlog

from relevanced.daemon.batch import DeadLetter

log = structlog.get_logger(__name__)

SAY_AGAIN_AFTER_S: Final = 60.0
DETAIL_CHARACTERS: Final = 200
ADVICE: Final = (
    "Look at what produces them. Where events.dead_letter_topic is set they are kept there; they"
    " are counted by reason, and reading goes on."
)


class Refusals:
    """What was said of them by one process."""

    def __init__(self) -> None:
        self._said_s: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def tell(self, dead: Sequence[DeadLetter], now_s: float) -> None:
        """Say it of the first of each reason, unless that was said within a minute; `records` are
        those since."""
        for letter in dead:
            reason, record = letter.reason, letter.record
            self._unsaid[reason] += 1
            if now_s - self._said_s.get(reason, -math.inf) < SAY_AGAIN_AFTER_S:
                continue
            self._said_s[reason] = now_s
            log.warning(
                "records refused",
                reason=reason,
                records=self._unsaid.pop(reason),
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                detail=letter.detail[:DETAIL_CHARACTERS],
                advice=ADVICE,
            )
