"""The Redis of a round on a cluster: three masters with a replica each, and their faults."""

import asyncio
from pathlib import Path
from typing import Final

from tests.services.redis_cluster import RedisCluster
from tests.services.redis_lanes import ask, until
from tests.services.redis_server import one_binary

MASTERS: Final = 3
PATIENCE_S: Final = 60.0


class ClusterOfRound:
    """Workers reach it directly, not through their proxies. Faults that need these have no place
    in such a round."""

    def __init__(self, directory: Path) -> None:
        self._cluster = RedisCluster(one_binary(), directory / "cluster", MASTERS, replicas=True)
        self.url = self._cluster.url
        self.lock = asyncio.Lock()
        """Locked while a fault affects the servers: a failover while a slot moves is outside of
        what is promised."""

    async def start(self) -> None:
        await asyncio.to_thread(self._cluster.start)

    async def close(self) -> None:
        await asyncio.to_thread(self._cluster.kill)

    async def move(self, slot: int) -> None:
        """Move a slot to the next master while it is used."""
        cluster = self._cluster
        source = await cluster.owner_of(slot)
        target = cluster.masters[(cluster.masters.index(source) + 1) % MASTERS]
        await cluster.move_slot(slot, source, target)

    async def fail_over(self, slot: int) -> None:
        """Kill the master of a slot; its replica takes over, and later it follows that."""
        cluster = self._cluster
        await until(cluster.is_well, PATIENCE_S)
        dying = await cluster.owner_of(slot)
        number = cluster.masters.index(dying)
        heir = cluster.replicas[number]
        await asyncio.to_thread(dying.kill)

        async def taken_over() -> bool:
            role = await ask(heir.url, "ROLE")
            return bool(role[0] == b"master")

        await until(taken_over, PATIENCE_S)
        cluster.masters[number], cluster.replicas[number] = heir, dying
        await asyncio.to_thread(dying.start)
        await until(cluster.is_well, PATIENCE_S)
