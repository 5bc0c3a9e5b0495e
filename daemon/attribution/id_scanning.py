"""Many lists of ids scanned as one array of bytes, without making a string of any id. Pure.

["d3","d7"]["d1"]   quotes alternate; one comma between two ids, brackets around

Decoding a list costs an object for each id, and most lists are never clicked in. Here an id is
found between two quotes, so that a click costs a few comparisons of bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Integers

from ..events import (
    MAX_TEXT_BYTES,
    MOST_ITEMS,
    Decoded,
    Impression,
    LogRecord,
    LogRecords,
    identifiers,
)
from ..lane import (
    NOT_FOUND,
    Joined,
    Lane,
    OpenSearches,
    Spans,
    Subjects,
    TextRows,
    cut,
    encode_items,
    equal_at,
    joined,
    merged,
    searches_of,
    units_of,
)
from ..queries import USER_ID

NOT_PLAIN: Final = -1
NO_RANK: Final = -(2**63)
_decode_anything = msgspec.json.Decoder().decode
_QUOTE, _COMMA, _OPENING, _BACKSLASH = b'",[\\'


def lengths_of(lists: Joined) -> NDArray[np.int64]:
    """The number of ids in each JSON text, (n,); NOT_PLAIN where the text is anything but a list of
    ids of 1 to 256 ASCII characters, without escapes or white space: those must be decoded.

    Each text must be well-formed JSON.
    """
    data, sizes = lists
    if not len(sizes):
        return np.zeros(0, np.int64)
    if data.isascii() and b"\\" not in data:
        return _lengths(data, sizes)
    lengths, texts = np.full(len(sizes), NOT_PLAIN), cut(data, sizes)
    simple = [n for n, text in enumerate(texts) if text.isascii() and b"\\" not in text]
    lengths[simple] = lengths_of(joined([texts[n] for n in simple]))
    return lengths


def ranks0_of(lists: TextRows, items: Spans, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank from 0 of each item in its list, (n,): its stated rank (from 1) if the item is there
    or, with NO_RANK, that of its first occurrence. NOT_FOUND where the item is not there, or where
    only decoding the list can tell.

    Each list must be as `encode_items` writes it.
    """
    rows, sizes = lists
    text, starts = rows.reshape(-1), np.arange(len(rows)) * rows.shape[1]
    quotes = np.append(np.flatnonzero(text == _QUOTE), len(text))
    first, end = np.searchsorted(quotes, starts), np.searchsorted(quotes, starts + sizes)
    opening = first + 2 * (np.clip(ranks, 0, MOST_ITEMS) - 1)
    for n in np.flatnonzero(ranks == NO_RANK).tolist():
        at = rows[n, : sizes[n]].tobytes().find(encode_items(items.text(n)))
        opening[n] = np.searchsorted(quotes, starts[n] + at) if at >= 0 else end[n]
    # an item begins at every other quote of its list: ids may contain commas and brackets, and with
    # a backslash even quotes, so a list with one is not searched
    is_there = (opening >= first) & (opening + 1 < end) & ((opening - first) % 2 == 0)
    opening[~is_there] = 0
    begins = quotes[opening] + 1
    is_there &= quotes[np.minimum(opening + 1, len(quotes) - 1)] - begins == items.sizes
    is_there &= equal_at(text, begins, is_there, items)
    escaped = rows == _BACKSLASH
    if escaped.any():
        is_there &= ~(escaped & (np.arange(rows.shape[1]) < sizes[:, np.newaxis])).any(axis=1)
    return np.where(is_there, (opening - first) // 2, NOT_FOUND)


def as_stored(lists: Joined) -> tuple[Spans, Integers]:
    """JSON texts as `encode_items` writes the lists of ids that they are, and the number of ids in
    each, (n,): NOT_PLAIN where a text is no list of ids, and unchanged."""
    spans, lengths = Spans.of(lists), lengths_of(lists)
    spelled_otherwise = np.flatnonzero(lengths == NOT_PLAIN)
    if len(spelled_otherwise):
        texts, counts = zip(*(respelled(spans[n]) for n in spelled_otherwise.tolist()), strict=True)
        lengths[spelled_otherwise] = counts
        respelt = Spans.of(joined(texts))
        spans = merged(len(spans), [(np.arange(len(spans)), spans), (spelled_otherwise, respelt)])
    return spans, lengths


def cut_to(depth: int, lists: Spans, lengths: Integers) -> tuple[Spans, Integers]:
    """Lists as `encode_items` writes them, cut to their first `depth` ids, and their lengths, (n,).
    What is no list is unchanged."""
    longer = np.flatnonzero(lengths > depth)
    if not len(longer):
        return lists, lengths
    cut_lists = [encode_items(_decode_anything(lists[n])[:depth]) for n in longer.tolist()]
    shorter = Spans.of(joined(cut_lists))
    lengths[longer] = max(depth, 0)
    return merged(len(lists), [(np.arange(len(lists)), lists), (longer, shorter)]), lengths


def respelled(text: bytes) -> tuple[bytes, int]:
    """A list with white space, numbers, escapes or non-ASCII letters as `encode_items` writes it,
    and its number of ids; the text itself and NOT_PLAIN where it is no list of ids."""
    try:
        ids = identifiers("items", _decode_anything(text))
    except (ValueError, RecursionError):
        return text, NOT_PLAIN
    return encode_items(ids), len(ids)


def _lengths(data: bytes, sizes_of_lists: Integers) -> NDArray[np.int64]:
    """`lengths_of` where every quote is the start or the end of a string."""
    text = np.frombuffer(data, np.uint8)
    ends = np.cumsum(sizes_of_lists)
    starts = np.concatenate(([0], ends[:-1]))
    quotes = np.flatnonzero(text == _QUOTE)
    opening, closing = quotes[0::2], quotes[1::2]
    until = np.searchsorted(opening, ends)
    lengths = np.diff(until, prepend=0)
    sizes = closing - opening
    bad = (sizes < 2) | (sizes > MAX_TEXT_BYTES + 1)
    # what follows an id: one comma before the next one, or the end of the list
    to_next = np.append(opening[1:], len(text)) - closing
    last = np.zeros(len(bad), np.bool_)
    filled = lengths > 0
    last[until[filled] - 1] = True
    bad |= ~last & ((to_next != 2) | (text[np.minimum(closing + 1, len(text) - 1)] != _COMMA))
    first = until - lengths
    plain = text[starts] == _OPENING
    plain[~filled] &= (ends - starts)[~filled] == len(b"[]")
    plain[filled] &= opening[first[filled]] == starts[filled] + 1
    plain[filled] &= closing[until[filled] - 1] == ends[filled] - 2
    plain[np.searchsorted(ends, opening[bad], side="right")] = False
    return np.where(plain, lengths, NOT_PLAIN)


class RecordSlice(LogRecords, Protocol):
    """Consecutive records of one topic-partition, n of them, which are read a slice at a time."""

    def __getitem__(self, index: int) -> LogRecord: ...  # noqa: D105

    def part(self, start: int, stop: int) -> "RecordSlice":
        """Those from `start` to before `stop`."""

    def stamps_ms(self) -> list[int]:
        """The time that the log gave each, (n,); below 0 where it gave none."""


@dataclass(frozen=True)
class LoggedRecords:
    """Records that are an object each."""

    records: Sequence[LogRecord]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> LogRecord:
        return self.records[index]

    def part(self, start: int, stop: int) -> "LoggedRecords":
        """Those from `start` to before `stop`."""
        return LoggedRecords(self.records[start:stop])

    def values(self) -> list[bytes]:
        """The value of each, (n,); empty where it has none."""
        return [record.value or b"" for record in self.records]

    def logged(self) -> Sequence[LogRecord]:
        """Each of them, (n,)."""
        return self.records

    def stamps_ms(self) -> list[int]:
        """The time that the log gave each, (n,)."""
        return [record.timestamp for record in self.records]


# What is kept of a new impression beside its state: units, experiment arms, its query.


def subject_of(
    lane: Lane, event: Impression, attributes: Mapping[str, str | None]
) -> Subjects | None:
    """The units and experiment arms of the impression, which has these attributes; None without
    experiments."""
    tracking = lane.plan.tracking
    if tracking is None:
        return None
    assignment_id = lane.assignments.id_of(tracking.assignment(event.experiments))
    units = units_of(tracking, event.impression_id, event.user_id, attributes)
    return lane.assignments.subjects_of([assignment_id], [[unit] for unit in units])


def queries_of(events: Iterable[Decoded]) -> Iterator[str | None]:
    """What the impressions among events searched for."""
    return (event.query for event in events if isinstance(event, Impression))


def search_of(lane: Lane, event: Impression) -> OpenSearches | None:
    """What the impression searched for, and who; None where it is not kept."""
    plan, keys = lane.plan.searches, lane.query_keys
    if plan is None or keys is None:
        return None
    user = event.user_id if plan.user == USER_ID else event.attributes.get(plan.user)
    return searches_of(keys, plan, [event.query], [user], np.array([event.time_ms]))
