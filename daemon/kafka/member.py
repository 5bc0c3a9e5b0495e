"""One process's membership in the consumer group: joining, rebalances, leaving.

A rebalance revokes all partitions and then assigns anew (aiokafka has no incremental kind). What is
assigned is paused before a record can pass, and is read once its lane is opened. What is revoked is
revoked when the batch in hand is done.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from ..telemetry import ADVICE, NoteFault, ignore_fault
from . import aiokafka_patches
from .assigned_lanes import AssignedLanes
from .assignor import UNKNOWN, OneRedisAssignor
from .client import KafkaSettings, consumer_arguments, stop_client
from .refusals import obstacle_of
from .topic_ids import Fence, fetch_by_id
from .topic_partition import TopicPartition

RETRY_PAUSE_S: Final = 1.0

logger = structlog.get_logger(__name__)


class GroupMember:
    """Owns the consumer, and keeps `lanes` as the group assigns them."""

    def __init__(
        self,
        settings: KafkaSettings,
        lanes: AssignedLanes,
        fence: Fence,
        note: NoteFault = ignore_fault,
    ) -> None:
        """`fence`: what is fetched by topic id, see `topic_ids`."""
        self.consumer: Any = None
        self.assignor = OneRedisAssignor(UNKNOWN, settings.division)
        self.rebalancing_since_s: float | None = time.monotonic()
        """Since when there is no assignment, or the present one is being revoked; else None."""
        self._settings = settings
        self._lanes = lanes
        self._fence = fence
        self._note = note
        self._in_hand = 0
        self._hands_free = asyncio.Event()
        self._hands_free.set()
        self._change: asyncio.Future[None] | None = None
        self._missing_logged: dict[int, list[str]] = {}

    @property
    def rebalancing(self) -> bool:
        """Whether lanes may neither be opened nor read."""
        return self.rebalancing_since_s is not None

    async def join(self, note: str) -> None:
        """Connect, waiting for the cluster, and ask to join the group as one of the Redis of this
        note; the assignment comes while polling.
        """
        self.assignor = OneRedisAssignor(note, self._settings.division)
        consumer = await self._connected()
        self.rebalancing_since_s = time.monotonic()
        self.consumer = consumer
        consumer.subscribe(topics=self._settings.topics, listener=_Listener(self, consumer))

    async def leave(self) -> None:
        """Leave the group, so that others take over the lanes now. Time-bounded."""
        consumer, self.consumer = self.consumer, None
        self._lanes.revoke()
        if consumer is not None:
            await stop_client(aiokafka_patches.stop(consumer))

    def change(self) -> "asyncio.Future[None]":
        """Return a future that is done when lanes are assigned or revoked after this call, or were
        since the last.
        """
        change = self._change
        if change is None or change.done():
            self._change = asyncio.get_running_loop().create_future()
        return change or self.change()

    @asynccontextmanager
    async def batch_in_hand(self) -> AsyncIterator[None]:
        """Inside, a rebalance waits for the end of the block, for at most a third of the session
        timeout. Several tasks may be inside.
        """
        self._in_hand += 1
        self._hands_free.clear()
        try:
            yield
        finally:
            self._in_hand -= 1
            if not self._in_hand:
                self._hands_free.set()

    async def revoke(self, consumer: Any) -> None:
        """Revoke all lanes when the batch in hand is done, as a rebalance begins."""
        if consumer is not self.consumer:
            return
        self.rebalancing_since_s = time.monotonic()
        patience_s = self._settings.revoke_patience_s
        try:
            async with asyncio.timeout(patience_s):
                while self._in_hand:  # a step that ends may be followed at once by the next
                    await self._hands_free.wait()
        except TimeoutError:
            logger.warning("rebalance did not wait for the batch in hand", patience_s=patience_s)
        if consumer is self.consumer:
            self._lanes.revoke()
            self._wake()

    def assign(self, consumer: Any, assigned: Iterable[TopicPartition]) -> None:
        """Take over what a rebalance assigned, all of it paused."""
        if consumer is not self.consumer:
            return
        self._lanes.assign(assigned)
        self.rebalancing_since_s = None
        self._wake()
        logger.info("lanes assigned", lanes=sorted(self._lanes.whole))
        if self._lanes.missing_topics and self._lanes.missing_topics != self._missing_logged:
            self._note("partly_assigned")
            logger.warning(
                "lanes wait: not all their topic-partitions are assigned here",
                lanes_and_missing_topics=self._lanes.missing_topics,
                advice=ADVICE["partly_assigned"],
            )
        self._missing_logged = self._lanes.missing_topics

    def read_from(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these topic-partitions, which were paused, from these offsets on."""
        for topic_partition, offset in positions.items():
            self.consumer.seek(topic_partition, offset)
        self.consumer.resume(*positions)

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def _connected(self) -> Any:
        logged = False
        while True:
            consumer = AIOKafkaConsumer(
                **consumer_arguments(self._settings),
                # One assignor: with several, aiokafka joins several times. Range: it assigns equal
                # partition numbers of all topics to one member, and all to the only one.
                partition_assignment_strategy=(self.assignor,),
            )
            started = False
            try:
                await consumer.start()
                fetch_by_id(aiokafka_patches.client_of(consumer), self._fence)
                started = True
                return consumer
            except KafkaError as error:
                if not logged:
                    obstacle = await obstacle_of(self._settings, error)
                    self._note(obstacle.fault)
                    advice = ADVICE[obstacle.fault]
                    logger.warning("waiting for Kafka", reason=obstacle.reason, advice=advice)
                logged = True
            finally:
                if not started:
                    await stop_client(aiokafka_patches.stop(consumer))
            await asyncio.sleep(RETRY_PAUSE_S)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """What aiokafka calls in a rebalance; it would log and forget whatever is raised here."""

    def __init__(self, member: GroupMember, consumer: Any) -> None:
        self._member = member
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._member.revoke(self._consumer)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        # First of all, and without awaiting anything: records may come as soon as this loop turns.
        # Where something was awaited first, records were delivered from the old positions, and then
        # again after the seek.
        self._consumer.pause(*assigned)
        for topic_partition in assigned:
            # Any position will do; without one, the client asks the group for a committed offset,
            # and fails where there is none.
            self._consumer.seek(topic_partition, 0)
        self._member.assign(self._consumer, assigned)


