"""Recorded events through the daemon's own pipeline, into one lane.

lines ─▶ records of one event ─▶ order by event time ─▶ batches: attribute ─▶ score

Memory is that of the lane (its open impressions) and of a buffer, whatever the size of the files.

The tables of queries of a replay: all hours of its lane, kept in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import ClassVar, Final, Protocol

import msgspec
import numpy as np
from msgspec import structs
from rich.progress import Progress

from relevanced.metrics import Integers

from ..attribution import rules, runs, vectorized
from ..config import Config
from ..events import Decoder, Rejected, decoder
from ..experiments import Stretch, joined
from ..http import GAINED, LOST, UNIT_RANGE, Found, Queries, QueryExample, examples_of, queries
from ..lane import ExamplesByKey, Lane, Tables, new_lane, settle_queries
from ..plan import Plan
from ..queries import KEPT_HOURS, Page, usual_hours
from ..storage import Head, WriterState, writes_of
from ..views import ExamplesOfHour, QueryWindow, page_of
from ..worker import MAX_BATCH_BYTES, batch, configure_allocator
from .buckets import NO_END, JudgedHours, RecordedBuckets, plan_in_buckets
from .clients import class_by_the_whole_index
from .events import EventReader, Ordered, OrderedRecords, TimeOrder
from .line_files import Refusals, read_lines
from .lines import KEYS_PER_MS, line_decoder, most_line_bytes
from .reasons import IgnoredKinds

ROWS: Final = 50
WITH_EXAMPLES: Final = 3
"""So many of the first rows come with their examples."""
COMPARED_HOURS: Final = 24
ALL_DAYS: Final = 100_000
"""A replay keeps the hours of so many days."""


class NothingUsual(Exception):
    """Nothing says what was lost; the message says why."""


class QueriesShown(Queries, frozen=True, forbid_unknown_fields=True):
    """A list of queries, and searches of the first ones as they were shown."""

    examples: dict[str, tuple[QueryExample, ...]]


@dataclass
class QueryHours:
    """The hours that a replay has closed."""

    plan: Plan
    hours: dict[int, Tables] = field(default_factory=dict)
    taken: dict[int, ExamplesByKey] = field(default_factory=dict)
    """Their examples."""
    lost: frozenset[int] = frozenset()
    lost_examples: frozenset[int] = frozenset()

    def take(self, lane: Lane) -> None:
        """Take over the hours that a batch closed. Before the lane starts its next batch."""
        if lane.queries is not None:
            self.hours |= lane.queries.closed
            self.taken |= lane.queries.examples.closed

    def finished(self, lane: Lane, order: str) -> QueriesShown:
        """Merge the panes that are still open too, and close the hours: the lane can take no more
        events afterwards. Return the queries of all hours. Raises NothingUsual."""
        assert lane.queries is not None
        for pane in lane.open.panes():
            settle_queries(lane, pane)
        lane.queries.close()
        self.take(lane)
        return self.listed(order)

    def pages(self, kind: str, starts: Sequence[int]) -> list[Page]:
        """The tables of a kind of these hours."""
        tables = ((start, self.hours.get(start, {}).get(kind)) for start in starts)
        return [page_of(table, start) for start, table in tables if table is not None]

    def examples(self, starts: Sequence[int]) -> list[ExamplesOfHour]:
        """The examples of these hours."""
        assert self.plan.queries is not None
        # As a daemon has them: what a batch took of earlier hours depends on where it was cut.
        first = max(self.hours, default=0) - KEPT_HOURS * self.plan.hour_ms
        found = (self.taken.get(start) for start in starts if start >= first)
        return [(self.plan.queries.min_users, by_key) for by_key in found if by_key is not None]

    def listed(self, order: str) -> QueriesShown:
        """The queries of all hours; what they lost or gained is that of the last 24 hours, against
        the same hours of the days before. Raises NothingUsual."""
        hour_ms = self.plan.hour_ms
        first, last = min(self.hours, default=0), max(self.hours, default=-hour_ms)
        hours, metric = range(first, last + hour_ms, hour_ms), self.plan.metrics[0].name
        window = QueryWindow(hours)
        if order in (LOST, GAINED):
            window, metric = self._compared(hours, order), self._compared_metric(order)
        found = Found(self, window, metric)
        listed = queries(found, order, ROWS)
        shown = {row.query: examples_of(found, row.query) for row in listed.rows[:WITH_EXAMPLES]}
        return QueriesShown(
            **structs.asdict(listed), examples={key: of for key, of in shown.items() if of}
        )

    def _compared(self, hours: range, order: str) -> QueryWindow:
        last = hours[-COMPARED_HOURS:]
        usual = usual_hours(last, hours)
        if not usual:
            raise NothingUsual(
                f"--queries {order}: nothing is usual: that needs half of the last {COMPARED_HOURS}"
                f" hours on a day before, and these files span {len(hours)} h"
            )
        return QueryWindow(last, usual)

    def _compared_metric(self, order: str) -> str:
        """The first metric whose losses are known."""
        for metric in self.plan.metrics:
            if metric.entry.range == UNIT_RANGE:
                return metric.name
        raise NothingUsual(f"--queries {order}: needs a metric within 0 to 1 in metrics.names")

    def stored(self, lane: Lane) -> tuple[Head, dict[str, bytes]]:
        """All hours, and the open one so far, as a daemon stores them: the head, and the values by
        their keys. Of examples those of the last 24 hours."""
        of_lane = lane.queries
        assert of_lane is not None
        of_lane.closed, of_lane.examples.closed = dict(self.hours), dict(self.taken)
        if lane.settled_before is not None:
            of_lane.examples.keep_from(lane.settled_before, self.plan.hour_ms)
        of_lane.is_outdated = True
        writes = writes_of(lane, 0)
        assert writes is not None
        state = WriterState(settled_before=lane.settled_before)
        return Head("", 0, {}, state=state, queries=writes.head), dict(writes.blobs)


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
    buckets: RecordedBuckets | None = None
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
        buckets = RecordedBuckets(every_ms)
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


def _in_order(
    parts: Iterable[OrderedRecords], order: TimeOrder, bars: Progress
) -> Iterator[Ordered]:
    for part in parts:
        order.add(part)
    bar = bars.add_task("scoring", total=order.count)
    for ordered in order.in_order():
        yield ordered
        bars.advance(bar, len(ordered))


def _as_is(parts: Iterable[OrderedRecords]) -> Iterator[Ordered]:
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
