"""Examples of queries as a lane stores them. Pure.

    examples:START   those of the hour that begins at START (ms) and is over: written once, read on
                     demand, and unlinked after 24 hours

Those of the open hour stand in the parts of its tables (see `queries`), beside the rows that they
belong to.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from ..lane.examples import ExamplesByKey
from ..lane.lane import Lane
from ..queries.examples import Examples
from .packing import pack, unpack

PREFIX: Final = "examples:"
StoredExamples: TypeAlias = tuple[tuple[bytes, Examples], ...]
"""(key of a query, its examples)."""


class ExampleHour(msgspec.Struct, array_like=True, frozen=True):
    """The examples of an hour."""

    min_users: int
    """Each query had so many users before any example of it was taken."""
    examples: StoredExamples


def hour_key(start: int) -> str:
    """Return the key of the examples of an hour that is over."""
    return f"{PREFIX}{start}"


def hour_of(key: str) -> int | None:
    """Return the start of the hour whose examples have this key; None for other keys."""
    return int(key.removeprefix(PREFIX)) if key.startswith(PREFIX) else None


def stored(by_key: ExamplesByKey, keys: Iterable[str]) -> StoredExamples:
    """Return the examples of those of the keys that have any, as they are stored."""
    pairs = ((key, by_key[key]) for key in keys if key in by_key)
    return tuple((key.encode(errors="surrogatepass"), examples) for key, examples in pairs)


def by_key_of(found: StoredExamples) -> dict[str, Examples]:
    """Return key → examples, in the order in which they are stored."""
    return {key.decode(errors="surrogatepass"): examples for key, examples in found}


def unpacked_hour(data: bytes) -> ExampleHour:
    """Return the examples that were packed. Raises ValueError and PackingError for other bytes."""
    return unpack(data, ExampleHour)


def closed_hours(lane: Lane) -> dict[int, bytes]:
    """Return start → examples of the hours that this batch closed."""
    queries = lane.queries
    assert queries is not None
    return {
        start: pack(ExampleHour(queries.plan.min_users, stored(by_key, by_key)))
        for start, by_key in sorted(queries.examples.closed.items())
    }


def restored(
    lane: Lane, hours: Mapping[int, int], lost: Sequence[int], parts: Sequence[StoredExamples]
) -> None:
    """Give a lane its examples as its last commit left them: the hours that are stored or lost,
    and what the parts of the open hour have, from the last one that has all rows on."""
    queries = lane.queries
    assert queries is not None
    examples = queries.examples
    examples.stored, examples.lost = dict(hours), set(lost)
    for part in parts:
        examples.by_key |= by_key_of(part)
