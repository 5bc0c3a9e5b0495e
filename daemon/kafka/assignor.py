"""Which member of a consumer group gets which partitions: by range, or one of them all, where they
are one lane; a member of another Redis gets none."""

from collections.abc import Mapping
from typing import Any, Final

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

from .topic_partition import Division

UNKNOWN: Final = ""
"""The note of a process, or an offset, that names no Redis: of a tool, or an older release."""


def belong_together(note: str, other: str) -> bool:
    """Whether two notes may be of one Redis: their ids are the same, or one is not known."""
    return UNKNOWN in (note, other) or note.split()[0] == other.split()[0]


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
