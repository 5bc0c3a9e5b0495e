"""Fakes in memory that keep the promises of the real store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from relevanced.daemon.storage.commit import Commit
from relevanced.daemon.storage.head import Head, blob_keys, head_of

KeysOf = Callable[[Head, Sequence[str]], list[str]]


@dataclass
class MemoryLane:
    """One lane as a store contains it: the head's fields, names, blobs, and key → sequence of the
    keys that readers follow."""

    fields: dict[str, bytes] = field(default_factory=dict)
    names: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)

    def claim(self, token: str, offsets: bytes) -> Head:
        if not self.fields:
            self.fields = {"offsets": offsets, "sequence": b"0"}
        self.fields["token"] = token.encode()
        return head_of(self.fields)

    def commit(self, commit: Commit) -> str:
        if self.fields.get("token") != commit.token.encode():
            return "lost"
        if int(self.fields["sequence"]) != commit.sequence:
            return "already" if int(self.fields["sequence"]) == commit.sequence + 1 else "lost"
        self.blobs |= commit.blobs
        for key in commit.unlinked:
            self.blobs.pop(key, None)
            self.listed.pop(key, None)
        self.fields |= commit.fields
        self.names |= commit.names
        self.listed |= {key: commit.sequence + 1 for key in commit.listed}
        self.fields["sequence"] = str(commit.sequence + 1).encode()
        return "applied"

    def load(self, head: Head, keys_of: KeysOf = blob_keys) -> Mapping[str, bytes | None]:
        wanted = keys_of(head, list(self.listed))
        return {**dict.fromkeys(self.listed), **{key: self.blobs.get(key) for key in wanted}}
