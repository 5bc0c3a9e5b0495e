"""The table of event formats, and what they share around one record. Pure.

A format reads one JSON object. The rules of every format are here: tombstones, the size limit,
arrays of objects, events with a time too far after their record's.

The flow: bytes → `decoder` → the format's reader (→ the field readers of `fields`) → events.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from . import native, ubi
from .attributes import Trimmed
from .event_types import (
    DROP_REASONS,
    MAX_ELEMENTS,
    REJECTION_REASONS,
    SKIP_REASONS,
    TOMBSTONE,
    Decoded,
    Event,
    FeedbackFields,
    Impressions,
    Limits,
    LogRecord,
    LogRecords,
    Plain,
    PlainEvents,
    PlainFeedback,
    PlainImpression,
    PlainSearch,
    PlainVisit,
    Rejected,
    ValueDecoder,
    nothing_plain,
)
from .fields import InvalidField, decoded

ReadObject: TypeAlias = Callable[[bytes], Event | Trimmed | None]
"""Reads one JSON object: returns its event, whole or trimmed, or None for a line that is no record.

Raises `InvalidField`, and nothing else, for any other bytes, arrays included.
"""

ReadPlain: TypeAlias = Callable[[bytes], Plain]

_SHOWN: Final = frozenset((PlainImpression, PlainSearch, PlainVisit))

FORMATS: Final[
    Mapping[str, tuple[Callable[[Limits], ReadObject], Callable[[Limits], ReadPlain] | None]]
] = {
    "native": (native.reader, native.plain_reader),
    "ubi": (ubi.reader, None),
}
"""Name → (maker of the reader that applies the limits, maker of that of plain records or None). A
new format is one entry."""

DETAILED_ELEMENTS: Final = 100
"""So many details are made for the refused elements of one array: an array of garbage must not fill
memory with sentences."""

SLICE_ELEMENTS: Final = 64
"""So many elements of an array are decoded at once."""
REMEMBERED_BYTES: Final = 64
REMEMBERED_ELEMENTS: Final = 256
"""So many refused elements of one array, none longer than that, are remembered: garbage repeats
itself, and to find out what is wrong with an element costs 3.4 µs, thirty times the look-up."""

_JSON_SPACE: Final = b" \t\r\n"
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NO_OBJECT: Final = Rejected("wrong_type", "element of an array: must be an object")
_WITHOUT_DETAIL: Final = {
    reason: Rejected(reason) for reason in REJECTION_REASONS + SKIP_REASONS + DROP_REASONS
}


def decoder(name: str, limits: Limits) -> ValueDecoder:
    """Return the decoder of a format. Raises ValueError for a name that is not in the table."""
    if name not in FORMATS:
        raise ValueError(f"format={name!r}: must be one of {', '.join(FORMATS)}")
    reader, plain = FORMATS[name]
    return RecordDecoder(reader(limits), limits, None if plain is None else plain(limits))


@dataclass(frozen=True)
class RecordDecoder:
    """Decodes records of one object, which `read` reads, or of an array of them."""

    read: ReadObject
    limits: Limits
    read_plain: ReadPlain | None = None

    def __call__(self, value: bytes | None, record_time_ms: int | None) -> list[Decoded]:
        limits = self.limits
        if value is None:
            return [Rejected(TOMBSTONE)]
        if len(value) > limits.max_record_bytes:
            return [too_large(len(value), limits.max_record_bytes)]
        try:
            event = self.read(value)
        except InvalidField as error:
            if _is_array(value):
                return list(chain.from_iterable(_array_slices(value, record_time_ms, self)))
            return [Rejected(error.reason, error.detail)]
        if event is None or type(event) is Trimmed:
            return _trimmed(event, record_time_ms, limits.max_future_ms)
        if record_time_ms is None or event.time_ms <= record_time_ms + limits.max_future_ms:
            return [event]
        if record_time_ms < 0:
            return [event]
        return [rejected_future(event, record_time_ms, limits.max_future_ms)]

    def slices(
        self, value: bytes | None, record_time_ms: int | None
    ) -> Iterator[Sequence[Decoded]]:
        """The events of one record in slices; see `Decoder.slices_of`."""
        if value is None or len(value) > self.limits.max_record_bytes or not _is_array(value):
            return iter((self(value, record_time_ms),))
        return _array_slices(value, record_time_ms, self)

    def of_record(self, record: LogRecord) -> list[Decoded]:
        """The events of a whole record: of its value."""
        return self(record.value, record.timestamp)

    def slices_of(self, record: LogRecord) -> Iterator[Sequence[Decoded]]:
        """The same in slices."""
        return self.slices(record.value, record.timestamp)

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """The records that are one plain event; see `Decoder.plain`."""
        read_plain = self.read_plain
        if read_plain is None:
            return nothing_plain(len(records))
        values = records.values()
        if max(map(len, values), default=0) > most_bytes:
            values = [value if len(value) <= most_bytes else b"" for value in values]
        try:
            return _plain_events([read_plain(value) for value in values])
        except (ValueError, RecursionError):
            return _plain_events([_plain_or_none(value, read_plain) for value in values])

    def is_mapping(self, record: LogRecord) -> bool:
        """False: formats are no mappings."""
        return False


def _plain_or_none(value: bytes, read_plain: ReadPlain) -> Plain | None:
    try:
        return read_plain(value)
    except (ValueError, RecursionError):
        return None


def too_large(size: int, most: int) -> Rejected:
    """Return the rejection of a record of so many bytes, of at most `most`."""
    return Rejected("too_large", f"{size} bytes: must be <= {most}")


def _trimmed(read: Trimmed | None, record_time_ms: int | None, max_future_ms: int) -> list[Decoded]:
    """Return the event and a rejection for each value left out of it; nothing for no record."""
    if read is None:
        return []
    event = read.event
    if record_time_ms is not None and 0 <= record_time_ms < event.time_ms - max_future_ms:
        return [rejected_future(event, record_time_ms, max_future_ms)]
    return [event, *(_WITHOUT_DETAIL[reason] for reason in read.dropped)]


def _array_slices(
    value: bytes, record_time_ms: int | None, decode: ValueDecoder
) -> Iterator[list[Decoded]]:
    """Yield the events of an array, whose elements are refused singly. An array in it is no
    event."""
    try:
        elements = decoded("record", value, _ELEMENTS, "wrong_type")
    except InvalidField as error:
        yield [Rejected(error.reason, error.detail)]
        return
    if len(elements) > MAX_ELEMENTS:
        yield [Rejected("too_large", f"{len(elements)} elements: must be <= {MAX_ELEMENTS}")]
        return
    read = _ElementReader(decode, record_time_ms)
    for first in range(0, len(elements), SLICE_ELEMENTS) or (0,):
        yield read(elements[first : first + SLICE_ELEMENTS])


class _ElementReader:
    """Reads the elements of one array, in order."""

    def __init__(self, decode: ValueDecoder, record_time_ms: int | None) -> None:
        self._decode = decode
        self._record_time_ms = record_time_ms
        self._detailed = 0
        """How many refused elements got a detail."""
        self._refused: dict[bytes, Rejected] = {}

    def __call__(self, elements: Sequence[msgspec.Raw]) -> list[Decoded]:
        """Return the events of the next elements."""
        events: list[Decoded] = []
        refused = self._refused
        for element in map(bytes, elements):
            known = refused.get(element)
            if known is not None:
                events.append(known)
            elif element.startswith(b"{"):
                events += self._read(element)
            else:
                events.append(self._detailed_once(_NO_OBJECT))
        return events

    def _read(self, element: bytes) -> Sequence[Decoded]:
        found = self._decode(element, self._record_time_ms)
        if len(found) != 1 or not isinstance(found[0], Rejected):
            return found
        rejected = self._detailed_once(found[0])
        if len(element) <= REMEMBERED_BYTES and len(self._refused) < REMEMBERED_ELEMENTS:
            self._refused[element] = rejected
        return [rejected]

    def _detailed_once(self, rejected: Rejected) -> Rejected:
        """Return the rejection, without its detail where enough others of the array had one."""
        self._detailed += bool(rejected.detail)
        return rejected if self._detailed <= DETAILED_ELEMENTS else _WITHOUT_DETAIL[rejected.reason]


def _is_array(value: bytes) -> bool:
    return value.lstrip(_JSON_SPACE).startswith(b"[")


def rejected_future(event: Event, record_time_ms: int, max_future_ms: int) -> Rejected:
    """Return the rejection of an event that is too far after its record."""
    ahead_ms = event.time_ms - record_time_ms
    rule = f"must be at most {max_future_ms} ms ahead of its record"
    return Rejected("future", f"timestamp={event.time_ms}: {ahead_ms} ms ahead, {rule}")


def _plain_events(found: Sequence[Plain | None]) -> PlainEvents:
    """What records come to that are one event each, or None: to be decoded in full."""
    kinds = list(map(type, found))
    is_shown = bytes(map(_SHOWN.__contains__, kinds))
    is_reaction = bytes([kind is PlainFeedback for kind in kinds])
    shown: list[Any] = list(compress(found, is_shown))
    reactions: list[Any] = list(compress(found, is_reaction))
    left: Sequence[int] = ()
    if len(shown) + len(reactions) < len(found):
        left = [n for n, one in enumerate(found) if one is None]
    queries: Sequence[str | None] = ()
    if shown and type(shown[0]) is not PlainImpression:
        queries = [one.query for one in shown]
    visitors: Sequence[str | None] = ()
    if shown and type(shown[0]) is PlainVisit:
        visitors = [one.visitor or one.user_id or None for one in shown]
    return PlainEvents(
        len(found),
        [
            Impressions(
                np.flatnonzero(np.frombuffer(is_shown, np.bool_)),
                [one.impression_id for one in shown],
                [one.items for one in shown],
                [one.timestamp for one in shown],
                [one.user_id or None for one in shown],
                raw=shown,
                queries=queries,
                visitors=visitors,
            )
        ],
        [
            FeedbackFields(
                np.flatnonzero(np.frombuffer(is_reaction, np.bool_)),
                [one.impression_id for one in reactions],
                [one.timestamp for one in reactions],
                [one.kind for one in reactions],
                [str(one.item) for one in reactions],
                [one.rank for one in reactions],
            )
        ],
        left=left,
    )
