"""The key of a query, which texts are the same query, and what is done by key: tables are merged,
attributes derived. Pure.

A key is its text after NFKC, case folding and NFKC again, with runs of white space as one blank,
trimmed, and cut. Equal keys are one query, and no two queries share one.
"""

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from relevanced.metrics import Booleans, Integers

from .table import ENOUGH, NO_QUERY, SEGMENT_MARK, Users

MOST_CHARACTERS: Final = 128
"""A key has at most so many characters."""
READ_CHARACTERS: Final = 1024
"""So many characters of a text are read: normalising a text of combining marks takes time with the
square of its length."""
STEP_CHARACTERS: Final = 16 * READ_CHARACTERS
"""So many are normalised in one step: in the worst order, 1,024 combining marks take 1.5 ms."""
_BETWEEN: Final = "\0"
"""Between texts that are normalised together: no character combines with it, and it is no white
space."""
_OTHER_SPACE: Final = (*map(chr, range(0x09, 0x0E)), *map(chr, range(0x1C, 0x20)))
"""ASCII's white space but for the blank."""
_HASH_BYTES: Final = 8
KEY_BYTES: Final = 64
"""The longest secret key that BLAKE2b takes."""

UNICODE_VERSION: Final = unicodedata.unidata_version
"""Of the tables that decide what a key is."""


def key_of(text: str) -> str:
    """Return the key of one text; NO_QUERY where it is empty or only white space."""
    folded = _folded(text[:READ_CHARACTERS])
    return " ".join(folded.split())[:MOST_CHARACTERS].rstrip()


def keys_of(texts: Sequence[str]) -> list[str]:
    """Return the key of each text, normalised all at once: equal to `key_of` of each."""
    longest = max(map(len, texts), default=0)
    if longest > READ_CHARACTERS:
        texts = [text[:READ_CHARACTERS] for text in texts]
    together = _BETWEEN.join(texts)
    if together.count(_BETWEEN) != len(texts) - 1:
        return [key_of(text) for text in texts]
    spaced = _spaced(_folded(together))
    keys = spaced.split(_BETWEEN)
    if longest <= MOST_CHARACTERS and spaced.isascii():
        return keys
    return [key[:MOST_CHARACTERS].rstrip() for key in keys]


def _spaced(together: str) -> str:
    """Texts with a mark between them, with single blanks as their only white space."""
    if _is_spaced(together):
        return together  # as most are: to split them would take longer than all other steps
    spaced = " ".join(together.split())
    return spaced.replace(" \0", _BETWEEN).replace("\0 ", _BETWEEN)


def _is_spaced(together: str) -> bool:
    """Whether ASCII texts with a mark between them have no white space but single blanks, each
    between two words."""
    if not together.isascii() or any(map(together.__contains__, _OTHER_SPACE)):
        return False
    letters = np.frombuffer(f"\0{together}\0".encode(), np.uint8)
    is_blank, ends_word = letters == ord(" "), letters <= ord(" ")
    return not ((ends_word[1:] & is_blank[:-1]) | (is_blank[1:] & ends_word[:-1])).any()


def key_steps(texts: Sequence[str]) -> Generator[None, None, list[str]]:
    """Return what `keys_of` returns, in steps of some 20 ms at most, whatever the texts are."""
    if all(map(str.isascii, texts)):
        return keys_of(texts)
    found: list[str] = []
    for part in text_parts(texts, STEP_CHARACTERS):
        found += keys_of(texts[part])
        yield
    return found


def text_parts(texts: Sequence[str], most: int) -> Iterator[slice]:
    """Yield parts of texts of which at most so many characters are read, or of one text."""
    read = list(accumulate(min(len(text), READ_CHARACTERS) for text in texts))
    start = 0
    while start < len(texts):
        limit = most + (read[start - 1] if start else 0)
        stop = max(bisect_right(read, limit), start + 1)
        yield slice(start, stop)
        start = stop


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()  # what the three steps come to, at a tenth of their time
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Case folding may bring characters that are not normalised: without this a key would have
    # another key.
    return unicodedata.normalize("NFKC", folded)


