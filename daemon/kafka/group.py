"""Commits offsets to the consumer group: as hints for lag tools, and as a proof of membership.

Offsets in the group decide nothing (the ones that count are stored with the state they produced).
But a commit that the coordinator accepts shows that this process is still a member.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError

from .assigned_lanes import AssignedLanes
from .topic_partition import TopicPartition

HINT_INTERVAL_S: Final = 5.0
COMMIT_PATIENCE_S: Final = 5.0
"""aiokafka's commit has no deadline of its own: it tries until the coordinator answers."""

logger = structlog.get_logger(__name__)


class GroupOffsets:
    """Commits to the group: hints in the background, one at a time; proofs on request."""

    def __init__(self, lanes: AssignedLanes) -> None:
        self._lanes = lanes
        self._generation = lanes.generation
        self._pending: dict[TopicPartition, int] = {}
        self._durable: dict[TopicPartition, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._last_s = -HINT_INTERVAL_S
        self._failed = False
        self._proof: asyncio.Task[bool] | None = None
        self._next_proof: asyncio.Task[bool] | None = None
        self._unproven_since_s: float | None = None

    def note(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep these offsets for the next commit."""
        self._forget_former_assignment()
        self._pending.update(offsets)
        self._durable.update(offsets)

    def commit_pending(self, consumer: Any) -> None:
        """Begin a commit of what is pending, at most every HINT_INTERVAL_S. Never waits."""
        now_s = time.monotonic()
        busy = self._task is not None and not self._task.done()
        if busy or now_s - self._last_s < HINT_INTERVAL_S:
            return
        offsets = self._take_pending()
        if offsets:
            self._last_s = now_s
            self._task = asyncio.create_task(self._hint(consumer, offsets, COMMIT_PATIENCE_S))

    async def close(self, consumer: Any, patience_s: float) -> None:
        """Stop, and commit what is pending within `patience_s`."""
        tasks = {task for task in (self._task, self._proof, self._next_proof) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._proof = self._next_proof = None
        offsets = self._take_pending()
        if offsets:
            await self._hint(consumer, offsets, patience_s)

    async def proves_membership(self, consumer: Any) -> bool:
        """Whether the coordinator accepted a commit that was sent after this call began. Calls
        during one commit share the next.
        """
        if self._next_proof is None:
            self._next_proof = asyncio.create_task(self._prove_after(self._proof, consumer))
        return await asyncio.shield(self._next_proof)

    async def _prove_after(self, before: "asyncio.Task[bool] | None", consumer: Any) -> bool:
        if before is not None:
            await asyncio.wait({before})
        self._proof, self._next_proof = self._next_proof, None
        proven = await self._prove(consumer)
        if proven or not self._lanes.assigned:
            self._unproven_since_s = None
        elif self._unproven_since_s is None:
            self._unproven_since_s = time.monotonic()
        return proven

    @property
    def unproven_since_s(self) -> float | None:
        """When the group first did not confirm the present assignment; None while it does."""
        self._forget_former_assignment()
        return self._unproven_since_s

    async def _prove(self, consumer: Any) -> bool:
        self._forget_former_assignment()
        assigned = sorted(self._lanes.assigned)
        if not assigned:
            return False
        try:
            async with asyncio.timeout(COMMIT_PATIENCE_S):
                offsets = _of(assigned, self._durable) or await _committed(consumer, assigned[0])
                await consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            logger.info("membership not confirmed", error=str(error) or "no answer in time")
            return False
        return True

    def _take_pending(self) -> dict[TopicPartition, int]:
        self._forget_former_assignment()
        offsets = _of(self._lanes.assigned, self._pending)
        self._pending.clear()
        return offsets

    def _forget_former_assignment(self) -> None:
        """After a rebalance others may have committed more than this process knows of."""
        if self._generation != self._lanes.generation:
            self._generation = self._lanes.generation
            self._pending.clear()
            self._durable.clear()
            self._unproven_since_s = None

    async def _hint(
        self, consumer: Any, offsets: Mapping[TopicPartition, int], patience_s: float
    ) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await consumer.commit(dict(offsets))
            self._failed = False
        except (KafkaError, TimeoutError) as error:
            # Nothing depends on it: logged once, so that an empty lag tool has an explanation.
            log = logger.debug if self._failed else logger.info
            log(
                "offsets not committed to the consumer group",
                error=str(error) or "no answer in time",
            )
            self._failed = True


def _of(
    topic_partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {tp: offsets[tp] for tp in topic_partitions if tp in offsets}


async def _committed(consumer: Any, topic_partition: TopicPartition) -> dict[TopicPartition, int]:
    """Return what the group has for a topic-partition: committing it again changes nothing."""
    return {topic_partition: await consumer.committed(topic_partition) or 0}
