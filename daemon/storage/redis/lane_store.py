"""The store of lanes in Redis: claim, begin anew, verify, load, commit, touch, read, sweep. Every
step of a lane is one Lua script on one hash slot.

A commit is applied once or not at all, whatever is lost, repeated or delayed, as long as the caller
sends the same `Commit` again until it is answered. The scripts state why their steps are in the
order they are.

Large values are first SET under staging names, and the script only renames them: what passes
through Lua costs Redis about 1.5 ns per byte, while it serves nobody else. For small pages that is
cheaper than staging them, see `INLINE_BYTES`.

Scripts, not functions: EVALSHA names a script by its content, so that two versions of the daemon
share a server, and nothing has to be loaded on each master.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from redis.exceptions import NoScriptError

from ...errors import Damaged, Lost, Unavailable
from ..commit import Commit
from ..head import (
    NO_MARKS,
    START_FIELD,
    UNSWEPT,
    AcceptedLog,
    Head,
    LaneStart,
    LogMarks,
    StallMark,
    head_of,
    new_head,
    pack_mark,
    start_of,
)
from ..keys import ADMITTED_KEY
from .client import Client, answered, lane_keys, packed_texts, portions, prefix_of
from .port import Answer, DamagedLane, LaneDelta, missing_keys, short_of
from .registers import AcceptedLogs, LaneRegister

INLINE_BYTES: Final = 4096
"""Pages up to this size are arguments of the script. SET, EXISTS, RENAME and PERSIST for a page of
two kilobytes were most of what Redis spent on a commit, and half of what the worker spent on
sending it."""
INLINE_BYTES_IN_ALL: Final = 128 * 1024
"""The most bytes of pages among the arguments of one commit, which bounds the time of its
script."""
MOST_ARGUMENTS: Final = 3_500
"""The most keys and arguments of one script, together: some managed servers take 4,000."""


@dataclass(frozen=True)
class CommitCall:
    """What is sent for a commit: first the staged values, then the script with keys and
    arguments."""

    staged: Mapping[str, bytes]
    keys: Sequence[str]
    arguments: Sequence[str | int | bytes]


def call_of(commit: Commit, prefix: str) -> CommitCall:
    """Return the call of a commit whose lane's keys begin with the prefix. The same commit always
    gives the same call: it may be sent again. A call of more than MOST_ARGUMENTS is staged
    itself."""
    unread = sorted(commit.blobs.keys() - set(commit.listed))
    written = [*commit.listed, *unread]
    inline = _inline(commit)
    parts = [commit.blobs[key] for key in written if key not in inline]
    stage = f"{prefix}stage:{commit.token}:{commit.sequence}:"
    staged = {f"{stage}{number}": part for number, part in enumerate(parts)}
    keys = [f"{prefix}{name}" for name in ("head", "names", "changes")]
    kept = (*(commit.kept or ()), *commit.kept_unread)
    keys += [*staged, *(prefix + key for key in (*written, *commit.unlinked, *kept))]
    counts = [len(staged), len(commit.listed), len(unread), len(commit.unlinked)]
    pairs = [part for pair in (*commit.names.items(), *commit.fields.items()) for part in pair]
    arguments = [
        commit.token,
        commit.sequence,
        *counts,
        len(commit.names),
        len(commit.fields),
        "" if commit.kept is None else len(kept),
        len(commit.kept_unread),
        *(inline.get(key, b"") for key in written),
        *pairs,
    ]
    if len(keys) + len(arguments) <= MOST_ARGUMENTS:
        return CommitCall(staged, keys, arguments)
    call = {f"{stage}{len(parts)}": packed_texts(keys) + packed_texts(arguments)}
    return CommitCall(staged | call, [*keys[:3], *call], arguments[:2])


def _inline(commit: Commit) -> dict[str, bytes]:
    """Return the pages that are arguments. A block never is: it is most of the bytes of a
    commit."""
    inline, left = dict[str, bytes](), INLINE_BYTES_IN_ALL
    for key in commit.listed:
        value = commit.blobs[key]
        if 0 < len(value) <= min(INLINE_BYTES, left):
            inline[key] = value
            left -= len(value)
    return inline


@dataclass(frozen=True)
class Script:
    """A Lua script and the digest under which servers cache it."""

    text: str
    digest: str


def _script(name: str) -> Script:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


CLAIM: Final = _script("claim.lua")
LAYOUT: Final = _script("layout.lua")
ANEW: Final = _script("anew.lua")
VERIFY: Final = _script("verify.lua")
COMMIT: Final = _script("commit.lua")
LOAD: Final = _script("load.lua")
TOUCH: Final = _script("touch.lua")
MARK: Final = _script("mark.lua")
READ: Final = _script("read.lua")
SWEEP: Final = _script("sweep.lua")


async def evaluate(
    client: Client, script: Script, keys: Sequence[str], arguments: Sequence[Any]
) -> Any:
    """Run a script; returns its answer. The caller handles the errors of the connection."""
    try:
        return await client.evalsha(script.digest, len(keys), *keys, *arguments)
    except NoScriptError:
        # Nothing ran, so it is safe to send the text.
        return await client.eval(script.text, len(keys), *keys, *arguments)


def pairs_of(flat: Sequence[bytes]) -> dict[str, bytes]:
    """Return a hash from the flat list that scripts answer."""
    return {key.decode(): value for key, value in zip(flat[::2], flat[1::2], strict=True)}


STAGED_FOR_S: Final = 120
"""Staged values of a writer that died expire after this time. A commit is retried well within
it."""
READ_BYTES: Final = 4 * 1024 * 1024
"""A reader takes so many bytes of a lane in one call, and the rest of the commit that this ends in:
a few milliseconds of the server's time."""
LOAD_KEYS: Final = 256
"""A new owner reads so many keys in one call."""
VERIFIED_KEYS: Final = 500
"""One call checks so many keys: a fraction of a millisecond of the server's time."""

