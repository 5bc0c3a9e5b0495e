"""The keys of queries that open impressions have, each with a number.

Keys are one column of text, found by a table of hashes, as ids of impressions are: a dictionary of
strings takes some 190 bytes for each, and this some 40.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from relevanced.metrics.lists import Integers

from ..queries.keys import NO_QUERY
from .columns.column import Column, column
from .columns.id_index import NOT_FOUND, IdIndex, hash_of, hashes_of
from .columns.texts import Joined, Spans, Texts, cut, joined_texts

NO_NUMBER: Final = 0
"""The number of no query."""
MOST_KEYS: Final = 100_000
"""A table beyond this is built anew from the keys of open impressions."""
FEW: Final = 24
"""So few keys are found faster one by one."""


class QueryKeys:
    """The keys of one lane: key ↔ number. That of no query is NO_NUMBER."""

    def __init__(self) -> None:
        self._texts, self._hashes, self._index = Texts(), Column("I"), IdIndex()
        self._capacity = MOST_KEYS
        self._append([NO_QUERY], hashes_of([NO_QUERY], 1))

    @property
    def is_full(self) -> bool:
        """True where there are so many that most must be those of closed impressions."""
        return len(self) > self._capacity

    def reserve(self) -> None:
        """Let the table grow to at least twice its size before it is full."""
        self._capacity = max(MOST_KEYS, 2 * len(self))

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> str:
        return self._texts[number].decode(errors="surrogatepass")

    def joined(self, numbers: Integers) -> Joined:
        """The keys of these numbers, (n,), in UTF-8."""
        return self._texts.gathered(numbers)

    def keys_of(self, numbers: Integers) -> list[str]:
        """The key of each number, (n,)."""
        data, sizes = self._texts.gathered(numbers)
        if not data.isascii():
            return [text.decode(errors="surrogatepass") for text in cut(data, sizes)]
        text, ends = data.decode(), np.cumsum(sizes).tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends)]

    def numbers_of(self, keys: Sequence[str]) -> Integers:
        """The number of each key, (n,), a new one if it has none yet."""
        if len(keys) <= FEW:
            return np.array([self._number_of(key) for key in keys], np.int64)
        texts, hashes = Spans.of(joined_texts(keys)), hashes_of(keys, len(keys))
        numbers = self._index.find(hashes, column(self._hashes), 0)
        with_its_hash = np.flatnonzero(numbers != NOT_FOUND)
        same = self._texts.equal(numbers[with_its_hash], texts.at(with_its_hash))
        new = np.flatnonzero(numbers == NOT_FOUND)
        if len(new):
            numbers[new] = self._new_numbers([keys[n] for n in new.tolist()], hashes[new])
        for index in with_its_hash[~same].tolist():  # an earlier key has the same hash
            numbers[index] = self._number_of(keys[index])
        return numbers

    def _number_of(self, key: str) -> int:
        text, key_hash = key.encode(errors="surrogatepass"), hash_of(key)
        for number in self._index.candidates(key_hash):
            if self._hashes[number] == key_hash and self._texts[number] == text:
                return number
        self._append([key], np.array([key_hash]))
        return len(self) - 1

    def _new_numbers(self, keys: Sequence[str], hashes: Integers) -> Integers:
        """Append keys that have no numbers yet, (n,) with their hashes, and return these."""
        first, of_key = len(self), dict.fromkeys(keys, 0)
        if len(of_key) == len(keys):
            self._append(keys, hashes)
            return np.arange(first, len(self))
        of_key = dict(zip(of_key, range(len(of_key)), strict=True))
        which = np.fromiter(map(of_key.__getitem__, keys), np.int64, len(keys))
        distinct_hashes = np.empty(len(of_key), np.int64)
        distinct_hashes[which] = hashes
        self._append(list(of_key), distinct_hashes)
        return which + first

    def take(self, other: "QueryKeys", numbers: Integers) -> Integers:
        """Append the keys of these numbers of another table, (n,), distinct and ascending, and
        return their numbers here, where there was none but NO_QUERY."""
        taken = numbers[numbers != NO_NUMBER]
        hashes = column(other._hashes)[taken].astype(np.int64)
        self._append_texts(other._texts.gathered(taken), hashes)
        return np.arange(len(numbers)) + (len(self) - len(numbers))

    def _append(self, keys: Sequence[str], hashes: Integers) -> None:
        self._append_texts(joined_texts(keys), hashes)

    def _append_texts(self, texts: Joined, hashes: Integers) -> None:
        first, more = len(self), len(hashes)
        if self._index.is_full(more):
            known = column(self._hashes).astype(np.int64)
            self._index.rebuild(np.arange(first), known, max(more, first // 2))
            del known
        self._texts.extend(*texts)
        self._hashes.extend(hashes)
        self._index.insert(np.arange(first, first + more), hashes)
