"""When a process may join its consumer group: once it can serve, and the group is one of its Redis.

A group belongs to the Redis that has the state of its offsets. The namespace has an id there, made
by its first worker, and the group carries it (see `kafka.group_redis`): a process whose Redis has
another one, or none, stays out. After a real loss the id comes back: from the workers that are in
the group and know it, within seconds. Where none is left, a process takes the group over by itself
only if its Redis lost the id or is empty, and stands where that of the group stood; else an
operator decides (`relevanced lane take-group`).
"""

import asyncio
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from ..backoff import pause_s, stopped_within
from ..config import Config
from ..errors import OtherRedis, Unavailable
from ..kafka import GroupState, Obstructed, belong_together, group_state, other_redis, take_group
from ..storage import Namespace, address_of
from ..telemetry import ADVICE, NoteFault
from .layout_in_force import RedisAnswer

if TYPE_CHECKING:
    from ..kafka import KafkaSettings, KafkaSource

log = structlog.get_logger(__name__)

KEEP_EVERY_S: Final = 2.0
"""How often a worker compares the id in Redis with its own, and puts it back after a loss."""


@dataclass(frozen=True)
class OwnRedis:
    """What the Redis of this process says of the namespace."""

    known_id: str | None
    has_lanes: bool
    """Whether any lane has begun there."""
    address: str

    @property
    def note(self) -> str:
        """What this process says to the group."""
        return f"{self.known_id or ''} {self.address}"


def decision(own: OwnRedis, group: GroupState) -> str:
    """Whether to "join" the group, to "take" it over and then join, or to "stay out".

    >>> empty = OwnRedis(None, False, "redis:6379/0")
    >>> decision(empty, GroupState())
    'join'
    >>> decision(empty, GroupState("a1 redis:6379/0", has_offsets=True))
    'take'
    >>> begun_after_the_loss = OwnRedis(None, True, "redis:6379/0")
    >>> decision(begun_after_the_loss, GroupState("a1 redis:6379/0", has_offsets=True))
    'take'
    >>> decision(empty, GroupState("a1 redis:6379/0", has_offsets=True, members=1))
    'stay out'
    >>> decision(empty, GroupState(members=1))
    'stay out'
    """
    if own.known_id is None and group.members:
        # Those in the group know its id, and put it back within seconds where this Redis lost it.
        # Another id, made here meanwhile, would keep everybody out.
        return "stay out"
    if not group.note:
        # Offsets without a note are of an older release: they are ours where the lanes are.
        is_ours = not group.has_offsets or own.has_lanes or own.known_id is not None
        return "join" if is_ours else "stay out"
    if own.known_id is not None and belong_together(own.note, group.note):
        return "join"
    # Nobody in the group knows the id any more, and the state is gone: begin with what Kafka has.
    # Lanes without an id began after the loss; who began them ended before the id was back.
    stands_there = own.address == group.note.partition(" ")[2]
    is_lost = own.known_id is None or not own.has_lanes
    may_take = stands_there and is_lost and not group.members
    return "take" if may_take else "stay out"


class Joining:
    """Finds out whether this process may be in its group, and sees to it that it still may."""

    def __init__(
        self,
        config: Config,
        namespace: Namespace,
        note: NoteFault,
        show: Callable[[str | None], None],
    ) -> None:
        """`show` is told why it stays out, as in the series, and None once it does not."""
        self.refusal = ""
        """Why it stays out; empty where it does not."""
        self.obstacle: str | None = None
        """Why Kafka does not say to whom the group belongs."""
        self._namespace = namespace
        self._note = note
        self._show = show
        self._address = address_of(config.redis.url.reveal())

    def refuse(self, error: OtherRedis) -> None:
        """Stay out for now."""
        if self.refusal != str(error):
            self._note("other_redis")
            log.error(
                "this group belongs to another Redis",
                reason=str(error),
                advice=ADVICE["other_redis"],
            )
        self.refusal = str(error)
        self._show("other_redis")

    def _wait_for(self, error: Obstructed) -> None:
        if self.obstacle != str(error):
            fault = error.obstacle.fault
            self._note(fault)
            log.warning("waiting for Kafka", reason=str(error), advice=ADVICE[fault])
        self.obstacle = str(error)

    async def allowed(
        self, settings: "KafkaSettings", redis: RedisAnswer, stop: asyncio.Event
    ) -> str | None:
        """Return the note with which this process joins, once it may; None where it is to stop
        before."""
        failures = 0
        while not stop.is_set():
            try:
                note = await self._ask(settings)
                self.refusal, self.obstacle = "", None
                redis.answers()
                return note
            except OtherRedis as error:
                self.refuse(error)
            except Obstructed as error:
                self._wait_for(error)
            except Unavailable as error:
                redis.note(error)
            failures += 1
            await stopped_within(stop, pause_s(failures, random.random()))
        return None

    async def _ask(self, settings: "KafkaSettings") -> str:
        """Return the note. Raises OtherRedis, Unavailable."""
        group = await group_state(settings)
        own = await self.own()
        decided = decision(own, group)
        if decided == "stay out":
            raise other_redis(settings.group_id, group.note, own.note)
        note = await self.make_note()
        if decided == "take":
            await take_group(settings, note)
            log.error(
                "Redis lost the id of this namespace, and nobody is left who knew it: this worker"
                " goes on with what Redis and Kafka have",
                group=settings.group_id,
                before=group.note,
                now=note,
            )
        return note

    async def own(self) -> OwnRedis:
        """Ask this process's Redis. Raises Unavailable."""
        known_id, begun = await self._namespace.known_id(), await self._namespace.begun()
        return OwnRedis(known_id, bool(begun), self._address)

    async def make_note(self) -> str:
        """Return the note of this process's Redis, which has an id from now on. Raises
        Unavailable."""
        own_id, _ = await self._namespace.keep_id(secrets.token_hex(4))
        return OwnRedis(own_id, True, self._address).note

    async def keep(self, source: "KafkaSource", settings: "KafkaSettings", note: str) -> None:
        """Put the id back where Redis lost it, and let the source leave the group where Redis is
        another one now. Ends then."""
        own_id = note.split()[0]
        while True:
            try:
                found, was_lost = await self._namespace.keep_id(own_id)
            except Unavailable:
                found, was_lost = own_id, False
            if was_lost:
                log.error("Redis lost the id of this namespace, which has it again", id=own_id)
            if found != own_id:
                here = OwnRedis(found, True, self._address).note
                source.refuse(other_redis(settings.group_id, note, here))
                return
            await asyncio.sleep(KEEP_EVERY_S)
