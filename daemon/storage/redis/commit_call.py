"""A commit as its script takes it: the values staged before, the keys, the arguments. Pure.

Large values are first SET under staging names, and the script only renames them: what passes
through Lua costs Redis about 1.5 ns per byte, while it serves nobody else. For small pages that is
cheaper than staging them, see `INLINE_BYTES`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..commit import Commit

INLINE_BYTES: Final = 4096
"""Pages up to this size are arguments of the script. SET, EXISTS, RENAME and PERSIST for a page of
two kilobytes were most of what Redis spent on a commit, and half of what the worker spent on
sending it."""
INLINE_BYTES_IN_ALL: Final = 128 * 1024
"""The most bytes of pages among the arguments of one commit, which bounds the time of its
script."""


@dataclass(frozen=True)
class Call:
    """What is sent for a commit: first the staged values, then the script with keys and
    arguments."""

    staged: Mapping[str, bytes]
    keys: Sequence[str]
    arguments: Sequence[str | int | bytes]


def call_of(commit: Commit, prefix: str) -> Call:
    """Return the call of a commit whose lane's keys begin with the prefix. The same commit always
    gives the same call: it may be sent again."""
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
    return Call(staged, keys, arguments)


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
