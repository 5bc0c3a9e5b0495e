"""Recorded events through the daemon's own pipeline, into one lane.

lines ─▶ records of one event ─▶ order by event time ─▶ batches: attribute ─▶ score

Memory is that of the lane (its open impressions) and of a buffer, whatever the size of the files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import ClassVar, Final, Protocol

import msgspec
import numpy as np
from rich.progress import Progress

from relevanced.metrics.lists import Integers

from ...attribution import rules, runs, vectorized
from ...config.loading import Config
from ...events.decoder import decoder
from ...events.types import Decoder, Rejected
from ...experiments.exclusion import Stretch, joined
from ...lane.lane import Lane, new_lane
from ...plan import Plan
from ...worker import batch
from ...worker.memory import configure_allocator
from ...worker.pacing import MAX_BATCH_BYTES
from ..judgements.library import class_by_the_whole_index
from .buckets import NO_END, Buckets, plan_in_buckets
from .event_reader import EventReader
from .ignored_kinds import IgnoredKinds
from .judged import JudgedHours
from .key_scan import KEYS_PER_MS
from .line_decoding import line_decoder, most_line_bytes
from .line_files import read_lines
from .query_hours import QueryHours
from .refusals import Refusals
from .time_order import Ordered, Records, TimeOrder

TOPIC: Final = "replay"
EVENTS_AT_ONCE: Final = 20_000
"""Events of one batch. Its end costs about the same for fewer."""
CHUNK_RECORDS: Final = 5_000
"""So many are joined at once: more would leave the processor's cache on the way."""
NO_LIMIT: Final = 2**62
NO_STAMP: Final = -1


class Watching(Protocol):
    """What looks at the lane of a replay on the way: `looks.Looks`."""

    apart_ms: int
    """Event time between two looks."""

    def take(self, lane: Lane) -> None:
        """Look if it is time. Before the lane starts its next batch."""


class LineRecord(msgspec.Struct, frozen=True, gc=False):
    """A line as a record of a log that has no clock."""

    value: bytes
    offset: int
    """Its place."""
    timestamp: int = NO_STAMP
    topic: ClassVar[str] = TOPIC
    partition: ClassVar[int] = 0
    key: ClassVar[bytes | None] = None
    headers: ClassVar[tuple[tuple[str, bytes], ...]] = ()


@dataclass(frozen=True)
class LineRecords:
    """Lines as records, n of them, without an object for each."""

    lines: Sequence[bytes]
    places: Integers
    """(n,)."""

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> LineRecord:
        return LineRecord(self.lines[index], int(self.places[index]))

    def part(self, start: int, stop: int) -> "LineRecords":
        """Those from `start` to before `stop`."""
        return LineRecords(self.lines[start:stop], self.places[start:stop])

    def values(self) -> list[bytes]:
        """The lines."""
        return [*self.lines]

    def logged(self) -> list[LineRecord]:
        """Each as a record."""
        return [self[index] for index in range(len(self))]

    def stamps_ms(self) -> list[int]:
        """No time for any of them."""
        return [NO_STAMP] * len(self.lines)


@dataclass(frozen=True)
class Replayed:
    """What became of recorded events."""

    lane: Lane
    refusals: Refusals
    ignored_kinds: IgnoredKinds
    buckets: Buckets | None = None
    """Where scores over time were asked for."""
    looks: Watching | None = None
    queries: QueryHours | None = None
    """Where queries were asked for."""
    judged: JudgedHours | None = None
    """Where lists are graded."""

    @property
    def accepted(self) -> int:
        """Impressions that count."""
        return self.lane.counts["impression_outcomes"]["accepted"]


def replayed(
    paths: Sequence[str],
    config: Config,
    bars: Progress,
    *,
    as_is: bool,
    every_ms: int | None = None,
    looks: Watching | None = None,
    judged: JudgedHours | None = None,
    excluded: Sequence[Stretch] = (),
    kcat: bool = False,
    topic: str | None = None,
) -> Replayed:
    """One lane to which all events of the files were applied, in order of their time, or in that of
    the files with `as_is`; and what settled in each bucket of `every_ms`, or what `looks` saw.
    Lists are graded where `judged` takes the judged hours. Experiments leave out what was shown in
    the excluded stretches. Sets the allocator of this process: buffers come and go like batches.

    The lines are values of `topic`, or, with `kcat`, records as `kcat -J` prints them.

    Raises UnknownTopic, OSError for a file that cannot be read, NoRoom where the events cannot be
    put in order, StartError and Unavailable of the schema registry, and ValueError where the panes
    do not divide the buckets.
    """
    configure_allocator()
    plan = config.plan
    if looks is None:
        plan = _plan_without_looks(plan, every_ms, is_judged=judged is not None)
    if excluded and plan.tracking is not None:
        tracking = replace(plan.tracking, excluded=joined(excluded))
        plan = replace(plan, tracking=tracking)
    if judged is None:
        plan = replace(plan, judged=None)
    lane = new_lane(0, plan, {TOPIC: 0}, [TOPIC])
    class_by_the_whole_index(lane, config)
    if judged is not None:
        judged.begin(lane)
    kept = None if plan.queries is None else QueryHours(plan)
    kinds, buckets = IgnoredKinds(config.plan.grades), None
    if looks is None and every_ms is not None:
        buckets = Buckets(every_ms)
    found = Replayed(lane, Refusals(), kinds, buckets, looks, kept, judged)
    most_bytes = most_line_bytes(config, kcat=kcat)
    known_format = None if config.sources or kcat else config.events.format
    # Refused by their size are the lines of the files, not the events as they were rewritten.
    limits = msgspec.structs.replace(config.limits, max_record_bytes=NO_LIMIT)
    decode = decoder("native", limits)
    with line_decoder(config, kcat=kcat, topic=topic) as decode_line, TimeOrder() as order:
        reader = EventReader(decode_line, known_format, most_bytes, found.refusals)
        read = reader.read_as_is if as_is else reader.read
        parts = map(read, read_lines(paths, bars, most_bytes))
        ordered = _as_is(parts) if as_is else _in_order(parts, order, bars)
        for records in batches(ordered, None if looks is None else KEYS_PER_MS * looks.apart_ms):
            _apply(found, records, decode)
    lane.counts["rejected"].update(found.refusals.counts)
    return found


