"""Reads the records of an event format without the frames around them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..events import (
    Decoded,
    InvalidField,
    LogRecord,
    LogRecords,
    PlainEvents,
    Rejected,
    ValueDecoder,
)
from ..schemas import Framing, frame_of, json_text, may_be_framed


@dataclass(frozen=True)
class FramedFormat:
    """The reader of a format, whose records may be JSON in frames."""

    decoder: ValueDecoder
    framing: Framing

    def slices_of(self, record: LogRecord) -> Iterator[Sequence[Decoded]]:
        """The events of one record in slices; see `Decoder.slices_of`."""
        value, decoder = record.value, self.decoder
        is_framed = value is not None and may_be_framed(self.framing, value)
        if value is None or not is_framed or len(value) > decoder.limits.max_record_bytes:
            return decoder.slices_of(record)
        try:
            text = frame_of(self.framing, value, record.headers).body
        except InvalidField as error:
            return iter(([Rejected(error.reason, error.detail)],))
        return decoder.slices(text, record.timestamp)

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """The records that are one plain event; see `Decoder.plain`."""
        values = records.values()
        if values and may_be_framed(self.framing, values[0]):
            records = _Texts(records, self.framing)
        return self.decoder.plain(records, most_bytes)

    def is_mapping(self, record: LogRecord) -> bool:
        """False: formats are no mappings."""
        return False


@dataclass(frozen=True)
class _Texts:
    """Records as their texts; what is odd about a frame gives one that cannot be read."""

    records: LogRecords
    framing: Framing

    def __len__(self) -> int:
        return len(self.records)

    def values(self) -> list[bytes]:
        """The text of each, (n,); empty where there is none."""
        logged = zip(self.records.values(), self.records.logged(), strict=True)
        return [self._text(value, record) for value, record in logged]

    def logged(self) -> Sequence[LogRecord]:
        """Each of them, (n,)."""
        return self.records.logged()

    def _text(self, value: bytes, record: LogRecord) -> bytes:
        try:
            return json_text(self.framing, value, record.headers)
        except ValueError:
            return b""