HINT_INTERVAL_S: Final = 5.0
COMMIT_PATIENCE_S: Final = 5.0
"""aiokafka's commit has no deadline of its own: it tries until the coordinator answers."""


class GroupOffsets:
    """Commits offsets to the group: hints for lag tools in the background, one at a time; proofs of
    membership on request.

    Offsets in the group decide nothing (the ones that count are stored with the state they
    produced). But a commit that the coordinator accepts shows that this process is still a member.
    """

    def __init__(self, lanes: AssignedLanes) -> None:
        self.redis = UNKNOWN
        """What is committed with each offset: to which Redis it belongs."""
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
                offsets = _known_offsets(assigned, self._durable) or await _committed(
                    consumer, assigned[0]
                )
                await consumer.commit(self._noted(offsets))
        except (KafkaError, TimeoutError) as error:
            logger.info("membership not confirmed", error=str(error) or "no answer in time")
            return False
        return True

    def _take_pending(self) -> dict[TopicPartition, int]:
        self._forget_former_assignment()
        offsets = _known_offsets(self._lanes.assigned, self._pending)
        self._pending.clear()
        return offsets

    def _noted(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, str]]:
        return {place: (offset, self.redis) for place, offset in offsets.items()}

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
        generation, is_committed = self._generation, False
        try:
            async with asyncio.timeout(patience_s):
                await consumer.commit(self._noted(offsets))
            self._failed, is_committed = False, True
        except (KafkaError, TimeoutError) as error:
            # Nothing depends on it: logged once, so that an empty lag tool has an explanation.
            log = logger.debug if self._failed else logger.info
            log(
                "offsets not committed to the consumer group",
                error=str(error) or "no answer in time",
            )
            self._failed = True
        finally:
            # Also where `close` cancels it. A quiet topic gives no later offsets.
            if not is_committed and generation == self._lanes.generation:
                self._pending = {**offsets, **self._pending}


def _known_offsets(
    topic_partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {tp: offsets[tp] for tp in topic_partitions if tp in offsets}


async def _committed(consumer: Any, topic_partition: TopicPartition) -> dict[TopicPartition, int]:
    """Return what the group has for a topic-partition: committing it again changes nothing."""
    return {topic_partition: await consumer.committed(topic_partition) or 0}
