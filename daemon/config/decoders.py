"""The decoder of the records that a configuration names. Pure."""

from ..events.decoder import decoder
from ..events.types import Decoder
from ..mapping.topics import topic_decoder
from .mapped_sources import mapped
from .settings import Config


def decoder_of(config: Config) -> Decoder:
    """Return the decoder of all topics: of the sources, or of `events.format`."""
    if config.sources:
        return topic_decoder(mapped(config.sources), config.limits)
    return decoder(config.events.format, config.limits)
