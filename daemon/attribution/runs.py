"""Records as runs: consecutive events of one topic-partition, as columns that a batch can join.

A *plain* record is an impression that is a first page of ids without judgements, or feedback of
some kind on an item: `events.types.Plain`. Most records are plain, and are never inspected one by
one; the others are decoded singly and stand in the run as the events they are. A record that is not
exactly one event (bad, or an array) ends a run, and so does a long one: it is decoded when it is
its turn, slice by slice.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, cast

import numpy as np

from relevanced.metrics.lists import Integers

from ..events.fields import InvalidField
from ..events.timestamps import timestamp_ms
from ..events.types import (
    Decoded,
    Decoder,
    Event,
    LogRecord,
    Plain,
    PlainFeedback,
    PlainImpression,
    Rejected,
)
from ..lane.attribute_texts import NOT_PARSED, AttributeTexts, ParsedAttributes
from .item_lists import NOT_PLAIN, lengths_of, respelled

LONG_RECORD_BYTES: Final = 65_536
"""A longer record is not read as a plain one. It is decoded when it is its turn, an array slice by
slice: one megabyte of `[{},{},…]` took a second in one step, of experiments a sixth."""
_NO_TIME: Final = -1
"""Where a text is no timestamp: the decoder rejects that record."""


@dataclass(frozen=True)
class Run:
    """Consecutive events, n of them, m of which are plain impressions and f plain feedback."""

    ids: list[str]
    """Impression id of each event, (n,)."""
    times_ms: Integers
    impression_index: Integers
    """Indices of the plain impressions among the events, (m,), ascending."""
    items: list[bytes]
    """Their lists as JSON text, as `encode_items` would write it; bytes, or a view of a record."""
    lengths: Integers
    """Items in each list, (m,)."""
    attribute_ids: Integers
    """Their attributes and experiments, (m,), as indices into `parsed_attributes`."""
    parsed_attributes: Sequence[ParsedAttributes]
    units: tuple[Sequence[str | None], ...]
    """Their units (user, session, …), (m,) for each unit of experiments."""
    feedback_index: Integers
    """Indices of the plain feedback among the events, (f,), ascending."""
    feedback: list[PlainFeedback]
    others: dict[int, Event]
    """Index → event, of those that are not plain."""
    records: Sequence[LogRecord]
    decoder: Decoder

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> "Run":
        """The events from `start` to before `stop`, as a run of their own."""
        if (start, stop) == (0, len(self)):
            return self
        impressions = slice(*np.searchsorted(self.impression_index, (start, stop)).tolist())
        feedback = slice(*np.searchsorted(self.feedback_index, (start, stop)).tolist())
        return Run(
            ids=self.ids[start:stop],
            times_ms=self.times_ms[start:stop],
            impression_index=self.impression_index[impressions] - start,
            items=self.items[impressions],
            lengths=self.lengths[impressions],
            attribute_ids=self.attribute_ids[impressions],
            parsed_attributes=self.parsed_attributes,
            units=tuple(values[impressions] for values in self.units),
            feedback_index=self.feedback_index[feedback] - start,
            feedback=self.feedback[feedback],
            others=self._others_between(start, stop),
            records=self.records[start:stop],
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
            (decoded,) = self.decoder(record.value, record.timestamp)
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
    records: Sequence[LogRecord], decoder: Decoder, texts: AttributeTexts
) -> Iterator[Run | Single | None]:
    """The records in order, in as few runs as they allow; None after each step on the way."""
    plain = _plain_of(records, decoder)
    times_ms = _times_ms(plain)
    for index in _doubtful_times(times_ms, records, decoder.limits.max_future_ms):
        plain[index] = None
    validated = _validate(plain, decoder.limits.depth, texts)
    others, singles = dict[int, Event](), dict[int, Iterable[Sequence[Decoded]]]()
    for index in _not_plain(validated.plain):
        record = records[index]
        if record.value is not None and len(record.value) > LONG_RECORD_BYTES:
            singles[index] = decoder.slices(record.value, record.timestamp)
            continue
        decoded = decoder(record.value, record.timestamp)
        if len(decoded) == 1 and not isinstance(decoded[0], Rejected):
            others[index] = decoded[0]
            times_ms[index] = decoded[0].time_ms
        else:
            singles[index] = (decoded,)
        yield None
    whole, start = _run(validated, others, times_ms, records, decoder), 0
    for index, slices in singles.items():
        if index > start:
            yield whole.part(start, index)
        yield Single(records[index], slices)
        start = index + 1
    if start < len(records):
        yield whole.part(start, len(records))


@dataclass(frozen=True)
class _Validated:
    """Plain records by index, None where a record is not plain, and the columns of `Run` that their
    impressions make."""

    plain: list[Plain | None]
    impression_index: Integers
    items: list[bytes]
    lengths: Integers
    attribute_ids: Integers
    parsed_attributes: Sequence[ParsedAttributes]
    units: tuple[Sequence[str | None], ...]


def _plain_of(records: Sequence[LogRecord], decoder: Decoder) -> list[Plain | None]:
    """Each record as its plain type; None where it must be decoded in full."""
    read_plain = decoder.plain
    most_bytes = min(decoder.limits.max_record_bytes, LONG_RECORD_BYTES)
    if read_plain is None or not records:
        return [None] * len(records)
    values = [record.value or b"" for record in records]
    if max(map(len, values)) > most_bytes:
        values = [value if len(value) <= most_bytes else b"" for value in values]
    try:
        return [read_plain(value) for value in values]
    except (ValueError, RecursionError):
        return [_plain_or_none(value, read_plain) for value in values]


def _plain_or_none(value: bytes, read_plain: Callable[[bytes], Plain]) -> Plain | None:
    try:
        return read_plain(value)
    except (ValueError, RecursionError):
        return None


def _not_plain(plain: list[Plain | None]) -> list[int]:
    return [n for n, record in enumerate(plain) if record is None] if None in plain else []


def _times_ms(plain: Sequence[Plain | None]) -> Integers:
    times = [
        (
            0
            if record is None
            else record.timestamp if type(record.timestamp) is int else _time_ms(record)
        )
        for record in plain
    ]
    return np.fromiter(times, np.int64, len(times))


def _time_ms(record: Plain) -> int:
    try:
        return timestamp_ms(record.timestamp)
    except InvalidField:
        return _NO_TIME


def _doubtful_times(
    times_ms: Integers, records: Sequence[LogRecord], max_future_ms: int
) -> list[int]:
    """Indices of the events without a timestamp, or with one that may be too far in the future of
    their record: the decoder decides on those."""
    stamps = np.fromiter([record.timestamp for record in records], np.int64, len(records))
    in_the_future = (times_ms > stamps + max_future_ms) & (stamps >= 0)
    return np.flatnonzero(in_the_future | (times_ms == _NO_TIME)).tolist()


def _validate(plain: list[Plain | None], depth: int, texts: AttributeTexts) -> _Validated:
    """Check the parts of impressions that are still raw JSON. Puts None into `plain` where the list
    is not one of ids or is longer than `depth`, or the attributes are not plain."""
    is_impression = bytes([type(record) is PlainImpression for record in plain])
    index = np.flatnonzero(np.frombuffer(is_impression, np.bool_))
    impressions = cast(list[PlainImpression], list(compress(plain, is_impression)))
    items: list[bytes] = [impression.items for impression in impressions]
    attribute_ids, parsed = texts.parse(impressions)
    lengths = lengths_of(items)
    for n in np.flatnonzero(lengths == NOT_PLAIN).tolist():
        items[n], lengths[n] = respelled(bytes(items[n]))
    valid = (lengths != NOT_PLAIN) & (lengths <= depth) & (attribute_ids != NOT_PARSED)
    if not valid.all():
        for n in index[~valid].tolist():
            plain[n] = None
        kept = np.flatnonzero(valid).tolist()
        items, impressions = [items[n] for n in kept], [impressions[n] for n in kept]
        index, lengths, attribute_ids = index[valid], lengths[valid], attribute_ids[valid]
    units = texts.units_of(impressions, attribute_ids)
    return _Validated(plain, index, items, lengths, attribute_ids, parsed, units)


def _run(
    validated: _Validated,
    others: dict[int, Event],
    times_ms: Integers,
    records: Sequence[LogRecord],
    decoder: Decoder,
) -> Run:
    """All records as one run. Those that are not exactly one event have no id in it: `read` cuts
    them out."""
    plain = validated.plain
    is_feedback = bytes([type(record) is PlainFeedback for record in plain])
    ids = ["" if record is None else record.impression_id for record in plain]
    for index, event in others.items():
        ids[index] = event.impression_id
    return Run(
        ids=ids,
        times_ms=times_ms,
        impression_index=validated.impression_index,
        items=validated.items,
        lengths=validated.lengths,
        attribute_ids=validated.attribute_ids,
        parsed_attributes=validated.parsed_attributes,
        units=validated.units,
        feedback_index=np.flatnonzero(np.frombuffer(is_feedback, np.bool_)),
        feedback=cast(list[PlainFeedback], list(compress(plain, is_feedback))),
        others=others,
        records=records,
        decoder=decoder,
    )
