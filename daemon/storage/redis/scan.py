"""The keys of all lanes of a namespace, found by a scan of all keys of the servers."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .client import Client

KEYS_AT_ONCE: Final = 500
"""One call scans or removes so many keys: less than a millisecond of the server's time."""


async def lane_keys(client: Client, namespace: str) -> list[str]:
    """Return every key of its lanes and its past, on a cluster those of all masters. Raises the
    client's errors."""
    lane_key = re.compile(re.escape(f"{{{namespace}:") + r"(\d+|past)\}:")
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", f"{{{namespace}:") + "*"
    found = client.scan_iter(match=pattern, count=KEYS_AT_ONCE)
    texts = [key.decode(errors="replace") async for key in found]
    return [key for key in texts if lane_key.match(key)]


def prefix_of(key: str) -> str:
    """Return the prefix of the keys of the lane that this key belongs to."""
    return key[: key.index("}:") + 2]


def portions(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the keys in portions of KEYS_AT_ONCE."""
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield keys[first : first + KEYS_AT_ONCE]
