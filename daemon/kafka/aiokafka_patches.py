"""What relies on private parts of aiokafka: what is replaced there, read and called. (`topic_ids`
and `protocol` do too: they send fetches by topic id in place of the client's own.)

A private part that now means something else would lose records without an error, so
`install` refuses every version that this module was not written for. To allow a new one, compare
its `consumer/fetcher.py` and `codec.py` with those of the last version that is allowed, and add it
to `WRITTEN_FOR`. The tests check that the patched client returns the records, fields and positions
that the untouched one does.
"""

import asyncio
import sys
from asyncio import Future
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import aiokafka
import aiokafka.codec
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchError, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException

from ..errors import StartError
from ..worker import MAX_BATCH_BYTES
from . import codecs
from .codecs import TooLarge
from .offsets import Record, records_of
from .topic_partition import TopicPartition

WRITTEN_FOR: Final = ("0.13", "0.14")
"""The versions of aiokafka whose private parts are as this module needs them."""

AT_ONCE_BYTES: Final = 2 << 20
"""A batch that unpacks to more is unpacked by a thread, where the reader allows it: 120 MiB of
short records kept the event loop for a second."""

_consumer: ContextVar[Any] = ContextVar("consumer", default=None)
"""The consumer whose reader waits while a thread unpacks; see `unpacking_aside`."""
_aborted_records: ContextVar[Counter[TopicPartition] | None] = ContextVar(
    "aborted_records", default=None
)
"""The counter of the reader whose task is fetching; see `counting_aborted`."""


def install(version: str = aiokafka.__version__) -> None:
    """Patch aiokafka for this process; consumers must have no deserializers. May be called again.

    Raises StartError for a version that is not in `WRITTEN_FOR`.
    """
    if ".".join(version.split(".")[:2]) not in WRITTEN_FOR:
        allowed = " or ".join(WRITTEN_FOR)
        raise StartError(f"aiokafka {version} is not supported: install version {allowed}")
    install_codecs()
    # The client makes a record of eleven fields, one by one and with several calls for each: that
    # costs as much as decoding the JSON in it. It has no setting for that.
    PartitionRecords._unpack_records = _unpack_records
    FetchResult.getall = _take_records


def install_codecs() -> None:
    """Let aiokafka unpack lz4, snappy and zstd without `cramjam`, and bound what gzip unpacks to.

    Every function of `aiokafka.codec` looks these two modules up in its own namespace when it is
    called, so this works before and after clients are made. Its functions themselves are bound by
    other modules at import: replacing those would come too late.
    """
    aiokafka.codec.cramjam = codecs.decompressors()
    aiokafka.codec.gzip = SimpleNamespace(GzipFile=codecs.LimitedGzipFile)


@contextmanager
def counting_aborted(counter: Counter[TopicPartition]) -> Iterator[None]:
    """Count the records of aborted transactions that `getmany` leaves out inside this block.

    The client drops them without a trace, deep inside `getmany`. It unpacks in the task that calls
    it, so a context variable brings the counter of each reader there.
    """
    token = _aborted_records.set(counter)
    try:
        yield
    finally:
        _aborted_records.reset(token)


@contextmanager
def unpacking_aside(consumer: Any) -> Iterator[None]:
    """Inside, `getmany` of the consumer does not unpack large batches itself: a thread does, and
    until it has, `getmany` waits as for records that have not arrived."""
    token = _consumer.set(consumer)
    try:
        yield
    finally:
        _consumer.reset(token)


def fails_next(consumer: Any, topic_partition: TopicPartition) -> bool:
    """Whether the next `getmany` of the topic-partition raises.

    For errors of its own making, such as an incomplete batch, the client moves its position over
    one record before it raises. Only this shows that the position is not to be trusted.
    """
    return type(consumer._fetcher._records.get(topic_partition)) is FetchError


def client_of(consumer: Any) -> Any:
    """Return the client through which a consumer talks to the brokers."""
    return consumer._client


async def stop(consumer: Any) -> None:
    """Stop a consumer, and close its connections in any case.

    A fetch that waits to be retried makes `AIOKafkaConsumer.stop` end before it closes them.
    """
    try:
        await consumer.stop()
    finally:
        await consumer._client.close()


_Batch: TypeAlias = tuple[list[Record], bool]
"""Its records, and whether it was compressed."""
LARGE: Final[_Batch] = ([], True)
"""Stands for a batch that is too large to be unpacked here."""


