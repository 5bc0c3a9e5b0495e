"""Small lanes for tests of the store, and a look at all that a server holds of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec
from redis.asyncio import Redis

from relevanced.daemon.packing import pack
from relevanced.daemon.redis.client import Client, close, connect
from relevanced.daemon.redis.store import LaneStore
from relevanced.daemon.heads import Head, LaneState, block_key
from relevanced.daemon.stored import Commit, Held

NAMESPACE: Final = "relevanced-0a1b2c3d"
LANE: Final = 7
PREFIX: Final = f"{{{NAMESPACE}:{LANE}}}:"
START: Final = {"impressions": 40, "feedback": 2}

T = TypeVar("T")
Dump = Mapping[bytes, tuple[bytes, int]]
"""Key → (its value as the server dumps it, milliseconds to live or -1)."""


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[LaneStore]:
    """A store over a client of its own."""
    async with client_at(url) as client:
        yield LaneStore(client, NAMESPACE)


@asynccontextmanager
async def client_at(url: str) -> AsyncIterator[Client]:
    """A client as the daemon makes it."""
    client = connect(url)
    try:
        yield client
    finally:
        await close(client)


def commit_of(
    token: str,
    sequence: int,
    *,
    blobs: Mapping[str, bytes] | None = None,
    names: Mapping[int, str] | None = None,
    unlinked: Sequence[str] = (),
    blocks: Mapping[str, bytes] | None = None,
    offset: int = 0,
) -> Commit:
    """A commit whose `blobs` readers follow and whose `blocks` they do not."""
    offsets = {"impressions": 40 + offset, "feedback": 2 + offset}
    fields = {
        "offsets": msgspec.json.encode(offsets),
        "watermarks": msgspec.json.encode({"impressions": offset, "feedback": None}),
        "counts": msgspec.json.encode({"events": {"impression": offset}}),
        "state": pack(LaneState(next_slot=offset)),
    }
    listed = dict(blobs or {})
    return Commit(
        lane=LANE,
        token=token,
        sequence=sequence,
        blobs={**listed, **(blocks or {})},
        fields=fields,
        names={str(n): msgspec.json.encode((1, name)) for n, name in (names or {}).items()},
        unlinked=unlinked,
        listed=list(listed),
        log=[],
    )


async def lane_with(store: LaneStore, token: str, commits: int = 1) -> Head:
    """A claimed lane after some commits: page n of pane n, one name each."""
    head = await store.claim(LANE, token, START)
    for n in range(head.sequence, head.sequence + commits):
        page = {f"rows:0:{n}000:0": b"page %d" % n, "totals:0": b"totals %d" % n}
        blocks = {f"open:{n + 1}": b"block", "admitted": b"let in"}
        await store.commit(
            commit_of(token, n, blobs=page, blocks=blocks, names={n + 1: f"s{n + 1}"}, offset=n + 1)
        )
    return head


async def dump(url: str, *, staged: bool = False) -> Dump:
    """All that the server holds, byte by byte; parts that are only staged on demand."""
    told = {}
    async with Redis.from_url(url) as client:
        async for key in client.scan_iter():
            if staged or b":stage:" not in key:
                value, ttl = await client.dump(key), await client.pttl(key)
                told[bytes(key)] = (bytes(value or b""), int(ttl))
    return told


async def restore(url: str, before: Dump) -> None:
    """Roll the server back to what it held then."""
    async with Redis.from_url(url) as client:
        await client.flushdb()
        for key, (value, ttl) in before.items():
            await client.restore(key, max(ttl, 0), value)


async def stray_keys(client: Client, namespace: str, held: Held) -> list[str]:
    """Keys of a lane that nobody would ever read or unlink: they belong to no life of it, or to a
    former one. Parts that are staged end by themselves."""
    prefix = LaneStore(client, namespace).prefix(held.lane.number)
    listed = {key.decode() for key in await client.zrange(f"{prefix}changes", 0, -1)}
    blocks = {block_key(block.entry.number) for block in held.log if block.entry is not None}
    names = [key.decode().removeprefix(prefix) async for key in client.scan_iter(f"{prefix}*")]
    found = {name for name in names if not name.startswith("stage:")} - {"head", "names", "changes"}
    held_or_read = {name for name in listed if not name.startswith("open:")} | blocks
    return sorted(found - held_or_read) + sorted(listed - found)


async def ask(url: str, *command: Any) -> Any:
    """The answer to one command over a connection of its own."""
    client: Any = Redis.from_url(url)
    try:
        return await client.execute_command(*command)
    finally:
        await client.aclose()


async def until(call: Callable[[], Awaitable[T | None]], patience_s: float = 10.0) -> T:
    """What the call answers first that is true."""
    deadline_s = time.monotonic() + patience_s
    while not (found := await call()):
        assert time.monotonic() < deadline_s, f"still {found!r} after {patience_s} s"
        await asyncio.sleep(0.01)
    return found
