"""What lanes have stored of logs that are read again: which logs they have read, and of which Kafka
has no beginning any more, although nothing in Kafka shows it. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..lane import place_of
from ..storage import Head, LogMark


@dataclass(frozen=True)
class StoredLogs:
    """Of the logs of one lane, by their names in it; those who stored it may divide the same
    topic-partitions among other lanes."""

    marks: dict[str, LogMark] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    """The logs that took the place of others, as an operator accepted: they begin at offset 0, and
    what the others had is gone."""
    since_ms: int | None = None
    """What is gone without a trace is older, by the timestamps of records, where a lane began anew:
    it does not know any more which of its logs took the place of others. None: no lane did."""

    @classmethod
    def of(cls, lane: int, logs: Collection[str], heads: Mapping[int, Head]) -> "StoredLogs":
        """What these heads, by lane, say of the logs of a lane."""
        names = {place_of(lane, log): log for log in logs}
        marks, replaced, since_ms = dict[str, LogMark](), set[str](), list[int]()
        for number, head in heads.items():
            places = {log: place_of(number, log) for log in head.offsets}
            known = {log: names[at] for log, at in places.items() if at in names}
            marks |= {known[log]: mark for log, mark in head.logs.items() if log in known}
            replaced |= {known[log] for log in head.replaced_logs if log in known}
            if known and head.since_ms is not None:
                since_ms.append(head.since_ms)
        return cls(marks, frozenset(replaced), max(since_ms, default=None))
