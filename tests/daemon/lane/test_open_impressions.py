"""Open impressions keep their slots for life; waiting feedback keeps its serial."""

import pytest

from relevanced.daemon.lane.open_impressions import OpenImpressions, encode_items
from relevanced.daemon.lane.waiting_feedback import Waiting, WaitingFeedback

ITEMS = encode_items(["a", None])


def add(held: OpenImpressions, impression_id: str = "q", pane: int = 0) -> int:
    return held.add(impression_id, pane + 1, pane, combination=0, state=1, items=ITEMS)


def three() -> OpenImpressions:
    held = OpenImpressions()
    for pane in (0, 10, 0):
        add(held, pane=pane)
    return held


def waiting(time_ms: int, of: str = "q") -> Waiting:
    return Waiting(None, None, of, time_ms, "click", "a", None, None)


# Open impressions


def test_slots_of_an_id_stand_in_order_of_acceptance() -> None:
    held = three()
    assert held.slots_of("q") == (0, 1, 2)
    assert held.slots_of("other") == ()
    assert (len(held), held.next_slot) == (3, 3)


def test_a_list_comes_back_with_its_blanks() -> None:
    held = three()
    assert held.list_of(0) == ["a", None]


def test_a_closed_pane_takes_its_impressions_along() -> None:
    held = three()
    held.grades[0] = {0: (1, 1.0)}
    held.close_pane(0)
    assert held.slots_of("q") == (1,)
    assert [held.has_open(slot) for slot in range(4)] == [False, True, False, False]
    assert (len(held), held.panes(), held.grades) == (1, [10], {})


def test_an_id_is_forgotten_with_its_last_impression() -> None:
    held = three()
    held.close_pane(0)
    held.close_pane(10)
    assert held.slots_of("q") == ()
    assert (len(held), held.panes()) == (0, [])


def test_an_id_of_several_keeps_the_others_in_order() -> None:
    held = OpenImpressions()
    for pane in (0, 10, 20):
        add(held, pane=pane)
    held.close_pane(10)
    assert held.slots_of("q") == (0, 2)


def test_slots_go_by_pane() -> None:
    held = three()
    assert held.panes() == [0, 10]
    assert list(held.slots_in([10, 0])) == [1, 0, 2]


def test_a_slot_is_never_given_twice() -> None:
    held = three()
    held.close_pane(0)
    assert add(held, pane=20) == 3
    held.skip_to(10)
    assert add(held, pane=20) == 10


def test_skipping_back_does_nothing() -> None:
    held = three()
    held.skip_to(2)
    assert held.next_slot == 3


@pytest.mark.parametrize(("closed", "base"), [(4095, 0), (4096, 4096)])
def test_memory_is_given_back_when_it_is_worth_it(closed: int, base: int) -> None:
    held = OpenImpressions()
    for number in range(closed):
        add(held, f"q{number}", pane=0)
    last = add(held, "last", pane=10)
    held.close_pane(0)
    held.trim()
    assert (held.base, held.next_slot, held.slots_of("last")) == (base, closed + 1, (last,))
    assert held.has_open(last) and held.list_of(last) == ["a", None]


def test_an_older_pane_holds_the_slots_behind_it() -> None:
    held = OpenImpressions()
    add(held, "oldest", pane=30)
    for number in range(5000):
        add(held, f"q{number}", pane=10)
    held.close_pane(10)
    held.trim()
    assert (held.base, len(held)) == (0, 1)


def test_everything_closed_gives_all_memory_back() -> None:
    held = OpenImpressions()
    for number in range(5000):
        add(held, f"q{number}")
    held.close_pane(0)
    held.trim()
    assert (held.base, held.next_slot, len(held.times_ms)) == (5000, 5000, 0)
    assert add(held) == 5000


def test_empty_columns_may_begin_anywhere() -> None:
    held = OpenImpressions()
    held.start_at(7)
    assert (add(held), held.base, held.has_open(6)) == (7, 7, False)


# Waiting feedback


def test_serials_are_given_once() -> None:
    held = WaitingFeedback()
    assert [held.add(waiting(1)), held.add(waiting(1))] == [0, 1]
    held.remove(1)
    assert held.add(waiting(1)) == 2


def test_feedback_waits_by_impression_in_order_of_arrival() -> None:
    held = WaitingFeedback()
    for time_ms, of in ((5, "q"), (3, "p"), (1, "q")):
        held.add(waiting(time_ms, of))
    assert (held.of("q"), held.of("p"), held.of("x")) == ([0, 2], [1], [])


def test_the_oldest_are_taken_up_to_and_with_the_instant() -> None:
    held = WaitingFeedback()
    for time_ms in (30, 10, 20):
        held.add(waiting(time_ms))
    assert [one.time_ms for one in held.take_older(20)] == [10, 20]
    assert (len(held), held.of("q")) == (1, [0])
    assert not list(held.take_older(29))


def test_what_joined_does_not_die_later() -> None:
    held = WaitingFeedback()
    held.add(waiting(10))
    held.remove(0)
    assert not list(held.take_older(99))
    assert held.of("q") == []


def test_feedback_put_back_keeps_its_serial() -> None:
    held = WaitingFeedback()
    held.put(7, waiting(10))
    assert (held.of("q"), held.next_serial) == ([7], 0)
    assert [one.time_ms for one in held.take_older(10)] == [10]
