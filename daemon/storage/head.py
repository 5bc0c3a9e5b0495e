"""The head of a lane in the store: its owner, how far it was read, what its writer needs. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..errors import Damaged
from ..lane.watermarks import Pending
from . import log_marks
from .class_files import CLASSES_FIELD, ClassesHead
from .experiments import Tracked
from .judged import JUDGED_FIELD, JUDGEMENTS_FIELD, JudgedHead, TimelineHead
from .keys import ADMITTED_KEY, ROW_KEYS, block_key
from .log_marks import LaneStart, LogMarks, ids_of
from .packing import PackingError, unpack
from .query_examples import hour_of as example_hour_of
from .query_head import QueryHead
from .query_head import hour_of as query_hour_of
from .stall_mark import NO_STALL, StallMark, unpack_mark

WAY_OUT: Final = (
    "Restore Redis from a backup, or begin the lane anew from what Kafka still has:"
    " relevanced lane begin-anew LANE"
)
"""What an operator can do about a damaged lane."""
LOGS_FIELD: Final = "logs"
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
    `settled_before` and `experiments`.

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
    """Topic → what is ahead of its watermark, and what else decides how that moves."""
    lost_hours: list[int] = []
    """Starts of hours whose rows the store lost: no sum may contain them."""
    timed_from: int = 0
    """The first slot of which delays are known."""


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
    logs: LogMarks = field(default_factory=dict)
    """By topic."""
    stall: StallMark | None = None
    queries: QueryHead | None = None
    """None where the lane keeps no queries."""
    judged: JudgedHead | None = None
    """None where nothing is judged."""
    judgements: TimelineHead | None = None
    """The files that graded; None where nothing is judged."""
    classes: ClassesHead | None = None
    """The files that classed queries; None where no attribute is derived by files."""


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


def new_head(token: str, start: Mapping[str, int], logs: LogMarks) -> list[str | int | bytes]:
    """Return the number of fields of a new lane's head, then the fields and their values."""
    begin = msgspec.json.encode(start)
    fields = {"offsets": begin, "start": begin, UNSWEPT: token.encode()}
    fields |= {LOGS_FIELD: log_marks.encoded(logs)} if logs else {}
    return [len(fields), *(part for pair in fields.items() for part in pair)]


def start_of(head: Head) -> LaneStart | None:
    """Return where a lane began; None where its head does not say so."""
    if head.start is None:
        return None
    replaced = head.counts.get("replaced_logs", {})
    ids = {topic: id_ for topic, id_ in ids_of(head.logs).items() if topic not in replaced}
    return LaneStart(dict(head.start), ids)


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
        start=_offsets(fields["start"]) if "start" in fields else None,
        logs=log_marks.decoded(fields.get(LOGS_FIELD, b"{}")),
        stall=unpack_mark(fields.get(STALL_FIELD, NO_STALL)),
        queries=unpack(queries, QueryHead) if (queries := fields.get(QUERIES_FIELD)) else None,
        judged=unpack(judged, JudgedHead) if (judged := fields.get(JUDGED_FIELD)) else None,
        judgements=unpack(files, TimelineHead) if (files := fields.get(JUDGEMENTS_FIELD)) else None,
        classes=unpack(classes, ClassesHead) if (classes := fields.get(CLASSES_FIELD)) else None,
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
        if (
            query_hour_of(key) in head.queries.hours
            or example_hour_of(key) in head.queries.examples
        ):
            return True
    hours = [hour for keys in ROW_KEYS if (hour := keys.of_hour(key)) is not None]
    return bool(hours) and head.state.open_hour is not None and hours[0][0] < head.state.open_hour
