"""Records as runs: consecutive events of one topic-partition, as columns that a batch can join.

A *plain* record is an impression that is a first page of ids without judgements, or feedback of
some kind on an item: `events.types.Plain`. Most records are plain, and are never inspected one by
one; the others are decoded singly and stand in the run as the events they are. A record that is not
exactly one event (bad, or an array) ends a run, and so does a long one: it is decoded when it is
its turn, slice by slice.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from relevanced.metrics.lists import Integers

from ..events.types import Decoded, Decoder, Event, LogRecord, Rejected
from ..lane.attribute_texts import AttributeTexts, ParsedAttributes
from ..lane.columns.id_index import hashes_of
from ..lane.columns.texts import Spans, joined_texts, merged
from . import plain_columns
from .plain_columns import LONG_RECORD_BYTES, FeedbackColumns, ImpressionColumns
from .records import Records


@dataclass(frozen=True)
class Run:
    """Consecutive events, n of them, m of which are plain impressions and f plain feedback."""

    ids: Spans
    """Impression id of each event, (n,)."""
    hashes: Integers
    """Hash of each event's impression id, (n,)."""
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
    units: tuple[Sequence[str | None], ...]
    """Their units (user, session, …), (m,) for each unit of experiments."""
    queries: Sequence[str | None]
    """What they searched for, (m,); empty where queries are not kept."""
    searchers: Sequence[str | None]
    """Who searched, (m,); empty likewise."""
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
    records: Records
    decoder: Decoder

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
            units=tuple(values[impressions] for values in self.units),
            queries=self.queries[impressions],
            searchers=self.searchers[impressions],
            feedback_index=self.feedback_index[feedback] - start,
            feedback_items=self.feedback_items.part(feedback.start, feedback.stop),
            ranks=self.ranks[feedback],
            kinds=self.kinds[feedback],
            others=self._others_between(start, stop),
            records=self.records.part(start, stop),
            decoder=self.decoder,
        )

    def _others_between(self, start: int, stop: int) -> dict[int, Event]:
        # Through the shorter of both: where every second record cuts the run, visiting all others
        # for each part took 0.2 s for 6,000 records.
        others = self.others
        if stop - start < len(others):
            return {n - start: others[n] for n in range(start, stop) if n in others}
        return {n - start: event for n, event in others.items() if start <= n < stop}

    def event(self, index: int) -> Event:
        """The event at an index, decoded in full."""
        event = self.others.get(index)
        if event is None:
            record = self.records[index]
            (decoded,) = self.decoder.of_record(record)
            assert not isinstance(decoded, Rejected)
            event = decoded
        return event


@dataclass(frozen=True)
class Single:
    """A record that is not exactly one event (nothing, an array, or bad), or is long."""

    record: LogRecord
    slices: Iterable[Sequence[Decoded]]
    """Its events, to be iterated over once: those of a long record are decoded meanwhile."""


def read(
    records: Records, decoder: Decoder, texts: AttributeTexts
) -> Iterator[Run | Single | None]:
    """The records in order, in as few runs as they allow; None after each step on the way."""
    table = texts.table()
    impressions, feedback = plain_columns.read(records, decoder, texts)
    others, singles = dict[int, Event](), dict[int, Iterable[Sequence[Decoded]]]()
    for index in _not_plain(len(records), impressions.index, feedback.index):
        record = records[index]
        if record.value is not None and len(record.value) > LONG_RECORD_BYTES:
            singles[index] = decoder.slices_of(record)
            continue
        decoded = decoder.of_record(record)
        if len(decoded) == 1 and not isinstance(decoded[0], Rejected):
            others[index] = decoded[0]
        else:
            singles[index] = (decoded,)
        yield None
    whole = _run(impressions, table, texts, feedback, others, records, decoder)
    start = 0
    for index, slices in singles.items():
        if index > start:
            yield whole.part(start, index)
        yield Single(records[index], slices)
        start = index + 1
    if start < len(records):
        yield whole.part(start, len(records))


def _not_plain(count: int, *plain: Integers) -> list[int]:
    """The indices below `count` that are in none of these."""
    is_left = np.ones(count, np.bool_)
    for indices in plain:
        is_left[indices] = False
    return np.flatnonzero(is_left).tolist()


def _run(
    impressions: ImpressionColumns,
    parsed_attributes: Sequence[ParsedAttributes],
    texts: AttributeTexts,
    feedback: FeedbackColumns,
    others: dict[int, Event],
    records: Records,
    decoder: Decoder,
) -> Run:
    """All records as one run. Those that are not exactly one event have no id in it: `read` cuts
    them out."""
    count, at = len(records), np.fromiter(others, np.int64, len(others))
    other_ids = [event.impression_id for event in others.values()]
    other_times_ms = [event.time_ms for event in others.values()]
    ids = [(impressions.index, impressions.ids), (feedback.index, feedback.ids)]
    hashes, times_ms = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for plain in (impressions, feedback):
        hashes[plain.index], times_ms[plain.index] = plain.hashes, plain.times_ms
    hashes[at], times_ms[at] = hashes_of(other_ids, len(at)), other_times_ms
    return Run(
        ids=merged(count, [*ids, (at, Spans.of(joined_texts(other_ids)))]),
        hashes=hashes,
        times_ms=times_ms,
        impression_index=impressions.index,
        items=impressions.items,
        lengths=impressions.lengths,
        attribute_ids=impressions.attribute_ids,
        parsed_attributes=parsed_attributes,
        units=texts.units_of(impressions.user_ids, impressions.ids, impressions.attribute_ids),
        queries=impressions.queries,
        searchers=texts.searchers(impressions.user_ids, impressions.attribute_ids),
        feedback_index=feedback.index,
        feedback_items=feedback.items,
        ranks=feedback.ranks,
        kinds=feedback.kinds,
        others=others,
        records=records,
        decoder=decoder,
    )
