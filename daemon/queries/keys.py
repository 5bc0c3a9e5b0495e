"""The key of a query: which texts are the same query. Pure.

A key is its text after NFKC, case folding and NFKC again, with runs of white space as one blank,
trimmed, and cut. Equal keys are one query, and no two queries share one.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Final

import numpy as np

from .table import SEGMENT_MARK

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
_HASH: Final = re.compile(f"[0-9a-f]{{{2 * _HASH_BYTES}}}")
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


def is_hash(key: str) -> bool:
    """Whether a key has the form of a hash of one."""
    return _HASH.fullmatch(key) is not None


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
