"""Plain records read into columns, a slice of them at a time. Pure.

The decoder makes an object of each record, and objects of its parts. They become columns, and are
freed, while they are still in the processor's cache. What arrays can tell is asked once for all
slices: it costs the same calls of numpy for any number of records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, cast

import numpy as np

from relevanced.metrics.lists import Booleans, Integers

from ..events.fields import InvalidField
from ..events.timestamps import timestamp_ms
from ..events.types import Decoder, Plain, PlainFeedback, PlainImpression, PlainSearch
from ..lane.attribute_texts import NOT_PARSED, AttributeTexts
from ..lane.columns.id_index import hashes_of
from ..lane.columns.texts import Joined, Spans, chained, joined, joined_texts
from .item_lists import NO_RANK, NOT_PLAIN, as_stored
from .records import Records

SLICE_RECORDS: Final = 512
LONG_RECORD_BYTES: Final = 65_536
"""A longer record is not read as a plain one. It is decoded when it is its turn, an array slice by
slice: one megabyte of `[{},{},…]` took a second in one step, of experiments a sixth."""
NO_TIME: Final = -1
"""Where a text is no timestamp: the decoder rejects that record."""


@dataclass(frozen=True)
class ImpressionColumns:
    """Plain impressions, m of them."""

    index: Integers
    """Of each among the records, (m,), ascending."""
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
        )


@dataclass(frozen=True)
class FeedbackColumns:
    """Plain feedback, f of it."""

    index: Integers
    """Of each among the records, (f,), ascending."""
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


def read(
    records: Records, decoder: Decoder, texts: AttributeTexts
) -> tuple[ImpressionColumns, FeedbackColumns]:
    """The plain impressions and the plain feedback of n records. All others are left to the
    decoder: also those whose list or attributes are not plain, and those without a sure time."""
    impressions = _Impressions(texts, PlainSearch if decoder.limits.queries else PlainImpression)
    feedback, stamps_ms = _Feedback(), list[int]()
    for first in range(0, len(records), SLICE_RECORDS):
        part = records.part(first, first + SLICE_RECORDS)
        stamps_ms += part.stamps_ms()
        plain = _plain_of(part.values(), decoder)
        impressions.add(plain)
        feedback.add(plain)
    latest_ms = _integers(stamps_ms)
    latest_ms[latest_ms >= 0] += decoder.limits.max_future_ms
    latest_ms[latest_ms < 0] = np.iinfo(np.int64).max
    shown, reactions = impressions.columns(), feedback.columns()
    valid = (shown.lengths != NOT_PLAIN) & (shown.lengths <= decoder.limits.depth)
    valid &= (shown.attribute_ids != NOT_PARSED) & _has_sure_time(shown, latest_ms)
    return shown.only(valid), reactions.only(_has_sure_time(reactions, latest_ms))


def _has_sure_time(columns: ImpressionColumns | FeedbackColumns, latest_ms: Integers) -> Booleans:
    """Whether each event has a timestamp that is not too far in the future of its record."""
    times_ms = columns.times_ms
    sure: Booleans = (times_ms != NO_TIME) & (times_ms <= latest_ms[columns.index])
    return sure


class _Impressions:
    """Collects the columns of plain impressions."""

    def __init__(self, texts: AttributeTexts, kind: type[PlainImpression]) -> None:
        self._texts, self._kind = texts, kind
        self._is_one = bytearray()
        self._ids, self._items = list[Joined](), list[Joined]()
        self._hashes = list[Integers]()
        self._times_ms, self._attribute_ids = list[int](), list[int]()
        self._user_ids, self._queries = list[str | None](), list[str | None]()

    def add(self, plain: Sequence[Plain | None]) -> None:
        """Add the impressions among the next records."""
        kind = self._kind
        is_one = bytes([type(record) is kind for record in plain])
        found = cast(list[PlainImpression], list(compress(plain, is_one)))
        ids = [impression.impression_id for impression in found]
        self._is_one += is_one
        self._ids.append(joined_texts(ids))
        self._hashes.append(hashes_of(ids, len(ids)))
        self._times_ms += _times_ms([impression.timestamp for impression in found])
        self._items.append(joined([impression.items for impression in found]))
        self._attribute_ids += self._texts.parse(found)
        self._user_ids += [impression.user_id for impression in found]
        if kind is PlainSearch:
            self._queries += [search.query for search in cast(list[PlainSearch], found)]

    def columns(self) -> ImpressionColumns:
        """All that were added."""
        items, lengths = as_stored(chained(self._items))
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
        """Add the feedback among the next records."""
        is_one = bytes([type(record) is PlainFeedback for record in plain])
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


def _plain_of(values: list[bytes], decoder: Decoder) -> Sequence[Plain | None]:
    """Each record as its plain type; None where it must be decoded in full."""
    read_plain = decoder.plain
    if read_plain is None:
        return [None] * len(values)
    most_bytes = min(decoder.limits.max_record_bytes, LONG_RECORD_BYTES)
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
