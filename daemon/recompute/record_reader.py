"""Reads recorded records by a configuration: its decoder, and what that must know before."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from ..backoff import pause_s
from ..config import Config, book_of, lane_decoder_of
from ..errors import RegistryUnavailable, SchemaNotThere, Unavailable
from ..events import Decoded, Decoder, LogRecord
from ..mapping import TopicDecoder
from ..schemas import SchemaBook
from ..worker import schema_names
from .schema_registry import TRIES, filler_of


class RecordReader:
    """The decoder of a configuration, and what it must know before it reads records."""

    def __init__(self, config: Config, book: SchemaBook | None = None) -> None:
        """`book`: of other topics than those of the configuration. Raises StartError."""
        book = book_of(config) if book is None else book
        self.decoder: Decoder = lane_decoder_of(config, book)
        self.filler = filler_of(config, book)

    async def prepare(self, topic: str, records: Sequence[LogRecord]) -> None:
        """Fetch the schemas that these records name. Raises Unavailable where the registry does not
        answer several times."""
        if self.filler is not None and (wanted := self.filler.unknown({topic: records})):
            failures = asked = 0
            while True:
                asked += 1
                try:
                    return await self.filler.fetch(wanted)
                except SchemaNotThere:
                    pass  # for half a minute; then the schema is missing
                except RegistryUnavailable as error:
                    failures += 1
                    if failures == TRIES:
                        why = f" ({error.reason})" if error.reason else ""
                        text = f"{error}: the records need {schema_names(wanted)}{why}"
                        raise Unavailable(text) from error
                await asyncio.sleep(pause_s(asked, random.random()))

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
        self._reader = RecordReader(config.of_inputs)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def events(self, record: LogRecord) -> Sequence[Decoded]:
        """The events of a record, once the schema that it names is fetched. Raises Unavailable."""
        filler = self._reader.filler
        if filler is not None and filler.unknown({record.topic: (record,)}):
            self._run(lambda: self._reader.prepare(record.topic, (record,)))
        return self._reader.decoder.of_record(record)

    def asked(self, record: LogRecord) -> Counter[str]:
        """What tables were asked with that map none of an element of the record, once `events` has
        read it; see `TopicDecoder.asked`."""
        decode = self._reader.decoder
        return decode.asked(record) if isinstance(decode, TopicDecoder) else Counter()

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
