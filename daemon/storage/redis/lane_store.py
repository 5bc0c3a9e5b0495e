"""The store of lanes in Redis: claim, load, commit, touch, read, sweep. Every step of a lane is one
script on one hash slot.

What is promised: a commit is applied once or not at all, whatever is lost, repeated or delayed, as
long as the caller sends the same `Commit` again until it is answered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from redis.exceptions import NoScriptError

from ...errors import Lost
from ..commit import Commit
from ..head import Head, head_of
from ..keys import ADMITTED_KEY
from ..store import Answer, LaneDelta
from .client import Client, answered
from .commit_call import call_of
from .scan import lane_keys, portions, prefix_of

STAGED_FOR_S: Final = 120
"""A staged part of a writer that vanished is dropped after this long; a commit is retried well
within it."""
READ_BYTES: Final = 4 * 1024 * 1024
"""What a reader takes of a lane in one call, and the rest of the commit that this ends in: a few
milliseconds of the server's time."""
LOAD_KEYS: Final = 256
"""Keys that a new owner reads in one call."""


@dataclass(frozen=True)
class Script:
    """A Lua script and the name under which servers keep it."""

    text: str
    digest: str


def _script(name: str) -> Script:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


CLAIM: Final = _script("claim.lua")
COMMIT: Final = _script("commit.lua")
LOAD: Final = _script("load.lua")
TOUCH: Final = _script("touch.lua")
READ: Final = _script("read.lua")
SWEEP: Final = _script("sweep.lua")

UNSWEPT: Final = "unswept"
"""Field of a head that a claim has made: its token, until no key of a former life can be left."""
_UNLISTED: Final = ("head", "names", "changes", "stage:")
"""What the names of keys begin with that `changes` does not list: those that the claim of a lane
without a head removes itself, and staged parts, which end by themselves."""


