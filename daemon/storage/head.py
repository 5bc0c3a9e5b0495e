"""The head of a lane in the store: its owner, how far it was read, what its writer needs. Pure.

A lane remembers enough of each log that it reads to tell that log from another one. Offsets alone
do not: a topic that is deleted and created again, or a log that lost its end and was written on,
has the same offsets with other records behind them.

An owner whose work on a batch takes too long leaves a mark there while the work goes on, not after
it: what stalls an owner may end with the death of its process. A later commit leaves the field
where it is, and offsets show that it is past. With another log, whose offsets mean something else,
it is dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

from ..errors import Damaged
from ..events import LogRecord
from ..lane import Pending, Taken, lane_watermark_ms
from ..plan import BY_JUDGEMENTS
from . import row_pages
from .experiments import Tracked
from .keys import (
    ADMITTED_KEY,
    OPTIONAL_KEYS,
    ROW_KEYS,
    PackingError,
    block_key,
    unpack,
)
from .row_pages import (
    CLASSES_FIELD,
    JUDGEMENTS_FIELD,
    ClassesHead,
    RowsHead,
    TimelineHead,
    hour_of as example_hour_of,
)


class LogMark(msgspec.Struct, array_like=True, frozen=True):
    """One log, as far as a lane has read it. The order of the fields is the format."""

    topic_id: str | None = None
    """None: the cluster has no topic ids (before Kafka 2.8)."""
    last_offset: int | None = None
    """Of the last record that was read; None before the first."""
    checksum: int | None = None
    """Of that record."""
    found: str | None = None
    """While the lane is stopped, because another log was found: the topic id of that log, or "" in
    a cluster without ids."""
    unread: int | None = None
    """With `found`: how many records of the log that was read are known to have been left."""


LogMarks: TypeAlias = Mapping[str, LogMark]
NO_MARKS: Final[LogMarks] = {}


class AcceptedLog(msgspec.Struct, array_like=True, frozen=True):
    """An operator's permission for a lane to begin another log of a topic from its start."""

    topic_id: str
    """Of the log that is accepted; "" in a cluster without ids."""
    offset: int
    """The lane's stored offset in the log that it had read. No other stop of the lane is at this
    offset of that log, so the permission applies to this stop alone."""


def checksum_of(record: LogRecord) -> int:
    """Return the CRC-32 of a record's key, value and time stamp."""
    checksum = crc32(record.value or b"", crc32(record.key or b""))
    return crc32(b"%d" % record.timestamp, checksum)


def note_read(marks: dict[str, LogMark], topics: Mapping[str, Sequence[LogRecord]]) -> None:
    """Note that these records of each topic were read, in offset order."""
    for topic, records in topics.items():
        if records:
            mark = marks.get(topic, LogMark())
            marks[topic] = LogMark(mark.topic_id, records[-1].offset, checksum_of(records[-1]))


def first_marks(topic_ids: Mapping[str, str]) -> dict[str, LogMark]:
    """Return the marks of logs of which nothing has been read yet."""
    return {topic: LogMark(topic_id) for topic, topic_id in topic_ids.items()}


class LaneStart(msgspec.Struct, array_like=True, frozen=True):
    """Where a lane began. The order of the fields is the format."""

    offsets: dict[str, int]
    """By log."""
    topic_ids: dict[str, str]
    """Of the logs that these offsets are of; none of a log that has been replaced since."""
    since_ms: int | None = None
    """As `Head.since_ms`."""

    def is_in(self, logs: LogMarks) -> bool:
        """Whether these are the logs that the lane began in. A cluster without topic ids cannot
        tell, and is believed."""
        ids = {topic: mark.topic_id for topic, mark in logs.items()}
        return all(self.topic_ids.get(topic) == id_ for topic, id_ in ids.items() if id_)


def ids_of(marks: LogMarks) -> dict[str, str]:
    """Return the topic ids of these logs, where they have any."""
    return {topic: mark.topic_id for topic, mark in marks.items() if mark.topic_id}


