"""Simulated records as `kcat -C -J` prints those of a topic: a recording without a broker."""

from collections import Counter

import msgspec

from ...kafka.partitioners import JAVA, PARTITIONERS
from .sinks import Record


class Recording:
    """The lines of a topic with so many partitions, to which records come in order."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions
        self._records = Counter[int]()

    def line(self, record: Record) -> bytes:
        """The line of the next record, at the partition to which a producer sends its key."""
        key, value, time_ms = record
        partition = PARTITIONERS[JAVA](key) % self._partitions
        offset = self._records[partition]
        self._records[partition] += 1
        return msgspec.json.encode(
            {
                "topic": self._topic,
                "partition": partition,
                "offset": offset,
                "tstype": "create",
                "ts": time_ms,
                "broker": 0,
                "key": key.decode(),
                "payload": value.decode(),
            }
        )
