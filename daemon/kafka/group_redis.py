"""To which Redis a consumer group belongs, and which member gets all partitions, where they are one
lane: members say when they join to which Redis they belong, and whether they have that lane. The
former is also said with each offset that they commit.

The offsets of a group are those of the state in one Redis. A process with another one would read
the lanes into a place that nobody looks at. What a note says is `ID ADDRESS`: the id of the
namespace in that Redis, and where that is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka.errors import KafkaError, for_code

from ..errors import OtherRedis, Unavailable
from .client import KafkaSettings, client_arguments, stop_client
from .refusals import Obstructed, obstacle_of
from .topic_partition import Division

UNKNOWN: Final = ""
"""The note of a process, or an offset, that names no Redis: of a tool, or an older release."""


def belong_together(note: str, other: str) -> bool:
    """Whether two notes may be of one Redis: their ids are the same, or one is not known."""
    return UNKNOWN in (note, other) or note.split()[0] == other.split()[0]


def other_redis(group_id: str, theirs: str, own: str) -> OtherRedis:
    """The error of a process whose Redis is not that of its group; `own` and `theirs` are notes."""
    place, here = _words(theirs, "that has its lanes, which are not here"), _words(
        own, "which has no id yet"
    )
    return OtherRedis(
        f"this group belongs to another Redis: consumer group {group_id} belongs to the Redis"
        f" {place}, and that of this process is the one {here}"
    )


def _words(note: str, unknown: str) -> str:
    its_id, _, address = note.partition(" ")
    return f"at {address} ({f'id {its_id}' if its_id else unknown})" if address else unknown


_HAS_LANES: Final = "\nhas the lane"
"""Follows the note of a member to which all partitions are assigned."""


class OneRedisAssignor(RangePartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Assigns by range, or all to one, among the members of the leader's Redis alone. A member of
    another one gets no lane, and is told why."""

    def __init__(self, note: str, division: Division = Division()) -> None:
        self.note = note
        self.division = division
        self.met = UNKNOWN
        """The note of the leader that left this member without lanes."""
        self._has_lanes = False

    def metadata(self, topics: Any) -> ConsumerProtocolMemberMetadata:
        """What this process says of itself when it joins."""
        note = self.note + (_HAS_LANES if self.division.is_one and self._has_lanes else "")
        return ConsumerProtocolMemberMetadata(self.version, list(topics), note.encode())

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """Assign, as the leader, the partitions to the members that may belong to its Redis: all to
        the one that had them, else to that of the least id, where they are one lane."""
        ours = {m: said for m, said in members.items() if belong_together(self.note, _note(said))}
        if self.division.is_one and ours:
            chosen = min(ours, key=lambda m: (not _said(ours[m]).endswith(_HAS_LANES), m))
            ours = {chosen: ours[chosen]}
        assigned = RangePartitionAssignor.assign(cluster, ours)
        return {
            member: ConsumerProtocolMemberAssignment(
                self.version,
                assigned[member].assignment if member in assigned else [],
                self.note.encode(),
            )
            for member in members
        }

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Note whether the leader is of another Redis."""
        self._has_lanes = bool(assignment.assignment)
        leader = _note(assignment)
        self.met = UNKNOWN if belong_together(self.note, leader) else leader


def _said(said: Any) -> str:
    return (said.user_data or b"").decode(errors="replace")


def _note(said: Any) -> str:
    return _said(said).removesuffix(_HAS_LANES).strip()


@dataclass(frozen=True)
class GroupState:
    """What a consumer group says to those outside it."""

    note: str = UNKNOWN
    """That of the first of its partitions which has one."""
    has_offsets: bool = False
    members: int = 0


async def group_state(settings: KafkaSettings) -> GroupState:
    """Ask for the group of these settings. Raises Obstructed."""
    admin: Any = AIOKafkaAdminClient(**client_arguments(settings))
    try:
        await admin.start()
        stored = await _stored(admin, settings)
        (answer,) = await admin.describe_consumer_groups([settings.group_id])
        code, *_, members = _first_group(answer)
        if code:
            raise for_code(code)(settings.group_id)
    except (KafkaError, OSError) as error:
        raise Obstructed(await obstacle_of(settings, error)) from error
    finally:
        await stop_client(admin.close())
    notes = [stored[place].metadata for place in sorted(stored, key=lambda p: (p[1], p[0]))]
    first = next((note for note in notes if note), UNKNOWN)
    return GroupState(first, any(at.offset > 0 for at in stored.values()), len(members))


async def _stored(admin: Any, settings: KafkaSettings) -> dict[Any, Any]:
    """Partition → its offset and note, of the input topics."""
    found = await admin.list_consumer_group_offsets(settings.group_id)
    return {p: at for p, at in found.items() if p.topic in settings.topics and at.offset >= 0}


def _first_group(answer: Any) -> list[Any]:
    """(error code, group, state, protocol type, protocol, members) of a description."""
    return list(answer.groups[0][:6])


async def take_group(settings: KafkaSettings, note: str) -> None:
    """Let a group without members belong to another Redis: its offsets stay as they are. Raises
    Unavailable, also where it has members."""
    admin: Any = AIOKafkaAdminClient(**client_arguments(settings))
    consumer: Any = AIOKafkaConsumer(
        **client_arguments(settings), group_id=settings.group_id, enable_auto_commit=False
    )
    try:
        await admin.start()
        if stored := await _stored(admin, settings):
            await consumer.start()
            consumer.assign(list(stored))
            await consumer.commit({place: (at.offset, note) for place, at in stored.items()})
    except (KafkaError, OSError) as error:
        raise Unavailable(
            f"consumer group {settings.group_id} cannot be taken: {type(error).__name__}: {error}"
        ) from error
    finally:
        await stop_client(consumer.stop())
        await stop_client(admin.close())
