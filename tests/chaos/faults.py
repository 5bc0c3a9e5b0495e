"""The functions that carry out each kind of fault, and undo it. They return whether it occurred."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

import pytest

from relevanced.daemon.errors import Unavailable
from tests.chaos import losses, points
from tests.chaos.configuration import LAYOUTS
from tests.chaos.proxy import NetworkFaults
from tests.chaos.redis_pair import ENOUGH_MEMORY, LITTLE_MEMORY
from tests.chaos.round import Round
from tests.chaos.schedule import SHORT, Fault
from tests.chaos.served import dead
from tests.chaos.traffic import Listed
from tests.services import processes
from tests.services.redis_server import RedisServer, one_binary
from tests.silent_mount import silent_mount

Act: TypeAlias = Callable[[Round, Fault], Awaitable[bool]]

CLOCK_STEPS_S: Final = (-30 * 86_400.0, -3_600.0, -2.0, 2.0, 3_600.0, 30 * 86_400.0)
PROMOTION_LAG_S: Final = 0.7
STRAY_PATIENCE_S: Final = 10.0
ALIVE_PATIENCE_S: Final = 15.0


# Workers


async def kill_worker(round: Round, fault: Fault) -> bool:
    slot = points.target(round, fault)
    slot.kill()
    await points.restart_after(round, slot, fault.lasts_s)
    return True


async def freeze_worker(round: Round, fault: Fault) -> bool:
    slot = points.target(round, fault)
    slot.freeze()
    await asyncio.sleep(fault.lasts_s)
    slot.thaw()
    return True


async def leave(round: Round, fault: Fault) -> bool:
    slot = points.target(round, fault)
    await slot.leave()
    await points.restart_after(round, slot, fault.lasts_s)
    return True


async def change_layout(round: Round, fault: Fault, *, kill: bool) -> bool:
    """Start a worker again with a configuration of another layout, or of an earlier one."""
    slot = points.target(round, fault)
    round.deploy(slot.number, int(fault.fraction * len(LAYOUTS)))
    if kill:
        slot.kill()
    else:
        await slot.leave()
    await points.restart_after(round, slot, fault.lasts_s)
    return True


async def roll_back(round: Round, fault: Fault) -> bool:
    """Put in force a layout that was deployed, or that no worker has, while all workers go on."""
    try:
        async with round.redis.lock:
            await round.put_in_force(int(fault.fraction * len(LAYOUTS)))
    except Unavailable:
        return False
    return True


async def join(round: Round, fault: Fault) -> bool:
    """Start one more worker, which stays."""
    idle = [slot for slot in round.slots if slot.number not in round.active]
    if not idle:
        return await leave(round, fault)
    round.active.add(idle[0].number)
    round.start_worker(idle[0])
    return True


async def run_stray(round: Round, fault: Fault) -> bool:
    """Run a worker of the same group with an empty Redis of its own: it must take no lane."""
    async with round.redis.lock:
        await losses.wait_for_keys(round)
    server = RedisServer(one_binary(), round.directory / f"redis-stray-{fault.fraction}")
    await asyncio.to_thread(server.start)
    slot = points.target(round, fault)
    process = slot.spawn_stray(round.directory, round.config_at(slot, server.url))
    await asyncio.sleep(fault.lasts_s)
    await asyncio.to_thread(processes.end, process, signal.SIGKILL, patience_s=STRAY_PATIENCE_S)
    if server.call("KEYS *}:head") != "*0":
        round.problems.append("a stray worker has taken a lane")
    await asyncio.to_thread(server.kill)
    return True


async def list_file(round: Round, fault: Fault, *, directory: Callable[[Round], Listed]) -> bool:
    """List one more file, for an hour that nothing reaches."""
    async with round.files_lock:
        await asyncio.to_thread(directory(round).list_one_more)
    return True


async def hang_files(round: Round, fault: Fault) -> bool:
    """Let the directory of judgements not answer while a worker starts: its lanes wait, and it
    lives."""
    async with round.files_lock:
        try:
            with silent_mount(round.judgements.path):
                slot = points.target(round, fault)
                slot.kill()
                await points.restart_after(round, slot, SHORT[0])
                await asyncio.sleep(fault.lasts_s)
                if await dead(slot, ALIVE_PATIENCE_S):
                    round.problems.append(f"worker {slot.number} hangs with its files")
        except pytest.skip.Exception:
            return False
    return True


async def all_away(round: Round, fault: Fault) -> bool:
    for slot in round.slots:
        slot.kill()
    await asyncio.gather(
        *(points.restart_after(round, slot, fault.lasts_s) for slot in round.slots)
    )
    return True


async def step_clock(round: Round, fault: Fault) -> bool:
    async with round.clock_lock:
        slot = points.target(round, fault)
        slot.step_clock(CLOCK_STEPS_S[int(fault.fraction * len(CLOCK_STEPS_S))])
        await asyncio.sleep(fault.lasts_s)
        slot.step_clock(0.0)
    return True


async def disturb_registry(round: Round, fault: Fault) -> bool:
    """Let the registry answer with what is no schema. It may say that there is none, which is
    believed of records that are old by the clock of the worker."""
    registered = round.registered
    assert registered is not None
    async with round.clock_lock:
        asked = len(registered.server.asked)
        registered.disturb(fault.fraction)
        await asyncio.sleep(fault.lasts_s)
        registered.heal()
        return len(registered.server.asked) > asked


# Kafka


async def kill_broker(round: Round, fault: Fault) -> bool:
    broker = round.stage.broker
    async with round.stage.broker_lock:
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(fault.lasts_s)
        await asyncio.to_thread(broker.start)
    return True


async def freeze_broker(round: Round, fault: Fault) -> bool:
    async with round.stage.broker_lock:
        round.stage.broker.freeze()
        await asyncio.sleep(fault.lasts_s)
        round.stage.broker.thaw()
    return True


# Redis


async def kill_redis(round: Round, fault: Fault) -> bool:
    async with round.redis.lock:
        await round.redis.restart()
    return True


async def freeze_redis(round: Round, fault: Fault) -> bool:
    async with round.redis.lock:
        round.redis.master.freeze()
        await asyncio.sleep(fault.lasts_s)
        round.redis.master.thaw()
    return True


async def fill_redis(round: Round, fault: Fault) -> bool:
    async with round.redis.lock:
        round.redis.master.call(LITTLE_MEMORY)
        await asyncio.sleep(fault.lasts_s)
        round.redis.master.call(ENOUGH_MEMORY)
    return True


async def call_redis(round: Round, fault: Fault, *, command: str) -> bool:
    async with round.redis.lock:
        round.redis.master.call(command)
    return True


async def cut_log(round: Round, fault: Fault, *, near_end: bool) -> bool:
    async with round.redis.lock:
        await round.redis.cut_log(fault.fraction, near_end=near_end)
    return True


async def restore_copy(round: Round, fault: Fault) -> bool:
    async with round.redis.lock:
        round.redis.copy_log()
        await asyncio.sleep(fault.lasts_s)
        await round.redis.restore_copy()
    return True


async def lose_lane(round: Round, fault: Fault) -> bool:
    async with round.redis.lock:
        await losses.lose_lane(round, int(fault.fraction * round.places.lanes))
    return True


async def lose_keys(round: Round, fault: Fault, *, at_rest: bool) -> bool:
    """Remove random keys of random lanes. `at_rest`: no worker has them in memory."""
    async with round.redis.lock:
        await losses.wait_for_keys(round)
        for slot in round.slots if at_rest else ():
            slot.kill()
        lost = await losses.lose_keys(round, fault.fraction)
    if at_rest:
        slots = (points.restart_after(round, slot, fault.lasts_s) for slot in round.slots)
        await asyncio.gather(*slots)
    return lost > 0


async def promote(round: Round, fault: Fault, *, kill: bool) -> bool:
    """Promote the replica. If the old master keeps running, the workers switch one by one."""
    async with round.redis.lock:
        if not await round.redis.promote(lag_s=PROMOTION_LAG_S, kill=kill):
            return False
        for slot in round.slots:
            if not kill:
                await asyncio.sleep(fault.lasts_s / len(round.slots))
            await slot.redis.switch(round.redis.master.port)
    return True


async def move_slots(round: Round, fault: Fault) -> bool:
    """Move the slots of all lanes, one after the other."""
    async with round.redis.lock:
        await losses.wait_for_keys(round)
        for lane in range(round.places.lanes):
            await round.redis.move(round.slot_of_lane(lane))
    return True


async def fail_over(round: Round, fault: Fault) -> bool:
    async with round.redis.lock:
        await losses.wait_for_keys(round)
        lane = int(fault.fraction * round.places.lanes)
        await round.redis.fail_over(round.slot_of_lane(lane))
    return True


# The network


async def disturb_network(
    round: Round, fault: Fault, *, server: str, faults: NetworkFaults
) -> bool:
    round.stage.set_network_faults(server, faults)
    await asyncio.sleep(fault.lasts_s)
    for slot in round.slots:
        await (slot.kafka if server == "kafka" else slot.redis).clear()
    return True


ACTS: Final[Mapping[str, Act]] = {
    "worker killed": kill_worker,
    "worker killed before its commit, which arrives late": partial(
        points.kill_at, matches=points.COMMITTING, moment="withheld", late=True
    ),
    "worker killed between staging and commit": partial(
        points.kill_at, matches=points.staging, moment="answered"
    ),
    "worker killed after sending its commit": partial(
        points.kill_at, matches=points.COMMITTING, moment="sent"
    ),
    "worker killed after the answer to its commit": partial(
        points.kill_at, matches=points.COMMITTING, moment="answered"
    ),
    "worker killed before its offsets reach the group": partial(
        points.kill_at, matches=points.COMMITTING_OFFSETS, moment="withheld", kafka=True
    ),
    "worker killed after sending its claim": partial(
        points.kill_at, matches=points.CLAIMING, moment="sent", on_restart=True
    ),
    "worker killed after the answer to its claim": partial(
        points.kill_at, matches=points.CLAIMING, moment="answered", on_restart=True
    ),
    "worker killed while it joins the group": partial(
        points.kill_at, matches=points.JOINING, moment="sent", kafka=True, on_restart=True
    ),
    "worker frozen briefly": freeze_worker,
    "worker frozen beyond its session": freeze_worker,
    "worker leaves": leave,
    "worker killed, then with another layout": partial(change_layout, kill=True),
    "worker leaves, then with another layout": partial(change_layout, kill=False),
    "layout put in force by an operator": roll_back,
    "worker killed after sending the change to a new layout": partial(
        points.kill_while_changing, moment="sent"
    ),
    "worker killed before the change to a new layout, which arrives late": partial(
        points.kill_while_changing, moment="withheld", late=True
    ),
    "worker joins": join,
    "stray worker with another redis": run_stray,
    "judgements listed": partial(list_file, directory=attrgetter("judgements")),
    "classes listed": partial(list_file, directory=attrgetter("classes")),
    "directory of judgements hangs": hang_files,
    "schema registry answers with what is no schema": disturb_registry,
    "all workers away beyond their sessions": all_away,
    "worker's clock stepped": step_clock,
    "broker killed": kill_broker,
    "broker away beyond the sessions": kill_broker,
    "broker frozen": freeze_broker,
    "kafka slow": partial(disturb_network, server="kafka", faults=NetworkFaults(delay_s=0.3)),
    "kafka connections cut": partial(
        disturb_network, server="kafka", faults=NetworkFaults(cut_before=0.05)
    ),
    "kafka answers lost": partial(
        disturb_network, server="kafka", faults=NetworkFaults(cut_after=0.05)
    ),
    "kafka half open": partial(
        disturb_network, server="kafka", faults=NetworkFaults(drops_answers=True)
    ),
    "kafka refuses connections": partial(
        disturb_network, server="kafka", faults=NetworkFaults(refuses=True, cut_before=1.0)
    ),
    "redis killed": kill_redis,
    "redis frozen": freeze_redis,
    "redis out of memory": fill_redis,
    "redis forgets scripts": partial(call_redis, command="SCRIPT FLUSH"),
    "redis log cut": partial(cut_log, near_end=False),
    "redis log cut near its end": partial(cut_log, near_end=True),
    "redis restored from an older copy": restore_copy,
    "redis emptied": partial(call_redis, command="FLUSHALL"),
    "redis loses the head of a lane and the list of its keys": lose_lane,
    "redis loses keys": partial(lose_keys, at_rest=False),
    "redis loses keys while nobody has the lanes": partial(lose_keys, at_rest=True),
    "redis replica promoted": partial(promote, kill=True),
    "redis replica promoted while the master lives on": partial(promote, kill=False),
    "redis slow": partial(disturb_network, server="redis", faults=NetworkFaults(delay_s=0.1)),
    "redis connections cut": partial(
        disturb_network, server="redis", faults=NetworkFaults(cut_before=0.2)
    ),
    "redis answers lost": partial(
        disturb_network, server="redis", faults=NetworkFaults(cut_after=0.2)
    ),
    "redis half open": partial(
        disturb_network, server="redis", faults=NetworkFaults(drops_answers=True)
    ),
    "redis requests vanish": partial(
        disturb_network, server="redis", faults=NetworkFaults(drops_requests=True)
    ),
    "commit delivered twice, once late": points.double_commit,
    "what a stage sends is refused": points.refuse_sent,
    "what a stage sent arrives again, late": partial(points.send_late, kill=False),
    "worker killed before what its stage sends arrives, late": partial(points.send_late, kill=True),
    "slots of lanes moved": move_slots,
    "master of a lane killed, its replica takes over": fail_over,
}
