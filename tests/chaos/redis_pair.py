"""The Redis of a round: a server with an append-only file and its replica, and their faults."""

import asyncio
import shutil
from pathlib import Path
from random import Random
from typing import Final

from tests.services.redis_server import RedisServer, binaries

LINK_TRIES: Final = 20
NEAR_END_BYTES: Final = 200_000
LITTLE_MEMORY: Final = "CONFIG SET maxmemory 1"
ENOUGH_MEMORY: Final = "CONFIG SET maxmemory 0"


class RedisPair:
    """A `master`, which the workers use, and its `replica`, which may be promoted once."""

    def __init__(self, directory: Path, fsync: str, rng: Random) -> None:
        flavours = [path for path in binaries().values() if path is not None]
        binary = rng.choice(flavours)
        settings = {
            "appendonly": "yes",
            "appendfsync": fsync,
            "maxmemory-policy": "noeviction",
            "repl-diskless-sync-delay": "0",
        }
        self.master = RedisServer(binary, directory / "redis-0", settings)
        follows = {**settings, "replicaof": f"127.0.0.1 {self.master.port}"}
        self.replica: RedisServer | None = RedisServer(binary, directory / "redis-1", follows)
        self.lock = asyncio.Lock()
        """Locked while a fault affects the servers."""
        self._servers = [self.master, self.replica]
        self._copy = directory / "redis-copy"

    @property
    def url(self) -> str:
        return self.master.url

    async def start(self) -> None:
        for server in self._servers:
            await asyncio.to_thread(server.start)

    async def restart(self) -> None:
        """Kill the master and start it again."""
        await asyncio.to_thread(self.master.kill)
        await asyncio.to_thread(self.master.start)

    async def cut_log(self, fraction: float, *, near_end: bool) -> None:
        """Kill the master, truncate its append-only file, and start it again."""
        await asyncio.to_thread(self.master.kill)
        path = max(self._log_folder().glob("*.incr.aof"))
        size = path.stat().st_size
        span = min(size, NEAR_END_BYTES) if near_end else size
        with path.open("r+b") as file:
            file.truncate(size - int(span * fraction))
        await asyncio.to_thread(self.master.start)

    def copy_log(self) -> None:
        """Copy the append-only file of the running master."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._log_folder(), self._copy)

    async def restore_copy(self) -> None:
        """Kill the master, restore the copy, and start it again."""
        await asyncio.to_thread(self.master.kill)
        shutil.rmtree(self._log_folder())
        shutil.copytree(self._copy, self._log_folder())
        await asyncio.to_thread(self.master.start)

    async def promote(self, *, lag_s: float, kill: bool) -> bool:
        """Promote the replica to master; what the former master still writes is lost.

        Returns False if there is no replica any more.
        """
        replica, former = self.replica, self.master
        if replica is None or not await self._linked(replica):
            return False
        # A replica that is only frozen would read from its socket what it has missed.
        replica.call("REPLICAOF NO ONE")
        await asyncio.sleep(lag_s)
        if kill:
            await asyncio.to_thread(former.kill)
        self.master, self.replica = replica, None
        # It must start as a master if it is killed later.
        self.master.settings.pop("replicaof")
        return True

    async def close(self) -> None:
        for server in self._servers:
            if server.running:
                await asyncio.to_thread(server.kill)

    def _log_folder(self) -> Path:
        return self.master.directory / "appendonlydir"

    async def _linked(self, replica: RedisServer) -> bool:
        """Wait until the replica has all writes of its master; False if it does not get there."""
        if not self.master.running or not replica.running:
            return False
        for _ in range(LINK_TRIES):
            # WAIT returns the number of replicas that have confirmed all earlier writes.
            if await asyncio.to_thread(self.master.call, "WAIT 1 1000") == ":1":
                return True
        return False
