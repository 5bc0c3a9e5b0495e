"""Where the stage of `lanes = "rekey"` goes on: what its group stores, compared with what is there.

Beside the offset of each source, the group stores with the stage's own topic a note: the ids of the
input topics, of which Kafka deletes the offsets with the topic, and among how many partitions
events are divided. Before anything is sent, one process stores where all sources begin, as of one
instant, with the first note. So a source without an offset later on is a new partition, or was
forgotten by the group.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import structlog
from aiokafka.structs import OffsetAndMetadata

from ..config import Start
from ..errors import StartError, Unavailable
from ..lane import WAY_OUT, log_name
from ..storage import LogMark
from ..worker import LogChanged, state_in
from .aiokafka_patches import client_of
from .resuming import (
    ids_by_leader,
    in_time,
    log_bounds,
    no_coordinator,
    require_same_topic,
    resume_offset,
    starting_offsets,
)
from .topic_partition import TopicPartition

Stored: TypeAlias = tuple[int, str]
"""The offset of a source that the group stores, and the metadata with it."""

logger = structlog.get_logger(__name__)


class Noted(msgspec.Struct, frozen=True):
    """What the group stores with the topic of the stage."""

    partitions: int
    """Among so many of its partitions events are divided. It may have got more since."""
    ids: dict[str, str] = {}
    """Input topic → id."""


@dataclass(frozen=True)
class Begin:
    """Where a source is read on."""

    offset: int
    metadata: str = ""
    lost_from: int | None = None
    """From where on the log has nothing left before the offset."""
    life: str = ""
    """The id of the topic."""


@dataclass(frozen=True)
class Beginnings:
    """Where sources are read on."""

    noted: Noted
    begins: Mapping[TopicPartition, Begin]
    stopped: Mapping[TopicPartition, str]
    """Why others are not."""
    ends: Mapping[TopicPartition, int]
    """The ends of all of their logs."""

    @property
    def offsets(self) -> dict[str, int]:
        """Source, as people read it → where it is read on."""
        return {place_text(place): at.offset for place, at in self.begins.items()}


def place_text(place: TopicPartition) -> str:
    """The name of a source for people."""
    return f"{place.topic}[{place.partition}]"


async def beginnings(
    consumer: Any,
    places: Sequence[TopicPartition],
    topics: Sequence[str],
    own: Sequence[TopicPartition],
    start: Start,
    now_ms: int,
    are_ours: Callable[[], bool],
) -> Beginnings | None:
    """Find out where to begin with these sources; None: nothing is to be sent yet, as the process
    that has `first_of(topics)` has not stored where all begin, or this one has them no more.

    `own` are the partitions of the topic of the stage, `start` is where sources begin before
    anything was sent, and `are_ours` says whether the group still assigns the sources to this
    process. Raises Unavailable.
    """
    # Before what is stored: whoever sent something has stored where all began.
    used = sum(map(bool, (await log_bounds(consumer, own))[1].values()))
    # Before that too: a topic that is created again from here on has another id below.
    ids_before = await _ids_of(consumer, places)
    stored, noted = await _stored(consumer, places, own)
    new = dict[TopicPartition, int]()
    if noted is None and not used:
        every = _every(consumer, topics)
        if every is None or first_of(topics) not in places:
            return None
        ids_before = await _ids_of(consumer, every)
        new = await _first_offsets(consumer, every, own, start, now_ms)
        stored |= {place: (new[place], "") for place in places if place in new}
    # Marks went to all partitions among which events were divided.
    before = noted or Noted(used or len(own))
    if before.partitions > len(own):
        raise Unavailable(
            f"topic {own[0].topic} has {len(own)} partitions, and events were divided among"
            f" {before.partitions}: it was deleted and created again. {WAY_OUT}"
        )
    noted = Noted(before.partitions, {**ids_before, **before.ids})
    if not are_ours():  # who has them now may have stored where they begin, and sent them since
        return None
    await store_note(consumer, own, noted, new)
    # After what is stored: an offset of a log that grows would be beyond an end of before.
    starts, ends = await log_bounds(consumer, places)
    ids = await _ids_of(consumer, places)  # after the bounds: see `topic_ids`
    begins, stopped = dict[TopicPartition, Begin](), dict[TopicPartition, str]()
    for place in places:
        known_id, topic_id = noted.ids.get(place.topic), ids.get(place.topic)
        bounds = starts[place], ends[place]
        try:
            begins[place] = begin_of(place, stored[place], bounds, known_id, topic_id)
        except StartError as error:
            stopped[place] = str(error)
    return Beginnings(noted, begins, stopped, ends)


def first_of(topics: Iterable[str]) -> TopicPartition:
    """The source whose process stores where all sources begin."""
    return TopicPartition(min(topics), 0)


def _every(consumer: Any, topics: Iterable[str]) -> list[TopicPartition] | None:
    """All sources; None while a topic has no partition yet."""
    numbers = {topic: consumer.partitions_for_topic(topic) or () for topic in topics}
    if not all(numbers.values()):
        return None
    return [TopicPartition(topic, number) for topic in numbers for number in numbers[topic]]


async def _first_offsets(
    consumer: Any,
    every: Sequence[TopicPartition],
    own: Sequence[TopicPartition],
    start: Start,
    now_ms: int,
) -> dict[TopicPartition, int]:
    """Where sources begin of which the group knows nothing. It knows how far all are where the
    topic of the stage was created again."""
    stored, _ = await _stored(consumer, every, own)
    logs = {place: log_name(*place) for place, at in stored.items() if at is None}
    first = await starting_offsets(consumer, logs, start, now_ms)
    return {place: first[log] for place, log in logs.items()}


async def _stored(
    consumer: Any, places: Iterable[TopicPartition], own: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, Stored | None], Noted | None]:
    """What the group stores of each source, and its note."""
    asked = consumer._coordinator.fetch_committed_offsets([*places, own[0]])
    found = await in_time(asked, no_coordinator)
    stored = {place: (at.offset, at.metadata) for place, at in found.items() if at.offset >= 0}
    return {place: stored.get(place) for place in places}, _read(stored.get(own[0]))


async def _ids_of(consumer: Any, places: Iterable[TopicPartition]) -> dict[str, str]:
    """Topic → its id; empty where the cluster has none."""
    asked = [TopicPartition(topic, 0) for topic in dict.fromkeys(place.topic for place in places)]
    found = await ids_by_leader(client_of(consumer), asked)
    return {place.topic: topic_id for place, topic_id in found.items()}


async def store_note(
    consumer: Any,
    own: Sequence[TopicPartition],
    noted: Noted,
    new: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> None:
    """Store this with the group, and in the same step where `new` sources begin."""
    note = OffsetAndMetadata(0, msgspec.json.encode(noted).decode())
    offsets = {place: OffsetAndMetadata(offset, "") for place, offset in new.items()}
    assignment = consumer._subscription.subscription.assignment
    stored = {**offsets, own[0]: note}
    await in_time(consumer._coordinator.commit_offsets(assignment, stored), no_coordinator)


def _read(stored: Stored | None) -> Noted | None:
    """What the group stores; None where that is nothing, or no note: tools that reset offsets leave
    none."""
    try:
        return None if stored is None else msgspec.json.decode(stored[1], type=Noted)
    except msgspec.MsgspecError:
        return None


def begin_of(
    place: TopicPartition,
    stored: Stored | None,
    bounds: tuple[int, int],
    known_id: str | None,
    topic_id: str | None,
) -> Begin:
    """Where a source is read on that was read up to this offset, with this state; None: nobody
    knows of it. Its log has these bounds, and its topic this id. Raises StartError where that is
    not the log that was sent: lanes would take its first records for ones that they have."""
    offset, metadata = stored or (0, "")
    try:
        read = max(offset, state_in(metadata).read)
    except msgspec.MsgspecError as error:
        raise StartError(f"its group stores no state of it: {error}. {WAY_OUT}") from error
    try:
        require_same_topic(place, offset, LogMark(known_id), topic_id)
        found, _ = resume_offset(place, offset, *bounds, topic_id)
    except LogChanged as error:
        raise StartError(f"{error.why} {WAY_OUT}") from error
    gone = max(found - read, 0)
    if gone and stored is not None:
        logger.error(
            "records lost before they were read",
            topic=place.topic,
            partition=place.partition,
            records=gone,
        )
    return Begin(found, metadata, read if gone else None, topic_id or "")
