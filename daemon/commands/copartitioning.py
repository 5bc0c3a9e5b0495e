"""A look at a small sample of records as a worker starts: whether feedback lies where impressions
do, and how much traffic there is. It refuses nothing, and what cannot be read is left out."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import Unavailable
from ..events import Decoder, Feedback, Impression, LogRecord
from ..kafka import KafkaSettings, sampled_records
from ..timing import GRACE_MS
from ..worker import cores_of

SINCE_S: Final = 600
MOST_BYTES: Final = 2 << 20
WITHIN_S: Final = 20.0
LONG_BYTES: Final = 16_384
"""A longer record is not decoded: one step stays short."""
AT_ONCE: Final = 100
"""So many records are decoded in one step."""


@dataclass(frozen=True)
class FirstLook:
    """What a sample shows."""

    looked: int
    """Feedback that has its impression in the sample."""
    found: int
    """Feedback of it that has the impression in another partition."""
    cores: float
    """What all that traffic takes."""


class Places:
    """In which partitions impressions and feedback lie: by id, or else by visitor and item."""

    def __init__(self, attribution_ms: int) -> None:
        self._attribution_ms = attribution_ms
        self._shown: dict[str, int] = {}
        self._shown_to: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
        """(visitor, item) → (time, id, partition) of what shows it."""
        self._feedback: list[tuple[Feedback, int]] = []
        self._events, self._decode_s = 0, 0.0
        self._spans: dict[tuple[str, int], tuple[int, int, int]] = {}
        """Log → (records but the first, time of the first and of the latest)."""

    def add(self, decoder: Decoder, records: Sequence[LogRecord]) -> None:
        """Note what these records are."""
        for record in records:
            count, first, latest = self._spans.get(
                (record.topic, record.partition), (-1, record.timestamp, record.timestamp)
            )
            span = count + 1, first, max(latest, record.timestamp)
            self._spans[record.topic, record.partition] = span
            if len(record.value or b"") > LONG_BYTES:
                continue
            since_s = time.thread_time()
            events = decoder.of_record(record)
            self._decode_s += time.thread_time() - since_s
            for event in events:
                if isinstance(event, Impression):
                    self._note_shown(event, record.partition)
                elif isinstance(event, Feedback):
                    self._feedback.append((event, record.partition))
                self._events += isinstance(event, Impression | Feedback)

    def _note_shown(self, event: Impression, partition: int) -> None:
        self._shown[event.impression_id] = partition
        if event.visitor is not None:
            at = event.time_ms, event.impression_id, partition
            for item in dict.fromkeys(event.items):
                self._shown_to.setdefault((event.visitor, item), []).append(at)

    def look(self) -> FirstLook:
        """Return what there is to say."""
        for lists in self._shown_to.values():
            lists.sort()
        shown = [(self._place_of(event), at) for event, at in self._feedback]
        known = [(place, at) for place, at in shown if place is not None]
        found = sum(place != at for place, at in known)
        return FirstLook(len(known), found, self._cores)

    def _place_of(self, event: Feedback) -> int | None:
        """The partition of the impression that it joins, as far as the sample shows."""
        if event.impression_id:
            return self._shown.get(event.impression_id)
        lists = self._shown_to.get((event.visitor or "", event.item or ""), [])
        after = bisect_right(lists, event.time_ms, key=lambda at: at[0])
        if after and lists[after - 1][0] >= event.time_ms - self._attribution_ms:
            return lists[after - 1][2]
        latest = event.time_ms + GRACE_MS
        return lists[after][2] if after < len(lists) and lists[after][0] <= latest else None

    @property
    def _cores(self) -> float:
        records = sum(count for count, _, _ in self._spans.values()) + len(self._spans)
        if not records or not self._events:
            return 0.0
        rates = (
            1000 * n / (last - first) for n, first, last in self._spans.values() if last > first
        )
        of_record = self._events / records
        return cores_of(sum(rates) * of_record, self._decode_s / self._events * 1e6)


async def look_at_places(
    settings: KafkaSettings,
    decoder: Decoder,
    attribution_ms: int,
    note: Callable[[FirstLook], None],
) -> None:
    """Look at records of the last minutes, bounded in time and bytes, and note what they show."""
    places, since_ms = Places(attribution_ms), int((time.time() - SINCE_S) * 1000)
    try:
        async with asyncio.timeout(WITHIN_S):
            async for portion in sampled_records(settings, since_ms, MOST_BYTES):
                for part in _parts(portion.records):
                    places.add(decoder, part)
                    await asyncio.sleep(0)
    except (Unavailable, TimeoutError):
        pass
    note(places.look())


def _parts(records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
    return (records[first : first + AT_ONCE] for first in range(0, len(records), AT_ONCE))