def with_ids(marks: LogMarks, logs: LogMarks) -> dict[str, LogMark]:
    """Return the marks with an id of `logs` where they have none, as after an upgrade of a cluster
    that had no topic ids."""
    named = {
        topic: msgspec.structs.replace(mark, topic_id=logs[topic].topic_id)
        for topic, mark in marks.items()
        if mark.topic_id is None and topic in logs
    }
    return {**logs, **marks, **named}


def encoded(marks: LogMarks) -> bytes:
    """Return marks as they are stored in a head."""
    return msgspec.json.encode(marks)


def decoded(data: bytes) -> dict[str, LogMark]:
    """Return stored marks. Raises msgspec.DecodeError, a ValueError."""
    return msgspec.json.decode(data, type=dict[str, LogMark])


PREFIX: Final = "queries:"
_PART: Final = ":part:"


class QueryHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of its tables of queries."""

    since_ms: int | None = None
    """The first hour that has tables; None: all have."""
    hour_ms: int | None = None
    """The open hour, if a pane of it has settled."""
    parts: tuple[int, ...] = ()
    part_rows: int = 0
    hours: dict[int, int] = {}
    """Start of an hour that is over and has a page → its bytes."""
    lost: tuple[int, ...] = ()
    """Starts of hours whose page the store lost."""
    key: str = ""
    """Fingerprint of the secret key of hashed texts."""
    unicode: str = ""
    """The version of Unicode that decides which texts are one query, of the last writer."""
    closed_ms: int | None = None
    """Start of the last hour with searches that is over."""
    last_counts: tuple[int, int] = (0, 0)
    """Impressions of that hour whose queries are not listed, and all of them."""
    examples: dict[int, int] = {}
    """Start of an hour that is over and has examples → their bytes."""
    lost_examples: tuple[int, ...] = ()
    """Starts of hours whose examples the store lost."""
    missing_since_ms: int | None = None
    """The first hour that has a table of items without a judgement, where the layout asks for it;
    None: all have."""
    kept_from_ms: int | None = None
    """As in `LaneQueries`."""

    @property
    def example_keys(self) -> list[str]:
        """The keys of the examples of hours that are over."""
        return [row_pages.examples_hour_key(start) for start in self.examples]

    @property
    def part_keys(self) -> list[str]:
        """The keys of the parts of the open hour, in order."""
        return [part_key(self.hour_ms or 0, number) for number in self.parts]

    @property
    def hour_keys(self) -> list[str]:
        """The keys of the hours that are over."""
        return [queries_hour_key(start) for start in self.hours]


def queries_hour_key(start: int) -> str:
    """Return the key of an hour that is over."""
    return f"{PREFIX}{start}"


def part_key(start: int, number: int) -> str:
    """Return the key of a part of the open hour."""
    return f"{PREFIX}{start}{_PART}{number}"


def hour_of(key: str) -> int | None:
    """Return the start of the hour whose page has this key; None for other keys."""
    if not key.startswith(PREFIX) or _PART in key:
        return None
    return int(key.removeprefix(PREFIX))


class StallMark(msgspec.Struct, frozen=True):
    """Work on a lane that took too long."""

    sequence: int
    """Of the head that the work began with."""
    times: int
    """How many owners, one after the other, took too long over work that began here."""
    until: Mapping[str, int]
    """The next offset of each log after the batch in which it began."""
    record: tuple[str, int] | None = None
    """Log and offset, where one record alone was worked on."""


NO_STALL: Final = b"null"
"""The field of a mark that was dropped: fields of a head are never removed."""


def pack_mark(mark: StallMark) -> bytes:
    """Return the bytes of the field."""
    return msgspec.json.encode(mark)


def unpack_mark(data: bytes) -> StallMark | None:
    """Return the mark in the field; None where there is none. Raises ValueError."""
    return msgspec.json.decode(data, type=StallMark | None)


WAY_OUT: Final = (
    "Restore Redis from a backup, or begin the lane anew from what Kafka still has:"
    " relevanced lane begin-anew LANE"
)
"""What an operator can do about a damaged lane."""
LOGS_FIELD: Final = "logs"
LIFTS_FIELD: Final = "lifts"
START_FIELD: Final = "start"
"""Written by lanes that have any."""
SINCE_FIELD: Final = "since"
"""Written where a lane begins anew, and a part of what it had is lost."""
TAKEN_FIELD: Final = "taken"
"""Written by lanes of what a stage sends."""
IDLE_FIELD: Final = "idle"
QUERIES_FIELD: Final = "queries"
NO_QUERIES: Final = b""
"""The value of the field where queries were kept and are not any more."""
STALL_FIELD: Final = "stall"
UNSWEPT: Final = "unswept"
"""Field of a head that was just made: its token, until no key of an earlier lane can be left."""


class BlockEntry(msgspec.Struct, array_like=True, frozen=True):
    """A block as the lane's head lists it: its number, the slots and serials that it brought, and
    the watermark at which all of it has expired."""

    number: int
    first_slot: int
    end_slot: int
    first_serial: int
    end_serial: int
    expires_ms: int
    size: int


class WriterState(msgspec.Struct, array_like=True, frozen=True):
    """The packed part of a lane's head: what its writer needs to go on. Readers use only
    `settled_before`, `experiments`, `lost_hours` and `expires_ms`.

    `names` is how many segments the lane has; `settled_before` and `open_hour` are in ms.
    """

    next_slot: int = 0
    next_serial: int = 0
    settled_before: int | None = None
    names: int = 1
    blocks: list[BlockEntry] = []
    experiments: list[Tracked] = []
    open_hour: int | None = None
    """Rows of hours that start earlier do not change any more."""
    pending: dict[str, Pending] = {}
    """Log → what is ahead of its watermark, and what else decides how that moves."""
    lost_hours: list[int] = []
    """Starts of hours whose rows the store lost: no sum may contain them."""
    timed_from: int = 0
    """The first slot of which delays are known."""

    @property
    def expires_ms(self) -> int:
        """The watermark at which nothing of the lane is open or waits any more; 0: nothing does."""
        return max((block.expires_ms for block in self.blocks), default=0)


@dataclass(frozen=True)
class Head:
    """A lane's head as the store contains it."""

    token: str
    sequence: int
    offsets: Mapping[str, int]
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    state: WriterState = WriterState()
    idle_ms: int | None = None
    start: Mapping[str, int] | None = None
    """Offsets at which the lane began."""
    since_ms: int | None = None
    """From which instant on, by the timestamps of records, it has all of its logs, where it began
    anew and what it had before is lost; None: from where it began."""
    logs: LogMarks = field(default_factory=dict)
    """By log."""
    stall: StallMark | None = None
    queries: QueryHead | None = None
    """None where the lane keeps no queries."""
    optional_rows: Mapping[str, RowsHead] = field(default_factory=dict)
    """By measure, as `Lane.optional_rows`."""
    judgements: TimelineHead | None = None
    """The files that graded; None where nothing is judged."""
    classes: ClassesHead | None = None
    """The files that classed queries; None where no attribute is derived by files."""
    lifts: Mapping[str, int] = field(default_factory=dict)
    """Log → the watermark that its records meet at least."""
    taken: Taken = field(default_factory=Taken)
    """Of what a stage sends."""

    @property
    def judged(self) -> RowsHead | None:
        """What it says of judged rows; None where nothing is judged."""
        return self.optional_rows.get(BY_JUDGEMENTS)

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of the lane; None while a log has none."""
        return lane_watermark_ms(self.watermarks, self.lifts)

    @property
    def replaced_logs(self) -> frozenset[str]:
        """The logs that took the place of others which the lane had read: of these, what Kafka has
        is not all from its first record on."""
        return frozenset(self.counts.get("replaced_logs", ()))

    def whole_from(self, base_ms: int) -> int | None:
        """Start of the first base pane, of this length, of which the lane has all, in ms; None: it
        lost nothing when it began."""
        return None if self.since_ms is None else -(-self.since_ms // base_ms) * base_ms


WRITTEN_BY_COMMITS: Final = ("watermarks", "counts", "state", "keys", "names")
"""Fields that the head has after the first commit."""


@contextmanager
def whole_or_damaged(what: str) -> Iterator[None]:
    """Turn errors of reading stored values into Damaged: a part is missing or was not written by
    this version."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, PackingError) as error:
        raise Damaged(
            f"{what}: a part is missing or cannot be read ({type(error).__name__}: {error})."
            f" {WAY_OUT}"
        ) from error


