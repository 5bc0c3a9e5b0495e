"""The key of a query: which texts are the same query. Pure.

A key is its text after NFKC, case folding and NFKC again, with runs of white space as one blank,
trimmed, and cut. Equal keys are one query, and no two queries share one.
"""

import unicodedata
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

MOST_CHARACTERS: Final = 128
"""A key has at most so many characters."""
READ_CHARACTERS: Final = 1024
"""So many characters of a text are read: normalising a text of combining marks takes time with the
square of its length."""
NO_QUERY: Final = ""
"""The key of a search without a query."""
SEGMENT_MARK: Final = "\x1f"
"""Between a key and a segment. It is white space, so no key contains it."""
_BETWEEN: Final = "\x1e"
"""Between texts that are normalised together: no character combines with it."""
_HASH_BYTES: Final = 8
KEY_BYTES: Final = 64
"""The longest secret key that BLAKE2b takes."""

UNICODE_VERSION: Final = unicodedata.unidata_version
"""Of the tables that decide what a key is."""


def key_of(text: str) -> str:
    """Return the key of one text; NO_QUERY where it is empty or only white space."""
    return _trimmed(_folded(text[:READ_CHARACTERS]))


def keys_of(texts: Sequence[str]) -> list[str]:
    """Return the key of each text, normalised all at once: equal to `key_of` of each."""
    joined = _BETWEEN.join([text[:READ_CHARACTERS] for text in texts])
    if joined.count(_BETWEEN) != len(texts) - 1:
        return [key_of(text) for text in texts]
    return [_trimmed(text) for text in _folded(joined).split(_BETWEEN)]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()  # what the three steps come to, at a tenth of their time
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Case folding may bring characters that are not normalised: without this a key would have
    # another key.
    return unicodedata.normalize("NFKC", folded)


def _trimmed(text: str) -> str:
    return " ".join(text.split())[:MOST_CHARACTERS].rstrip()


def hashed(keys: Sequence[str], secret: bytes) -> list[str]:
    """Return a keyed hash of each key, 16 hexadecimal digits, in its place; NO_QUERY stays."""
    return [
        key and blake2b(key.encode(), key=secret[:KEY_BYTES], digest_size=_HASH_BYTES).hexdigest()
        for key in keys
    ]


def fingerprint(secret: bytes) -> str:
    """Return what tells a secret key from others without revealing it; "" for no key."""
    if not secret:
        return ""
    return blake2b(b"fingerprint", key=secret[:KEY_BYTES], digest_size=_HASH_BYTES).hexdigest()


def with_segment(key: str, segment: str) -> str:
    """Return the key of a query in a segment."""
    return f"{key}{SEGMENT_MARK}{segment}"


def without_segment(key: str) -> tuple[str, str]:
    """Return (key of the query, segment) of the key of a query in a segment."""
    query, _, segment = key.partition(SEGMENT_MARK)
    return query, segment
