"""Plain records read into columns, a slice of them at a time. Pure.

The decoder makes an object of each record, and objects of its parts. They become columns, and are
freed, while they are still in the processor's cache. What arrays can tell is asked once for all
slices: it costs the same calls of numpy for any number of records.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Integers

from ..events import (
    BY_ID,
    LONG_RECORD_BYTES,
    Decoder,
    Event,
    InvalidField,
    Limits,
    PlainEvents,
    event_types,
    timestamp_ms,
)
from ..lane import (
    NOT_PARSED,
    AttributeTexts,
    Joined,
    Spans,
    chained,
    hashes_of,
    joined,
    joined_texts,
)
from .id_scanning import NO_RANK, NOT_PLAIN, RecordSlice, as_stored, cut_to


@dataclass(frozen=True)
class ImpressionColumns:
    """Plain impressions, m of them."""

    index: Integers
    """Of each among the events, (m,), ascending."""
    ids: Spans
    hashes: Integers
    """Of the ids, (m,)."""
    times_ms: Integers
    items: Spans
    """Their lists as JSON text, as `encode_items` would write it."""
    lengths: Integers
    """Items in each list, (m,)."""
    attribute_ids: Integers
    user_ids: Sequence[str | None]
    queries: Sequence[str | None]
    """What was searched for, (m,); empty where queries are not kept."""
    visitors: Sequence[str | None]
    """Who saw them, (m,); empty where nothing joins by last touch."""

    def only(self, kept: Booleans) -> "ImpressionColumns":
        """Those of a mask, (m,)."""
        if kept.all():
            return self
        return ImpressionColumns(
            self.index[kept],
            self.ids.at(kept),
            self.hashes[kept],
            self.times_ms[kept],
            self.items.at(kept),
            self.lengths[kept],
            self.attribute_ids[kept],
            list(compress(self.user_ids, kept.tolist())),
            list(compress(self.queries, kept.tolist())),
            list(compress(self.visitors, kept.tolist())),
        )

    def in_order(self) -> "ImpressionColumns":
        """The same, ordered by index."""
        index = self.index
        if (index[1:] > index[:-1]).all():
            return self
        order = np.argsort(index)
        return ImpressionColumns(
            index[order],
            self.ids.at(order),
            self.hashes[order],
            self.times_ms[order],
            self.items.at(order),
            self.lengths[order],
            self.attribute_ids[order],
            [self.user_ids[n] for n in order.tolist()],
            [self.queries[n] for n in order.tolist()] if self.queries else (),
            [self.visitors[n] for n in order.tolist()] if self.visitors else (),
        )


@dataclass(frozen=True)
class FeedbackColumns:
    """Plain feedback, f of it."""

    index: Integers
    """Of each among the events, (f,), ascending."""
    ids: Spans
    hashes: Integers
    """Of the ids, (f,)."""
    times_ms: Integers
    items: Spans
    ranks: Integers
    """From 1, as stated, (f,); NO_RANK where none is."""
    kinds: Sequence[str]

    def only(self, kept: Booleans) -> "FeedbackColumns":
        """That of a mask, (f,)."""
        if kept.all():
            return self
        return FeedbackColumns(
            self.index[kept],
            self.ids.at(kept),
            self.hashes[kept],
            self.times_ms[kept],
            self.items.at(kept),
            self.ranks[kept],
            list(compress(self.kinds, kept.tolist())),
        )

    def in_order(self) -> "FeedbackColumns":
        """The same, ordered by index."""
        index = self.index
        if (index[1:] > index[:-1]).all():
            return self
        order = np.argsort(index)
        return FeedbackColumns(
            index[order],
            self.ids.at(order),
            self.hashes[order],
            self.times_ms[order],
            self.items.at(order),
            self.ranks[order],
            [self.kinds[n] for n in order.tolist()],
        )


@dataclass(frozen=True)
class PlainColumns:
    """What n records come to without being decoded in full: e events."""

    impressions: ImpressionColumns
    feedback: FeedbackColumns
    others: dict[int, Event]
    """Index → event, of those that are not plain."""
    record_index: Integers
    """Of each event among the records, (e,), ascending. Some events are of records that are left,
    and count nowhere else."""
    is_left: Booleans
    """Which records, (n,), must be decoded in full."""
    skipped: Sequence[str]
    """The reasons for what the other records leave out."""


SLICE_RECORDS: Final = 512
SLICE_BYTES: Final = 1 << 20
"""Of long records fewer are read at a time."""
_LEAST_RECORDS: Final = 64
_SAMPLED: Final = 16
NO_TIME: Final = -1
"""Where a text is no timestamp: the decoder rejects that record."""


def read_columns(
    records: RecordSlice, decoder: Decoder, texts: AttributeTexts
) -> Generator[None, None, PlainColumns]:
    """The plain impressions and the plain feedback of n records, in steps where attributes are
    derived. All others are left to the decoder: also those whose list or attributes are not plain,
    and those without a sure time. Of a record of several events, all or none are read."""
    limits = decoder.limits
    impressions, feedback = _Impressions(texts, limits), _FeedbackSlice()
    read, stamps_ms = _ReadRecords(), list[int]()
    most_bytes = min(limits.max_record_bytes, LONG_RECORD_BYTES)
    size = slice_of(records)
    for first in range(0, len(records), size):
        part = records.part(first, first + size)
        stamps_ms += part.stamps_ms()
        found = decoder.plain(part, most_bytes)
        for group in found.impressions:
            yield from texts.derive(group.queries or ())
        impressions.add(found.impressions, read.count)
        feedback.add(found.feedback, read.count)
        read.add(found, first, len(part))
        del found  # its memory is still in cache, for the next slice
    latest_ms = _integers(stamps_ms)
    latest_ms[latest_ms >= 0] += limits.max_future_ms
    latest_ms[latest_ms < 0] = np.iinfo(np.int64).max
    shown, reactions = impressions.columns(), feedback.columns()
    return _checked(shown, reactions, read, latest_ms)


def slice_of(records: RecordSlice) -> int:
    """How many of the records are read at a time: as many as stay in cache."""
    sizes = list(map(len, records.part(0, _SAMPLED).values()))
    longest = SLICE_BYTES * len(sizes) // max(sum(sizes), 1)
    return min(max(longest, _LEAST_RECORDS), SLICE_RECORDS)


def _checked(
    shown: ImpressionColumns, reactions: FeedbackColumns, read: "_ReadRecords", latest_ms: Integers
) -> PlainColumns:
    """The columns without those of records of which something is not plain after all."""
    record_of, is_left = read.record_of, read.is_left(len(latest_ms))
    shown_of, reaction_of = record_of(shown.index), record_of(reactions.index)
    valid = (shown.lengths != NOT_PLAIN) & (shown.attribute_ids != NOT_PARSED)
    valid &= _has_sure_time(shown, latest_ms[shown_of])
    in_time = _has_sure_time(reactions, latest_ms[reaction_of])
    is_left[shown_of[~valid]] = True
    is_left[reaction_of[~in_time]] = True
    if is_left.any():
        shown = shown.only(~is_left[shown_of])
        reactions = reactions.only(~is_left[reaction_of])
    record_index = read.record_index()
    return PlainColumns(
        impressions=shown,
        feedback=reactions,
        others={n: one for n, one in read.others.items() if not is_left[record_index[n]]},
        record_index=record_index,
        is_left=is_left,
        skipped=[reason for record, reason in read.skipped if not is_left[record]],
    )


def _has_sure_time(columns: ImpressionColumns | FeedbackColumns, latest_ms: Integers) -> Booleans:
    """Whether each event has a timestamp that is not too far in the future of its record."""
    sure: Booleans = (columns.times_ms != NO_TIME) & (columns.times_ms <= latest_ms)
    return sure


class _ReadRecords:
    """Collects where events stand, slice by slice."""

    def __init__(self) -> None:
        self.count = 0
        """Events until now."""
        self.others = dict[int, Event]()
        self.skipped = list[tuple[int, str]]()
        self.left = list[int]()
        """Records to be decoded in full."""
        self._record_index = list[Integers]()
        self._is_one_each = True
        """Whether record n has event n, if it has one."""

    def add(self, plain: PlainEvents, first: int, records: int) -> None:
        """Add what some records come to, from record `first` on."""
        index = plain.record_index
        self._is_one_each &= index is None
        indices = np.arange(records) if index is None else _integers(index)
        self._record_index.append(indices + first)
        self.others.update((self.count + n, event) for n, event in plain.others.items())
        self.skipped += [(first + record, reason) for record, reason in plain.skipped]
        self.left += [first + record for record in plain.left]
        self.count += plain.count

    def record_index(self) -> Integers:
        """Of each event among the records, (e,)."""
        return _chained(self._record_index)

    def record_of(self, index: Integers) -> Integers:
        """The records of the events at these indices."""
        return index if self._is_one_each else self.record_index()[index]

    def is_left(self, records: int) -> Booleans:
        """Which of so many records must be decoded in full: also those without an event of which
        nothing is left out."""
        is_left = np.zeros(records, np.bool_)
        if not self._is_one_each:
            is_left[:] = True
            is_left[self.record_index()] = False
            is_left[[record for record, _ in self.skipped]] = False
        is_left[self.left] = True
        return is_left


class _Impressions:
    """Collects the columns of plain impressions."""

    def __init__(self, texts: AttributeTexts, limits: Limits) -> None:
        self._texts, self._limits = texts, limits
        self._index, self._hashes = list[Integers](), list[Integers]()
        self._ids, self._items = list[Joined](), list[Joined]()
        self._times_ms, self._attribute_ids = list[int](), list[int]()
        self._user_ids, self._queries = list[str | None](), list[str | None]()
        self._visitors = list[str | None]()
        self._lengths = list[Integers]()
        """Of the lists of each group of which they are known."""

    def add(self, groups: Sequence[event_types.Impressions], first: int) -> None:
        """Add those of a slice, whose first event has this index."""
        for found in groups:
            self._index.append(_integers(found.index) + first)
            self._ids.append(joined_texts(found.ids))
            self._hashes.append(hashes_of(found.ids, len(found.ids)))
            times_ms = _times_ms(found.times)
            self._times_ms += times_ms
            self._items.append(joined(found.items))
            self._attribute_ids += self._texts.parse(found, times_ms)
            self._user_ids += found.user_ids
            if self._limits.queries:
                self._queries += found.queries or [None] * len(found.ids)
            if self._limits.join != BY_ID:
                self._visitors += found.visitors or [None] * len(found.ids)
            if found.lengths is not None:
                self._lengths.append(_integers(found.lengths))

    def columns(self) -> ImpressionColumns:
        """All that were added."""
        if len(self._lengths) == len(self._items):
            items, lengths = Spans.of(chained(self._items)), _chained(self._lengths)
        else:
            items, lengths = as_stored(chained(self._items))
        items, lengths = cut_to(self._limits.depth, items, lengths)
        return ImpressionColumns(
            index=_chained(self._index),
            ids=Spans.of(chained(self._ids)),
            hashes=_chained(self._hashes),
            times_ms=_integers(self._times_ms),
            items=items,
            lengths=lengths,
            attribute_ids=_integers(self._attribute_ids),
            user_ids=self._user_ids,
            queries=self._queries,
            visitors=self._visitors,
        ).in_order()


class _FeedbackSlice:
    """Collects the columns of plain feedback."""

    def __init__(self) -> None:
        self._index, self._hashes = list[Integers](), list[Integers]()
        self._ids, self._items = list[Joined](), list[Joined]()
        self._times_ms, self._ranks = list[int](), list[int]()
        self._kinds = list[str]()

    def add(self, groups: Sequence[event_types.FeedbackFields], first: int) -> None:
        """Add that of a slice, whose first event has this index."""
        for found in groups:
            self._index.append(_integers(found.index) + first)
            self._ids.append(joined_texts(found.ids))
            self._hashes.append(hashes_of(found.ids, len(found.ids)))
            self._times_ms += _times_ms(found.times)
            self._items.append(joined_texts(found.items))
            self._ranks += [NO_RANK if rank is None else rank for rank in found.ranks]
            self._kinds += found.kinds

    def columns(self) -> FeedbackColumns:
        """All that was added."""
        return FeedbackColumns(
            index=_chained(self._index),
            ids=Spans.of(chained(self._ids)),
            hashes=_chained(self._hashes),
            times_ms=_integers(self._times_ms),
            items=Spans.of(chained(self._items)),
            ranks=_integers(self._ranks),
            kinds=self._kinds,
        ).in_order()


def _times_ms(timestamps: Sequence[int | str]) -> list[int]:
    return [time if type(time) is int else _time_ms(time) for time in timestamps]


def _time_ms(timestamp: int | str) -> int:
    try:
        return timestamp_ms(timestamp)
    except InvalidField:
        return NO_TIME


def _integers(values: Sequence[int] | Integers) -> Integers:
    if isinstance(values, np.ndarray):
        return values
    return np.fromiter(values, np.int64, len(values))


def _chained(parts: Sequence[Integers]) -> Integers:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
