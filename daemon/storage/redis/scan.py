"""The keys of all lanes of a namespace, found by a look at all that the servers hold."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .client import Client

KEYS_AT_ONCE: Final = 500
"""Keys that one call looks at or removes: less than a millisecond of the server's time."""


async def lane_keys(client: Client, namespace: str) -> list[str]:
    """Every key of its lanes; on a cluster those of all masters. Raises what the client raises."""
    ours = re.compile(re.escape(f"{{{namespace}:") + r"\d+\}:")
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", f"{{{namespace}:") + "*"
    found = client.scan_iter(match=pattern, count=KEYS_AT_ONCE)
    texts = [key.decode(errors="replace") async for key in found]
    return [key for key in texts if ours.match(key)]


def prefix_of(key: str) -> str:
    """What the names of all keys of the lane begin with."""
    return key[: key.index("}:") + 2]


def portions(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """The keys, so many at a time."""
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield keys[first : first + KEYS_AT_ONCE]