_UNLISTED: Final = ("head", "names", "changes", "stage:")
"""Prefixes of the keys that `changes` does not list: those that `begin_anew` removes itself, and
staged values, which expire."""


class LaneStore:
    """Lanes of one namespace in Redis; see `Store`."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._registry = LaneRegister(client, namespace)
        self._unswept: dict[int, str] = {}
        """Lanes claimed by this process that may have keys of an earlier lane → their marks."""
        self._starts: dict[int, LaneStart | None] = {}
        """Lanes claimed by this process → where they began, noted again with each check: the
        registry may be lost as well."""

    def prefix(self, lane: int) -> str:
        """Return the prefix of all keys of a lane: its hash tag, so that they share a cluster's
        slot."""
        return f"{{{self._namespace}:{lane}}}:"

    async def claim(
        self, lane: int, token: str, start: Mapping[str, int], logs: LogMarks = NO_MARKS
    ) -> Head:
        """Become the writer of a lane under a token never used before; returns its head.

        `start` becomes its offsets if it has never been claimed, and `logs` its marks. Raises
        DamagedLane if its head is gone. Never sent twice: each attempt takes a new token."""
        prefix = self.prefix(lane)
        known = await self._registry.start_of(lane)
        arguments = [token, prefix, int(known is not None), *new_head(token, start, logs)]
        answer = await self._run(CLAIM, self._claim_keys(prefix), arguments)
        if answer is None:
            raise DamagedLane(lane, "its head is gone", start=known)
        return await self._claimed(lane, token, pairs_of(answer), known)

    async def begin_anew(
        self,
        lane: int,
        found: str,
        token: str,
        start: Mapping[str, int],
        logs: LogMarks = NO_MARKS,
        since_ms: int | None = None,
    ) -> Head:
        """Remove what is left of a damaged lane and become the writer of a new one that begins at
        `start`, with these marks, and has all of its logs only since `since_ms` where that is not
        None; returns its head. Raises Lost if the lane's token is no longer `found`."""
        prefix = self.prefix(lane)
        arguments = [found, token, prefix, *new_head(token, start, logs, since_ms)]
        answer = await self._run(ANEW, self._claim_keys(prefix), arguments)
        if answer is None:
            raise Lost
        await self._registry.forget_permission(lane)
        return await self._claimed(lane, token, pairs_of(answer), None)

    async def may_begin_anew(self, lane: int) -> bool:
        """Return whether an operator permitted the lane to begin anew, a short while ago."""
        return await self._registry.may_begin_anew(lane)

    async def _claimed(
        self, lane: int, token: str, fields: dict[str, bytes], known: LaneStart | None
    ) -> Head:
        """Return the head of a lane that was just claimed, and note it."""
        if UNSWEPT in fields:
            self._unswept[lane] = fields[UNSWEPT].decode()
        try:
            head = head_of(fields)
        except Damaged as error:
            raise DamagedLane(lane, str(error.__cause__), token, known) from error
        await self._note_start(lane, head, known)
        return head

    async def _note_start(self, lane: int, head: Head, known: LaneStart | None) -> None:
        start = start_of(head)
        if start is not None and start != known:
            await self._registry.note_start(lane, start)
        self._starts[lane] = start

    async def sweep(self) -> int:
        """Remove keys that are left of lanes whose head was lost before this process claimed them;
        returns how many. Sends nothing if there is no such lane.

        `begin_anew` removes what `changes` still lists. Where that is lost too, only a scan of all
        keys of the servers finds the rest. A sweep may run beside commits of any process and be
        cancelled anywhere: the mark stays in the head until all keys are checked.
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
        for part in portions([name for name in names if not name.startswith(_UNLISTED)]):
            checked = [prefix + name for name in part]
            removed += await self._run(SWEEP, [*keys, *checked], [mark, *part])
        await self._run(SWEEP, keys, [mark])
        return removed

    async def verify(
        self, lane: int, token: str, sequence: int, keys: Sequence[str] | None = None
    ) -> list[str]:
        """Return which of these keys, or of all that the lane lists, are missing.

        Raises Lost if the lane has another token or sequence, and DamagedLane if it lists fewer
        keys or names than its head says."""
        prefix, missing, first = self.prefix(lane), list[str](), 0
        if keys is not None and not keys:
            return []
        base, listed = self._base_keys(prefix), 1
        while first < listed:
            part = [prefix + key for key in (keys or ())[first : first + VERIFIED_KEYS]]
            ranks = [first, first + VERIFIED_KEYS - 1]
            answer = await self._run(VERIFY, base + part, [token, sequence, prefix, *ranks])
            if answer is None:
                raise Lost
            listed, names, must_list, must_name, found = answer
            missing += [key.decode() for key in found]
            if keys is not None:
                listed = len(keys)
            elif short := short_of(listed, names, must_list, must_name):
                raise DamagedLane(lane, short, token, self._starts.get(lane))
            first += VERIFIED_KEYS
        if missing and keys is None:
            # Asked for by name, keys whose slot of a cluster is moving are not missing: the server
            # answers TRYAGAIN.
            return await self.verify(lane, token, sequence, missing)
        start = self._starts.get(lane)
        if keys is None and start is not None:
            await self._registry.note_start(lane, start)
        return missing

    async def load(
        self, lane: int, head: Head, keys_of: Callable[[Head, Sequence[str]], list[str]]
    ) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
        """Return (segment names, blobs) of a claimed lane: the values of the keys that `keys_of`
        names, and None for the other keys that readers follow. Raises Lost if the lane has another
        writer by now."""
        prefix = self.prefix(lane)
        owner = [head.token, str(head.sequence)]
        answer = await self._run(LOAD, self._base_keys(prefix), owner)
        if answer is None:
            raise Lost
        names, listed = pairs_of(answer[0]), [key.decode() for key in answer[1]]
        short = short_of(answer[2], len(names), *answer[3:])
        if short:
            raise DamagedLane(lane, short, head.token, start_of(head))
        wanted = keys_of(head, listed)
        blobs: dict[str, bytes | None] = dict.fromkeys(listed)
        for first in range(0, len(wanted), LOAD_KEYS):
            part = wanted[first : first + LOAD_KEYS]
            values = await self._run(
                LOAD, self._base_keys(prefix) + [prefix + key for key in part], owner
            )
            if values is None:
                raise Lost
            blobs |= dict(zip(part, values, strict=True))
        missing = [key for key in wanted if key != ADMITTED_KEY and blobs[key] is None]
        if missing:
            raise DamagedLane(lane, missing_keys(missing), head.token, start_of(head))
        return names, blobs

    async def commit(self, commit: Commit) -> Answer:
        """Publish a commit. After Unavailable, send it again unchanged."""
        call = call_of(commit, self.prefix(commit.lane))
        if call.staged:
            await answered(self._client, self._stage(call.staged))
        answer = await self._run(COMMIT, call.keys, call.arguments)
        if START_FIELD in commit.fields and (head := await self.head(commit.lane)) is not None:
            await self._note_start(commit.lane, head, None)
        return cast(Answer, answer.decode())

    async def head(self, lane: int) -> Head | None:
        """Return the head of a lane, whoever owns it; None where nobody claimed it yet. Raises
        Damaged."""
        pairs: Any = self._client.hgetall(f"{self.prefix(lane)}head")
        found = await answered(self._client, pairs)
        return head_of({name.decode(): value for name, value in found.items()}) if found else None

    async def accepted_log(self, lane: int, log: str) -> AcceptedLog | None:
        """Return the log of a topic that an operator let this lane begin, if any."""
        return await AcceptedLogs(self._client, self._namespace).of(lane, log)

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        """Return whether the lane still has this token and sequence; if it has, write the idle mark
        (clock in ms) in the same step."""
        mark = "" if idle_ms is None else str(idle_ms)
        keys = [f"{self.prefix(lane)}head"]
        return bool(await self._run(TOUCH, keys, [token, sequence, mark]))

    async def mark(self, lane: int, token: str, sequence: int, mark: StallMark) -> bool:
        """Write the mark of a batch that takes too long into the head. Returns whether the lane
        still has this token and sequence; else nothing is written."""
        keys = [f"{self.prefix(lane)}head"]
        return bool(await self._run(MARK, keys, [token, sequence, pack_mark(mark)]))

    async def read(
        self, lane: int, token: str, sequence: int | None, names: int
    ) -> LaneDelta | None:
        """Return what changed since (token, sequence), where the reader has `names` segment names;
        None if there is no such lane. Raises DamagedLane if a part of it is missing.

        A large answer takes several calls. A page that is written meanwhile comes again at the end:
        all pages are as of the head of the last call.
        """
        keys, prefix = self._base_keys(self.prefix(lane)), self.prefix(lane)
        seen: int | str = "" if sequence is None else sequence
        upto: int | bytes | str = seen
        whole, new_names, pages = False, list[tuple[int, str]](), dict[str, bytes]()
        while True:
            arguments = [prefix, token, seen, upto, names + len(new_names), READ_BYTES]
            pairs, restart, added, written, values, upto, done, damage, missing = await self._run(
                READ, keys, arguments
            )
            if damage:
                raise DamagedLane(lane, damage.decode())
            if not pairs:
                return None
            head = head_of(pairs_of(pairs))
            if missing:
                await self._confirm_missing(lane, head, [key.decode() for key in missing])
            if restart:
                whole, new_names, pages, names = True, [], {}, 1
            new_names += [msgspec.json.decode(name, type=tuple[int, str]) for name in added]
            pages |= {key.decode(): value for key, value in zip(written, values, strict=True)}
            if done:
                return LaneDelta(head, whole, new_names, pages)
            token, seen = head.token, head.sequence

    async def _confirm_missing(self, lane: int, head: Head, keys: Sequence[str]) -> None:
        """Raise DamagedLane if these keys are missing, and Unavailable if they only were."""
        try:
            missing = await self.verify(lane, head.token, head.sequence, keys)
        except Lost:
            missing = []
        if missing:
            raise DamagedLane(lane, missing_keys(missing), head.token, start_of(head))
        raise Unavailable(f"lane {lane}: changed while it was read")

    def _claim_keys(self, prefix: str) -> list[str]:
        return [*self._base_keys(prefix), prefix + ADMITTED_KEY]

    @staticmethod
    def _base_keys(prefix: str) -> list[str]:
        return [f"{prefix}head", f"{prefix}names", f"{prefix}changes"]

    async def _stage(self, values: Mapping[str, bytes]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for key, value in values.items():
            pipeline.set(key, value, ex=STAGED_FOR_S)
        # Raised here, because redis-py would put the value into the text of the error.
        for result in await pipeline.execute(raise_on_error=False):
            if isinstance(result, Exception):
                raise result

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        return await answered(self._client, evaluate(self._client, script, keys, arguments))
