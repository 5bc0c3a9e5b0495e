"""The port through which worker and exporter reach stored lanes. Redis implements it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from ...errors import Damaged
from ..commit import Commit
from ..head import NO_MARKS, WAY_OUT, AcceptedLog, Head, LaneStart, LogMarks

NAMED_KEYS: Final = 3
"""So many missing keys are named in messages."""

Answer: TypeAlias = Literal["applied", "already", "lost", "damaged"]


class DamagedLane(Damaged):
    """Parts of a stored lane are missing or cannot be read.

    `token` is that of its head, "" where it has none; `start` is where the lane began, None where
    nothing says so.
    """

    def __init__(
        self, lane: int, what: str, token: str = "", start: LaneStart | None = None
    ) -> None:
        self.token, self.start = token, start
        super().__init__(f"lane {lane} is damaged in Redis: {what}. {WAY_OUT} (LANE: {lane})")


def short_of(keys: int, names: int, must_list: bytes, must_name: bytes) -> str:
    """Return a text that says how many entries `changes` and `names` have, and must have; "" where
    they have them."""
    if (b"%d" % keys, b"%d" % names) == (must_list, must_name):
        return ""
    must = [text.decode() or "an unknown number" for text in (must_list, must_name)]
    return f"`changes` has {keys} entries and `names` {names}, must have {must[0]} and {must[1]}"


def missing_keys(keys: Sequence[str]) -> str:
    """Return a text that names the first of these keys, and how many there are."""
    named = ", ".join(keys[:NAMED_KEYS]) + (", …" if len(keys) > NAMED_KEYS else "")
    return f"{len(keys)} of the keys that it lists are missing ({named})"


@dataclass(frozen=True)
class LaneDelta:
    """What changed of a lane since its reader's last read. Where `whole`, it is the whole lane, and
    replaces what the reader had."""

    head: Head
    whole: bool
    names: Sequence[tuple[int, str]]
    """(grouping id, segment) of the segments that the reader does not have yet."""
    pages: Mapping[str, bytes]


@dataclass(frozen=True)
class Term:
    """Whether a namespace serves."""

    serves: bool
    """It has caught up, and was not succeeded since."""
    successor: str | None = None
    """The namespace that took over from this one, and has workers; None where there is none."""
    predecessor: str | None = None
    """The namespace with workers that serves while this one catches up; None where there is none:
    then nobody else has the series."""
    retired: bool = False
    """An operator is about to remove it for good."""


class Store(Protocol):
    """Lanes of one namespace. All methods raise Unavailable while the server does not answer or
    refuses for now."""

    async def claim(
        self, lane: int, token: str, start: Mapping[str, int], logs: LogMarks = NO_MARKS
    ) -> Head:
        """Become the writer of a lane under a token never used before; returns its head.

        `start` becomes its offsets if it has never been claimed, and `logs` its marks. Raises
        DamagedLane, with nothing written, if its head is gone. A claim is never sent twice: each
        attempt takes a new token, so that the late delivery of an earlier one is noticed by the
        next compare.
        """

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

    async def may_begin_anew(self, lane: int) -> bool:
        """Return whether an operator permitted the lane to begin anew, a short while ago."""

    async def verify(
        self, lane: int, token: str, sequence: int, keys: Sequence[str] | None = None
    ) -> list[str]:
        """Return which of these keys, or of all that the lane lists, are missing.

        Raises Lost if the lane has another token or sequence, and DamagedLane if it lists fewer
        keys or names than its head says."""

    async def load(
        self, lane: int, head: Head, keys_of: Callable[[Head, Sequence[str]], list[str]]
    ) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
        """Return (segment names, blobs) of a claimed lane: the values of the keys that `keys_of`
        names, and None for the other keys that readers follow. Raises Lost if the lane has another
        writer by now."""

    async def commit(self, commit: Commit) -> Answer:
        """Publish a commit. After Unavailable, send it again unchanged. `damaged`: nothing was
        written, because keys or names of the lane are missing."""

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        """Return whether the lane still has this token and sequence; if it has, write the idle mark
        (clock in ms) in the same step."""

    async def accepted_log(self, lane: int, log: str) -> AcceptedLog | None:
        """Return the log of a topic that an operator let this lane begin, if any."""

    async def read(
        self, lane: int, token: str, sequence: int | None, names: int
    ) -> LaneDelta | None:
        """Return what changed since (token, sequence), where the reader has `names` segment names;
        None if there is no such lane. Raises DamagedLane if a part of it is missing."""
