"""Records as runs: consecutive events of one topic-partition, as columns that a batch can join.

Most records are plain and are never looked at one by one; the others are decoded singly, and stand
in the run as the events they are. A record that is no single event (bad, or an array) ends a run.
"""

from collections.abc import Callable, Iterator, Sequence
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

_NO_TIME: Final = -1
"""Where a text is no time: that is for the decoder to refuse."""


@dataclass(frozen=True)
class Run:
    """Consecutive events, n of them, m of which are plain impressions and f plain feedback."""

    ids: list[str]
    times_ms: Integers
    shown: Integers
    """Places of the plain impressions, (m,), ascending."""
    items: list[bytes]
    """Their lists as JSON text, as `encode_items` would write it; bytes, or a piece of a record."""
    lengths: Integers
    told: Integers
    """What their attributes and experiments tell, (m,): places in `table`."""
    table: Sequence[ParsedAttributes]
    units: tuple[Sequence[str | None], ...]
    """Whom they were shown to, (m,) for each unit of experiments."""
    reacted: Integers
    """Places of the plain feedback, (f,), ascending."""
    feedback: list[PlainFeedback]
    odd: dict[int, Event]
    """The other events, by place."""
    records: Sequence[LogRecord]
    decoder: Decoder

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> "Run":
        """The events from `start` to before `stop`, as a run of their own."""
        if (start, stop) == (0, len(self)):
            return self
        shown = slice(*np.searchsorted(self.shown, (start, stop)).tolist())
        reacted = slice(*np.searchsorted(self.reacted, (start, stop)).tolist())
        return Run(
            ids=self.ids[start:stop],
            times_ms=self.times_ms[start:stop],
            shown=self.shown[shown] - start,
            items=self.items[shown],
            lengths=self.lengths[shown],
            told=self.told[shown],
            table=self.table,
            units=tuple(values[shown] for values in self.units),
            reacted=self.reacted[reacted] - start,
            feedback=self.feedback[reacted],
            odd={n - start: event for n, event in self.odd.items() if start <= n < stop},
            records=self.records[start:stop],
            decoder=self.decoder,
        )

    def event(self, place: int) -> Event:
        """An event in full."""
        known = self.odd.get(place)
        if known is None:
            record = self.records[place]
            (decoded,) = self.decoder(record.value, record.timestamp)
            assert not isinstance(decoded, Rejected)
            known = decoded
        return known


@dataclass(frozen=True)
class Single:
    """A record that is no single event: nothing, an array, or bad."""

    record: LogRecord
    decoded: Sequence[Decoded]


def read(
    records: Sequence[LogRecord], decoder: Decoder, texts: AttributeTexts
) -> Iterator[Run | Single]:
    """The records in order, in as few runs as they allow."""
    plain = _plain_of(records, decoder)
    times_ms = _times_ms(plain)
    for place in _doubtful(times_ms, records, decoder.limits.max_future_ms):
        plain[place] = None
    looked = _look_closer(plain, decoder.limits.depth, texts)
    events: dict[int, Event] = {}
    singles: dict[int, Sequence[Decoded]] = {}
    odd = [place for place, one in enumerate(plain) if one is None] if None in plain else []
    for place in odd:
        decoded = decoder(records[place].value, records[place].timestamp)
        if len(decoded) == 1 and not isinstance(decoded[0], Rejected):
            events[place] = decoded[0]
            times_ms[place] = decoded[0].time_ms
        else:
            singles[place] = decoded
    whole, start = _run(looked, events, times_ms, records, decoder), 0
    for place, decoded in singles.items():
        if place > start:
            yield whole.part(start, place)
        yield Single(records[place], decoded)
        start = place + 1
    if start < len(records):
        yield whole.part(start, len(records))


@dataclass(frozen=True)
class _Looked:
    """Plain records by place, None where one is not plain; and what stands in the impressions."""

    plain: list[Plain | None]
    shown: Integers
    items: list[bytes]
    lengths: Integers
    told: Integers
    table: Sequence[ParsedAttributes]
    units: tuple[Sequence[str | None], ...]


def _plain_of(records: Sequence[LogRecord], decoder: Decoder) -> list[Plain | None]:
    """The records as their types tell; None where one must be decoded in full."""
    read_plain, most_bytes = decoder.plain, decoder.limits.max_record_bytes
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


def _times_ms(plain: Sequence[Plain | None]) -> Integers:
    times = [
        0 if one is None else one.timestamp if type(one.timestamp) is int else _time_ms(one)
        for one in plain
    ]
    return np.fromiter(times, np.int64, len(times))


def _time_ms(one: Plain) -> int:
    try:
        return timestamp_ms(one.timestamp)
    except InvalidField:
        return _NO_TIME


def _doubtful(times_ms: Integers, records: Sequence[LogRecord], max_future_ms: int) -> list[int]:
    """The events without a time, or perhaps ahead of their record: that is for the decoder to
    refuse."""
    stamps = np.fromiter([record.timestamp for record in records], np.int64, len(records))
    ahead = (times_ms > stamps + max_future_ms) & (stamps >= 0)
    return np.flatnonzero(ahead | (times_ms == _NO_TIME)).tolist()


def _look_closer(plain: list[Plain | None], depth: int, texts: AttributeTexts) -> _Looked:
    """Look into what is raw; None is put where a list is not plain, or deeper than counts."""
    is_shown = bytes([type(one) is PlainImpression for one in plain])
    shown = np.flatnonzero(np.frombuffer(is_shown, np.bool_))
    impressions = cast(list[PlainImpression], list(compress(plain, is_shown)))
    items: list[bytes] = [one.items for one in impressions]
    told, table = texts.parse(impressions)
    lengths = lengths_of(items)
    for number in np.flatnonzero(lengths == NOT_PLAIN).tolist():
        items[number], lengths[number] = respelled(bytes(items[number]))
    good = (lengths != NOT_PLAIN) & (lengths <= depth) & (told != NOT_PARSED)
    if not good.all():
        for place in shown[~good].tolist():
            plain[place] = None
        chosen = np.flatnonzero(good).tolist()
        items, impressions = [items[n] for n in chosen], [impressions[n] for n in chosen]
        shown, lengths, told = shown[good], lengths[good], told[good]
    return _Looked(plain, shown, items, lengths, told, table, texts.units_of(impressions, told))


def _run(
    looked: _Looked,
    events: dict[int, Event],
    times_ms: Integers,
    records: Sequence[LogRecord],
    decoder: Decoder,
) -> Run:
    """All records as one run, in which those that are no single event have no id: they are cut
    out."""
    plain = looked.plain
    reacted = bytes([type(one) is PlainFeedback for one in plain])
    ids = ["" if one is None else one.impression_id for one in plain]
    for place, event in events.items():
        ids[place] = event.impression_id
    return Run(
        ids=ids,
        times_ms=times_ms,
        shown=looked.shown,
        items=looked.items,
        lengths=looked.lengths,
        told=looked.told,
        table=looked.table,
        units=looked.units,
        reacted=np.flatnonzero(np.frombuffer(reacted, np.bool_)),
        feedback=cast(list[PlainFeedback], list(compress(plain, reacted))),
        odd=events,
        records=records,
        decoder=decoder,
    )
