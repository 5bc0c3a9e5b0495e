"""The client's name of a topic-partition, with the types that the client does not ship, and the
lane that it belongs to. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..lane import log_name, place_of

__all__ = ["Division", "Logs", "place_in", "TopicPartition"]

if TYPE_CHECKING:

    class TopicPartition(NamedTuple):
        """Partition number `partition` of `topic`."""

        topic: str
        partition: int

else:
    from aiokafka import TopicPartition

Logs: TypeAlias = Mapping[TopicPartition, str]
"""Topic-partitions of one lane, and the names by which it knows their logs."""


@dataclass(frozen=True)
class Division:
    """How topic-partitions make lanes: partition n of every topic is lane n, or all are one."""

    is_one: bool = False

    def lane_of(self, place: TopicPartition) -> int:
        """The lane of a topic-partition."""
        return 0 if self.is_one else place.partition

    def logs_of(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """The names of some topic-partitions in their lanes."""
        return {place: log_name(*place) if self.is_one else place.topic for place in places}

    def count(self, partitions: int) -> int:
        """The number of lanes of topics with so many partitions."""
        return min(partitions, 1) if self.is_one else partitions


def place_in(lane: int, log: str) -> TopicPartition:
    """The topic-partition of a log of this lane."""
    return TopicPartition(*place_of(lane, log))
