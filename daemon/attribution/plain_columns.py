"""Plain records read into columns, a slice of them at a time. Pure.

The decoder makes an object of each record, and objects of its parts. They become columns, and are
freed, while they are still in the processor's cache. What arrays can tell is asked once for all
slices: it costs the same calls of numpy for any number of records.
"""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Final, cast

import numpy as np

from relevanced.metrics.lists import Booleans, Integers

from ..events.fields import InvalidField
from ..events.timestamps import timestamp_ms
from ..events.types import (
    LONG_RECORD_BYTES,
    Decoder,
    Event,
    Limits,
    MappedImpression,
    Plain,
    PlainEvents,
    PlainFeedback,
    PlainImpression,
    PlainSearch,
)
from ..lane.attribute_texts import NOT_PARSED, AttributeTexts
from ..lane.columns.id_index import hashes_of
from ..lane.columns.texts import Joined, Spans, chained, joined, joined_texts
from .event_columns import FeedbackColumns, ImpressionColumns, PlainColumns
from .item_lists import NO_RANK, NOT_PLAIN, as_stored, cut_to
from .records import Records

SLICE_RECORDS: Final = 512
NO_TIME: Final = -1
"""Where a text is no timestamp: the decoder rejects that record."""
_IMPRESSIONS: Final = frozenset((PlainImpression, PlainSearch, MappedImpression))


def read(records: Records, decoder: Decoder, texts: AttributeTexts) -> PlainColumns:
    """The plain impressions and the plain feedback of n records. All others are left to the
    decoder: also those whose list or attributes are not plain, and those without a sure time. Of a
    record of several events, all or none are read."""
    limits = decoder.limits
    impressions, feedback = _Impressions(texts, limits), _Feedback()
    read, stamps_ms = _Read(), list[int]()
    most_bytes = min(limits.max_record_bytes, LONG_RECORD_BYTES)
    for first in range(0, len(records), SLICE_RECORDS):
        part = records.part(first, first + SLICE_RECORDS)
        stamps_ms += part.stamps_ms()
        plain = decoder.plain(part, most_bytes)
        read.add(plain, first, len(part))
        impressions.add(plain.events)
        feedback.add(plain.events)
    latest_ms = _integers(stamps_ms)
    latest_ms[latest_ms >= 0] += limits.max_future_ms
    latest_ms[latest_ms < 0] = np.iinfo(np.int64).max
    record_index = read.record_index()
    shown, reactions = impressions.columns(), feedback.columns()
    is_left = np.ones(len(records), np.bool_)
    is_left[record_index] = False
    is_left[read.without_event()] = False
    is_left[record_index[read.is_left()]] = True
    return _checked(shown, reactions, read, record_index, latest_ms, is_left)


def _checked(
    shown: ImpressionColumns,
    reactions: FeedbackColumns,
    read: "_Read",
    record_index: Integers,
    latest_ms: Integers,
    is_left: Booleans,
) -> PlainColumns:
    """The columns without those of records of which something is not plain after all."""
    valid = (shown.lengths != NOT_PLAIN) & (shown.attribute_ids != NOT_PARSED)
    valid &= _has_sure_time(shown, latest_ms[record_index[shown.index]])
    in_time = _has_sure_time(reactions, latest_ms[record_index[reactions.index]])
    is_left[record_index[shown.index[~valid]]] = True
    is_left[record_index[reactions.index[~in_time]]] = True
    if is_left.any():
        shown = shown.only(~is_left[record_index[shown.index]])
        reactions = reactions.only(~is_left[record_index[reactions.index]])
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


class _Read:
    """Collects where events stand, slice by slice."""

    def __init__(self) -> None:
        self.others = dict[int, Event]()
        self.skipped = list[tuple[int, str]]()
        self._events = 0
        self._record_index = list[Integers]()
        self._left = list[int]()

    def add(self, plain: PlainEvents, first: int, count: int) -> None:
        """Add what `count` records come to, from record `first` on."""
        index = plain.record_index
        indices = np.arange(count) if index is None else _integers(index)
        self._record_index.append(indices + first)
        self.others.update((self._events + n, event) for n, event in plain.others.items())
        self.skipped += [(first + record, reason) for record, reason in plain.skipped]
        if None in plain.events:
            self._left += self._without(plain)
        self._events += len(plain.events)

    def _without(self, plain: PlainEvents) -> Iterator[int]:
        for n, event in enumerate(plain.events, self._events):
            if event is None and n not in self.others:
                yield n

    def record_index(self) -> Integers:
        """Of each event among the records, (e,)."""
        return _chained(self._record_index)

    def without_event(self) -> Integers:
        """The records of which something is left out."""
        return _integers([record for record, _ in self.skipped])

    def is_left(self) -> Integers:
        """The indices of the events that stand for a record to be decoded in full."""
        return _integers(self._left)


