"""A commit as its script takes it: what is staged before, the keys, the arguments. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..commit import Commit

ALONG_BYTES: Final = 4096
"""A page of no more than this is sent along with the script: to stage it, look for it, rename it
and take its end in time away costs the server more than to carry so few bytes through Lua."""
ALONG_BYTES_IN_ALL: Final = 128 * 1024
"""Of one commit, that its script stays short."""


@dataclass(frozen=True)
class Call:
    """What is sent for a commit: first the staged parts, then the script with these."""

    staged: Mapping[str, bytes]
    keys: Sequence[str]
    arguments: Sequence[str | int | bytes]


def call_of(commit: Commit, prefix: str) -> Call:
    """The same for the same commit, whose lane's keys begin with the prefix."""
    unread = sorted(commit.blobs.keys() - set(commit.listed))
    written = [*commit.listed, *unread]
    along = _sent_along(commit)
    parts = [commit.blobs[key] for key in written if key not in along]
    stage = f"{prefix}stage:{commit.token}:{commit.sequence}:"
    staged = {f"{stage}{number}": part for number, part in enumerate(parts)}
    keys = [f"{prefix}{name}" for name in ("head", "names", "changes")]
    keys += [*staged, *(prefix + key for key in (*written, *commit.unlinked))]
    counts = [len(staged), len(commit.listed), len(unread), len(commit.unlinked)]
    pairs = [part for pair in (*commit.names.items(), *commit.fields.items()) for part in pair]
    arguments = [
        commit.token,
        commit.sequence,
        *counts,
        len(commit.names),
        len(commit.fields),
        *(along.get(key, b"") for key in written),
        *pairs,
    ]
    return Call(staged, keys, arguments)


def _sent_along(commit: Commit) -> dict[str, bytes]:
    """Pages that are not staged. Blocks always are: a commit has one, and most of its bytes."""
    along, left = dict[str, bytes](), ALONG_BYTES_IN_ALL
    for key in commit.listed:
        value = commit.blobs[key]
        if 0 < len(value) <= min(ALONG_BYTES, left):
            along[key] = value
            left -= len(value)
    return along
