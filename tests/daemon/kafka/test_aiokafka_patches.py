"""The patched client returns what the untouched one does, and no other version is patched."""

from collections import Counter
from importlib.metadata import requires
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import aiokafka
import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from packaging.requirements import Requirement

from relevanced.daemon.errors import StartError
from relevanced.daemon.kafka import aiokafka_patches

PARTITION = TopicPartition("events", 3)
BATCH: Final[dict[str, Any]] = {
    "magic": 2,
    "compression_type": 0,
    "is_transactional": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "batch_size": 1 << 16,
}


TRANSACTION: Final = {"is_transactional": 1, "producer_id": 7, "producer_epoch": 0}


def two_batches(*transactional: int, compressed: bool = False) -> bytes:
    """Return a batch of records 0 to 4 and one of 5 to 9; those that begin at `transactional` are
    of a transaction.
    """
    data = b""
    for base in (0, 5):
        more: dict[str, Any] = TRANSACTION if base in transactional else {}
        more = more | {"compression_type": 1} if compressed else more
        builder = DefaultRecordBatchBuilder(**BATCH | more)
        for number in range(5):
            builder.append(number, timestamp=base + number, key=None, value=b"v", headers=[])
        built = bytearray(builder.build())
        built[:8] = base.to_bytes(8, "big")
        data += bytes(built)
    return data


class Assignment:
    """A partition that is read, and how far."""

    active, paused, position = True, False, 2

    def state_value(self, _: TopicPartition) -> "Assignment":
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position


def untouched() -> ModuleType:
    """Return the client's module as it is before anything in it is replaced."""
    spec = spec_from_file_location("aiokafka.consumer.untouched", fetcher.__file__)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def taken(
    data: bytes,
    most: int | None,
    client: ModuleType = fetcher,
    aborted: list[tuple[int, int]] | None = None,
) -> list[tuple[list[int], int]]:
    """Return (offsets, position) of each call until there is nothing more. `aborted`: the producer
    and the first offset of each transaction.
    """
    assignment = Assignment()
    records = client.PartitionRecords(
        PARTITION, MemoryRecords(data), aborted, 2, None, None, True, 1
    )
    result = client.FetchResult(
        PARTITION, assignment=assignment, partition_records=records, backoff=0
    )
    calls = []
    while result.has_more():
        offsets = [record.offset for record in result.getall(most)]
        calls.append((offsets, assignment.position))
    return calls


@pytest.mark.parametrize("most", [None, 1, 3, 4, 8, 9])
def test_as_many_are_taken_as_the_client_takes(most: int | None) -> None:
    aiokafka_patches.install()
    expected = taken(two_batches(), most, untouched())
    assert taken(two_batches(), most) == expected
    assert expected[-1][1] == 10


@pytest.mark.parametrize("most", [None, 1, 3, 9])
@pytest.mark.parametrize("most_bytes", [1, 2, 3, 8, 9])
def test_no_more_bytes_are_taken_than_a_batch_may_have(
    most: int | None, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value has one byte; reading goes on where it ended."""
    aiokafka_patches.install()
    monkeypatch.setattr(aiokafka_patches, "MAX_BATCH_BYTES", most_bytes)
    calls = taken(two_batches(compressed=True), most)
    assert [offset for offsets, _ in calls for offset in offsets] == list(range(2, 10))
    assert max(len(offsets) for offsets, _ in calls) == min(most or 9, most_bytes, 8)
    assert all(position == offsets[-1] + 1 for offsets, position in calls if offsets)


def test_a_batch_is_not_unpacked_before_the_one_in_front_is_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aiokafka_patches.install()
    monkeypatch.setattr(aiokafka_patches, "MAX_BATCH_BYTES", 3)
    damaged = bytearray(two_batches(compressed=True))
    damaged[-1] ^= 1
    data = MemoryRecords(bytes(damaged))
    fetched = fetcher.PartitionRecords(PARTITION, data, None, 0, None, None, True, 1)
    assert len(fetched._records_iterator.take(9)) == 3


@pytest.mark.parametrize("most", [None, 1, 4, 5])
@pytest.mark.parametrize("transactional", [(0,), (5,), (0, 5)])
def test_what_was_aborted_is_stepped_over_as_the_client_does(
    transactional: tuple[int, ...], most: int | None
) -> None:
    aiokafka_patches.install()
    data, aborted = two_batches(*transactional), [(7, transactional[0])]
    counter: Counter[TopicPartition] = Counter()
    with aiokafka_patches.counting_aborted(counter):
        found = taken(data, most, aborted=aborted)
    assert found == taken(data, most, untouched(), aborted)
    assert counter == {PARTITION: 5 * len(transactional)}


def test_each_reader_counts_what_it_left_out_itself() -> None:
    aiokafka_patches.install()
    first, second = Counter[TopicPartition](), Counter[TopicPartition]()
    with aiokafka_patches.counting_aborted(first):
        with aiokafka_patches.counting_aborted(second):
            taken(two_batches(0), None, aborted=[(7, 0)])
        taken(two_batches(0, 5), None, aborted=[(7, 0)])
    taken(two_batches(0), None, aborted=[(7, 0)])
    assert (first, second) == ({PARTITION: 10}, {PARTITION: 5})


def test_records_of_a_transaction_that_was_not_aborted_are_taken() -> None:
    aiokafka_patches.install()
    assert taken(two_batches(0, 5), None)[0][0] == list(range(2, 10))
    assert taken(two_batches(0, 5), None, aborted=[(8, 0)])[0][0] == list(range(2, 10))


def test_a_damaged_batch_is_refused_as_the_client_refuses_it() -> None:
    aiokafka_patches.install()
    damaged = bytearray(two_batches())
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordException):
        taken(bytes(damaged), None)


def test_an_error_that_waits_to_be_raised_can_be_seen() -> None:
    """The client steps over a record with it, and must still keep it where we read it."""
    consumer = SimpleNamespace(_fetcher=SimpleNamespace(_records={}))
    partition = TopicPartition("a", 0)
    assert not aiokafka_patches.fails_next(consumer, partition)
    consumer._fetcher._prefetch_backoff = 0.1
    Fetcher._set_error(consumer._fetcher, partition, ValueError())
    assert aiokafka_patches.fails_next(consumer, partition)


def test_aiokafka_still_looks_its_codecs_up() -> None:
    """The shim works only while aiokafka reads these two names of its module at each use."""
    aiokafka_patches.install_codecs()
    assert {"cramjam", "gzip"} <= vars(aiokafka.codec).keys()
    for function in ("lz4_decode", "snappy_decode", "zstd_decode", "has_zstd"):
        assert "cramjam" in getattr(aiokafka.codec, function).__code__.co_names
    assert "gzip" in aiokafka.codec.gzip_decode.__code__.co_names
    assert aiokafka.codec.has_lz4() and aiokafka.codec.has_snappy() and aiokafka.codec.has_zstd()


@pytest.mark.parametrize("version", ["0.12.0", "0.15.0", "0.140.0", "1.13.0"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(StartError, match=rf"aiokafka {version} is not supported"):
        aiokafka_patches.install(version)


def test_allowed_versions_are_those_of_the_dependencies() -> None:
    (allowed,) = [line for line in requires("relevanced") or () if line.startswith("aiokafka")]
    versions = Requirement(allowed).specifier
    for version in ("0.12.9", "0.13.0", "0.14.9", "0.15.0"):
        written_for = version.rpartition(".")[0] in aiokafka_patches.WRITTEN_FOR
        assert versions.contains(version) == written_for
    assert versions.contains(aiokafka.__version__)
