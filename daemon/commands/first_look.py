"""A look at a small sample of records as a worker starts: whether feedback lies where impressions
do. It refuses nothing, and what cannot be read is left out."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..errors import Unavailable
from ..events import Decoder, Feedback, Impression, LogRecord
from ..kafka import KafkaSettings, sampled_records

SINCE_S: Final = 600
MOST_BYTES: Final = 2 << 20
WITHIN_S: Final = 20.0
LONG_BYTES: Final = 16_384
"""A longer record is not decoded: one step stays short."""
AT_ONCE: Final = 100
"""So many records are decoded in one step."""


class Places:
    """In which partitions impressions and feedback lie, by id."""

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}
        self._feedback: list[tuple[str, int]] = []

    def add(self, decoder: Decoder, records: Sequence[LogRecord]) -> None:
        """Note what these records are."""
        for record in records:
            if len(record.value or b"") > LONG_BYTES:
                continue
            for event in decoder.of_record(record):
                if isinstance(event, Impression):
                    self._shown[event.impression_id] = record.partition
                elif isinstance(event, Feedback):
                    self._feedback.append((event.impression_id, record.partition))

    def counts(self) -> tuple[int, int]:
        """How much feedback has its impression in the sample, and how much of it in another
        partition."""
        shown = [(self._shown[id_], at) for id_, at in self._feedback if id_ in self._shown]
        return len(shown), sum(place != at for place, at in shown)


async def look_at_places(
    settings: KafkaSettings, decoder: Decoder, note: Callable[[int, int], None]
) -> None:
    """Look at records of the last minutes, bounded in time and bytes, and note their `counts`."""
    places, since_ms = Places(), int((time.time() - SINCE_S) * 1000)
    try:
        async with asyncio.timeout(WITHIN_S):
            async for records in sampled_records(settings, since_ms, MOST_BYTES):
                for part in _parts(records):
                    places.add(decoder, part)
                    await asyncio.sleep(0)
    except (Unavailable, TimeoutError):
        pass
    note(*places.counts())


def _parts(records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
    return (records[first : first + AT_ONCE] for first in range(0, len(records), AT_ONCE))