def _plan_without_looks(plan: Plan, every_ms: int | None, *, is_judged: bool) -> Plan:
    """The plan with the hours that are needed where nobody looks at the lane meanwhile. Raises
    ValueError where the panes do not divide the buckets."""
    if every_ms is not None:
        return plan_in_buckets(plan, every_ms, is_judged=is_judged)
    return replace(plan, history_hours=NO_END if is_judged else 0)


def _in_order(parts: Iterable[Records], order: TimeOrder, bars: Progress) -> Iterator[Ordered]:
    for part in parts:
        order.add(part)
    bar = bars.add_task("scoring", total=order.count)
    for ordered in order.in_order():
        yield ordered
        bars.advance(bar, len(ordered))


def _as_is(parts: Iterable[Records]) -> Iterator[Ordered]:
    for part in parts:
        yield Ordered(part.keys, part.places, part.lines())


def batches(parts: Iterable[Ordered], apart: int | None = None) -> Iterator[LineRecords]:
    """The records of all parts in batches of about so many records, or so many bytes; a batch also
    ends where the keys pass a multiple of `apart`."""
    gathered, count, ready_bytes = list[Ordered](), 0, 0
    for part in parts if apart is None else _cut(parts, apart):
        if apart and gathered and gathered[-1].keys[-1] // apart != part.keys[0] // apart:
            yield _batch(gathered)
            gathered, count, ready_bytes = [], 0, 0
        gathered.append(part)
        count += len(part)
        ready_bytes += sum(map(len, part.lines))
        if count >= EVENTS_AT_ONCE or ready_bytes >= MAX_BATCH_BYTES:
            yield _batch(gathered)
            gathered, count, ready_bytes = [], 0, 0
    if gathered:
        yield _batch(gathered)


def _cut(parts: Iterable[Ordered], apart: int) -> Iterator[Ordered]:
    """The parts, cut where their keys pass a multiple of `apart`."""
    for part in parts:
        if not len(part):
            continue
        passed = np.flatnonzero(np.diff(part.keys // apart)) + 1
        for start, stop in pairwise((0, *passed.tolist(), len(part))):
            yield part.part(start, stop)


def _batch(gathered: Sequence[Ordered]) -> LineRecords:
    lines = list(chain.from_iterable(part.lines for part in gathered))
    return LineRecords(lines, np.concatenate([part.places for part in gathered]))


def _apply(found: Replayed, records: LineRecords, decode: Decoder) -> None:
    """Apply one batch, as a worker does, and note what is refused or of a kind without a grade."""
    lane = found.lane
    batch.begin(lane)
    for first in range(0, len(records), CHUNK_RECORDS):
        chunk = records.part(first, first + CHUNK_RECORDS)
        for part in runs.read(chunk, decode, lane.texts):
            if isinstance(part, runs.Run):
                found.ignored_kinds.count_run(part)
                for _ in vectorized.apply(lane, TOPIC, part):
                    pass
            elif isinstance(part, runs.Aside):
                for record, rejected in part.rejected:
                    found.refusals.note(record.offset, rejected, record.value or b"")
            elif part is not None:
                _apply_single(found, part)
    batch.end(lane, {})
    _look(found)
    lane.start_batch()


def _look(found: Replayed) -> None:
    """Take over what the batch changed, before the lane starts its next one."""
    lane = found.lane
    if found.buckets is not None:
        found.buckets.take(lane)
    if found.judged is not None:
        found.judged.take(lane)
    if found.looks is not None:
        found.looks.take(lane)
    if found.queries is not None:
        found.queries.take(lane)


def _apply_single(found: Replayed, single: runs.Single) -> None:
    line = single.record.value or b""
    for decoded in single.slices:
        events = [event for event in decoded if not isinstance(event, Rejected)]
        for rejected in decoded:
            if isinstance(rejected, Rejected):
                found.refusals.note(single.record.offset, rejected, line)
        found.ignored_kinds.count(events)
        rules.apply(found.lane, TOPIC, events)
