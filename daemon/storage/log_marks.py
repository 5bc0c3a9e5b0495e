"""What a lane remembers of each log that it reads: enough to tell that log from another one. Pure.

Offsets alone do not: a topic that is deleted and created again, or a log that lost its end and was
written on, has the same offsets with other records behind them.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

from ..events.types import LogRecord


class LogMark(msgspec.Struct, array_like=True, frozen=True):
    """One log, as far as a lane has read it. The order of the fields is the format."""

    topic_id: str | None = None
    """None: the cluster has no topic ids (before Kafka 2.8)."""
    last_offset: int | None = None
    """Of the last record that was read; None before the first."""
    checksum: int | None = None
    """Of that record."""
    found: str | None = None
    """While the lane is stopped, because another log was found: the topic id of that log, or "" in
    a cluster without ids."""
    unread: int | None = None
    """With `found`: how many records of the log that was read are known to have been left."""


LogMarks: TypeAlias = Mapping[str, LogMark]
NO_MARKS: Final[LogMarks] = {}


class AcceptedLog(msgspec.Struct, array_like=True, frozen=True):
    """An operator's permission for a lane to begin another log of a topic from its start."""

    topic_id: str
    """Of the log that is accepted; "" in a cluster without ids."""
    offset: int
    """The lane's stored offset in the log that it had read. No other stop of the lane is at this
    offset of that log, so the permission applies to this stop alone."""


def checksum_of(record: LogRecord) -> int:
    """Return the CRC-32 of a record's key, value and time stamp."""
    checksum = crc32(record.value or b"", crc32(record.key or b""))
    return crc32(b"%d" % record.timestamp, checksum)


def note_read(marks: dict[str, LogMark], topics: Mapping[str, Sequence[LogRecord]]) -> None:
    """Note that these records of each topic were read, in offset order."""
    for topic, records in topics.items():
        if records:
            mark = marks.get(topic, LogMark())
            marks[topic] = LogMark(mark.topic_id, records[-1].offset, checksum_of(records[-1]))


def first_marks(topic_ids: Mapping[str, str]) -> dict[str, LogMark]:
    """Return the marks of logs of which nothing has been read yet."""
    return {topic: LogMark(topic_id) for topic, topic_id in topic_ids.items()}


class LaneStart(msgspec.Struct, array_like=True, frozen=True):
    """Where a lane began. The order of the fields is the format."""

    offsets: dict[str, int]
    """By topic."""
    topic_ids: dict[str, str]
    """Of the logs that these offsets are of; none of a log that has been replaced since."""

    def is_in(self, logs: LogMarks) -> bool:
        """Whether these are the logs that the lane began in. A cluster without topic ids cannot
        tell, and is believed."""
        ids = {topic: mark.topic_id for topic, mark in logs.items()}
        return all(self.topic_ids.get(topic) == id_ for topic, id_ in ids.items() if id_)


def ids_of(marks: LogMarks) -> dict[str, str]:
    """Return the topic ids of these logs, where they have any."""
    return {topic: mark.topic_id for topic, mark in marks.items() if mark.topic_id}


def with_ids(marks: LogMarks, logs: LogMarks) -> dict[str, LogMark]:
    """Return the marks with an id of `logs` where they have none, as after an upgrade of a cluster
    that had no topic ids."""
    named = {
        topic: msgspec.structs.replace(mark, topic_id=logs[topic].topic_id)
        for topic, mark in marks.items()
        if mark.topic_id is None and topic in logs
    }
    return {**logs, **marks, **named}


def encoded(marks: LogMarks) -> bytes:
    """Return marks as they are stored in a head."""
    return msgspec.json.encode(marks)


def decoded(data: bytes) -> dict[str, LogMark]:
    """Return stored marks. Raises msgspec.DecodeError, a ValueError."""
    return msgspec.json.decode(data, type=dict[str, LogMark])
