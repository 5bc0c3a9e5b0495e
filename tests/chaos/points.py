"""Faults at named points of a worker's work, which its requests reveal: the worker is killed
there, or its commit is withheld and delivered later."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeAlias

from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.protocol.api import RequestHeader_v1
from aiokafka.protocol.produce import ProduceRequest

from relevanced.daemon.storage import CLAIM, COMMIT, Script
from tests.chaos.configuration import LAYOUTS
from tests.chaos.proxy import Moment, Proxy, Trap, kafka_api
from tests.chaos.round import Round
from tests.chaos.schedule import Fault
from tests.chaos.stage import Slot

Matches: TypeAlias = Callable[[bytes], bool]

LANE_HEAD: Final = re.compile(rb"\{[^{}]+:\d+\}:head")
STAGE: Final = re.compile(rb"\{[^{}]+:\d+\}:stage:\w+:\d+:")
TRAP_PATIENCE_S: Final = 15.0
REFUSALS: Final = 5
REFUSED: Final = TopicAuthorizationFailedError.errno


def script(of: Script) -> Matches:
    """A predicate: whether a request runs this script."""
    digest, text = of.digest.encode(), of.text.encode()
    return lambda request: digest in request or text in request


def staging(request: bytes) -> bool:
    """Whether a request stages a part of a commit."""
    return request.startswith(b"*") and b":stage:" in request and b"\r\nSET\r\n" in request


PRODUCING: Final = kafka_api(0)
"""Only stages do."""
COMMITTING_OFFSETS: Final = kafka_api(8)
JOINING: Final = kafka_api(11)
CLAIMING: Final = script(CLAIM)
COMMITTING: Final = script(COMMIT)


def changing(request: bytes) -> bool:
    """Whether a request is the commit by which a lane goes to another layout, or begins."""
    return COMMITTING(request) and b"layouts\r\n" in request


def target(round: Round, fault: Fault) -> Slot:
    """The slot that the fault affects: one with a running worker, if there is any."""
    running = [slot for slot in round.slots if slot.running and not slot.frozen]
    return running[fault.worker % len(running)] if running else round.slots[0]


async def restart_after(round: Round, slot: Slot, after_s: float) -> None:
    await asyncio.sleep(after_s)
    if slot.number in round.active:
        round.start_worker(slot)


async def kill_at(
    round: Round,
    fault: Fault,
    *,
    matches: Matches,
    moment: Moment,
    kafka: bool = False,
    late: bool = False,
    on_restart: bool = False,
) -> bool:
    """Kill a worker at the point of its work that a request reveals. `late`: the request is
    withheld and delivered after another worker owns the lane. `on_restart`: the worker is
    restarted first."""
    slot = target(round, fault)
    proxy = slot.kafka if kafka else slot.redis
    caught: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def act(request: bytes) -> None:
        slot.kill()
        caught.set_result(request)

    if on_restart:
        slot.kill()
    proxy.trap = Trap(matches, moment, act)
    if on_restart:
        await restart_after(round, slot, fault.lasts_s)
    struck = await in_time(caught)
    if not struck:
        proxy.trap = None
    elif late:
        await asyncio.gather(
            restart_after(round, slot, fault.lasts_s),
            deliver_to_successor(round, whole_commit(proxy, caught.result())),
        )
    await restart_after(round, slot, fault.lasts_s)
    return struck


async def kill_while_changing(
    round: Round, fault: Fault, *, moment: Moment, late: bool = False
) -> bool:
    """Start a worker again with a layout that is new, and kill the first worker that takes a lane
    to it. `late` as for `kill_at`."""
    new = [number for number in range(len(LAYOUTS)) if number not in round.deployed]
    if not new:
        return False
    slot = target(round, fault)
    round.deploy(slot.number, new[0])
    caught: asyncio.Future[tuple[Slot, bytes]] = asyncio.get_running_loop().create_future()
    slot.kill()
    for each in round.slots:
        each.redis.trap = Trap(changing, moment, partial(_strike, caught, each))
    await restart_after(round, slot, fault.lasts_s)
    struck = await in_time(caught)
    for each in round.slots:
        each.redis.trap = None
    if not struck:
        return False
    killed, request = caught.result()
    restarting = restart_after(round, killed, fault.lasts_s)
    if late:
        commit = whole_commit(killed.redis, request)
        await asyncio.gather(restarting, deliver_to_successor(round, commit))
    else:
        await restarting
    return True


def _strike(caught: "asyncio.Future[tuple[Slot, bytes]]", slot: Slot, request: bytes) -> None:
    if not caught.done():
        slot.kill()
        caught.set_result((slot, request))


def whole_commit(proxy: Proxy, commit: bytes) -> list[bytes]:
    """The requests of a commit: its staged parts, and the script that publishes them."""
    stage = STAGE.search(commit)
    parts = [r for r in proxy.recent if stage is not None and stage[0] in r and staging(r)]
    return [*parts, commit]


async def deliver_to_successor(round: Round, commit: list[bytes]) -> None:
    """Deliver the commit when another worker owns the lane, just before its first commit."""
    head = LANE_HEAD.search(commit[-1])
    assert head is not None, commit[-1][:200]
    delivered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def act(_: bytes) -> None:
        await round.slots[0].redis.deliver(commit)
        if not delivered.done():
            delivered.set_result(None)

    for slot in round.slots:
        slot.redis.trap = Trap(lambda r: COMMITTING(r) and head[0] in r, "delayed", act)
    await in_time(delivered)
    for slot in round.slots:
        slot.redis.trap = None


async def in_time(caught: "asyncio.Future[Any]") -> bool:
    """Whether the trap was triggered in time."""
    await asyncio.wait({caught}, timeout=TRAP_PATIENCE_S)
    return caught.done()


async def double_commit(round: Round, fault: Fault) -> bool:
    """Withhold a commit until its sender has given up and sent it again; then deliver the first
    copy."""
    proxy = target(round, fault).redis
    caught: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    proxy.trap = Trap(COMMITTING, "withheld", caught.set_result)
    if not await in_time(caught):
        proxy.trap = None
        return False
    copy = whole_commit(proxy, caught.result())
    await asyncio.sleep(fault.lasts_s)
    await proxy.deliver(copy)
    return True


@contextmanager
def trapped(
    round: Round, moment: Moment, act: Callable[[Slot, bytes], bytes | None]
) -> Iterator[None]:
    """With a trap for what the stage of any worker sends, where no other trap is set."""
    traps = {
        slot.number: Trap(PRODUCING, moment, partial(act, slot))
        for slot in round.slots
        if slot.kafka.trap is None
    }
    for number, trap in traps.items():
        round.slots[number].kafka.trap = trap
    try:
        yield
    finally:
        for number, trap in traps.items():
            if round.slots[number].kafka.trap is trap:
                round.slots[number].kafka.trap = None


async def refuse_sent(round: Round, fault: Fault) -> bool:
    """Refuse what stages send, some times, as a broker does that takes away a permission and gives
    it back. What is sent after it is early, until a stage begins anew."""
    refused: list[bytes] = []
    deadline_s = time.monotonic() + TRAP_PATIENCE_S

    def refuse(slot: Slot, request: bytes) -> bytes:
        refused.append(request)
        return refusal_of(request)

    while len(refused) < REFUSALS and time.monotonic() < deadline_s:
        with trapped(round, "refused", refuse):
            await asyncio.sleep(fault.lasts_s / REFUSALS)
    return bool(refused)


def refusal_of(request: bytes) -> bytes:
    """The answer that refuses all of a request to produce."""
    body = BytesIO(request[4:])
    _, version, correlation_id, _ = RequestHeader_v1.SCHEMA.decode(body)
    kind: Any = ProduceRequest._CLASSES[version]
    *_, produced = kind.SCHEMA.decode(body)
    topics = [
        (topic, [(partition, REFUSED, -1, -1, -1) for partition, _ in parts])
        for topic, parts in produced
    ]
    whole = correlation_id.to_bytes(4, "big") + kind.RESPONSE_TYPE(topics, 0).encode()
    return len(whole).to_bytes(4, "big") + whole


async def send_late(round: Round, fault: Fault, *, kill: bool) -> bool:
    """Deliver what a stage sent once more, or what one sent that was killed then, when others have
    its sources."""
    caught: asyncio.Future[tuple[Slot, bytes]] = asyncio.get_running_loop().create_future()

    def act(slot: Slot, request: bytes) -> None:
        if not caught.done():
            if kill:
                slot.kill()
            caught.set_result((slot, request))

    with trapped(round, "withheld" if kill else "sent", act):
        struck = await in_time(caught)
    if not struck:
        return False
    slot, request = caught.result()
    await asyncio.sleep(fault.lasts_s)
    await slot.kafka.deliver([request])
    if kill:
        await restart_after(round, slot, 0)
    return True
