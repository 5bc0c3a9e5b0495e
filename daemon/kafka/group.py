"""The consumer group's side of the Kafka door: committed offsets as hints for lag tools, and the
proof of membership.

Offsets in the group decide nothing (the ones that count are stored with the state they produced).
But a commit that the coordinator accepts shows that the group still counts this member in.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from .lanes import LaneBook, Place

HINT_INTERVAL_S: Final = 5.0
COMMIT_PATIENCE_S: Final = 5.0
"""aiokafka's commit has no deadline of its own: it tries until the coordinator answers."""

logger = structlog.get_logger(__name__)


class GroupOffsets:
    """Commits to the group: hints in the background, one at a time; proofs when asked for."""

    def __init__(self, book: LaneBook) -> None:
        self._book = book
        self._generation = book.generation
        self._pending: dict[Place, int] = {}
        self._known: dict[Place, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._last_s = -HINT_INTERVAL_S
        self._failed = False
        self._proof: asyncio.Task[bool] | None = None
        self._next_proof: asyncio.Task[bool] | None = None
        self._unproven_since_s: float | None = None

    def note(self, offsets: Mapping[Place, int]) -> None:
        """These may be told to the group at the next occasion."""
        self._forget_the_past()
        self._pending.update(offsets)
        self._known.update(offsets)

    def tell(self, consumer: Any) -> None:
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
        """Tell the last hints, if that is quickly done."""
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
        """Whether the coordinator accepted a commit that was sent after this call began. Calls that
        come while one is on its way share the next."""
        if self._next_proof is None:
            self._next_proof = asyncio.create_task(self._prove_after(self._proof, consumer))
        return await asyncio.shield(self._next_proof)

    async def _prove_after(self, before: "asyncio.Task[bool] | None", consumer: Any) -> bool:
        if before is not None:
            await asyncio.wait({before})
        self._proof, self._next_proof = self._next_proof, None
        proven = await self._prove(consumer)
        if proven or not self._book.assigned:
            self._unproven_since_s = None
        elif self._unproven_since_s is None:
            self._unproven_since_s = time.monotonic()
        return proven

    @property
    def unproven_since_s(self) -> float | None:
        """When the group first refused to confirm the assignment that this process believes in."""
        self._forget_the_past()
        return self._unproven_since_s

    async def _prove(self, consumer: Any) -> bool:
        self._forget_the_past()
        places = sorted(self._book.assigned)
        if not places:
            return False
        try:
            async with asyncio.timeout(COMMIT_PATIENCE_S):
                offsets = _commit(self._known, places) or await _current(consumer, places[0])
                await consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            logger.info("membership not confirmed", error=str(error) or "no answer in time")
            return False
        return True

    def _take_pending(self) -> dict[TopicPartition, int]:
        self._forget_the_past()
        offsets = _commit(self._pending, self._book.assigned)
        self._pending.clear()
        return offsets

    def _forget_the_past(self) -> None:
        """After a rebalance others may have told the group more than we know."""
        if self._generation != self._book.generation:
            self._generation = self._book.generation
            self._pending.clear()
            self._known.clear()
            self._unproven_since_s = None

    async def _hint(
        self, consumer: Any, offsets: Mapping[TopicPartition, int], patience_s: float
    ) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await consumer.commit(dict(offsets))
            self._failed = False
        except (KafkaError, TimeoutError) as error:
            # Nothing depends on it: said once, so that an empty lag tool has an explanation.
            say = logger.debug if self._failed else logger.info
            say("offsets not told to the consumer group", error=str(error) or "no answer in time")
            self._failed = True


def _commit(offsets: Mapping[Place, int], assigned: Iterable[Place]) -> dict[TopicPartition, int]:
    return {TopicPartition(*place): offsets[place] for place in assigned if place in offsets}


async def _current(consumer: Any, place: Place) -> dict[TopicPartition, int]:
    """What the group knows of a place already: committing it changes nothing."""
    partition = TopicPartition(*place)
    return {partition: await consumer.committed(partition) or 0}
