"""Small lanes for tests of the store, and the contents of a server."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import MovedError

from relevanced.daemon.storage import (
    ClaimedLane,
    Client,
    Commit,
    DamagedLane,
    Head,
    LaneStore,
    WriterState,
    block_key,
    close,
    connect,
    pack,
)

NAMESPACE: Final = "relevanced-0a1b2c3d"
LANE: Final = 7
PREFIX: Final = f"{{{NAMESPACE}:{LANE}}}:"
SLOTS: Final = 16_384
"""Of a cluster."""
NOBODY: Final = "^Redis: (ConnectionError|RedisClusterException: .* cannot be connected)"
"""What an Unavailable says where nobody listens: a pattern."""
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
        "state": pack(WriterState(next_slot=offset)),
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


async def take(store: LaneStore, token: str, lane: int = LANE) -> Head:
    """Claim a lane; one that lost its head begins anew where it began."""
    try:
        return await store.claim(lane, token, START)
    except DamagedLane as damage:
        return await store.begin_anew(
            lane, damage.token, token, START if damage.start is None else damage.start.offsets
        )


async def layout(url: str) -> Mapping[str, Sequence[range]]:
    """URL of every server with data → the slots that it serves; of a single one, all."""
    if not is_cluster(url):
        return {url: [range(SLOTS)]}
    owned = dict[str, list[range]]()
    for first, last, (_, port, *_), *_ in await ask(url, "CLUSTER", "SLOTS"):
        owned.setdefault(f"redis://127.0.0.1:{port}/0", []).append(range(first, last + 1))
    return owned


async def holder(url: str, slot: int) -> str:
    """URL of the server that holds the slot."""
    owned = await layout(url)
    return next(node for node, slots in owned.items() if any(slot in part for part in slots))


def is_cluster(url: str) -> bool:
    return url.startswith("redis+cluster")


async def dump(url: str, *, staged: bool = False) -> Dump:
    """All that the server or cluster holds, byte by byte; parts that are only staged on demand."""
    contents = dict[bytes, tuple[bytes, int]]()
    for node in await layout(url):
        async with Redis.from_url(node) as client:
            found = {bytes(key) async for key in client.scan_iter(count=1_000)}
            keys = [key for key in found if staged or b":stage:" not in key]
            pipeline = client.pipeline(transaction=False)
            for key in keys:
                pipeline.dump(key).pttl(key)
            answers = await pipeline.execute()
        values, ttls = answers[::2], answers[1::2]
        contents |= {k: (bytes(v or b""), int(t)) for k, v, t in zip(keys, values, ttls)}
    return contents


async def lane_dump(url: str, *, staged: bool = False) -> Dump:
    """The same without what a namespace knows of its lanes."""
    whole = await dump(url, staged=staged)
    return {key: value for key, value in whole.items() if not key.endswith(b":meta")}


async def restore(url: str, before: Dump) -> None:
    """Roll the server or cluster back to what it contained then."""
    for node, slots in (await layout(url)).items():
        async with Redis.from_url(node) as client:
            pipeline = client.pipeline(transaction=False).flushdb()
            for key, (value, ttl) in before.items():
                if any(key_slot(key) in part for part in slots):
                    pipeline.restore(key, max(ttl, 0), value)
            await pipeline.execute()


async def stray_keys(client: Client, namespace: str, owned: ClaimedLane) -> list[str]:
    """Keys of a lane that nobody would ever read or unlink: they do not belong to it, or to an
    earlier lane of its number. Staged values expire and are left out."""
    prefix = LaneStore(client, namespace).prefix(owned.lane.number)
    listed = {key.decode() for key in await client.zrange(f"{prefix}changes", 0, -1)}
    blocks = {block_key(block.entry.number) for block in owned.log if block.entry is not None}
    names = [key.decode().removeprefix(prefix) async for key in client.scan_iter(f"{prefix}*")]
    found = {name for name in names if not name.startswith("stage:")} - {"head", "names", "changes"}
    held_or_read = {name for name in listed if not name.startswith("open:")} | blocks
    return sorted(found - held_or_read) + sorted(listed - found)


async def ask(url: str, *command: Any) -> Any:
    """The answer to one command over a connection of its own; of a cluster, by the master that has
    the key."""
    client: Any = Redis.from_url(url.replace("+cluster", ""))
    try:
        return await client.execute_command(*command)
    except MovedError as moved:
        return await ask(f"redis://{moved.host}:{moved.port}/0", *command)
    finally:
        await client.aclose()


async def until(call: Callable[[], Awaitable[T | None]], patience_s: float = 10.0) -> T:
    """What the call answers first that is true."""
    deadline_s = time.monotonic() + patience_s
    while not (found := await call()):
        assert time.monotonic() < deadline_s, f"still {found!r} after {patience_s} s"
        await asyncio.sleep(0.01)
    return found
