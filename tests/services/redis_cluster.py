"""A Redis Cluster for tests: masters that share the slots, a replica each where wanted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.services.redis_lanes import ask, until
from tests.services.redis_server import RedisServer

SLOTS: Final = 16_384
NODE_TIMEOUT_MS: Final = 2_000
PATIENCE_S: Final = 30.0
MIGRATE_PATIENCE_MS: Final = 5_000
KEYS_AT_ONCE: Final = 3
"""So few, that a slot with a lane is on its way for a while."""


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

    @property
    def servers(self) -> Sequence[RedisServer]:
        return [*self.masters, *self.replicas]

    @property
    def url(self) -> str:
        return self.masters[0].url.replace("redis://", "redis+cluster://")

    async def start(self) -> None:
        """Returns when all nodes agree that all slots are served."""
        first = self.masters[0]
        for server in self.servers:
            await asyncio.to_thread(server.start)
        for number, master in enumerate(self.masters):
            begin, end = (SLOTS * n // len(self.masters) for n in (number, number + 1))
            master.call(f"CLUSTER ADDSLOTSRANGE {begin} {end - 1}")
        for server in self.servers[1:]:
            server.call(f"CLUSTER MEET 127.0.0.1 {first.port} {first.bus_port}")
        await until(self._met, PATIENCE_S)
        for master, replica in zip(self.masters, self.replicas, strict=False):
            replica.call(f"CLUSTER REPLICATE {await self.name_of(master)}")
        await until(self.is_well, PATIENCE_S)

    def close(self) -> None:
        for server in self.servers:
            if server.running:
                server.kill()

    async def name_of(self, server: RedisServer) -> str:
        """The node's name in the cluster."""
        return str((await ask(server.url, "CLUSTER", "MYID")).decode())

    async def is_well(self) -> bool:
        """Whether every node that runs sees every slot served, and replicas follow."""
        running = [server for server in self.servers if server.running]
        told = [await ask(server.url, "CLUSTER INFO") for server in running]
        linked = [
            (await ask(server.url, "INFO", "replication")).get("master_link_status", "up")
            for server in self.replicas
            if server.running
        ]
        return all(info["cluster_state"] == "ok" for info in told) and set(linked) <= {"up"}

    async def _met(self) -> bool:
        told = [await ask(server.url, "CLUSTER INFO") for server in self.servers]
        return {info["cluster_known_nodes"] for info in told} == {str(len(self.servers))}

    def owner_of(self, slot: int) -> RedisServer:
        """The master that was given the slot at first."""
        return self.masters[slot * len(self.masters) // SLOTS]

    async def move_slot(self, slot: int, source: RedisServer, target: RedisServer) -> int:
        """Move a slot while it is used, a few keys at a time; returns how many keys that were."""
        source_name, target_name = await self.name_of(source), await self.name_of(target)
        await ask(target.url, "CLUSTER", "SETSLOT", slot, "IMPORTING", source_name)
        await ask(source.url, "CLUSTER", "SETSLOT", slot, "MIGRATING", target_name)
        moved, host = 0, "127.0.0.1"
        while keys := await ask(source.url, "CLUSTER", "GETKEYSINSLOT", slot, KEYS_AT_ONCE):
            order = ("MIGRATE", host, target.port, "", 0, MIGRATE_PATIENCE_MS, "KEYS", *keys)
            await ask(source.url, *order)
            moved += len(keys)
        for server in (target, source, *(m for m in self.masters if m not in (source, target))):
            await ask(server.url, "CLUSTER", "SETSLOT", slot, "NODE", target_name)
        return moved
