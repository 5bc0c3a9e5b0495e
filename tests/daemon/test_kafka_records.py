"""The lean record holds what the client's own would."""

import gc
from types import SimpleNamespace
from weakref import ref

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


class Batch(list[SimpleNamespace]):
    """What the client reads records out of."""

    is_control_batch, next_offset = False, 9


class Batches(list[Batch]):
    def has_next(self) -> bool:
        return bool(self)

    def next_batch(self) -> Batch:
        return self.pop(0)


def test_what_is_given_up_half_read_is_free_at_once() -> None:
    records.install()
    second = SimpleNamespace(**{**vars(RAW), "offset": 8})
    fetched = PartitionRecords(PLACE, Batches([Batch([RAW, second])]), [], 7, None, None, False, 0)
    assert [next(fetched).offset, fetched.next_fetch_offset] == [7, 8]
    held = ref(fetched)
    gc.disable()
    try:
        del fetched
        assert held() is None
    finally:
        gc.enable()


def test_all_that_was_fetched_is_read() -> None:
    records.install()
    fetched = PartitionRecords(PLACE, Batches([Batch([RAW])]), [], 7, None, None, False, 0)
    assert [one.offset for one in fetched] == [7]
    assert fetched.next_fetch_offset == 9
