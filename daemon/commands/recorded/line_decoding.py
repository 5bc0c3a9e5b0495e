"""What the lines of recorded files come to: events, by format or by source. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...config.decoders import decoder_of
from ...config.settings import Config
from ...events.fields import InvalidField
from ...events.types import Decoded, Decoder, Rejected
from .kcat import LINE_BYTES, NO_STAMP, TEXT_BYTES, RecordedRecord, record_of


class UnknownTopic(ValueError):
    """Files cannot be read, as it is not known of which topic they are: what to do, for people."""


class LineDecoder(Protocol):
    """Reads one line."""

    def __call__(self, line: bytes) -> Sequence[Decoded]: ...  # noqa: D102


@dataclass(frozen=True)
class ValueLines:
    """Lines that are the values of one topic."""

    decoder: Decoder
    topic: str

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of a line."""
        return self.decoder.of_record(RecordedRecord(self.topic, 0, 0, NO_STAMP, None, line, ()))


@dataclass(frozen=True)
class KcatLines:
    """Lines as `kcat -J` prints them."""

    decoder: Decoder

    def __call__(self, line: bytes) -> Sequence[Decoded]:
        """The events of the record of a line."""
        try:
            record = record_of(line)
        except InvalidField as error:
            return [Rejected(error.reason, error.detail)]
        return self.decoder.of_record(record)


def line_decoder(config: Config, *, kcat: bool, topic: str | None) -> LineDecoder:
    """Return what reads lines: values of `topic`, or records as of `kcat -J`. Raises UnknownTopic
    where there are several sources, and no topic is named."""
    decoder = decoder_of(config)
    if kcat:
        return KcatLines(decoder)
    topics = config.kafka.topics if config.sources else config.kafka.topics[:1]
    if topic is None and len(topics) > 1:
        listed = ", ".join(topics)
        raise UnknownTopic(
            f"sources: of which topic are the files? Name it with --topic ({listed}), or record"
            " them with kcat -J, and say --kcat"
        )
    if topic is not None and config.sources and topic not in topics:
        raise UnknownTopic(f"--topic {topic}: must be one of sources.topic ({', '.join(topics)})")
    return ValueLines(decoder, topic or topics[0])


def most_line_bytes(config: Config, *, kcat: bool) -> int:
    """The longest line that is read."""
    most = config.events.max_record_bytes
    return TEXT_BYTES * most + LINE_BYTES if kcat else most
