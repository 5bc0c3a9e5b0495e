"""The log of records that could not be read as events: one line a minute for each reason. Counters
give their number, and the dead letters the records themselves.
"""

from collections.abc import Sequence
from typing import Final

import structlog

from ..telemetry.rate_limit import RateLimit
from .batch import DeadLetter

log = structlog.get_logger(__name__)

DETAIL_CHARACTERS: Final = 200
ADVICE: Final = (
    "Look at what produces them. Where events.dead_letter_topic is set they are kept there; they"
    " are counted by reason, and reading goes on."
)


class RefusedRecordsLog:
    """Logs refused records, for one process.

    With `values`, each line has the detail of the refusal, which shows a part of the record.
    Without it, a line names what to look up, and nothing that a searcher typed.
    """

    def __init__(self, values: bool = False) -> None:
        self._values = values
        self._rate_limit = RateLimit[str]()

    def log(self, letters: Sequence[DeadLetter], now_s: float) -> None:
        """Log the first record of each reason, unless that reason was logged within the last
        minute; `records` counts those since then."""
        for letter in letters:
            reason, record = letter.reason, letter.record
            records = self._rate_limit.due(reason, 1, now_s)
            if records is None:
                continue
            log.warning(
                "records refused",
                reason=reason,
                records=records,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                advice=ADVICE,
                **({"detail": letter.detail[:DETAIL_CHARACTERS]} if self._values else {}),
            )
