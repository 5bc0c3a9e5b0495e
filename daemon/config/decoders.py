"""The decoder of the records that a configuration names. Pure."""

from ..events.decoder import decoder
from ..events.types import Decoder
from ..mapping.topics import topic_decoder
from ..schemas.book import SchemaBook
from ..schemas.frames import Framing
from .mapped_sources import mapped
from .settings import Config


def book_of(config: Config) -> SchemaBook:
    """Return an empty book for the topics whose records name schemas."""
    return SchemaBook(
        {
            source.topic: Framing(source.codec, source.framing)
            for source in mapped(config.sources)
            if source.schema is None and source.reader is None
        }
    )


def decoder_of(config: Config, book: SchemaBook | None = None) -> Decoder:
    """Return the decoder of all topics: of the sources, or of `events.format`. `book`: the schemas
    that frames name; without it, none is known."""
    if config.sources:
        # A book that is empty is false.
        found = book_of(config) if book is None else book
        return topic_decoder(mapped(config.sources), config.limits, found)
    return decoder(config.events.format, config.limits)
