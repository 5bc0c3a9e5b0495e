"""Reads the sources of the stage of `lanes = "rekey"`: one bad batch holds back no other source."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from ..telemetry import ADVICE, NoteFault
from .aiokafka_patches import unpacking_aside
from .partitions import Record
from .topic_partition import TopicPartition
from .topics import fault_of

POLL_MS: Final = 200
MOST_RECORDS: Final = 2_000
ALONE_S: Final = 30.0
ALONE_RECORDS: Final = 500

Polled: TypeAlias = Mapping[TopicPartition, Sequence[Record]]


class Unreadable(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """A batch cannot be unpacked."""


class StageReader:
    """Polls the consumer of the stage. After an error each source is read alone for a while."""

    def __init__(self, note: NoteFault) -> None:
        self._note = note
        self._alone_until_s = 0.0
        self.unreadable: dict[TopicPartition, str] = {}
        """Why sources must stop, once what the last poll returned of them is sent."""

    async def poll(self, consumer: Any, sources: Collection[TopicPartition]) -> Polled:
        """Return what sources have. Raises KafkaError: then all must begin anew."""
        self.unreadable.clear()
        if time.monotonic() >= self._alone_until_s:
            return await self._together(consumer)
        await asyncio.sleep(POLL_MS / 1000)
        consumer._coordinator.check_errors()
        return {place: await self._alone(consumer, place) for place in list(sources)}

    async def _together(self, consumer: Any) -> Polled:
        try:
            with unpacking_aside(consumer):
                polled = await consumer.getmany(timeout_ms=POLL_MS, max_records=MOST_RECORDS)
                return cast(Polled, polled)
        except OffsetOutOfRangeError:
            raise
        except Exception as error:  # whatever a codec, a checksum or the coordinator raises
            self._alone_until_s = time.monotonic() + ALONE_S
            if isinstance(error, KafkaError):
                raise
            raise Unreadable(f"{type(error).__name__}: {error}") from error

    async def _alone(self, consumer: Any, place: TopicPartition) -> Sequence[Record]:
        """Return records of one source, and note whether it cannot be read after them."""
        taken = list[Record]()
        try:
            with unpacking_aside(consumer):
                # One by one: an error loses none of the good records before it.
                while len(taken) < ALONE_RECORDS and (
                    fetched := await consumer.getmany(place, max_records=1)
                ):
                    taken += fetched[place]
        except OffsetOutOfRangeError:
            raise
        except Exception as error:
            fault = fault_of(error)
            self._note(fault)
            self.unreadable[place] = f"{type(error).__name__}: {error}. {ADVICE[fault]}"
        return taken
