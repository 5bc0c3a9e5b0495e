"""All partitions as one lane: who gets it, how its logs are named, and which of them are idle."""

from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition

from relevanced.daemon.kafka import AssignedLanes, Division, IdleLogs, OneRedisAssignor

ONE = Division(is_one=True)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
CLUSTER = SimpleNamespace(partitions_for_topic=lambda topic: {"a": {0, 1}, "b": {0}}[topic])


def assigned(**members: OneRedisAssignor) -> dict[str, Any]:
    """Member → what the least of them assigns to it, and tells it."""
    said = {name: one.metadata(["a", "b"]) for name, one in members.items()}
    found = members[min(members)].assign(CLUSTER, said)
    for name, one in members.items():
        one.on_assignment(found[name])
    return {name: of.assignment for name, of in found.items() if of.assignment}


def test_one_member_gets_all_and_keeps_it_until_it_leaves() -> None:
    b, c = OneRedisAssignor("id1 here", ONE), OneRedisAssignor("id1 here", ONE)
    everything = [("a", [0, 1]), ("b", [0])]
    assert assigned(b=b, c=c) == {"b": everything}
    a = OneRedisAssignor("id1 here", ONE)
    assert assigned(a=a, b=b, c=c) == {"b": everything}
    assert assigned(a=a, c=c) == {"a": everything}
    other = OneRedisAssignor("id2 there", ONE)
    assert assigned(a=a, b=other) == {"a": everything}
    assert other.met == "id1 here" and not a.met, "the mark of who has the lane is no part of it"


def test_by_partition_nobody_says_whether_it_has_lanes() -> None:
    a, b = OneRedisAssignor("id1 here"), OneRedisAssignor("id1 here")
    assert assigned(a=a, b=b) == {"a": [("a", [0]), ("b", [0])], "b": [("a", [1]), ("b", [])]}
    assert a.metadata(["a"]).user_data == b"id1 here"


def test_a_lane_of_all_partitions_is_whole_with_every_topic() -> None:
    lanes = AssignedLanes(["b", "a"], ONE)
    lanes.assign([A0, A1])
    assert not lanes.whole and lanes.missing_topics == {0: ["b"]}
    lanes.assign([A1, A0, B0])
    assert lanes.whole == {0} and lanes.logs(0) == {B0: "b/0", A0: "a/0", A1: "a/1"}
    lanes.open(0, {"a/0": 5, "a/1": 6, "b/0": 7})
    assert lanes.positions(0) == {A0: 5, A1: 6, B0: 7}


def test_a_log_is_idle_that_was_at_the_same_end_for_long() -> None:
    idle = IdleLogs(60)
    assert not idle.find({A0: 5, A1: 0}, 100)
    assert not idle.find({A0: 5, A1: 0}, 159)
    assert idle.find({A0: 6, A1: 0}, 160) == {A1}, "one got a record"
    assert not idle.find({A0: 6}, 161)
    assert not idle.find({A0: 6, A1: 0}, 219), "of which the end was not seen for a while"
    assert idle.find({A0: 6, A1: 0}, 220) == {A0}


def test_no_log_is_idle_where_all_are_waited_for() -> None:
    idle = IdleLogs(0)
    idle.find({A0: 5}, 0)
    assert not idle.find({A0: 5}, 1e9)
