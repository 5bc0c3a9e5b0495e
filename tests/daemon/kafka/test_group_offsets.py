"""The offsets that a member tells its group: hints, which reach it also where no record follows."""

import asyncio
from collections.abc import Mapping

import pytest
from aiokafka.errors import KafkaError

from relevanced.daemon.kafka import AssignedLanes, TopicPartition, member

PLACE = TopicPartition("search", 0)


class Group:
    """A consumer whose commits meet these answers, one after the other: "refused", "silent" or
    "accepted"; the last one for ever."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.offsets: dict[TopicPartition, int] = {}

    async def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "refused":
            raise KafkaError("the group rebalances")
        if answer == "silent":
            await asyncio.Event().wait()
        self.offsets |= {place: offset for place, (offset, _) in offsets.items()}


@pytest.fixture(autouse=True)
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relevanced.daemon.kafka.member.HINT_INTERVAL_S", 0.0)


def one_lane() -> tuple[AssignedLanes, member.GroupOffsets]:
    lanes = AssignedLanes(["search"])
    lanes.assign([PLACE])
    return lanes, member.GroupOffsets(lanes)


async def commits(group: Group, offsets: member.GroupOffsets, asked: int) -> None:
    """Commit what is pending as polls do, until the group was asked so often."""
    for _ in range(20):
        offsets.commit_pending(group)
        await asyncio.sleep(0)
    assert group.asked == asked


async def test_offsets_that_the_group_refused_are_committed_again_without_a_record() -> None:
    (_, offsets), group = one_lane(), Group("refused", "refused", "accepted")
    offsets.note({PLACE: 7})
    await commits(group, offsets, 3)
    assert group.offsets == {PLACE: 7}


async def test_newer_offsets_win_over_those_that_the_group_refused() -> None:
    (_, offsets), group = one_lane(), Group("silent", "accepted")
    offsets.note({PLACE: 7})
    await commits(group, offsets, 1)
    offsets.note({PLACE: 8})
    await offsets.close(group, 1.0)
    assert group.offsets == {PLACE: 8}


async def test_a_member_that_leaves_during_a_commit_commits_the_same_once_more() -> None:
    (_, offsets), group = one_lane(), Group("silent", "accepted")
    offsets.note({PLACE: 7})
    await commits(group, offsets, 1)
    await offsets.close(group, 1.0)
    assert group.offsets == {PLACE: 7}


async def test_offsets_of_a_former_assignment_are_not_committed_again() -> None:
    (lanes, offsets), group = one_lane(), Group("silent", "accepted")
    offsets.note({PLACE: 7})
    await commits(group, offsets, 1)
    lanes.assign([PLACE])
    await offsets.close(group, 1.0)
    assert group.offsets == {}