def new_head(
    token: str, start: Mapping[str, int], logs: LogMarks, since_ms: int | None = None
) -> list[str | int | bytes]:
    """Return the number of fields of a new lane's head, then the fields and their values."""
    begin = msgspec.json.encode(start)
    fields = {"offsets": begin, START_FIELD: begin, UNSWEPT: token.encode()}
    fields |= {LOGS_FIELD: encoded(logs)} if logs else {}
    fields |= {} if since_ms is None else {SINCE_FIELD: str(since_ms).encode()}
    return [len(fields), *(part for pair in fields.items() for part in pair)]


def start_of(head: Head) -> LaneStart | None:
    """Return where a lane began; None where its head does not say so."""
    if head.start is None:
        return None
    replaced = head.replaced_logs
    ids = {topic: id_ for topic, id_ in ids_of(head.logs).items() if topic not in replaced}
    return LaneStart(dict(head.start), ids, head.since_ms)


def head_of(fields: Mapping[str, bytes]) -> Head:
    """Return the head in the store's fields. Raises Damaged where they are none."""
    with whole_or_damaged("head of a lane"):
        return _head_of(fields)


def _head_of(fields: Mapping[str, bytes]) -> Head:
    idle, sequence = fields.get(IDLE_FIELD, b"0"), int(fields["sequence"])
    if sequence:
        for name in WRITTEN_BY_COMMITS:
            fields[name]  # pylint: disable=pointless-statement  # KeyError where it is gone
    return Head(
        token=fields["token"].decode(),
        sequence=sequence,
        offsets=_offsets(fields["offsets"]),
        watermarks=msgspec.json.decode(fields.get("watermarks", b"{}"), type=dict[str, int | None]),
        counts=msgspec.json.decode(fields.get("counts", b"{}"), type=dict[str, dict[str, int]]),
        state=unpack(fields["state"], WriterState) if "state" in fields else WriterState(),
        idle_ms=int(idle) or None,  # 0: it was taken back
        start=_offsets(fields[START_FIELD]) if START_FIELD in fields else None,
        since_ms=int(fields[SINCE_FIELD]) if SINCE_FIELD in fields else None,
        logs=decoded(fields.get(LOGS_FIELD, b"{}")),
        stall=unpack_mark(fields.get(STALL_FIELD, NO_STALL)),
        queries=unpack(queries, QueryHead) if (queries := fields.get(QUERIES_FIELD)) else None,
        optional_rows={
            measure: unpack(data, RowsHead)
            for measure, keys in OPTIONAL_KEYS.items()
            if (data := fields.get(keys.field))
        },
        judgements=unpack(files, TimelineHead) if (files := fields.get(JUDGEMENTS_FIELD)) else None,
        classes=unpack(classes, ClassesHead) if (classes := fields.get(CLASSES_FIELD)) else None,
        lifts=_offsets(fields.get(LIFTS_FIELD, b"{}")),
        taken=msgspec.json.decode(fields.get(TAKEN_FIELD, b"{}"), type=Taken),
    )


def _offsets(data: bytes) -> dict[str, int]:
    return msgspec.json.decode(data, type=dict[str, int])


def blob_keys(head: Head, listed: Sequence[str]) -> list[str]:
    """Return the keys to read so that a lane can be rebuilt: its blocks, its pages, and the values
    that were admitted. Of the hours, only those that can still change."""
    blocks = (block_key(entry.number) for entry in head.state.blocks)
    pages = (key for key in listed if not is_past(head, key))
    queries = () if head.queries is None else head.queries.part_keys
    return [*blocks, *pages, *queries, ADMITTED_KEY]


def is_past(head: Head, key: str) -> bool:
    """True for a page of an hour that cannot change any more."""
    if head.queries is not None:
        if hour_of(key) in head.queries.hours or example_hour_of(key) in head.queries.examples:
            return True
    hours = [hour for keys in ROW_KEYS.values() if (hour := keys.of_hour(key)) is not None]
    return bool(hours) and head.state.open_hour is not None and hours[0][0] < head.state.open_hour
