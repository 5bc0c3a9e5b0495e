"""To which Redis a consumer group belongs: members say it when they join, and with each offset that
they commit.

The offsets of a group are those of the state in one Redis. A process with another one would read
the lanes into a place that nobody looks at. What a note says is `ID ADDRESS`: the id of the
namespace in that Redis, and where that is.
"""

from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, for_code

from ..errors import OtherRedis, Unavailable
from .assignor import UNKNOWN
from .client import KafkaSettings, client_arguments, stop_client
from .refusals import Obstructed, obstacle_of


def other_redis(group_id: str, theirs: str, own: str) -> OtherRedis:
    """The error of a process whose Redis is not that of its group; `own` and `theirs` are notes."""
    place, here = _words(theirs, "that has its lanes, which are not here"), _words(
        own, "which has no id yet"
    )
    return OtherRedis(
        f"this group belongs to another Redis: consumer group {group_id} belongs to the Redis"
        f" {place}, and that of this process is the one {here}"
    )


def _words(note: str, unknown: str) -> str:
    its_id, _, address = note.partition(" ")
    return f"at {address} ({f'id {its_id}' if its_id else unknown})" if address else unknown


@dataclass(frozen=True)
class GroupState:
    """What a consumer group says to those outside it."""

    note: str = UNKNOWN
    """That of the first of its partitions which has one."""
    has_offsets: bool = False
    members: int = 0


async def group_state(settings: KafkaSettings) -> GroupState:
    """Ask for the group of these settings. Raises Obstructed."""
    admin: Any = AIOKafkaAdminClient(**client_arguments(settings))
    try:
        await admin.start()
        stored = await _stored(admin, settings)
        (answer,) = await admin.describe_consumer_groups([settings.group_id])
        code, *_, members = _first_group(answer)
        if code:
            raise for_code(code)(settings.group_id)
    except (KafkaError, OSError) as error:
        raise Obstructed(await obstacle_of(settings, error)) from error
    finally:
        await stop_client(admin.close())
    notes = [stored[place].metadata for place in sorted(stored, key=lambda p: (p[1], p[0]))]
    first = next((note for note in notes if note), UNKNOWN)
    return GroupState(first, any(at.offset > 0 for at in stored.values()), len(members))


async def _stored(admin: Any, settings: KafkaSettings) -> dict[Any, Any]:
    """Partition → its offset and note, of the input topics."""
    found = await admin.list_consumer_group_offsets(settings.group_id)
    return {p: at for p, at in found.items() if p.topic in settings.topics and at.offset >= 0}


def _first_group(answer: Any) -> list[Any]:
    """(error code, group, state, protocol type, protocol, members) of a description."""
    return list(answer.groups[0][:6])


async def take_group(settings: KafkaSettings, note: str) -> None:
    """Let a group without members belong to another Redis: its offsets stay as they are. Raises
    Unavailable, also where it has members."""
    admin: Any = AIOKafkaAdminClient(**client_arguments(settings))
    consumer: Any = AIOKafkaConsumer(
        **client_arguments(settings), group_id=settings.group_id, enable_auto_commit=False
    )
    try:
        await admin.start()
        if stored := await _stored(admin, settings):
            await consumer.start()
            consumer.assign(list(stored))
            await consumer.commit({place: (at.offset, note) for place, at in stored.items()})
    except (KafkaError, OSError) as error:
        raise Unavailable(
            f"consumer group {settings.group_id} cannot be taken: {type(error).__name__}: {error}"
        ) from error
    finally:
        await stop_client(consumer.stop())
        await stop_client(admin.close())
