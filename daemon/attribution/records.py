"""Consecutive records of one topic-partition, as a run is read from them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..events.types import LogRecord, LogRecords


class Records(LogRecords, Protocol):
    """Records of one topic, n of them, which are read a slice at a time."""

    def __getitem__(self, index: int) -> LogRecord: ...  # noqa: D105

    def part(self, start: int, stop: int) -> "Records":
        """Those from `start` to before `stop`."""

    def stamps_ms(self) -> list[int]:
        """The time that the log gave each, (n,); below 0 where it gave none."""


@dataclass(frozen=True)
class LoggedRecords:
    """Records that are an object each."""

    records: Sequence[LogRecord]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> LogRecord:
        return self.records[index]

    def part(self, start: int, stop: int) -> "LoggedRecords":
        """Those from `start` to before `stop`."""
        return LoggedRecords(self.records[start:stop])

    def values(self) -> list[bytes]:
        """The value of each, (n,); empty where it has none."""
        return [record.value or b"" for record in self.records]

    def logged(self) -> Sequence[LogRecord]:
        """Each of them, (n,)."""
        return self.records

    def stamps_ms(self) -> list[int]:
        """The time that the log gave each, (n,)."""
        return [record.timestamp for record in self.records]
