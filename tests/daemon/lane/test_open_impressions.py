"""Open impressions keep their slots, and waiting feedback its serial, for the lane's lifetime."""

import numpy as np
import pytest

from relevanced.daemon.lane import OpenImpressions, Waiting, WaitingFeedback, encode_items

ITEMS = encode_items(["a", None])


def add(impressions: OpenImpressions, impression_id: str = "q", pane: int = 0) -> int:
    return impressions.add(impression_id, pane + 1, pane, combination=0, state=1, items=ITEMS)


def three() -> OpenImpressions:
    impressions = OpenImpressions()
    for pane in (0, 10, 0):
        add(impressions, pane=pane)
    return impressions


def close_before(impressions: OpenImpressions, before: int) -> None:
    impressions.close(impressions.slots_before(before), before)


def waiting(time_ms: int, of: str = "q") -> Waiting:
    return Waiting(None, None, of, time_ms, "click", "a", None, None)


# Open impressions


def test_slots_of_an_id_stand_in_order_of_acceptance() -> None:
    impressions = three()
    assert impressions.slots_of("q") == (0, 1, 2)
    assert impressions.slots_of("other") == ()
    assert (len(impressions), impressions.next_slot) == (3, 3)


def test_a_list_comes_back_with_its_blanks() -> None:
    impressions = three()
    assert impressions.list_of(0) == ["a", None]


def test_closing_a_pane_closes_its_impressions() -> None:
    impressions = three()
    impressions.grades[0] = {0: (1, 1.0)}
    close_before(impressions, 10)
    assert impressions.slots_of("q") == (1,)
    assert [impressions.has_open(slot) for slot in range(4)] == [False, True, False, False]
    assert (len(impressions), impressions.panes(), impressions.grades) == (1, [10], {})


def test_an_id_without_open_impressions_has_no_slots() -> None:
    impressions = three()
    close_before(impressions, 20)
    assert impressions.slots_of("q") == ()
    assert (len(impressions), impressions.panes()) == (0, [])


def test_other_impressions_of_the_id_keep_their_order() -> None:
    impressions = OpenImpressions()
    for pane in (0, 10, 20):
        add(impressions, pane=pane)
    close_before(impressions, 10)
    assert impressions.slots_of("q") == (1, 2)


def test_slots_are_listed_by_pane() -> None:
    impressions = three()
    assert impressions.panes() == [0, 10]
    assert list(impressions.slots_in([10, 0])) == [1, 0, 2]


def test_a_slot_is_never_reused() -> None:
    impressions = three()
    close_before(impressions, 10)
    assert add(impressions, pane=20) == 3
    impressions.skip_to(10)
    assert add(impressions, pane=20) == 10


def test_skipping_back_does_nothing() -> None:
    impressions = three()
    impressions.skip_to(2)
    assert impressions.next_slot == 3


@pytest.mark.parametrize(("closed", "base"), [(4095, 0), (4096, 4096)])
def test_closed_slots_at_the_front_are_dropped_once_they_are_many(closed: int, base: int) -> None:
    impressions = OpenImpressions()
    for number in range(closed):
        add(impressions, f"q{number}", pane=0)
    last = add(impressions, "last", pane=10)
    close_before(impressions, 10)
    impressions.trim()
    assert (impressions.base, impressions.next_slot, impressions.slots_of("last")) == (
        base,
        closed + 1,
        (last,),
    )
    assert impressions.has_open(last) and impressions.list_of(last) == ["a", None]


def test_an_older_open_pane_keeps_the_slots_behind_it() -> None:
    impressions = OpenImpressions()
    add(impressions, "oldest", pane=30)
    for number in range(5000):
        add(impressions, f"q{number}", pane=10)
    close_before(impressions, 20)
    impressions.trim()
    assert (impressions.base, len(impressions)) == (0, 1)


def test_closing_everything_releases_all_memory() -> None:
    impressions = OpenImpressions()
    for number in range(5000):
        add(impressions, f"q{number}")
    close_before(impressions, 10)
    impressions.trim()
    assert (impressions.base, impressions.next_slot, len(impressions.times_ms)) == (5000, 5000, 0)
    assert add(impressions) == 5000


def test_empty_columns_may_start_at_any_slot() -> None:
    impressions = OpenImpressions()
    impressions.start_at(7)
    assert (add(impressions), impressions.base, impressions.has_open(6)) == (7, 7, False)


def test_slots_and_indices_convert_both_ways() -> None:
    impressions = OpenImpressions()
    impressions.start_at(7)
    slots = [add(impressions), add(impressions)]
    assert [impressions.index_of(slot) for slot in slots] == [0, 1]
    assert impressions.index_of(np.array(slots)).tolist() == [0, 1]
    assert impressions.slots_at(np.array([0, 1])).tolist() == slots


def test_only_open_slots_are_selected() -> None:
    impressions = OpenImpressions()
    impressions.start_at(7)
    for pane in (0, 10, 0):
        add(impressions, pane=pane)
    close_before(impressions, 10)
    assert impressions.only_open(np.array([3, 7, 8, 9])).tolist() == [8]


# Waiting feedback


def test_a_serial_is_never_reused() -> None:
    queue = WaitingFeedback()
    assert [queue.add(waiting(1)), queue.add(waiting(1))] == [0, 1]
    queue.remove(1)
    assert queue.add(waiting(1)) == 2


def test_serials_of_an_id_stand_in_order_of_arrival() -> None:
    queue = WaitingFeedback()
    for time_ms, of in ((5, "q"), (3, "p"), (1, "q")):
        queue.add(waiting(time_ms, of))
    assert (queue.serials_of("q"), queue.serials_of("p"), queue.serials_of("x")) == (
        [0, 2],
        [1],
        [],
    )


def test_feedback_of_the_instant_and_before_is_taken() -> None:
    queue = WaitingFeedback()
    for time_ms in (30, 10, 20):
        queue.add(waiting(time_ms))
    assert [feedback.time_ms for feedback in queue.take_older(20)] == [10, 20]
    assert (len(queue), queue.serials_of("q")) == (1, [0])
    assert not list(queue.take_older(29))


def test_removed_feedback_does_not_expire_later() -> None:
    queue = WaitingFeedback()
    queue.add(waiting(10))
    queue.remove(0)
    assert not list(queue.take_older(99))
    assert queue.serials_of("q") == []


def test_restored_feedback_keeps_its_serial() -> None:
    queue = WaitingFeedback()
    queue.put(7, waiting(10))
    assert (queue.serials_of("q"), queue.next_serial) == ([7], 0)
    assert [feedback.time_ms for feedback in queue.take_older(10)] == [10]
