"""A Redis Cluster for tests: masters that share the slots, a replica each where wanted."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.services.redis_lanes import SLOTS, ask, holder, until
from tests.services.redis_server import RedisServer

NODE_TIMEOUT_MS: Final = 2_000
PATIENCE_S: Final = 30.0
MIGRATE_PATIENCE_MS: Final = 5_000
KEYS_AT_ONCE: Final = 3
"""So few, that a slot with a lane is on its way for a while."""
MOST_KEYS: Final = 1_000
"""Of one lane in a test."""


class RedisCluster:
    """`masters[n]` holds the n-th part of the slots, and `replicas[n]`, if any, follows it."""

    def __init__(self, binary: str, directory: Path, masters: int, *, replicas: bool) -> None:
        settings = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "repl-diskless-sync-delay": "0",
        }
        servers = [
            RedisServer(binary, directory / f"node-{n}", settings)
            for n in range(masters * (2 if replicas else 1))
        ]
        self.masters, self.replicas = servers[:masters], servers[masters:]

        self._formed = False

    @property
    def servers(self) -> Sequence[RedisServer]:
        return [*self.masters, *self.replicas]

    @property
    def url(self) -> str:
        return self.masters[0].url.replace("redis://", "redis+cluster://")

    @property
    def ports(self) -> Sequence[int]:
        return [master.port for master in self.masters]

    @property
    def pids(self) -> Sequence[int]:
        return [master.pid for master in self.masters]

    def start(self) -> None:
        """Returns when all nodes agree that all slots are served: at first, and after `kill`. Not
        for use inside an event loop."""
        if self._formed and all(server.running for server in self.servers):
            return
        for server in self.servers:
            server.start()
        asyncio.run(self._come_together())
        self._formed = True

    async def _come_together(self) -> None:
        if not self._formed:
            await self._meet()
        await until(self.is_well, PATIENCE_S)

    async def _meet(self) -> None:
        first = self.masters[0]
        for number, master in enumerate(self.masters):
            begin, end = (SLOTS * n // len(self.masters) for n in (number, number + 1))
            master.call(f"CLUSTER ADDSLOTSRANGE {begin} {end - 1}")
        for server in self.servers[1:]:
            server.call(f"CLUSTER MEET 127.0.0.1 {first.port} {first.bus_port}")
        await until(self._met, PATIENCE_S)
        for master, replica in zip(self.masters, self.replicas, strict=False):
            replica.call(f"CLUSTER REPLICATE {await self.name_of(master)}")

    def kill(self) -> None:
        """SIGKILL to every node: the data of a cluster in memory is lost, its layout is not."""
        for server in self.servers:
            if server.running:
                server.kill()

    def freeze(self) -> None:
        """SIGSTOP to every node, until `thaw`."""
        for server in self.servers:
            server.freeze()

    def thaw(self) -> None:
        for server in self.servers:
            server.thaw()

    def flush(self) -> None:
        """Remove all data and all cached scripts."""
        for master in self.masters:
            master.flush()

    def run_command(self, command: str) -> None:
        """Have every node do a command of plain words."""
        for server in self.servers:
            server.run_command(command)

    async def name_of(self, server: RedisServer) -> str:
        """The node's name in the cluster."""
        return str((await ask(server.url, "CLUSTER", "MYID")).decode())

    async def is_well(self) -> bool:
        """Whether every node that runs sees every slot served, and replicas follow."""
        running = [server for server in self.servers if server.running]
        infos = [await ask(server.url, "CLUSTER INFO") for server in running]
        linked = [
            (await ask(server.url, "INFO", "replication")).get("master_link_status", "up")
            for server in self.replicas
            if server.running
        ]
        return all(info["cluster_state"] == "ok" for info in infos) and set(linked) <= {"up"}

    async def _met(self) -> bool:
        infos = [await ask(server.url, "CLUSTER INFO") for server in self.servers]
        return {info["cluster_known_nodes"] for info in infos} == {str(len(self.servers))}

    async def owner_of(self, slot: int) -> RedisServer:
        """The master that holds the slot now."""
        url = await holder(self.url, slot)
        return next(master for master in self.masters if master.url == url)

    async def move_slot(self, slot: int, source: RedisServer, target: RedisServer) -> int:
        """Move a slot while it is used, a few keys at a time; returns how many keys that were."""
        await self._begin_move(slot, source, target)
        moved = 0
        while keys := await ask(source.url, "CLUSTER", "GETKEYSINSLOT", slot, KEYS_AT_ONCE):
            await _migrate(source, target, keys)
            moved += len(keys)
        await self._end_move(slot, source, target)
        return moved

    @asynccontextmanager
    async def moving(self, slot: int) -> AsyncIterator[Callable[..., Awaitable[None]]]:
        """Inside, a slot is on its way to the next master: `await move(count, first=key)` moves so
        many of its keys. At the end the rest follows."""
        source = await self.owner_of(slot)
        target = self.masters[(self.masters.index(source) + 1) % len(self.masters)]
        await self._begin_move(slot, source, target)

        async def move(count: int, first: str | None = None) -> None:
            keys = await ask(source.url, "CLUSTER", "GETKEYSINSLOT", slot, MOST_KEYS)
            wanted = None if first is None else first.encode()
            in_order = sorted(keys, key=lambda key: (key != wanted, key.endswith(b"}:head"), key))
            if in_order[:count]:
                await _migrate(source, target, in_order[:count])

        try:
            yield move
        finally:
            await move(MOST_KEYS)
            await self._end_move(slot, source, target)

    async def _begin_move(self, slot: int, source: RedisServer, target: RedisServer) -> None:
        source_name, target_name = await self.name_of(source), await self.name_of(target)
        await ask(target.url, "CLUSTER", "SETSLOT", slot, "IMPORTING", source_name)
        await ask(source.url, "CLUSTER", "SETSLOT", slot, "MIGRATING", target_name)

    async def _end_move(self, slot: int, source: RedisServer, target: RedisServer) -> None:
        target_name = await self.name_of(target)
        for server in (target, source, *(m for m in self.masters if m not in (source, target))):
            await ask(server.url, "CLUSTER", "SETSLOT", slot, "NODE", target_name)


async def _migrate(source: RedisServer, target: RedisServer, keys: Sequence[bytes]) -> None:
    host, patience_ms = "127.0.0.1", MIGRATE_PATIENCE_MS
    await ask(source.url, "MIGRATE", host, target.port, "", 0, patience_ms, "KEYS", *keys)
