"""What new impressions searched for, and who, as a block of open state stores it. Pure."""

import msgspec
import numpy as np

from relevanced.metrics import Integers

from ..lane import Lane, OpenSearches, cut
from .keys import pack_integers, unpack_integers


class PackedSearches(msgspec.Struct, array_like=True, frozen=True):
    """The searches of the new impressions of a block, n of them. Numbers belong to one process, so
    the block has a table of the keys that it uses."""

    keys: bytes
    key_lengths: bytes
    searches: bytes
    """Of each impression, the index of its key."""
    users: bytes
    """Of each, the hash of its user, of 4 bytes; empty where there are none."""


def packed_searches(lane: Lane, new: Integers) -> PackedSearches | None:
    """Return those of the impressions at these slots; None where queries are not kept."""
    columns, known = lane.open.searches, lane.query_keys
    if columns is None or known is None or not len(new):
        return None
    found = columns.at(lane.open.index_of(new))
    table, which = found.distinct_numbers()
    keys, lengths = known.joined(table)
    users = found.users.astype("<u4").tobytes() if found.users.any() else b""
    return PackedSearches(keys, pack_integers(lengths), pack_integers(which), users)


def unpacked_searches(lane: Lane, stored: PackedSearches | None, new: int) -> OpenSearches | None:
    """Return those of `new` impressions; None where none are stored, or queries are not kept."""
    known = lane.query_keys
    if known is None or stored is None:
        return None
    texts = cut(stored.keys, unpack_integers(stored.key_lengths))
    numbers = known.numbers_of([text.decode(errors="surrogatepass") for text in texts])
    users = np.zeros(new, np.int64)
    if stored.users:
        users[:] = np.frombuffer(stored.users, "<u4")
    return OpenSearches(numbers[unpack_integers(stored.searches)], users)