class LaneStore:
    """Lanes of one namespace in Redis; the promises are those of `Store`."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._unswept: dict[int, str] = {}
        """Lanes that were claimed here and may have keys of a former life, with their marks."""

    def prefix(self, lane: int) -> str:
        """What the names of all keys of a lane begin with: its hash tag."""
        return f"{{{self._namespace}:{lane}}}:"

    async def claim(self, lane: int, token: str, start: Mapping[str, int]) -> Head:
        """Become the writer of a lane under a token never used before; returns its head.

        `start` becomes its offsets where it has none. Never sent twice: a new attempt takes a new
        token.
        """
        prefix = self.prefix(lane)
        begin = msgspec.json.encode(start)
        fields = {"offsets": begin, "start": begin, UNSWEPT: token.encode()}
        pairs = [part for pair in fields.items() for part in pair]
        keys = [*self._base_keys(prefix), prefix + ADMITTED_KEY]
        found = _pairs(await self._run(CLAIM, keys, [token, prefix, len(fields), *pairs]))
        if UNSWEPT in found:
            self._unswept[lane] = found[UNSWEPT].decode()
        return head_of(found)

    async def sweep(self) -> int:
        """Remove what former lives left behind of lanes that were claimed here without a head;
        returns how many keys that were. Asks nothing where there is no such lane.

        The claim removes what the lane's `changes` still lists; where that is gone as well, only a
        look at all keys of the servers finds the rest. May run beside commits, of any process, and
        be given up at any place: the mark in the head stays until all is done.
        """
        marks = {self.prefix(lane): (lane, mark) for lane, mark in self._unswept.items()}
        removed, found = 0, dict[str, list[str]]()
        if marks:
            for key in await answered(self._client, lane_keys(self._client, self._namespace)):
                found.setdefault(prefix_of(key), []).append(key)
        for prefix, (lane, mark) in marks.items():
            removed += await self._sweep_lane(prefix, mark, found.get(prefix, []))
            if self._unswept.get(lane) == mark:
                del self._unswept[lane]
        return removed

    async def _sweep_lane(self, prefix: str, mark: str, found: Sequence[str]) -> int:
        keys, removed = [f"{prefix}head", f"{prefix}changes"], 0
        names = [key.removeprefix(prefix) for key in found]
        for some in portions([name for name in names if not name.startswith(_UNLISTED)]):
            looked_at = [prefix + name for name in some]
            removed += await self._run(SWEEP, [*keys, *looked_at], [mark, *some])
        await self._run(SWEEP, keys, [mark])
        return removed

    async def load(
        self, lane: int, head: Head, keys_of: Callable[[Head, Sequence[str]], list[str]]
    ) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
        """(segment names, blobs) of a claimed lane: what `keys_of` asks for, and None for the other
        keys that readers follow. Raises Lost where it has another writer by now."""
        prefix = self.prefix(lane)
        known = [head.token, str(head.sequence)]
        answer = await self._run(LOAD, self._base_keys(prefix), known)
        if answer is None:
            raise Lost
        names = _pairs(answer[0])
        listed = [key.decode() for key in answer[1]]
        wanted = keys_of(head, listed)
        blobs: dict[str, bytes | None] = dict.fromkeys(listed)
        for first in range(0, len(wanted), LOAD_KEYS):
            some = wanted[first : first + LOAD_KEYS]
            values = await self._run(
                LOAD, self._base_keys(prefix) + [prefix + key for key in some], known
            )
            if values is None:
                raise Lost
            blobs |= dict(zip(some, values, strict=True))
        return names, blobs

    async def commit(self, commit: Commit) -> Answer:
        """Publish a commit. To be sent again, unchanged, after Unavailable."""
        call = call_of(commit, self.prefix(commit.lane))
        if call.staged:
            await answered(self._client, self._stage(call.staged))
        answer = await self._run(COMMIT, call.keys, call.arguments)
        return cast(Answer, answer.decode())

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        """True while the token and sequence are the lane's; the idle mark is written with the
        compare."""
        mark = "" if idle_ms is None else str(idle_ms)
        keys = [f"{self.prefix(lane)}head"]
        return bool(await self._run(TOUCH, keys, [token, sequence, mark]))

    async def read(
        self, lane: int, token: str, sequence: int | None, names: int
    ) -> LaneDelta | None:
        """What changed since (token, sequence), of which the reader has `names` segment names; None
        for no lane.

        Reads in several calls where there is much. A page that is written meanwhile comes again at
        the end; what comes last is the lane at the head that came with it.
        """
        keys, prefix = self._base_keys(self.prefix(lane)), self.prefix(lane)
        seen: int | str = "" if sequence is None else sequence
        upto: int | bytes | str = seen
        whole, fresh, pages = False, list[tuple[int, str]](), dict[str, bytes]()
        while True:
            arguments = [prefix, token, seen, upto, names + len(fresh), READ_BYTES]
            pairs, anew, added, written, values, upto, done = await self._run(READ, keys, arguments)
            if not pairs:
                return None
            head = head_of(_pairs(pairs))
            if anew:
                whole, fresh, pages, names = True, [], {}, 1
            fresh += [msgspec.json.decode(name, type=tuple[int, str]) for name in added]
            pages |= {key.decode(): value for key, value in zip(written, values, strict=True)}
            if done:
                return LaneDelta(head, whole, fresh, pages)
            token, seen = head.token, head.sequence

    @staticmethod
    def _base_keys(prefix: str) -> list[str]:
        return [f"{prefix}head", f"{prefix}names", f"{prefix}changes"]

    async def _stage(self, values: Mapping[str, bytes]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for key, value in values.items():
            pipeline.set(key, value, ex=STAGED_FOR_S)
        # Errors are looked for here: the library would put the value into their text.
        for result in await pipeline.execute(raise_on_error=False):
            if isinstance(result, Exception):
                raise result

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        return await answered(self._client, self._evaluate(script, keys, arguments))

    async def _evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        try:
            return await self._client.evalsha(script.digest, len(keys), *keys, *arguments)
        except NoScriptError:
            # Nothing ran: sending the text is safe.
            return await self._client.eval(script.text, len(keys), *keys, *arguments)


def _pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    """A hash as scripts answer it."""
    return {key.decode(): value for key, value in zip(flat[::2], flat[1::2], strict=True)}
