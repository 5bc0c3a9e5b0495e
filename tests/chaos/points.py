"""Named points of a worker's work, met by the requests that show them: a worker is killed there, or
its commit is kept and comes late."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from relevanced.daemon.storage.redis.lane_store import CLAIM, COMMIT, Script
from tests.chaos.proxy import Moment, Proxy, Trap, kafka_api
from tests.chaos.round import Round
from tests.chaos.schedule import Fault
from tests.chaos.stage import Slot

Matches: TypeAlias = Callable[[bytes], bool]

LANE_HEAD: Final = re.compile(rb"\{[^{}]+:\d+\}:head")
STAGE: Final = re.compile(rb"\{[^{}]+:\d+\}:stage:\w+:\d+:")
TRAP_PATIENCE_S: Final = 15.0


def script(of: Script) -> Matches:
    """Whether a request runs this script."""
    digest, text = of.digest.encode(), of.text.encode()
    return lambda request: digest in request or text in request


def staging(request: bytes) -> bool:
    """Whether a request stages a part of a commit."""
    return request.startswith(b"*") and b":stage:" in request and b"\r\nSET\r\n" in request


OFFSETS_TOLD: Final = kafka_api(8)
JOINING: Final = kafka_api(11)
CLAIMING: Final = script(CLAIM)
COMMITTING: Final = script(COMMIT)


def aim(round: Round, fault: Fault) -> Slot:
    """The worker that is meant: one that runs, where there is one."""
    running = [slot for slot in round.slots if slot.running and not slot.frozen]
    return running[fault.worker % len(running)] if running else round.slots[0]


async def back_again(round: Round, slot: Slot, after_s: float) -> None:
    await asyncio.sleep(after_s)
    if slot.number in round.wanted:
        round.start_worker(slot)


async def kill_at(
    round: Round,
    fault: Fault,
    *,
    matches: Matches,
    moment: Moment,
    kafka: bool = False,
    late: bool = False,
    anew: bool = False,
) -> bool:
    """SIGKILL at a point of the worker's work that its request shows. `late`: the request is kept,
    and comes when others own the lane. `anew`: the point is met by a worker that begins."""
    slot = aim(round, fault)
    proxy = slot.kafka if kafka else slot.redis
    caught: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def spring(request: bytes) -> None:
        slot.kill()
        caught.set_result(request)

    if anew:
        slot.kill()
    proxy.trap = Trap(matches, moment, spring)
    if anew:
        await back_again(round, slot, fault.lasts_s)
    struck = await in_time(caught)
    if not struck:
        proxy.trap = None
    elif late:
        await asyncio.gather(
            back_again(round, slot, fault.lasts_s),
            deliver_to_successor(round, whole_commit(proxy, caught.result())),
        )
    await back_again(round, slot, fault.lasts_s)
    return struck


def whole_commit(proxy: Proxy, commit: bytes) -> list[bytes]:
    """The requests of a commit: its staged parts, and the script that publishes them."""
    stage = STAGE.search(commit)
    parts = [r for r in proxy.recent if stage is not None and stage[0] in r and staging(r)]
    return [*parts, commit]


async def deliver_to_successor(round: Round, commit: list[bytes]) -> None:
    """Deliver it when another worker owns the lane, just before that one's first commit."""
    head = LANE_HEAD.search(commit[-1])
    assert head is not None, commit[-1][:200]
    delivered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def spring(_: bytes) -> None:
        await round.slots[0].redis.deliver(commit)
        if not delivered.done():
            delivered.set_result(None)

    for slot in round.slots:
        slot.redis.trap = Trap(lambda r: COMMITTING(r) and head[0] in r, "delayed", spring)
    await in_time(delivered)
    for slot in round.slots:
        slot.redis.trap = None


async def in_time(caught: "asyncio.Future[Any]") -> bool:
    """Whether the trap was sprung."""
    await asyncio.wait({caught}, timeout=TRAP_PATIENCE_S)
    return caught.done()


async def double_commit(round: Round, fault: Fault) -> bool:
    """The sender gives up, and sends again; the first copy arrives after that."""
    proxy = aim(round, fault).redis
    caught: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    proxy.trap = Trap(COMMITTING, "held", caught.set_result)
    if not await in_time(caught):
        proxy.trap = None
        return False
    copy = whole_commit(proxy, caught.result())
    await asyncio.sleep(fault.lasts_s)
    await proxy.deliver(copy)
    return True
