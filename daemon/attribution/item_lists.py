"""Many lists of ids scanned as one array of bytes, without making a string of any id. Pure.

["d3","d7"]["d1"]   quotes alternate; one comma between two ids, brackets around

Decoding a list costs an object for each id, and most lists are never clicked in. Here an id is
found between two quotes, so that a click costs a few comparisons of bytes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..events.fields import identifiers
from ..events.types import MAX_TEXT_BYTES, MOST_ITEMS
from ..lane.columns.id_index import NOT_FOUND
from ..lane.columns.texts import Rows, equal_at, joined_texts
from ..lane.open_impressions import encode_items

NOT_PLAIN: Final = -1
NO_RANK: Final = -(2**63)
_decode_anything = msgspec.json.Decoder().decode
_QUOTE, _COMMA, _OPENING, _BACKSLASH = b'",[\\'


def lengths_of(lists: Sequence[bytes]) -> NDArray[np.int64]:
    """The number of ids in each JSON text, (n,); NOT_PLAIN where the text is anything but a list of
    ids of 1 to 256 ASCII characters, without escapes or white space: those must be decoded.

    Each text must be well-formed JSON.
    """
    if not lists:
        return np.zeros(0, np.int64)
    joined = b"".join(lists)
    if joined.isascii() and b"\\" not in joined:
        return _lengths(joined, lists)
    lengths, texts = np.full(len(lists), NOT_PLAIN), map(bytes, lists)
    simple = [n for n, text in enumerate(texts) if text.isascii() and b"\\" not in text]
    lengths[simple] = lengths_of([lists[n] for n in simple])
    return lengths


def ranks0_of(lists: Rows, items: Sequence[str], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank from 0 of each item in its list, (n,): its stated rank (from 1) if the item is there
    or, with NO_RANK, that of its first occurrence. NOT_FOUND where the item is not there, or where
    only decoding the list can tell.

    Each list must be as `encode_items` writes it.
    """
    rows, sizes = lists
    text, starts = rows.reshape(-1), np.arange(len(rows)) * rows.shape[1]
    quotes = np.append(np.flatnonzero(text == _QUOTE), len(text))
    first, end = np.searchsorted(quotes, starts), np.searchsorted(quotes, starts + sizes)
    sought = joined_texts(items)
    opening = first + 2 * (np.clip(ranks, 0, MOST_ITEMS) - 1)
    for n in np.flatnonzero(ranks == NO_RANK).tolist():
        at = rows[n, : sizes[n]].tobytes().find(encode_items(items[n]))
        opening[n] = np.searchsorted(quotes, starts[n] + at) if at >= 0 else end[n]
    # an item begins at every other quote of its list: ids may contain commas and brackets, and with
    # a backslash even quotes, so a list with one is not searched
    is_there = (opening >= first) & (opening + 1 < end) & ((opening - first) % 2 == 0)
    opening[~is_there] = 0
    begins = quotes[opening] + 1
    is_there &= quotes[np.minimum(opening + 1, len(quotes) - 1)] - begins == sought[1]
    is_there &= equal_at(text, begins, is_there, sought)
    escaped = rows == _BACKSLASH
    if escaped.any():
        is_there &= ~(escaped & (np.arange(rows.shape[1]) < sizes[:, np.newaxis])).any(axis=1)
    return np.where(is_there, (opening - first) // 2, NOT_FOUND)


def respelled(text: bytes) -> tuple[bytes, int]:
    """A list with white space, numbers, escapes or non-ASCII letters as `encode_items` writes it,
    and its number of ids; the text itself and NOT_PLAIN where it is no list of ids."""
    try:
        ids = identifiers("items", _decode_anything(text))
    except (ValueError, RecursionError):
        return text, NOT_PLAIN
    return encode_items(ids), len(ids)


def _lengths(joined: bytes, lists: Sequence[bytes]) -> NDArray[np.int64]:
    """`lengths_of` where every quote is the start or the end of a string."""
    text = np.frombuffer(joined, np.uint8)
    ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
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
