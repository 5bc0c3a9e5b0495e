"""Where the stage goes on with a source."""

import pytest

from relevanced.daemon.errors import StartError
from relevanced.daemon.kafka import Begin, TopicPartition, begin_of
from relevanced.daemon.lane import Pending
from relevanced.daemon.worker import SourceState, state_in

PLACE = TopicPartition("clicks", 3)
STATE = SourceState(1_795_176_000_000).text()


@pytest.mark.parametrize(("offset", "begin", "lost_from"), [(7, 7, None), (9, 9, None), (2, 5, 2)])
def test_a_source_goes_on_where_its_log_still_has_records(
    offset: int, begin: int, lost_from: int | None
) -> None:
    for known_id in ("a", None):
        found = begin_of(PLACE, (offset, STATE), (5, 9), known_id, "a")
        assert found == Begin(begin, STATE, lost_from, "a")


def test_records_that_were_read_and_left_out_are_no_loss() -> None:
    read = SourceState(1_795_176_000_000, read=8).text()
    assert begin_of(PLACE, (2, read), (5, 9), "a", "a") == Begin(5, read, None, "a")
    assert begin_of(PLACE, (2, read), (9, 9), "a", "a") == Begin(9, read, 8, "a")


def test_a_source_that_the_group_forgot_or_that_came_later_is_read_from_its_beginning() -> None:
    assert begin_of(PLACE, None, (0, 9), "a", "a") == Begin(0, "", None, "a")
    assert begin_of(PLACE, None, (5, 9), None, None) == Begin(5, "", 0, "")


@pytest.mark.parametrize(("offset", "topic_id"), [(10, "a"), (7, "b")])
def test_another_log_is_not_sent_as_the_same_source(offset: int, topic_id: str) -> None:
    with pytest.raises(StartError, match=r"Set \[rekey\] topic to a new name"):
        begin_of(PLACE, (offset, ""), (5, 9), "a", topic_id)


def test_a_state_that_a_tool_has_written_over_stops_the_source() -> None:
    with pytest.raises(StartError, match="stores no state of it"):
        begin_of(PLACE, (7, "reset by hand"), (5, 9), "a", "a")


def test_a_state_fits_into_the_metadata_of_an_offset() -> None:
    pending = Pending({f"{n:016x}": 1_795_176_000_000 for n in range(4)}, 2**31, 24)
    state = SourceState(1_795_176_000_000, pending)
    assert len(state.text()) < 300 and state_in(state.text()) == state
    assert state_in("") == SourceState()
