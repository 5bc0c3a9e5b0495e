"""Which lanes are whole, which are open, and what a rebalance does to them."""

from aiokafka import TopicPartition

from relevanced.daemon.kafka import AssignedLanes, Division, split_lanes

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_lane_is_whole_with_all_its_topics() -> None:
    assert split_lanes([A0, B0, A1], ["a", "b"], Division()) == (frozenset({0}), {1: ["b"]})
    assert split_lanes([], ["a"], Division())[0] == frozenset()


def test_revoked_lanes_are_lost_once_and_closed_ones_never() -> None:
    lanes = AssignedLanes(["a"])
    lanes.assign([A0, A1])
    lanes.open(0, {"a": 5})
    lanes.open(1, {"a": 7})
    lanes.close(1, lost=False)
    lanes.revoke()
    assert lanes.take_lost() == {0} and lanes.take_lost() == set()
    assert lanes.next_offset == {} and lanes.open_lanes == set()


def test_assigned_again_is_to_be_opened_again() -> None:
    lanes = AssignedLanes(["a", "b"])
    lanes.assign([A0, B0])
    assert lanes.to_open() == {0}
    lanes.open(0, {"a": 5, "b": 6})
    assert lanes.to_open() == set() and lanes.next_offset == {A0: 5, B0: 6}
    before = lanes.generation
    lanes.assign([A0, B0, A1])
    assert lanes.take_lost() == {0} == lanes.to_open()
    assert lanes.generation > before and lanes.missing_topics == {1: ["b"]}
