"""The record of seven fields has the values that the client's own has."""

from types import SimpleNamespace

from aiokafka import ConsumerRecord, TopicPartition

from relevanced.daemon.kafka import NO_TIMESTAMP, records_of

RAW = SimpleNamespace(
    offset=7,
    timestamp=1_795_176_000_000,
    timestamp_type=0,
    key=b"k",
    value=None,
    checksum=None,
    headers=[("h", b"v")],
)
PARTITION = TopicPartition("events", 3)


def test_the_fields_are_those_of_the_clients_record() -> None:
    (record,) = records_of(PARTITION, [RAW], 7)
    whole = ConsumerRecord("events", 3, 7, RAW.timestamp, 0, b"k", None, None, 1, -1, ())
    for name in ("topic", "partition", "offset", "timestamp", "key", "value"):
        assert getattr(record, name) == getattr(whole, name)
    assert record.headers == tuple(RAW.headers)


def test_records_of_the_oldest_format_have_no_timestamp() -> None:
    (record,) = records_of(PARTITION, [SimpleNamespace(**vars(RAW) | {"timestamp": None})], 0)
    assert record.timestamp == NO_TIMESTAMP