def hashed_keys(keys: Sequence[str], secret: bytes) -> list[str]:
    """Return a keyed hash of each key, 16 hexadecimal digits, in its place; NO_QUERY stays."""
    return [
        key and blake2b(key.encode(), key=secret[:KEY_BYTES], digest_size=_HASH_BYTES).hexdigest()
        for key in keys
    ]


def secret_fingerprint(secret: bytes) -> str:
    """Return what tells a secret key from others without revealing it; "" for no key."""
    if not secret:
        return ""
    return blake2b(b"fingerprint", key=secret[:KEY_BYTES], digest_size=_HASH_BYTES).hexdigest()


def with_segment(key: str, segment: str) -> str:
    """Return the key of a query in a segment."""
    return f"{key}{SEGMENT_MARK}{segment}"


def with_item(key: str, item: str) -> str:
    """Return the key of a query and an item that was shown for it."""
    return f"{key}{SEGMENT_MARK}{item}"


def without_segment(key: str) -> tuple[str, str]:
    """Return (key of the query, segment or item) of the key of a query in a segment, or of one and
    an item."""
    query, _, segment = key.partition(SEGMENT_MARK)
    return query, segment


@dataclass(frozen=True, eq=False)
class Page:
    """The stored table of one lane and hour: n rows of c columns."""

    day: int
    """The UTC day of the hour: hashes of users are those of a day."""
    keys: Sequence[str]
    sums: Integers
    """(n, c)."""
    missing: Integers
    """(n,)."""
    users: Sequence[Users]
    min_users: int
    """Under which the users were counted; 0: they were not."""
    other: Integers
    """(c,)."""
    bound: int


@dataclass(frozen=True, eq=False)
class MergedTables:
    """Queries of several tables, q of them: rows of one query are summed."""

    keys: Sequence[str]
    sums: Integers
    """(q, c)."""
    missing: Integers
    """(q,): so many of the ranking count may be missing at most: the sum of what may be missing in
    the tables that list the query, and of the bounds of those that do not."""
    is_shown: Booleans
    """(q,): whether enough users searched for the query for its text to be shown."""
    other: Integers
    """(c,): what the tables do not list."""
    bound: int
    """The most that any query that no table lists can have of the ranking count."""

    @property
    def rare(self) -> Integers:
        """(c,): the sums of the queries whose text is not shown."""
        rare: Integers = self.sums[~self.is_shown].sum(axis=0)
        return rare

    @property
    def total(self) -> Integers:
        """(c,): everything."""
        total: Integers = self.sums.sum(axis=0) + self.other
        return total

    def index(self) -> Mapping[str, int]:
        """Key → its index."""
        return {key: index for index, key in enumerate(self.keys)}


def merge_tables(pages: Sequence[Page], columns: int, min_users: int) -> MergedTables:
    """Merge tables of so many columns. A text is shown where at least `min_users` users of one day
    searched for it; sets of users are joined over the lanes and hours of a day."""
    index: dict[str, int] = {}
    ids = [[index.setdefault(key, len(index)) for key in page.keys] for page in pages]
    sums, missing = np.zeros((len(index), columns), np.int64), np.zeros(len(index), np.int64)
    other, bound = np.zeros(columns, np.int64), 0
    for page, at in zip(pages, ids, strict=True):
        sums[at] += page.sums
        missing[at] += page.missing - page.bound
        other += page.other
        bound += page.bound
    is_shown = _shown(pages, ids, len(index), min_users)
    missing += bound
    if (none := index.get(NO_QUERY)) is not None:
        is_shown[none], missing[none] = True, 0  # no table drops it
    return MergedTables(list(index), sums, missing, is_shown, other, bound)


