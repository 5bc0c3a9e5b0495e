"""The decoder of several topics, each of which has a source of its own. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from ..events.decoder import decoder
from ..events.types import NOT_MAPPED, Decoded, Limits, LogRecord, LogRecords, PlainEvents, Skipped
from .records import Mapper
from .tables import Source


class TopicReader(Protocol):
    """What reads the records of one topic."""

    def slices_of(self, record: LogRecord) -> Iterator[Sequence[Decoded]]: ...  # noqa: D102
    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents: ...  # noqa: D102
    def is_mapping(self, record: LogRecord) -> bool: ...  # noqa: D102


@dataclass(frozen=True)
class TopicDecoder:
    """A decoder that reads the records of each topic by its source."""

    by_topic: Mapping[str, TopicReader]
    limits: Limits

    def of_record(self, record: LogRecord) -> list[Decoded]:
        """The events of one record, in order. Never raises."""
        return list(chain.from_iterable(self.slices_of(record)))

    def slices_of(self, record: LogRecord) -> Iterator[Sequence[Decoded]]:
        """The same events in slices."""
        reader = self.by_topic.get(record.topic)
        if reader is None:
            listed = ", ".join(self.by_topic)
            detail = f"topic {record.topic}: must be one of sources.topic ({listed})"
            return iter(([Skipped(NOT_MAPPED, detail)],))
        return reader.slices_of(record)

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """What the reader of their topic makes of them; see `Decoder.plain`."""
        logged = records.logged()
        reader = self.by_topic.get(logged[0].topic) if logged else None
        if reader is None:
            return PlainEvents([None] * len(records))
        return reader.plain(records, most_bytes)

    def is_mapping(self, record: LogRecord) -> bool:
        """Whether the reader of its topic evaluates expressions."""
        reader = self.by_topic.get(record.topic)
        return reader is not None and reader.is_mapping(record)


def topic_decoder(sources: Sequence[Source], limits: Limits) -> TopicDecoder:
    """Return the decoder of these sources."""
    return TopicDecoder({source.topic: reader_of(source, limits) for source in sources}, limits)


def reader_of(source: Source, limits: Limits) -> TopicReader:
    """Return what reads the records of a source."""
    if source.reader is not None:
        return decoder(source.reader, limits)
    return Mapper(source, limits)
