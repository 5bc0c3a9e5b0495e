"""One batch of one lane, from records to a commit: decode, attribute, score. Pure.

The order is `begin`, all `steps` of each chunk of `chunks`, `end`: between two steps the caller may
let others run, and the result is the same however a batch is cut. Only a whole batch is committed,
so a turn in the middle of a record does no harm.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from relevanced.metrics import Integers

from ..attribution import (
    LoggedRecords,
    Messages,
    Part,
    join_rules,
    last_touch,
    queries_of,
    runs,
    vectorized,
)
from ..events import Decoded, Decoder, LogRecord, Rejected
from ..lane import Lane, scoring, settling, skip_label

MAX_CHUNK_BYTES: Final = 2 << 20
"""A chunk of more is cut. Its plain records are read in one step, at some 10 ns for a byte; 6,144
records have fewer bytes, as a rule."""
Records: TypeAlias = Mapping[str, Sequence[LogRecord]]
"""Topic → records."""


@dataclass(frozen=True)
class DeadLetter:
    """A record of which a part could not be read as an event. There is one for each record, however
    many of its elements are bad: it carries the whole record."""

    record: LogRecord
    reason: str
    detail: str


@dataclass
class RefusedParts:
    """What of one record is refused."""

    first: Rejected | None = None
    count: int = 0
    taken: int = 0
    """Its events."""

    def note(self, decoded: Decoded) -> None:
        """Note what an element of it came to."""
        if not isinstance(decoded, Rejected):
            self.taken += 1
        elif not decoded.skipped:
            self.first = self.first or decoded
            self.count += 1

    def letter(self, record: LogRecord) -> DeadLetter | None:
        """The dead letter of the record; None where nothing of it is refused."""
        if self.first is None:
            return None
        detail, more = self.first.detail, self.count - 1
        return DeadLetter(
            record, self.first.reason, f"{detail} (and {more} more)" if more else detail
        )


def chunks(
    batch: Mapping[str, Sequence[LogRecord]], most: int, most_bytes: int = MAX_CHUNK_BYTES
) -> Iterator[tuple[str, Sequence[LogRecord]]]:
    """Cut a batch into chunks of one topic each, in order and of about the same length: of at most
    `most` records, and of at most `most_bytes` bytes, but for their last records. The caller may
    yield to others between two of them."""
    for topic, records in batch.items():
        count = max(math.ceil(len(records) / most), 1)
        ends = [len(records) * part // count for part in range(count + 1)]
        for start, end in pairwise(ends):
            for chunk in _cut_by_bytes(records[start:end], most_bytes):
                yield topic, chunk


def _cut_by_bytes(records: Sequence[LogRecord], most: int) -> Iterator[Sequence[LogRecord]]:
    """Cut records into parts of about the same number of bytes: at most `most`, but for the last
    record of a part."""
    total = bytes_of(records)
    if total <= most:
        if records:
            yield records
        return
    count, start, part = math.ceil(total / most), 0, 0
    for index, before in enumerate(accumulate(len(record.value or b"") for record in records)):
        if (now := min(before * count // total, count - 1)) != part and index + 1 > start:
            yield records[start : index + 1]
            start, part = index + 1, now
    if start < len(records):
        yield records[start:]


def bytes_of(records: Sequence[LogRecord]) -> int:
    """The bytes of the values of records."""
    # Every record pays for it: this costs 21 ns, by map and filter it costs 37.
    return sum([len(record.value or b"") for record in records])


def begin(lane: Lane) -> None:
    """Make the lane ready for a batch."""
    lane.forget_unused()
    settling.class_by_files(lane)


def steps(
    lane: Lane,
    topic: str,
    records: Sequence[LogRecord],
    decoder: Decoder,
    letters: list[DeadLetter],
    small_run: int = vectorized.SMALL_RUN,
) -> Iterator[None]:
    """Apply one chunk of a batch to the lane, in steps of some milliseconds at most; appends the
    dead letters of its records. All steps must be taken."""
    if lane.chain is None:
        for part in runs.read_runs(LoggedRecords(records), decoder, lane.texts):
            yield from part_steps(lane, topic, part, letters, small_run)
            yield
        return
    for events in Messages(lane).read(records):
        for part in runs.read_runs(LoggedRecords(events.records), decoder, lane.texts):
            part, marks = yield from events.reach(lane, part)
            yield from part_steps(lane, events.log, part, letters, small_run, marks)
            yield


def part_steps(
    lane: Lane,
    topic: str,
    part: Part | None,
    letters: list[DeadLetter],
    small_run: int = vectorized.SMALL_RUN,
    marks: Integers | None = None,
) -> Iterator[None]:
    """Apply what was read of records at once; see `steps`. `marks`: see `vectorized.apply`."""
    lane.origins.note(lane.open.next_slot, topic)
    if isinstance(part, runs.Run):
        yield from vectorized.apply(lane, topic, part, small_run, marks)
    elif isinstance(part, runs.Aside):
        _count(lane, topic, part)
    elif part is not None:
        yield from _apply_single(lane, topic, part, letters)


def _count(lane: Lane, topic: str, aside: runs.Aside) -> None:
    """Count what of records is no event."""
    for _, rejected in aside.rejected:
        lane.count_rejected(topic, rejected)
    for reason, count in Counter(aside.skipped).items():
        lane.count("skipped", skip_label(topic, reason), count)
    if aside.mapped:
        lane.mapped_records[topic] += aside.mapped
        lane.mapped_slowly[topic] += aside.slowly


def _apply_single(
    lane: Lane, topic: str, single: runs.Single, letters: list[DeadLetter]
) -> Iterator[None]:
    """Apply the events of one record, which is a dead letter where a part of it is bad."""
    refusals = RefusedParts()
    for decoded in single.slices:
        yield from lane.texts.derive(queries_of(decoded))
        yield from join_rules.steps(lane, topic, decoded)
        for one in decoded:
            refusals.note(one)
        yield
    if letter := refusals.letter(single.record):
        letters.append(letter)


def end(lane: Lane, next_offsets: Mapping[str, int]) -> None:
    """Finish a batch of which every chunk was applied: store its offsets, and advance."""
    lane.offsets.update(next_offsets)
    advance(lane)


def advance(lane: Lane) -> None:
    """Bring the rows up to date with the events that were applied, and settle the panes that the
    watermark has passed."""
    last_touch.decide(lane)
    join_rules.advance(lane)
    scoring.apply_changes(lane)
    scoring.grade_shown(lane)
    settling.settle(lane)
    settling.drop_old_panes(lane)
    scoring.settle_optional_rows(lane)
    settling.let_class_files_go(lane)


TAKEN_BACK: Final = 0
"""Stands for no mark in the store, where fields of a head are never removed."""
CLOCKS_DIFFER_MS: Final = 5_000
"""The clocks of two owners may differ by so much."""


def idle_mark(stored_ms: int | None, clock_ms: int, is_caught_up: bool) -> int | None:
    """Return the mark by which an idle owner tells readers that its lane is complete up to now: the
    clock, if the ends of all logs were seen at that time; else TAKEN_BACK, if the stored mark is
    ahead of the clock; else None, which leaves it as it is.

    A clock that was a day ahead for a minute leaves a mark with which the lane seems to be complete
    up to tomorrow.
    """
    if is_caught_up:
        return clock_ms
    if stored_ms is not None and stored_ms > clock_ms + CLOCKS_DIFFER_MS:
        return TAKEN_BACK
    return None
