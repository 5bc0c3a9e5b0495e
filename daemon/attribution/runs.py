"""Records as runs: consecutive events of one topic-partition, as columns that a batch can join.
Pure.

A *plain* record is an impression that is a first page of ids without judgements, or feedback of
some kind on an item: `events.types.Plain`. Most records are plain, and are never inspected one by
one; the others are decoded singly and stand in the run as the events they are. A record that is not
exactly one event (bad, or an array) ends a run, and so does a long one: it is decoded when it is
its turn, slice by slice.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import numpy as np

from relevanced.metrics import Integers

from ..events import (
    LONG_RECORD_BYTES,
    Decoded,
    Decoder,
    Event,
    Feedback,
    Impression,
    LogRecord,
    Rejected,
)
from ..lane import AttributeTexts, ParsedAttributes, Spans, hashes_of, joined_texts, merged
from .columns import PlainColumns, read_columns
from .id_scanning import NO_RANK, RecordSlice, queries_of

_decode_items = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(frozen=True)
class Run:
    """Consecutive events, n of them, m of which are plain impressions and f plain feedback."""

    ids: Spans
    """Impression id of each event, (n,), or what else is its `identity`."""
    hashes: Integers
    """Hashes of these, (n,)."""
    times_ms: Integers
    """(n,)."""
    impression_index: Integers
    """Indices of the plain impressions among the events, (m,), ascending."""
    items: Spans
    """Their lists as JSON text, as `encode_items` would write it, (m,)."""
    lengths: Integers
    """Items in each list, (m,)."""
    attribute_ids: Integers
    """Their attributes and experiments, (m,), as indices into `parsed_attributes`."""
    parsed_attributes: Sequence[ParsedAttributes]
    user_ids: Sequence[str | None]
    """(m,)."""
    units: tuple[Sequence[str | None], ...]
    """Their units (user, session, …), (m,) for each unit of experiments."""
    queries: Sequence[str | None]
    """What they searched for, (m,); empty where queries are not kept."""
    searchers: Sequence[str | None]
    """Who searched, (m,); empty likewise."""
    visitors: Sequence[str | None]
    """Who saw them, (m,); empty where nothing joins by last touch."""
    feedback_index: Integers
    """Indices of the plain feedback among the events, (f,), ascending."""
    feedback_items: Spans
    """The items that it names, (f,)."""
    ranks: Integers
    """The ranks from 1 that it states, (f,); NO_RANK where it states none."""
    kinds: Sequence[str]
    """(f,)."""
    others: dict[int, Event]
    """Index → event, of those that are not plain."""

    def __len__(self) -> int:
        return len(self.times_ms)

    def part(self, start: int, stop: int) -> "Run":
        """The events from `start` to before `stop`, as a run of their own."""
        if (start, stop) == (0, len(self)):
            return self
        impressions = slice(*np.searchsorted(self.impression_index, (start, stop)).tolist())
        feedback = slice(*np.searchsorted(self.feedback_index, (start, stop)).tolist())
        return Run(
            ids=self.ids.part(start, stop),
            hashes=self.hashes[start:stop],
            times_ms=self.times_ms[start:stop],
            impression_index=self.impression_index[impressions] - start,
            items=self.items.part(impressions.start, impressions.stop),
            lengths=self.lengths[impressions],
            attribute_ids=self.attribute_ids[impressions],
            parsed_attributes=self.parsed_attributes,
            user_ids=self.user_ids[impressions],
            units=tuple(values[impressions] for values in self.units),
            queries=self.queries[impressions],
            searchers=self.searchers[impressions],
            visitors=self.visitors[impressions],
            feedback_index=self.feedback_index[feedback] - start,
            feedback_items=self.feedback_items.part(feedback.start, feedback.stop),
            ranks=self.ranks[feedback],
            kinds=self.kinds[feedback],
            others=self._others_between(start, stop),
        )

    def _others_between(self, start: int, stop: int) -> dict[int, Event]:
        # Through the shorter of both: where every second record cuts the run, visiting all others
        # for each part took 0.2 s for 6,000 records.
        others = self.others
        if stop - start < len(others):
            return {n - start: others[n] for n in range(start, stop) if n in others}
        return {n - start: event for n, event in others.items() if start <= n < stop}

    def event(self, index: int) -> Event:
        """The event at an index. An impression has the attributes that the plan asks for."""
        event = self.others.get(index)
        if event is not None:
            return event
        at = int(self.feedback_index.searchsorted(index))
        if at < len(self.feedback_index) and self.feedback_index[at] == index:
            return self._feedback(index, at)
        return self._impression(index, int(self.impression_index.searchsorted(index)))

    def _impression(self, index: int, at: int) -> Impression:
        parsed = self.parsed_attributes[self.attribute_ids[at]]
        attributes = {name: text for name, text in parsed.attributes.items() if text is not None}
        return Impression(
            self.ids.text(index),
            int(self.times_ms[index]),
            _decode_items(self.items[at]),
            attributes=attributes,
            experiments=dict(parsed.experiments),
            user_id=self.user_ids[at],
            query=self.queries[at] if self.queries else None,
            visitor=self.visitors[at] if self.visitors else None,
        )

    def _feedback(self, index: int, at: int) -> Feedback:
        rank = int(self.ranks[at])
        return Feedback(
            self.ids.text(index),
            int(self.times_ms[index]),
            self.kinds[at],
            self.feedback_items.text(at),
            None if rank == NO_RANK else rank,
        )


@dataclass(frozen=True)
class Single:
    """A record of which a part is refused, or that is long."""

    record: LogRecord
    slices: Iterable[Sequence[Decoded]]
    """Its events, to be iterated over once: those of a long record are decoded meanwhile."""


@dataclass
class Aside:
    """What of the records is no event, to be counted."""

    rejected: list[tuple[LogRecord, Rejected]] = field(default_factory=list)
    """What was rejected of records that are no dead letters."""
    skipped: Sequence[str] = ()
    """The reasons for which a mapping left out something."""
    mapped: int = 0
    """Records that a mapping read."""
    slowly: int = 0
    """Those of them that were decoded in full."""


Part: TypeAlias = Run | Single | Aside
"""What is applied at once."""


@dataclass
class _Full:
    """The records that are decoded in full, by their index."""

    events: dict[int, list[Event]] = field(default_factory=dict)
    singles: dict[int, Iterable[Sequence[Decoded]]] = field(default_factory=dict)


def read_runs(
    records: RecordSlice, decoder: Decoder, texts: AttributeTexts
) -> Iterator[Part | None]:
    """The records in order, in as few runs as they allow; None after each step on the way."""
    table = texts.table()
    columns = yield from read_columns(records, decoder, texts)
    aside, full = Aside(skipped=columns.skipped), _Full()
    left = np.flatnonzero(columns.is_left).tolist()
    if len(records) and decoder.is_mapping(records[0]):
        aside.mapped, aside.slowly = len(records), len(left)
    for index in left:
        _decode(records[index], index, decoder, full, aside)
        yield from texts.derive(queries_of(full.events.get(index, ())))
        yield None
    yield aside
    starts = _starts(columns, full)
    whole = _run(columns, full, starts, table, texts)
    start = 0
    for index, slices in full.singles.items():
        stop = int(starts[index])
        if stop > start:
            yield whole.part(start, stop)
        yield Single(records[index], slices)
        start = stop
    if start < len(whole):
        yield whole.part(start, len(whole))


def _decode(record: LogRecord, index: int, decoder: Decoder, full: _Full, aside: Aside) -> None:
    """Decode one record in full. It cuts the run where it is a dead letter, or long."""
    if record.value is not None and len(record.value) > LONG_RECORD_BYTES:
        full.singles[index] = decoder.slices_of(record)
        return
    decoded = decoder.of_record(record)
    if len(decoded) == 1 and not isinstance(decoded[0], Rejected):
        full.events[index] = [decoded[0]]  # nearly all records of formats without a plain reader
        return
    rejected = [one for one in decoded if isinstance(one, Rejected)]
    if all(one.skipped for one in rejected):
        full.events[index] = [one for one in decoded if not isinstance(one, Rejected)]
        aside.rejected += [(record, one) for one in rejected]
    else:
        full.singles[index] = (decoded,)


def _starts(columns: PlainColumns, full: _Full) -> Integers:
    """How many events stand before each record, (n + 1,): the last entry is how many there are."""
    count = len(columns.is_left)
    widths = np.bincount(columns.record_index, minlength=count)
    widths[columns.is_left] = 0
    widths[list(full.events)] = list(map(len, full.events.values()))
    return np.concatenate(([0], np.cumsum(widths)))


def _run(
    columns: PlainColumns,
    full: _Full,
    starts: Integers,
    parsed_attributes: Sequence[ParsedAttributes],
    texts: AttributeTexts,
) -> Run:
    """The events of all records but those that cut the run, as one run."""
    shown, reactions = columns.impressions, columns.feedback
    shown_index, feedback_index, others = shown.index, reactions.index, columns.others
    if columns.is_left.any():
        moved = _moved(columns, starts)
        shown_index, feedback_index = moved[shown_index], moved[feedback_index]
        others = _others(columns, full, starts, moved)
    count, at = int(starts[-1]), np.fromiter(others, np.int64, len(others))
    other_ids = [event.identity for event in others.values()]
    hashes, times_ms = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for index, plain in ((shown_index, shown), (feedback_index, reactions)):
        hashes[index], times_ms[index] = plain.hashes, plain.times_ms
    hashes[at] = hashes_of(other_ids, len(at))
    times_ms[at] = [event.time_ms for event in others.values()]
    ids = [(shown_index, shown.ids), (feedback_index, reactions.ids)]
    return Run(
        ids=merged(count, [*ids, (at, Spans.of(joined_texts(other_ids)))]),
        hashes=hashes,
        times_ms=times_ms,
        impression_index=shown_index,
        items=shown.items,
        lengths=shown.lengths,
        attribute_ids=shown.attribute_ids,
        parsed_attributes=parsed_attributes,
        user_ids=shown.user_ids,
        units=texts.units_of(shown.user_ids, shown.ids, shown.attribute_ids),
        queries=shown.queries,
        searchers=texts.searchers(shown.user_ids, shown.attribute_ids),
        visitors=shown.visitors,
        feedback_index=feedback_index,
        feedback_items=reactions.items,
        ranks=reactions.ranks,
        kinds=reactions.kinds,
        others=others,
    )


def _moved(columns: PlainColumns, starts: Integers) -> Integers:
    """The index in the run of each event that was read plainly, (e,); of those of records that are
    decoded in full, any number."""
    before = np.concatenate(([0], np.cumsum(np.bincount(columns.record_index))))
    events = np.arange(len(columns.record_index))
    moved: Integers = events + (starts[columns.record_index] - before[columns.record_index])
    return moved


def _others(
    columns: PlainColumns, full: _Full, starts: Integers, moved: Integers
) -> dict[int, Event]:
    """The events that are not plain, by their index in the run, ascending."""
    found = {int(moved[n]): event for n, event in columns.others.items()}
    at = starts.tolist()
    for record, events in full.events.items():
        if len(events) == 1:
            found[at[record]] = events[0]
        else:
            found.update(enumerate(events, at[record]))
    return dict(sorted(found.items())) if columns.others and full.events else found