class _Unpacked:
    """The records of what was fetched, unpacked batch by batch as they are taken."""

    def __init__(self, fetched: PartitionRecords) -> None:
        self._batches = _unpack_batches(fetched)
        self._unpacking: Future[_Batch | None] | None = None
        self._batch: list[Record] = []
        self._is_compressed = False
        self._next = 0
        """Index of the next record in the batch."""
        self._is_large = False
        """Whether the next batch is one for a thread."""
        self.is_cut = False
        """Whether the last call of `take` ended by bytes."""

    def __iter__(self) -> "_Unpacked":
        return self

    def __next__(self) -> Record:
        taken = self.take(1)
        if not taken:
            raise StopIteration
        return taken[0]

    def take(self, max_records: int) -> list[Record]:
        """Return at most so many records: fewer where there are no more, or where those of
        compressed batches have MAX_BATCH_BYTES together (the size of a fetch bounds others). A
        batch of a megabyte may unpack to 256: not even the next is unpacked before what is taken of
        this one is worked on."""
        taken: list[Record] = []
        room, count = MAX_BATCH_BYTES, 0
        while count < max_records and room > 0:
            if self._next >= len(self._batch):
                batch = self._next_batch(count == 0)
                if batch is None:
                    break
                if batch is LARGE:
                    room = 0  # a thread unpacks it, or will
                    break
                (self._batch, self._is_compressed), self._next = batch, 0
            part = self._batch[self._next : self._next + max_records - count]
            if self._is_compressed:
                part, size = _fitting(part, room)
                room -= size
            taken += part
            self._next += len(part)
            count = len(taken)
        self.is_cut = room <= 0
        return taken

    @property
    def is_unpacking(self) -> bool:
        """Whether a thread is unpacking the next batch."""
        return self._unpacking is not None and not self._unpacking.done()

    def _next_batch(self, may_begin: bool) -> "_Batch | None":
        """Return the next batch, None at the end, or LARGE where it is for a thread, which begins
        if it may."""
        if self._unpacking is not None:
            done, self._unpacking = self._unpacking, None
            return done.result()
        if not self._is_large:
            batch = next(self._batches, None)
            if batch is not LARGE:
                return batch
        consumer = _consumer.get()
        self._is_large = consumer is not None and not may_begin
        if consumer is None:
            return next(self._batches, None)
        if may_begin:
            self._begin(consumer._fetcher)
        return LARGE

    def _begin(self, fetcher: Any) -> None:
        """Unpack the next batch in a thread, then wake those who wait for records."""

        def wake(_: object) -> None:
            for waiter in list(fetcher._fetch_waiters):
                fetcher._notify(waiter)

        # The generator goes on from LARGE to the records: it moves no offset of the client there.
        unpack = partial(copy_context().run, next, self._batches, None)
        self._unpacking = asyncio.get_running_loop().run_in_executor(None, unpack)
        self._unpacking.add_done_callback(wake)


def _unpack_records(fetched: PartitionRecords) -> _Unpacked:
    """Replaces `PartitionRecords._unpack_records`: unpacks batch by batch instead of record by
    record.

    The client's object and this iterator refer to each other, so what is fetched and never read
    stays until the garbage collector runs. A weak reference between them was tried: it cost a fifth
    of a microsecond for each record, and so the worker collects garbage after it lost a lane.
    """
    return _Unpacked(fetched)


def _fitting(records: list[Record], room: int) -> tuple[list[Record], int]:
    """Return the first records, up to the one that fills the room, and their bytes."""
    sizes = [len(record.value or b"") for record in records]
    size = sum(sizes)
    if size <= room:
        return records, size
    return records[: 1 + sum(1 for before in accumulate(sizes) if before < room)], size


def _unpack_batches(fetched: PartitionRecords) -> "Iterator[_Batch]":
    """Yield the records of each batch, and whether it was compressed; before a large one, LARGE.
    The next offset moves past a batch once it was all taken."""
    batches = fetched._records
    while batches.has_next():
        batch = batches.next_batch()
        if fetched._check_crcs and not batch.validate_crc():
            raise CorruptRecordException(f"Invalid CRC - {fetched._tp}")
        if _is_aborted(fetched, batch):
            _count_aborted(fetched._tp, batch)
        elif not batch.is_control_batch:
            # The oldest formats do not say it.
            is_compressed = bool(getattr(batch, "compression_type", True))
            try:
                with codecs.unpacking_at_most(AT_ONCE_BYTES):
                    records = records_of(fetched._tp, batch, fetched.next_fetch_offset)
            except TooLarge:
                yield LARGE
                records = records_of(fetched._tp, batch, fetched.next_fetch_offset)
            yield records, is_compressed
        # The last offset of a compacted batch may be beyond its last record.
        fetched.next_fetch_offset = batch.next_offset


def _is_aborted(fetched: PartitionRecords, batch: Any) -> bool:
    """Whether the batch is of an aborted transaction. Call it once for each batch, in order."""
    if fetched._isolation_level != READ_COMMITTED or batch.producer_id is None:
        return False
    fetched._consume_aborted_up_to(batch.base_offset)
    if batch.is_control_batch:
        if fetched._contains_abort_marker(batch):
            fetched._aborted_producers.discard(batch.producer_id)
        return False
    return batch.is_transactional and batch.producer_id in fetched._aborted_producers


def _count_aborted(topic_partition: TopicPartition, batch: Any) -> None:
    counter = _aborted_records.get()
    if counter is not None:
        counter[topic_partition] += sum(1 for _ in batch)


def _take_records(result: FetchResult, max_records: int | None = None) -> list[Record]:
    """Replaces `FetchResult.getall`: takes the next records of one partition in slices, and moves
    the position past them.
    """
    if result.has_more() and result._partition_records._records_iterator.is_unpacking:
        return []
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    fetched = result._partition_records
    most = sys.maxsize if max_records is None else max_records
    unpacked: _Unpacked = fetched._records_iterator
    taken = unpacked.take(most)
    all_taken = len(taken) < most and not unpacked.is_cut
    if taken and not all_taken:
        fetched.next_fetch_offset = taken[-1].offset + 1
    result._update_position()
    if all_taken:
        fetched._records_iterator = result._partition_records = None
    return taken
