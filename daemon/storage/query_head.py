"""What the head of a lane says of its tables of queries, and the names of their keys. Pure."""

from typing import Final

import msgspec
from msgspec.structs import astuple

from . import query_examples
from .packing import pack

PREFIX: Final = "queries:"
_PART: Final = ":part:"


class QueryHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of its tables of queries."""

    since_ms: int | None = None
    """The first hour that has tables; None: all have."""
    hour_ms: int | None = None
    """The open hour, if a pane of it has settled."""
    parts: tuple[int, ...] = ()
    part_rows: int = 0
    hours: dict[int, int] = {}
    """Start of an hour that is over and has a page → its bytes."""
    lost: tuple[int, ...] = ()
    """Starts of hours whose page the store lost."""
    key: str = ""
    """Fingerprint of the secret key of hashed texts."""
    unicode: str = ""
    """The version of Unicode that decides which texts are one query, of the last writer."""
    closed_ms: int | None = None
    """Start of the last hour with searches that is over."""
    last_counts: tuple[int, int] = (0, 0)
    """Impressions of that hour whose queries are not listed, and all of them."""
    examples: dict[int, int] = {}
    """Start of an hour that is over and has examples → their bytes."""
    lost_examples: tuple[int, ...] = ()
    """Starts of hours whose examples the store lost."""
    missing_since_ms: int | None = None
    """The first hour that has a table of items without a judgement, where the layout asks for it;
    None: all have."""

    @property
    def example_keys(self) -> list[str]:
        """The keys of the examples of hours that are over."""
        return [query_examples.hour_key(start) for start in self.examples]

    @property
    def part_keys(self) -> list[str]:
        """The keys of the parts of the open hour, in order."""
        return [part_key(self.hour_ms or 0, number) for number in self.parts]

    @property
    def hour_keys(self) -> list[str]:
        """The keys of the hours that are over."""
        return [hour_key(start) for start in self.hours]


def packed_head(head: QueryHead) -> bytes:
    """Return what the head of a lane says of its tables as it is stored: of examples only where
    there are any, and since when items are counted only where not all hours have them."""
    if head.missing_since_ms is not None:
        return pack(head)
    return pack(astuple(head)[: -1 if head.examples or head.lost_examples else -3])


def hour_key(start: int) -> str:
    """Return the key of an hour that is over."""
    return f"{PREFIX}{start}"


def part_key(start: int, number: int) -> str:
    """Return the key of a part of the open hour."""
    return f"{PREFIX}{start}{_PART}{number}"


def hour_of(key: str) -> int | None:
    """Return the start of the hour whose page has this key; None for other keys."""
    if not key.startswith(PREFIX) or _PART in key:
        return None
    return int(key.removeprefix(PREFIX))
