"""Which of the namespaces with one prefix serves the scores.

A configuration with another join has a namespace of its own, which reads the same topics beside the
former one. Once it has caught up it takes over: it notes in the former one that this is succeeded,
then in itself that it serves. In between nobody serves, for a moment; two never do for long. Where
none has caught up, the one that began first serves. Namespaces that read other topics leave each
other alone.

    NAMESPACE:meta      hash, among others: topics, the input topics with blanks between them;
                        began, the clock in ms when its first worker registered; caught_up, the
                        clock in ms when it had caught up with its logs; succeeded_by, the
                        namespace that serves instead; and retired_until, the clock in ms up to
                        which it may be removed for good
    PREFIX:namespaces   sorted set: namespace → clock in ms of its last sign of life

A namespace that is succeeded may take over again where its successor is silent, or after it was
silent itself: then it was taken away and is deployed again. Where its daemons merely go on, or
restart, they leave the successor alone.

The layout in force in a namespace.

    NAMESPACE:layouts   hash: generation, that of the layout in force; digest:G and text:G of each
                        generation; known:DIGEST, the last generation with this content; and
                        proposed:DIGEST, the server's clock in ms when a worker last proposed it

Workers propose the layout of their own configuration again and again, and work under the one in
force (see layout.lua).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from . import lane_store
from .client import Client, answered
from .lane_store import evaluate
from .port import Term

T = TypeVar("T")

SILENT_MS: Final = 60_000
"""A namespace without a sign of life for so long has no workers any more. They give one every ten
seconds."""
RETIRED_MS: Final = 3_600_000
"""So long a namespace that is to be removed may take: one that goes on for longer was not removed,
and must not be forgotten when it fails later."""


@dataclass(frozen=True)
class _Meta:
    """What a namespace notes of itself."""

    name: str
    began_ms: int
    caught_up_ms: int
    """0: it has not."""
    retired_until_ms: int
    succeeded_by: str | None
    topics: str | None

    @property
    def serves(self) -> bool:
        return bool(self.caught_up_ms) and self.succeeded_by is None

    def precedes(self, other: "_Meta") -> bool:
        """Whether it serves while the other one, which does not, catches up or has not begun."""
        if self.caught_up_ms or self.succeeded_by is not None:
            return self.serves
        return not other.began_ms or (self.began_ms, self.name) < (other.began_ms, other.name)


class Succession:
    """The terms of one namespace. Methods raise Unavailable."""

    def __init__(
        self,
        client: Client,
        prefix: str,
        name: str,
        clock: Callable[[], Awaitable[int]],
        topics: str = "",
    ) -> None:
        """`clock` returns the server's clock in ms; `topics` are as in `meta`, for a namespace that
        has not begun."""
        self._topics = topics
        self._client = client
        self._clock = clock
        self._key = f"{prefix}:namespaces"
        self._name = name

    async def term(self) -> Term:
        """Return whether the namespace serves."""
        own = await self._of(self._name)
        retired = bool(own.retired_until_ms) and await self._clock() < own.retired_until_ms
        return replace(await self._term(own), retired=retired)

    async def _term(self, own: _Meta) -> Term:
        if own.serves:
            return Term(True)
        successor = own.succeeded_by
        if successor is not None and not await self._is_gone(successor):
            return Term(False, successor)
        for other in await self._others(own):
            if other.precedes(own) and not await self._is_gone(other.name):
                return Term(False, predecessor=other.name)
        return Term(False)

    async def begin(self) -> None:
        """Note when the namespace began, where that is not noted."""
        call = self._client.hsetnx(f"{self._name}:meta", "began", str(await self._clock()))
        await self._answered(call)

    async def retire(self) -> int | None:
        """Note that the namespace is about to be removed for good; returns the clock in ms up to
        which that holds, or None where no worker has ever begun it."""
        if not (await self._of(self._name)).began_ms:
            return None
        until_ms = await self._clock() + RETIRED_MS
        call = self._client.hset(f"{self._name}:meta", "retired_until", str(until_ms))
        await self._answered(call)
        return until_ms

    async def take_over(self) -> list[str]:
        """Note that the namespace has caught up, and succeeds those that serve; returns these."""
        now_ms = await self._clock()
        succeeded = await self._succeed(now_ms)
        meta = f"{self._name}:meta"
        await self._answered(self._client.hdel(meta, "succeeded_by"))
        await self._answered(self._client.hset(meta, "caught_up", str(now_ms)))
        # Of two that caught up at the same time the later one serves, whoever notes it last.
        succeeded += await self._succeed(now_ms)
        for other in await self._others(await self._of(self._name)):
            if other.serves and (other.caught_up_ms, other.name) > (now_ms, self._name):
                await self._answered(self._client.hset(meta, "succeeded_by", other.name))
        return succeeded

    async def return_after_silence(self, now_ms: int) -> bool:
        """Let a succeeded namespace that was silent until now catch up and take over again; returns
        whether it was. To be called before its sign of life."""
        last_ms: Any = await self._answered(self._client.zscore(self._key, self._name))
        own = await self._of(self._name)
        if own.succeeded_by is None or last_ms is None or now_ms - int(last_ms) <= SILENT_MS:
            return False
        fields = ("caught_up", "succeeded_by")
        await self._answered(self._client.hdel(f"{self._name}:meta", *fields))
        return True

    async def _succeed(self, now_ms: int) -> list[str]:
        found = []
        for other in await self._others(await self._of(self._name)):
            if other.serves and (other.caught_up_ms, other.name) < (now_ms, self._name):
                call = self._client.hset(f"{other.name}:meta", "succeeded_by", self._name)
                await self._answered(call)
                found.append(other.name)
        return found

    async def _others(self, own: _Meta) -> list[_Meta]:
        """The other namespaces that read the same topics."""
        names: Any = await self._answered(self._client.zrange(self._key, 0, -1))
        others = [await self._of(name.decode()) for name in names if name.decode() != self._name]
        topics = self._topics if own.topics is None else own.topics
        return [other for other in others if other.topics == topics]

    async def _is_gone(self, name: str) -> bool:
        """Whether another namespace has no workers any more. Its sign of life alone may have been
        lost: it comes again within seconds."""
        last_ms: Any = await self._answered(self._client.zscore(self._key, name))
        if last_ms is None:
            return not await self._answered(self._client.exists(f"{name}:meta"))
        return await self._clock() - int(last_ms) > SILENT_MS

    async def _of(self, name: str) -> _Meta:
        fields = ["began", "caught_up", "retired_until", "succeeded_by", "topics"]
        found: Any = await self._answered(self._client.hmget(f"{name}:meta", fields))
        began, caught_up, retired, *rest = (None if one is None else one.decode() for one in found)
        return _Meta(name, int(began or 0), int(caught_up or 0), int(retired or 0), *rest)

    async def _answered(self, call: Awaitable[T]) -> T:
        return await answered(self._client, call)


@dataclass(frozen=True)
class Generation:
    """A layout that is in force, or was."""

    number: int
    digest: str
    text: str


class LayoutRegistry:
    """The layouts of one namespace. Methods raise Unavailable."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._key = f"{namespace}:layouts"

    async def in_force(self) -> Generation | None:
        """Return the layout in force; None before a worker proposed one."""
        number: Any = await self._answered(self._client.hget(self._key, "generation"))
        return None if number is None else await self._of(int(number))

    async def propose(self, digest: str, text: str) -> Generation:
        """Propose a layout; returns the one in force then."""
        return await self._run("propose", digest, text, SILENT_MS)

    async def use(self, digest: str, text: str) -> Generation:
        """Put a layout in force, whatever was before; returns it."""
        return await self._run("use", digest, text, 0)

    async def restore(self, found: Generation) -> Generation:
        """Note a layout that a lane was found under, where it is later than all that are known:
        the namespace was rolled back, or lost it. Returns the one in force then."""
        return await self._run("restore", found.digest, found.text, found.number)

    async def history(self) -> list[Generation]:
        """Return every layout that was in force, the oldest first."""
        fields: Any = await self._answered(self._client.hgetall(self._key))
        numbers = [int(f.removeprefix(b"digest:")) for f in fields if f.startswith(b"digest:")]
        return [
            Generation(n, fields[b"digest:%d" % n].decode(), fields[b"text:%d" % n].decode())
            for n in sorted(numbers)
        ]

    async def _of(self, number: int) -> Generation | None:
        names = [f"digest:{number}", f"text:{number}"]
        found: Any = await self._answered(self._client.hmget(self._key, names))
        digest, text = found
        return None if digest is None else Generation(number, digest.decode(), text.decode())

    async def _run(self, *arguments: str | int) -> Generation:
        call = evaluate(self._client, lane_store.LAYOUT, [self._key], arguments)
        number, digest, text = await self._answered(call)
        return Generation(int(number), digest.decode(), text.decode())

    async def _answered(self, call: Awaitable[T]) -> T:
        return await answered(self._client, call)
