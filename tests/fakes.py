"""Fakes in memory that keep the promises of the real store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from relevanced.daemon.errors import Damaged, Lost
from relevanced.daemon.storage import (
    LOGS_FIELD,
    NO_MARKS,
    SINCE_FIELD,
    Commit,
    DamagedLane,
    Head,
    LaneStart,
    LogMarks,
    blob_keys,
    encoded,
    head,
    head_of,
    ids_of,
    missing_keys,
    start_of,
)

KeysOf = Callable[[Head, Sequence[str]], list[str]]


class Verified:
    """The part of a store in memory that deals with damage; `lane_of` gives its lanes."""

    permitted = False

    def lane_of(self, lane: int) -> "MemoryLane":
        raise NotImplementedError

    async def begin_anew(
        self,
        lane: int,
        found: str,
        token: str,
        start: Mapping[str, int],
        logs: LogMarks = NO_MARKS,
        since_ms: int | None = None,
    ) -> Head:
        begin = msgspec.json.encode(start)
        return self.lane_of(lane).begin_anew(found, token, begin, logs, since_ms)

    async def may_begin_anew(self, lane: int) -> bool:
        return self.permitted

    async def verify(
        self, lane: int, token: str, sequence: int, keys: Sequence[str] | None = None
    ) -> list[str]:
        return self.lane_of(lane).verify(token, sequence, keys)


@dataclass
class MemoryLane:
    """One lane as a store contains it: the head's fields, names, blobs, and key → sequence that
    wrote it last if readers follow it, else 0."""

    fields: dict[str, bytes] = field(default_factory=dict)
    names: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)

    def claim(self, token: str, offsets: bytes, logs: LogMarks = NO_MARKS) -> Head:
        if not self.fields:
            if self.names or self.listed:
                raise DamagedLane(0, "its head is gone")
            self.fields = {"offsets": offsets, "start": offsets, "sequence": b"0"}
            self.fields |= {LOGS_FIELD: encoded(logs)} if logs else {}
            self._count()
        self.fields["token"] = token.encode()
        try:
            return head_of(self.fields)
        except Damaged as error:
            raise DamagedLane(0, str(error.__cause__), token, self._start()) from error

    def begin_anew(
        self,
        found: str,
        token: str,
        offsets: bytes,
        logs: LogMarks = NO_MARKS,
        since_ms: int | None = None,
    ) -> Head:
        if self.fields.get("token", b"") != found.encode():
            raise Lost
        self.fields, self.names, self.blobs, self.listed = {}, {}, {}, {}
        self.claim(token, offsets, logs)
        self.fields |= {} if since_ms is None else {SINCE_FIELD: b"%d" % since_ms}
        return head_of(self.fields)

    def verify(self, token: str, sequence: int, keys: Sequence[str] | None = None) -> list[str]:
        if (self.fields.get("token"), self.fields.get("sequence")) != (
            token.encode(),
            b"%d" % sequence,
        ):
            raise Lost
        if keys is None and not self.is_counted():
            raise DamagedLane(0, "keys or names are missing", token, self._start())
        return [key for key in (self.listed if keys is None else keys) if key not in self.blobs]

    def _start(self) -> LaneStart:
        """What is noted of it outside of the head."""
        offsets = msgspec.json.decode(self.fields["start"], type=dict[str, int])
        replaced = msgspec.json.decode(self.fields.get("counts", b"{}")).get("replaced_logs", {})
        ids = ids_of(head.decoded(self.fields.get(LOGS_FIELD, b"{}")))
        since = self.fields.get(SINCE_FIELD)
        own_ids = {log: id_ for log, id_ in ids.items() if log not in replaced}
        return LaneStart(offsets, own_ids, None if since is None else int(since))

    def is_counted(self) -> bool:
        there = (b"%d" % len(self.listed), b"%d" % len(self.names))
        return there == (self.fields["keys"], self.fields["names"])

    def _count(self) -> None:
        self.fields |= {"keys": b"%d" % len(self.listed), "names": b"%d" % len(self.names)}

    def commit(self, commit: Commit) -> str:
        if self.fields.get("token") != commit.token.encode():
            return "lost"
        if int(self.fields["sequence"]) != commit.sequence:
            return "already" if int(self.fields["sequence"]) == commit.sequence + 1 else "lost"
        if commit.kept is None:
            if not self.is_counted():
                return "damaged"
        elif (kept := [*commit.kept, *commit.kept_unread]) and self.verify(
            commit.token, commit.sequence, kept
        ):
            return "damaged"
        else:
            self.names, self.listed = {}, {}
        self.blobs |= commit.blobs
        for key in commit.unlinked:
            self.blobs.pop(key, None)
            self.listed.pop(key, None)
        self.fields |= commit.fields
        self.names |= commit.names
        self.listed |= {key: 0 for key in (*commit.blobs, *commit.kept_unread)}
        self.listed |= {key: commit.sequence + 1 for key in (*commit.listed, *(commit.kept or ()))}
        self._count()
        self.fields["sequence"] = str(commit.sequence + 1).encode()
        return "applied"

    def load(self, head: Head, keys_of: KeysOf = blob_keys) -> Mapping[str, bytes | None]:
        followed = [key for key, sequence in self.listed.items() if sequence]
        wanted = keys_of(head, followed)
        missing = [key for key in wanted if key in self.listed and key not in self.blobs]
        if missing:
            raise DamagedLane(0, missing_keys(missing), head.token, start_of(head))
        return {**dict.fromkeys(followed), **{key: self.blobs.get(key) for key in wanted}}
