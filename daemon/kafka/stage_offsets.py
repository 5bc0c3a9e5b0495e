"""Where the stage of `lanes = "rekey"` goes on: what its group stores, compared with what is there.

Beside the offset of each source, the group stores with the stage's own topic the ids of the input
topics, of which Kafka deletes the offsets with the topic, and among how many partitions events are
divided. Where a source begins is stored for all of them before the first message of all is sent: a
source without an offset later on is a new partition, or was forgotten by the group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiokafka.structs import OffsetAndMetadata

from ..config import Start
from ..errors import StartError, Unavailable
from ..lane import WAY_OUT, log_name
from ..storage import LogMark
from ..worker import LogChanged, state_in
from .aiokafka_patches import client_of
from .offsets import resume_offset
from .resuming import ids_by_leader, log_bounds, require_same_topic, starting_offsets
from .topic_partition import TopicPartition

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
) -> Beginnings:
    """Find out where to begin with these sources; `own` are the partitions of the topic of the
    stage, and `start` is where sources begin before anything was sent. Raises Unavailable."""
    # Before what is stored: whoever sent something has stored where all began.
    used = sum(map(bool, (await log_bounds(consumer, own))[1].values()))
    bounds = await log_bounds(consumer, places)
    ids = await _ids_of(consumer, places)  # after the bounds: see `topic_ids`
    coordinator = consumer._coordinator
    found = await coordinator.fetch_committed_offsets([*places, own[0]])
    stored = {p: (at.offset, at.metadata) for p, at in found.items() if at.offset >= 0}
    noted = _read(stored.pop(own[0], None))
    new = dict[TopicPartition, OffsetAndMetadata]()
    if noted is None and not used:
        every = [
            TopicPartition(t, n) for t in topics for n in consumer.partitions_for_topic(t) or ()
        ]
        # Where the topic of the stage was created again, others have stored how far they are.
        known = await coordinator.fetch_committed_offsets(every)
        unknown = {place for place in every if place not in known or known[place].offset < 0}
        logs = {place: log_name(*place) for place in unknown}
        first = await starting_offsets(consumer, logs, start, now_ms)
        new = {place: OffsetAndMetadata(first[log], "") for place, log in logs.items()}
        stored |= {p: (at.offset, "") for p, at in new.items()}
    if any(stored.get(place, (0, ""))[0] > bounds[1][place] for place in places):
        # They have grown since: what is stored is of another process, or of `latest` just now.
        bounds = await log_bounds(consumer, places)
        ids = await _ids_of(consumer, places)
    before = noted or Noted(used or len(own))  # marks went to all partitions among which it was
    if before.partitions > len(own):
        raise Unavailable(
            f"topic {own[0].topic} has {len(own)} partitions, and events were divided among"
            f" {before.partitions}: it was deleted and created again. {WAY_OUT}"
        )
    now = Noted(before.partitions, {**ids, **before.ids})
    await store_note(consumer, own, now, new)
    begins, stopped = dict[TopicPartition, Begin](), dict[TopicPartition, str]()
    for place in places:
        at = bounds[0][place], bounds[1][place]
        topic = place.topic
        try:
            begins[place] = begin_of(
                place, stored.get(place), at, now.ids.get(topic), ids.get(topic)
            )
        except StartError as error:
            stopped[place] = str(error)
    return Beginnings(now, begins, stopped, bounds[1])


async def _ids_of(consumer: Any, places: Iterable[TopicPartition]) -> dict[str, str]:
    """Topic → its id; empty where the cluster has none."""
    asked = [TopicPartition(topic, 0) for topic in dict.fromkeys(place.topic for place in places)]
    found = await ids_by_leader(client_of(consumer), asked)
    return {place.topic: topic_id for place, topic_id in found.items()}


async def store_note(
    consumer: Any,
    own: Sequence[TopicPartition],
    noted: Noted,
    new: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
) -> None:
    """Store this with the group, and `new` offsets beside it."""
    note = {own[0]: OffsetAndMetadata(0, msgspec.json.encode(noted).decode())}
    assignment = consumer._subscription.subscription.assignment
    await consumer._coordinator.commit_offsets(assignment, {**(new or {}), **note})


def _read(stored: tuple[int, str] | None) -> Noted | None:
    """What the group stores; None where that is nothing, or no note: tools that reset offsets leave
    none."""
    try:
        return None if stored is None else msgspec.json.decode(stored[1], type=Noted)
    except msgspec.MsgspecError:
        return None


def begin_of(
    place: TopicPartition,
    stored: tuple[int, str] | None,
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