def _shown(
    pages: Sequence[Page], ids: Sequence[Sequence[int]], count: int, min_users: int
) -> Booleans:
    shown = np.full(count, not min_users, np.bool_)
    if not min_users:
        return shown
    sets: dict[tuple[int, int], set[int]] = {}
    for page, at in zip(pages, ids, strict=True):
        for query, users in zip(at, page.users, strict=True):
            if users is ENOUGH:
                # Under a lower ceiling it is not known how many there were.
                shown[query] |= page.min_users >= min_users
            elif users and not shown[query]:
                sets.setdefault((page.day, query), set()).update(users)
    for (_, query), hashes in sets.items():
        shown[query] |= len(hashes) >= min_users
    return shown


def page_of_segment(page: Page, segment: str) -> Page:
    """The rows of a table by (query, segment) that are of one segment, under their queries. The
    rest of the table is of all segments, so nothing is known of that of this one."""
    pairs = [without_segment(key) for key in page.keys]
    rows = [row for row, (_, of) in enumerate(pairs) if of == segment]
    return Page(
        day=page.day,
        keys=[pairs[row][0] for row in rows],
        sums=page.sums[rows],
        missing=page.missing[rows],
        users=[page.users[row] for row in rows],
        min_users=page.min_users,
        other=np.zeros_like(page.other),
        bound=page.bound,
    )


DIGEST_DIGITS: Final = 8


@dataclass(frozen=True)
class Derivation:
    """One attribute that is derived from the key of an impression's query: by words, by patterns,
    or by files of classes."""

    attribute: str
    words: tuple[int, ...] = ()
    """The most words of a query of each class, ascending; one more class has longer queries."""
    patterns: tuple[tuple[str, str], ...] = ()
    """(value, regular expression that searches the key): the first that matches counts."""
    by_files: bool = False
    """Whether files say the class of each query: `DerivedAttributes` has them."""
    unlisted: str | None = None
    """The class of queries that the file in force does not list."""

    def classes_of(
        self, keys: Sequence[str], classes: Mapping[str, str] | None
    ) -> list[str | None]:
        """Return the class of each query of these keys, (n,), in a file; None without a query, or
        where no file is in force."""
        if classes is None:
            return [None] * len(keys)
        get, unlisted = classes.get, self.unlisted
        return [get(key, unlisted) if key else None for key in keys]

    def lengths_of(self, keys: Sequence[str]) -> list[str | None]:
        """Return the class of each query of these keys, (n,), by its words; None without a
        query."""
        # a key has one blank between words, and none at its ends
        get, longest = self._lengths.get, f"{self.words[-1] + 1}+"
        return [get(key.count(" "), longest) if key else None for key in keys]

    def value_of(self, key: str) -> str | None:
        """Return the value of the first pattern that matches the key of a query; None without a
        query, or where none matches."""
        if key != NO_QUERY:
            for value, matches in self._searches:
                if matches(key):
                    return value
        return None

    @cached_property
    def _lengths(self) -> Mapping[int, str]:
        """Blanks of a key → the class of its words, but the last one."""
        return {
            words - 1: str(most) if most == less + 1 else f"{less + 1}-{most}"
            for less, most in pairwise((0, *self.words))
            for words in range(less + 1, most + 1)
        }

    @cached_property
    def _searches(self) -> tuple[tuple[str, Callable[[str], object]], ...]:
        return tuple((value, re.compile(pattern).search) for value, pattern in self.patterns)

    @cached_property
    def meaning(self) -> str:
        """The attribute with a hash of what it is derived by: another one is another attribute."""
        of_files = ("files", self.unlisted)
        shape = repr(of_files if self.by_files else (self.words, self.patterns))
        digest = hashlib.sha256(shape.encode(errors="surrogatepass")).hexdigest()
        return f"{self.attribute}~{digest[:DIGEST_DIGITS]}"
