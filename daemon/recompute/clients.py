"""What a configuration names outside: Redis, the schema registry, directories of dated files."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from ..backoff import pause_s
from ..config import (
    GLUE,
    Config,
    RegistrySection,
    Secret,
    book_of,
    lane_decoder_of,
    login_of,
    split_address,
    urls_of,
)
from ..errors import RegistryUnavailable, SchemaNotThere, StartError, Unavailable
from ..events import Decoded, Decoder, LogRecord
from ..extras import lacking
from ..files import NotRead, in_time
from ..judgements import (
    Fault,
    IndexEntry,
    Judgements,
    Library,
    QueryClasses,
    T,
    Timeline,
    begun,
    read,
    read_classes,
    unread,
)
from ..lane import Lane
from ..logins import Credential, NoteToken, Password, ignore_token
from ..mapping import TopicDecoder
from ..queries import HASHED, hashed_keys
from ..schemas import SchemaBook
from ..storage import Access, Client, close, connect
from ..worker import schema_names

if TYPE_CHECKING:
    from ..registry import Outcome, Registry, RegistrySettings, SchemaFiller


def client_of(config: Config, note: NoteToken = ignore_token) -> Client:
    """Return a client, which connects when first used. Raises ValueError."""
    redis = config.redis
    given = {
        "ssl_ca_certs": redis.ssl_cafile,
        "ssl_certfile": redis.ssl_certfile,
        "ssl_keyfile": redis.ssl_keyfile,
        "ssl_check_hostname": redis.ssl_check_hostname,
    }
    credential: Credential | None = None
    if redis.token is not None:
        user = unquote(split_address(redis.url.reveal())[1].rpartition("@")[0].partition(":")[0])
        from ..logins.sources import redis_tokens

        credential = redis_tokens(redis, user, note)
    elif redis.password is not None:
        credential = Password(redis.password)
    access = Access(
        credential,
        redis.sentinel_username,
        redis.sentinel_password,
        {name: value for name, value in given.items() if value is not None},
        redis.ssl_key_password,
    )
    return connect(redis.url.reveal(), access)


@asynccontextmanager
async def connected(config: Config) -> AsyncIterator[Client]:
    """A client that is closed at the end. Raises ValueError."""
    client = client_of(config)
    try:
        yield client
    finally:
        await close(client)


TRIES: Final = 3
"""So often a command asks a registry that does not answer."""


def filler_of(
    config: Config, book: SchemaBook, count: "Callable[[Outcome], None]" = lambda outcome: None
) -> "SchemaFiller | None":
    """Return what fills the book from the registry of a configuration; None where no topic needs
    one, or none is configured. Raises StartError."""
    if not book.topics or not config.registry.is_given:
        return None
    from ..registry import SchemaFiller

    return SchemaFiller(book, _registry_of(config, count))


def _registry_of(config: Config, count: "Callable[[Outcome], None]") -> "Registry":
    if config.registry.kind != GLUE:
        # The HTTP client is slow to load, and few commands have a registry to ask.
        from ..registry import ConfluentRegistry, RegistryClient

        return ConfluentRegistry(RegistryClient(registry_settings(config.registry)), count)
    try:
        from ..registry.glue import GlueRegistry  # botocore is optional, and slow to load
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "botocore":
            raise
        way_out = f"{lacking('aws')}, or name schema_file or descriptor_set in the source"
        raise StartError(f'registry.kind="glue": {way_out}') from error
    return GlueRegistry(config.registry.region or "", count)


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


def registry_settings(section: RegistrySection) -> "RegistrySettings":
    """Addresses and credentials of this section."""
    from ..registry import RegistrySettings

    url = "" if section.url is None else section.url.reveal()
    username, password = section.username, section.password
    if (login := login_of(url)) is not None:
        username, password = login[0], Secret(login[1])
    return RegistrySettings(
        urls=urls_of(url),
        username=username,
        password=password,
        bearer_token_file=section.bearer_token_file,
        ssl_cafile=section.ssl_cafile,
        ssl_certfile=section.ssl_certfile,
        ssl_keyfile=section.ssl_keyfile,
        ssl_key_password=section.ssl_key_password,
        ssl_check_hostname=section.ssl_check_hostname,
    )


def library_of(config: Config) -> Library[Judgements] | None:
    """The directory, by whose files lanes grade; None where the configuration names none. Keys are
    hashed where lanes keep hashes of queries."""
    directory, queries = config.judgements.directory, config.plan.queries
    if directory is None or config.plan.judged is None:
        return None
    read_plain = partial(read, max_grade=config.judgements.max_grade)
    if queries is None or queries.text != HASHED:
        return Library(Path(directory), read_plain)
    key = queries.key

    def read_hashed(lines: Iterator[bytes], file: str) -> Judgements:
        found = read_plain(lines, file)
        keys = hashed_keys(list(found.by_query), key)
        return replace(found, by_query=dict(zip(keys, found.by_query.values(), strict=True)))

    return Library(Path(directory), read_hashed)


def read_library(config: Config) -> tuple[Library[Judgements], list[Fault]] | None:
    """The directory of judgements with all that its index lists read, and what of it cannot be;
    None where the configuration names none."""
    library = library_of(config)
    return None if library is None else (library, faults_of(library))


def class_libraries(config: Config) -> dict[str, Library[QueryClasses]]:
    """The directory of each attribute that is derived by files of classes."""
    return {
        one.attribute: Library(Path(one.directory), read_classes)
        for one in config.derive
        if one.directory
    }


def class_by_the_whole_index(lane: Lane, config: Config) -> None:
    """Give a lane that begins all files of classes that are listed. Raises StartError where one
    cannot be read."""
    for attribute, library in class_libraries(config).items():
        if faults := faults_of(library):
            raise StartError("\n".join(map(str, faults)))
        if attribute in lane.class_files:
            lane.class_files[attribute].prepare(begun(library.index), library.readable)


def faults_of(library: Library[T]) -> list[Fault]:
    """Read what the index of a directory lists; what of it cannot be read."""
    try:
        in_time(partial(library.refresh, ()), str(library.directory))
    except NotRead as error:
        return [unread(error, library.directory)]
    return [*library.index_faults, *library.faults]


@dataclass(frozen=True)
class WholeIndex:
    """What grades a lane that has seen nothing: all that the index lists."""

    timeline: Timeline
    judgements: Mapping[IndexEntry, Judgements]


def whole_index(config: Config) -> WholeIndex | None:
    """The whole index, read; None where the configuration names no directory. Raises StartError
    with every fault."""
    found = read_library(config)
    if found is None:
        return None
    library, faults = found
    if faults:
        raise StartError("\n".join(map(str, faults)))
    return WholeIndex(begun(library.index), dict(library.readable))
