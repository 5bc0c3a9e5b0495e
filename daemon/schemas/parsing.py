"""From the text of a schema to what reads bodies by it. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from .frames import Frame
from .types import SchemaText, UnreadableSchema


class Schema(Protocol):
    """Reads the bodies that were written by one schema."""

    @property
    def codec(self) -> str:
        """How the bodies are written."""

    def value(self, frame: Frame) -> object:
        """Return the body as JSON would give it. Raises InvalidField, and nothing else."""


PARSERS: Final[Mapping[str, Callable[[SchemaText], Schema]]] = {}
"""Codec → what reads a schema of it."""


def parsed(text: SchemaText) -> Schema:
    """Return what reads bodies by this schema. Raises UnreadableSchema."""
    parser = PARSERS.get(text.codec)
    if parser is None:
        raise UnreadableSchema(f"is of {text.codec}: must be one of {', '.join(PARSERS)}")
    return parser(text)
