"""One process's membership in the consumer group: joining, what a rebalance gives and takes,
leaving.

A rebalance takes everything and then gives anew (aiokafka knows no other kind). What it gives is
paused before a record can pass; reading begins when a lane is opened. What it takes, it takes when
the batch in hand is done.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from ..telemetry.kafka_faults import ADVICE, NoteFault, not_noted
from .client import KafkaSettings, consumer_arguments, end
from .lanes import LaneBook

RETRY_PAUSE_S: Final = 1.0

logger = structlog.get_logger(__name__)


class GroupMember:
    """Holds the consumer, and keeps the book of lanes as the group decides."""

    def __init__(
        self, settings: KafkaSettings, book: LaneBook, note: NoteFault = not_noted
    ) -> None:
        self.consumer: Any = None
        self.rebalancing_since_s: float | None = time.monotonic()
        """Since when no assignment is known, or the one that is known is being taken."""
        self._settings = settings
        self._book = book
        self._note = note
        self._in_hand = 0
        self._hands_free = asyncio.Event()
        self._hands_free.set()
        self._change: asyncio.Future[None] | None = None
        self._partial_said: dict[int, list[str]] = {}

    @property
    def rebalancing(self) -> bool:
        """Whether lanes may neither be opened nor read."""
        return self.rebalancing_since_s is not None

    async def join(self) -> None:
        """Connect, waiting for the cluster, and ask for a place in the group; it comes while
        polling.
        """
        consumer = await self._connected()
        self.rebalancing_since_s = time.monotonic()
        self.consumer = consumer
        consumer.subscribe(topics=self._settings.topics, listener=_Listener(self, consumer))

    async def leave(self) -> None:
        """Give the lanes to others, now. Time-bounded."""
        consumer, self.consumer = self.consumer, None
        self._book.revoke()
        if consumer is not None:
            await end(_stop(consumer))

    def change(self) -> "asyncio.Future[None]":
        """Done when lanes were given or taken since the last call."""
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
        """A rebalance begins."""
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
            self._book.revoke()
            self._wake()

    def assign(self, consumer: Any, assigned: Iterable[TopicPartition]) -> None:
        """A rebalance ended. These are paused."""
        if consumer is not self.consumer:
            return
        self._book.assign((place.topic, place.partition) for place in assigned)
        self.rebalancing_since_s = None
        self._wake()
        logger.info("lanes assigned", lanes=sorted(self._book.whole))
        if self._book.partial and self._book.partial != self._partial_said:
            self._note("partly_assigned")
            logger.warning(
                "lanes wait: not all their topic-partitions are assigned here",
                lanes_and_missing_topics=self._book.partial,
                advice=ADVICE["partly_assigned"],
            )
        self._partial_said = self._book.partial

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def _connected(self) -> Any:
        said = False
        while True:
            consumer = AIOKafkaConsumer(
                **consumer_arguments(self._settings),
                # One assignor: with several, aiokafka joins several times. Range: it gives equal
                # partition numbers of all topics to one member.
                partition_assignment_strategy=(RangePartitionAssignor,),
            )
            started = False
            try:
                await consumer.start()
                started = True
                return consumer
            except KafkaError as error:
                if not said:
                    logger.warning("waiting for Kafka", reason=str(error))
                said = True
            finally:
                if not started:
                    await end(_stop(consumer))
            await asyncio.sleep(RETRY_PAUSE_S)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """What aiokafka calls; it would log and forget whatever is raised here."""

    def __init__(self, member: GroupMember, consumer: Any) -> None:
        self._member = member
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._member.revoke(self._consumer)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        # First of all, and without awaiting anything: records may come as soon as this loop turns.
        self._consumer.pause(*assigned)
        for place in assigned:
            # Somewhere to stand; else the client asks the group for a place, and fails where there
            # is none.
            self._consumer.seek(place, 0)
        self._member.assign(self._consumer, assigned)


async def _stop(consumer: Any) -> None:
    try:
        await consumer.stop()
    finally:
        # A fetch that is waiting to be retried breaks `stop` off before it closes the connections.
        await consumer._client.close()
