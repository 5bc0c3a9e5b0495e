"""The lean record holds what the client's own would."""

from types import SimpleNamespace

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.consumer.fetcher import PartitionRecords

from relevanced.daemon.kafka import records

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
    records.install()
    lean = PartitionRecords._consumer_record(SimpleNamespace(), PLACE, RAW)
    whole = ConsumerRecord("events", 3, 7, RAW.timestamp, 0, b"k", None, None, 1, -1, ())
    for name in ("topic", "partition", "offset", "timestamp", "key", "value"):
        assert getattr(lean, name) == getattr(whole, name)
    assert lean.headers == tuple(RAW.headers)
