"""What the lines of recorded files come to: events, by format or by source."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ...config.settings import Config
from ...events.fields import InvalidField
from ...events.types import Decoded, Rejected
from ..schema_registry import FileRecordReader, file_record_reader
from .kcat import LINE_BYTES, NO_STAMP, TEXT_BYTES, RecordedRecord, record_of


class UnknownTopic(ValueError):
    """Files cannot be read, as it is not known of which topic they are: what to do, for people."""


class LineDecoder(Protocol):
    """Reads one line."""

    def __call__(self, line: bytes) -> Sequence[Decoded]: ...  # noqa: D102


@dataclass(frozen=True)
class ValueLines:
    """Lines that are the values of one topic."""

    reader: FileRecordReader
    topic: str

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of a line."""
        return self.reader.events(RecordedRecord(self.topic, 0, 0, NO_STAMP, None, line, ()))


@dataclass(frozen=True)
class KcatLines:
    """Lines as `kcat -J` prints them."""

    reader: FileRecordReader

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of the record of a line."""
        try:
            record = record_of(line)
        except InvalidField as error:
            return [Rejected(error.reason, error.detail)]
        return self.reader.events(record)


@contextmanager
def line_decoder(config: Config, *, kcat: bool, topic: str | None) -> Iterator[LineDecoder]:
    """What reads lines: values of `topic`, or records as of `kcat -J`. Raises UnknownTopic where
    there are several sources, and no topic is named, and StartError; reading raises Unavailable
    where a schema is needed and the registry does not answer."""
    with file_record_reader(config) as reader:
        if kcat:
            yield KcatLines(reader)
        else:
            yield ValueLines(reader, _topic_of(config, topic))


def _topic_of(config: Config, topic: str | None) -> str:
    topics = config.kafka.topics if config.sources else config.kafka.topics[:1]
    if topic is None and len(topics) > 1:
        listed = ", ".join(topics)
        raise UnknownTopic(
            f"sources: of which topic are the files? Name it with --topic ({listed}), or record"
            " them with kcat -J, and say --kcat"
        )
    if topic is not None and config.sources and topic not in topics:
        raise UnknownTopic(f"--topic {topic}: must be one of sources.topic ({', '.join(topics)})")
    return topic or topics[0]


def most_line_bytes(config: Config, *, kcat: bool) -> int:
    """The longest line that is read."""
    most = config.events.max_record_bytes
    return TEXT_BYTES * most + LINE_BYTES if kcat else most
