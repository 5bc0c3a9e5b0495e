"""The lean record holds what the client's own would, and as many are taken."""

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from structlog.testing import capture_logs

from relevanced.daemon.kafka import records
from relevanced.daemon.kafka.aborted import AbortedLog
from relevanced.daemon.telemetry.kafka_faults import KafkaFault

RAW = SimpleNamespace(
    offset=7,
    timestamp=1_795_176_000_000,
    timestamp_type=0,
    key=b"k",
    value=None,
    checksum=None,
    headers=[("h", b"v")],
)
PLACE = TopicPartition("events", 3)


def test_the_fields_are_those_of_the_clients_record() -> None:
    (lean,) = records._records_of(PLACE, [RAW], 7)
    whole = ConsumerRecord("events", 3, 7, RAW.timestamp, 0, b"k", None, None, 1, -1, ())
    for name in ("topic", "partition", "offset", "timestamp", "key", "value"):
        assert getattr(lean, name) == getattr(whole, name)
    assert lean.headers == tuple(RAW.headers)


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


def two_batches(*transactional: int) -> bytes:
    """Of records 0 to 4, and 5 to 9; those that begin at these offsets are of a transaction."""
    data = b""
    for base in (0, 5):
        more = TRANSACTION if base in transactional else {}
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
    """The client's module as it is before anybody replaces something in it."""
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
    """(offsets, position) of each call until there is nothing more. `aborted`: the producer and the
    first offset of each transaction."""
    assignment = Assignment()
    records = client.PartitionRecords(PLACE, MemoryRecords(data), aborted, 2, None, None, True, 1)
    result = client.FetchResult(PLACE, assignment=assignment, partition_records=records, backoff=0)
    told = []
    while result.has_more():
        offsets = [one.offset for one in result.getall(most)]
        told.append((offsets, assignment.position))
    return told


@pytest.mark.parametrize("most", [None, 1, 3, 4, 8, 9])
def test_as_many_are_taken_as_the_client_takes(most: int | None) -> None:
    records.install()
    expected = taken(two_batches(), most, untouched())
    assert taken(two_batches(), most) == expected
    assert expected[-1][1] == 10


@pytest.mark.parametrize("most", [None, 1, 4, 5])
@pytest.mark.parametrize("transactional", [(0,), (5,), (0, 5)])
def test_what_was_aborted_is_stepped_over_as_the_client_does(
    transactional: tuple[int, ...], most: int | None
) -> None:
    records.install()
    records.take_aborted()
    data, aborted = two_batches(*transactional), [(7, transactional[0])]
    assert taken(data, most, aborted=aborted) == taken(data, most, untouched(), aborted)
    assert records.take_aborted() == {PLACE: 5 * len(transactional)}
    assert not records.take_aborted()


def test_records_of_a_transaction_that_was_not_aborted_are_taken() -> None:
    records.install()
    assert taken(two_batches(0, 5), None)[0][0] == list(range(2, 10))
    assert taken(two_batches(0, 5), None, aborted=[(8, 0)])[0][0] == list(range(2, 10))


def test_records_of_the_oldest_format_have_no_timestamp() -> None:
    (record,) = records._records_of(PLACE, [SimpleNamespace(**vars(RAW) | {"timestamp": None})], 0)
    assert record.timestamp == records.NO_TIMESTAMP


def test_an_aborted_transaction_is_told_once_a_minute() -> None:
    noted: list[KafkaFault] = []
    with capture_logs() as told:
        aborted = AbortedLog(noted.append)
        for now_s in (0.0, 10.0, 59.0, 60.0):
            aborted.report({PLACE: 5}, now_s)
        aborted.report({}, 200.0)
    assert [(one["topic"], one["partition"], one["records"]) for one in told] == [
        ("events", 3, 5),
        ("events", 3, 15),
    ]
    assert noted == ["aborted"] * 4


def test_a_damaged_batch_is_refused_as_the_client_refuses_it() -> None:
    records.install()
    damaged = bytearray(two_batches())
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordException):
        taken(bytes(damaged), None)
