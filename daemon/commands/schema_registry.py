"""The schemas that records name: what a configuration asks its registry for, in the daemon and in
the commands that read records."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..backoff import pause_s
from ..config.decoders import book_of, decoder_of
from ..config.registry_urls import login_of, urls_of
from ..config.sections import GLUE, RegistrySection
from ..config.settings import Config
from ..errors import RegistryUnavailable, StartError, Unavailable
from ..events.types import Decoded, Decoder, LogRecord
from ..registry.settings import RegistrySettings
from ..schemas.book import SchemaBook
from ..worker.schema_waits import names

if TYPE_CHECKING:
    from ..registry.filling import SchemaFiller
    from ..registry.registry import Outcome, Registry

TRIES: Final = 3
"""So often a command asks a registry that does not answer."""


def filler_of(
    config: Config, book: SchemaBook, count: "Callable[[Outcome], None]" = lambda outcome: None
) -> "SchemaFiller | None":
    """Return what fills the book from the registry of a configuration; None where no topic needs
    one, or none is configured. Raises StartError."""
    if not book.topics or not config.registry.is_given:
        return None
    from ..registry.filling import SchemaFiller

    return SchemaFiller(book, _registry_of(config, count))


def _registry_of(config: Config, count: "Callable[[Outcome], None]") -> "Registry":
    if config.registry.kind != GLUE:
        # The HTTP client is slow to load, and few commands have a registry to ask.
        from ..registry.client import RegistryClient
        from ..registry.registry import ConfluentRegistry

        return ConfluentRegistry(RegistryClient(registry_settings(config.registry)), count)
    try:
        from ..registry.glue import GlueRegistry  # botocore is optional, and slow to load
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "botocore":
            raise
        way_out = (
            "pip install 'relevanced[aws]', or name schema_file or descriptor_set in the source"
        )
        raise StartError(f'registry.kind="glue": needs botocore: {way_out}') from error
    return GlueRegistry(config.registry.region or "", count)


class RecordReader:
    """The decoder of a configuration, and what it must know before it reads records."""

    def __init__(self, config: Config, book: SchemaBook | None = None) -> None:
        """`book`: of other topics than those of the configuration. Raises StartError."""
        book = book_of(config) if book is None else book
        self.decoder: Decoder = decoder_of(config, book)
        self.filler = filler_of(config, book)

    async def prepare(self, topic: str, records: Sequence[LogRecord]) -> None:
        """Fetch the schemas that these records name. Raises Unavailable where the registry does not
        answer several times."""
        if self.filler is not None and (wanted := self.filler.unknown({topic: records})):
            for failures in range(1, TRIES + 1):
                try:
                    return await self.filler.fetch(wanted)
                except RegistryUnavailable as error:
                    if failures == TRIES:
                        why = f" ({error.reason})" if error.reason else ""
                        text = f"{error}: the records need {names(wanted)}{why}"
                        raise Unavailable(text) from error
                await asyncio.sleep(pause_s(failures, random.random()))

    async def close(self) -> None:
        """Close the connections."""
        if self.filler is not None:
            await self.filler.close()


@asynccontextmanager
async def record_reader(
    config: Config, book: SchemaBook | None = None
) -> AsyncIterator[RecordReader]:
    """A reader of records for `async with`. Raises StartError."""
    reader = RecordReader(config, book)
    try:
        yield reader
    finally:
        await reader.close()


class FileRecordReader:
    """The same for callers that cannot wait in an event loop, as their work is none or blocks
    theirs. The registry is asked in a loop of another thread, which begins when it is needed."""

    def __init__(self, config: Config) -> None:
        """Raises StartError."""
        self._reader = RecordReader(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def events(self, record: LogRecord) -> Sequence[Decoded]:
        """The events of a record, once the schema that it names is fetched. Raises Unavailable."""
        filler = self._reader.filler
        if filler is not None and filler.unknown({record.topic: (record,)}):
            self._run(lambda: self._reader.prepare(record.topic, (record,)))
        return self._reader.decoder.of_record(record)

    def close(self) -> None:
        """Close the connections, and end the thread."""
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            self._run(self._reader.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _run(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, daemon=True, name="registry"
            )
            self._thread.start()
        asyncio.run_coroutine_threadsafe(call(), self._loop).result()


@contextmanager
def file_record_reader(config: Config) -> Iterator[FileRecordReader]:
    """A reader of recorded records for `with`. Raises StartError."""
    reader = FileRecordReader(config)
    try:
        yield reader
    finally:
        reader.close()


def registry_settings(section: RegistrySection) -> RegistrySettings:
    """Addresses and credentials of this section."""
    url = "" if section.url is None else section.url.reveal()
    password = None if section.password is None else section.password.reveal()
    username, password = login_of(url) or (section.username, password)
    key_password = section.ssl_key_password
    return RegistrySettings(
        urls=urls_of(url),
        username=username,
        password=password,
        bearer_token_file=section.bearer_token_file,
        ssl_cafile=section.ssl_cafile,
        ssl_certfile=section.ssl_certfile,
        ssl_keyfile=section.ssl_keyfile,
        ssl_key_password=None if key_password is None else key_password.reveal(),
        ssl_check_hostname=section.ssl_check_hostname,
    )
