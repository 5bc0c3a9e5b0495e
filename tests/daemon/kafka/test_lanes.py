"""The rules of the Kafka door, without Kafka."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import (
    CorruptRecordException,
    GroupAuthorizationFailedError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)

from relevanced.daemon.errors import StartError
from relevanced.daemon.kafka.client import KafkaSettings, client_arguments, consumer_arguments
from relevanced.daemon.kafka.diagnosis import fault_of
from relevanced.daemon.kafka.lanes import (
    Faults,
    LaneBook,
    Silence,
    is_at_end,
    is_stuck,
    not_yet_taken,
    split_lanes,
    start_of_reading,
)
from relevanced.daemon.kafka.reader import _fails_next
from relevanced.daemon.kafka.topics import judged, require_equal_counts
from relevanced.daemon.worker.source import OffsetBeyondEnd

A0, A1, B0, B1 = ("a", 0), ("a", 1), ("b", 0), ("b", 1)


@dataclass
class Record:
    offset: int


def records(offsets: Iterable[int]) -> list[Record]:
    return [Record(offset) for offset in offsets]


def test_lane_is_whole_with_all_its_topics() -> None:
    assert split_lanes([A0, B0, A1], ["a", "b"]) == (frozenset({0}), {1: ["b"]})
    assert split_lanes([], ["a"])[0] == frozenset()


@pytest.mark.parametrize(
    ("stored", "start", "lost"), [(10, 10, 0), (15, 15, 0), (20, 20, 0), (4, 10, 6)]
)
def test_reading_goes_on_inside_the_log(stored: int, start: int, lost: int) -> None:
    assert start_of_reading(A0, stored, 10, 20) == (start, lost)


def test_offset_beyond_the_log_stops_the_lane() -> None:
    with pytest.raises(OffsetBeyondEnd, match=r"a\[0\]: the stored offset 21 .* 20"):
        start_of_reading(A0, 21, 10, 20)


def test_records_taken_before_are_dropped_and_holes_kept() -> None:
    assert not_yet_taken(records([3, 4, 5]), 5) == records([5])
    assert not_yet_taken(records([7, 9]), 5) == records([7, 9])
    assert not_yet_taken(records([]), 5) == []


@pytest.mark.parametrize(
    ("next_offset", "end", "seen_ms", "known"),
    [
        (10, 10, 5_000, True),
        (11, 10, 5_000, True),
        (9, 10, 5_000, False),  # something is left
        (10, 10, 4_999, False),  # seen too long ago
        (10, None, None, False),  # never fetched
    ],
)
def test_end_counts_while_it_was_just_seen(
    next_offset: int, end: int | None, seen_ms: int | None, known: bool
) -> None:
    assert is_at_end(next_offset, end, seen_ms, now_ms=10_000) is known


def test_consumer_is_stuck_after_two_sessions() -> None:
    assert not is_stuck(190.0, 100.0, 45.0)
    assert is_stuck(190.1, 100.0, 45.0)


def test_revoked_lanes_are_lost_once_and_closed_ones_never() -> None:
    book = LaneBook(["a"])
    book.assign([A0, A1])
    book.open(0, {"a": 5})
    book.open(1, {"a": 7})
    book.close(1, lost=False)
    book.revoke()
    assert book.take_lost() == {0} and book.take_lost() == set()
    assert book.next_offset == {} and book.open_lanes == set()


def test_assigned_again_is_to_be_opened_again() -> None:
    book = LaneBook(["a", "b"])
    book.assign([A0, B0])
    assert book.to_open() == {0}
    book.open(0, {"a": 5, "b": 6})
    assert book.to_open() == set() and book.next_offset == {A0: 5, B0: 6}
    before = book.generation
    book.assign([A0, B0, A1])
    assert book.take_lost() == {0} == book.to_open()
    assert book.generation > before and book.partial == {1: ["b"]}


def test_who_fails_alone_is_left_out_and_tried_again_later() -> None:
    faults = Faults()
    faults.suspect([A0, A1], now_ms=0)
    assert faults.blame(A0, "damaged", now_s=10.0)
    assert not faults.absolve(A1)
    assert faults.suspects == {} and faults.left_out() == {A0}
    assert faults.try_again(10.9, 0) == []
    assert faults.try_again(11.0, 0) == [A0] and faults.left_out() == set()
    assert not faults.blame(A0, "damaged", now_s=11.0)
    assert faults.try_again(12.9, 0) == [] and faults.try_again(13.0, 0) == [A0]
    assert faults.absolve(A0) and faults.blamed == {}


def test_pauses_grow_to_a_minute() -> None:
    faults, now_s = Faults(), 0.0
    for _ in range(10):
        faults.blame(A0, "damaged", now_s)
        now_s = faults.blamed[A0].retry_s
    assert faults.blamed[A0].pause_s == 60.0


def test_blamed_are_no_suspects_of_others_errors() -> None:
    faults = Faults()
    faults.blame(A0, "damaged", now_s=0.0)
    faults.suspect([A0, A1], now_ms=0)
    assert faults.suspects.keys() == {A1}
    faults.keep([B0])
    assert not faults.suspects and not faults.blamed


def test_unequal_counts_name_every_topic_and_the_rule() -> None:
    require_equal_counts({"a": 4, "b": 4})
    with pytest.raises(StartError, match="a has 4, b has 8.*same record key.*murmur2"):
        require_equal_counts({"a": 4, "b": 8})


def test_topics_are_judged_one_by_one() -> None:
    def topic(name: str, code: int, partitions: int) -> dict[str, object]:
        return {"topic": name, "error_code": code, "partitions": [{}] * partitions}

    assert judged([topic("a", 0, 3)]) == ({"a": 3}, None)
    counts, obstacle = judged([topic("a", 0, 3), topic("b", 3, 0), topic("c", 29, 0)])
    assert counts == {"a": 3} and obstacle is not None
    assert obstacle.fault == "not_permitted"
    assert "b does not exist" in obstacle.reason
    assert "permission to describe topic c" in obstacle.reason


def test_a_place_is_silent_where_others_answer() -> None:
    silence = Silence()
    assert silence.heard({A0: 1, A1: 1}, 0.0, 10.0) == []
    assert silence.heard({A0: 2, A1: 1}, 10.0, 10.0) == []
    assert silence.heard({A0: 3, A1: 1}, 10.1, 10.0) == [A1]
    assert silence.heard({A0: 3, A1: 1}, 20.2, 10.0) == []  # nobody: that is the cluster
    assert silence.heard({A0: 3, A1: 2}, 20.2, 10.0) == [A0]


def test_a_place_that_was_not_asked_is_not_silent() -> None:
    silence = Silence()
    silence.heard({A0: 1, A1: None}, 0.0, 10.0)
    silence.heard({A0: 2}, 10.0, 10.0)
    assert silence.heard({A0: 3, A1: None}, 10.1, 10.0) == []
    assert silence.heard({A0: 4, A1: None}, 20.2, 10.0) == [A1]


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (CorruptRecordException("Invalid CRC"), "corrupt_batch"),
        (RecordTooLargeError("larger than the fetch size"), "corrupt_batch"),
        (UnsupportedCodecError("0x05"), "unknown_codec"),
        (TopicAuthorizationFailedError("events"), "not_permitted"),
        (GroupAuthorizationFailedError("group"), "not_permitted"),
        (ValueError("whatever a decoder raises"), "unreadable"),
    ],
)
def test_errors_of_the_client_have_a_meaning(error: Exception, fault: str) -> None:
    assert fault_of(error) == fault


def test_an_error_that_waits_to_be_raised_can_be_seen() -> None:
    """It makes the client step over a record: the client must still keep it where we look."""
    consumer = SimpleNamespace(_fetcher=SimpleNamespace(_records={}))
    place = TopicPartition("a", 0)
    assert not _fails_next(consumer, place)
    consumer._fetcher._prefetch_backoff = 0.1
    Fetcher._set_error(consumer._fetcher, place, ValueError())
    assert _fails_next(consumer, place)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"security_protocol": "TLS"}, "kafka.security_protocol=TLS: must be one of"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_username"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            "kafka.sasl_mechanism=GSSAPI: must be one of",
        ),
        ({"security_protocol": "SSL", "ssl_cafile": "/no/such/file"}, "ssl_cafile"),
    ],
)
def test_settings_that_cannot_work_are_named(fields: dict[str, str], message: str) -> None:
    with pytest.raises(StartError, match=message):
        client_arguments(KafkaSettings("localhost:9092", **fields))  # type: ignore[arg-type]


def test_consumer_neither_commits_nor_resets_by_itself() -> None:
    arguments = consumer_arguments(KafkaSettings("localhost:9092"))
    assert arguments["enable_auto_commit"] is False
    assert arguments["auto_offset_reset"] == "none"
    assert arguments["isolation_level"] == "read_committed"


def test_times_leave_room_for_each_other() -> None:
    """The batch in hand ends before the group gives up on us, and requests outlast a join."""
    settings = KafkaSettings("localhost:9092", session_timeout_s=45.0)
    assert settings.revoke_patience_s * 1000 < settings.rebalance_timeout_ms
    assert settings.rebalance_timeout_ms < settings.session_timeout_ms
    assert settings.rebalance_timeout_ms < settings.request_timeout_ms
    assert settings.heartbeat_interval_ms * 3 <= settings.session_timeout_ms