class _Impressions:
    """Collects the columns of plain impressions."""

    def __init__(self, texts: AttributeTexts, limits: Limits) -> None:
        self._texts, self._limits = texts, limits
        self._is_one = bytearray()
        self._ids, self._items = list[Joined](), list[Joined]()
        self._hashes = list[Integers]()
        self._times_ms, self._attribute_ids = list[int](), list[int]()
        self._user_ids, self._queries = list[str | None](), list[str | None]()

    def add(self, plain: Sequence[Plain | None]) -> None:
        """Add the impressions among the next events: all of them of one of both types."""
        is_one = bytes([type(event) in _IMPRESSIONS for event in plain])
        found = cast(list[PlainImpression] | list[MappedImpression], list(compress(plain, is_one)))
        ids = [impression.impression_id for impression in found]
        self._is_one += is_one
        self._ids.append(joined_texts(ids))
        self._hashes.append(hashes_of(ids, len(ids)))
        self._times_ms += _times_ms([impression.timestamp for impression in found])
        self._items.append(joined([impression.items for impression in found]))
        self._attribute_ids += self._texts.parse(found)
        self._user_ids += [impression.user_id for impression in found]
        if self._limits.queries:
            searches = cast(list[PlainSearch] | list[MappedImpression], found)
            self._queries += [search.query for search in searches]

    def columns(self) -> ImpressionColumns:
        """All that were added."""
        items, lengths = cut_to(self._limits.depth, *as_stored(chained(self._items)))
        return ImpressionColumns(
            index=np.flatnonzero(np.frombuffer(self._is_one, np.bool_)),
            ids=Spans.of(chained(self._ids)),
            hashes=_chained(self._hashes),
            times_ms=_integers(self._times_ms),
            items=items,
            lengths=lengths,
            attribute_ids=_integers(self._attribute_ids),
            user_ids=self._user_ids,
            queries=self._queries,
        )


class _Feedback:
    """Collects the columns of plain feedback."""

    def __init__(self) -> None:
        self._is_one = bytearray()
        self._ids, self._items = list[Joined](), list[Joined]()
        self._hashes = list[Integers]()
        self._times_ms, self._ranks = list[int](), list[int]()
        self._kinds = list[str]()

    def add(self, plain: Sequence[Plain | None]) -> None:
        """Add the feedback among the next events."""
        is_one = bytes([type(event) is PlainFeedback for event in plain])
        found = cast(list[PlainFeedback], list(compress(plain, is_one)))
        ids = [feedback.impression_id for feedback in found]
        self._is_one += is_one
        self._ids.append(joined_texts(ids))
        self._hashes.append(hashes_of(ids, len(ids)))
        self._times_ms += _times_ms([feedback.timestamp for feedback in found])
        self._items.append(joined_texts([str(feedback.item) for feedback in found]))
        ranks = [feedback.rank for feedback in found]
        self._ranks += [NO_RANK if rank is None else rank for rank in ranks]
        self._kinds += [feedback.kind for feedback in found]

    def columns(self) -> FeedbackColumns:
        """All that was added."""
        return FeedbackColumns(
            index=np.flatnonzero(np.frombuffer(self._is_one, np.bool_)),
            ids=Spans.of(chained(self._ids)),
            hashes=_chained(self._hashes),
            times_ms=_integers(self._times_ms),
            items=Spans.of(chained(self._items)),
            ranks=_integers(self._ranks),
            kinds=self._kinds,
        )


def _times_ms(timestamps: Sequence[int | str]) -> list[int]:
    return [time if type(time) is int else _time_ms(time) for time in timestamps]


def _time_ms(timestamp: int | str) -> int:
    try:
        return timestamp_ms(timestamp)
    except InvalidField:
        return NO_TIME


def _integers(values: Sequence[int]) -> Integers:
    return np.fromiter(values, np.int64, len(values))


def _chained(parts: Sequence[Integers]) -> Integers:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
