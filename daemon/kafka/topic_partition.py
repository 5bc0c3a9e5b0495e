"""The client's name of a topic-partition, with the types that the client does not ship. Pure."""

from typing import TYPE_CHECKING, NamedTuple

__all__ = ["TopicPartition"]

if TYPE_CHECKING:

    class TopicPartition(NamedTuple):
        """Partition number `partition` of `topic`."""

        topic: str
        partition: int

else:
    from aiokafka import TopicPartition
