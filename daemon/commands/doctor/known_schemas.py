"""The schemas that the doctor reads records by: from a registry, and from files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ...config.registry_urls import urls_of
from ...config.settings import Config
from ...events.types import LogRecord
from ...schemas.avro import AvroSchema
from ...schemas.parsing import Schema
from ...schemas.protobuf import protobuf_file
from ...schemas.types import AVRO, SchemaText, UnreadableSchema
from ..schema_registry import record_reader
from .bodies import Given, book_of, written_of
from .toml import toml


async def known_schemas(config: Config, samples: Mapping[str, Sequence[LogRecord]]) -> Given:
    """Return what the registry of a configuration knows of the schemas that records name. Raises
    Unavailable and StartError."""
    book = book_of(written_of(samples))
    async with record_reader(config, book) as reader:
        for topic in book.topics:
            await reader.prepare(topic, samples[topic])
    url = config.registry.url
    return Given(book, registry=None if url is None else ",".join(urls_of(url.reveal())))


def own_schema(
    schema_file: str | None, descriptor_set: str | None, message: str | None
) -> tuple[Schema | None, tuple[str, ...]]:
    """Return the schema of files, and the keys that name them. Raises click.ClickException."""
    if (descriptor_set is None) != (message is None):
        raise click.UsageError("--descriptor-set and --message go together")
    try:
        if schema_file is not None:
            text = Path(schema_file).read_text(encoding="utf-8-sig")
            lines = (f"schema_file = {toml(schema_file)}  # as it was given",)
            return AvroSchema(SchemaText(AVRO, text)), lines
        if descriptor_set is not None and message is not None:
            parsed = protobuf_file(Path(descriptor_set).read_bytes(), message)
            named = f"message = {toml(message)}  # as it was given"
            return parsed, (f"descriptor_set = {toml(descriptor_set)}  # as it was given", named)
    except (UnreadableSchema, UnicodeDecodeError) as error:
        raise click.ClickException(f"{schema_file or descriptor_set}: {error}") from error
    return None, ()
