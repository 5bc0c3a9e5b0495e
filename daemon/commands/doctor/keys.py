"""How the records of a topic came to their partitions, and what their keys are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...events.types import Impression, LogRecord
from ...kafka.partitioners import PARTITIONERS
from .looked import Seen

LEAST_KEYS: Final = 10
"""With fewer distinct keys nothing is said."""
LEAST_SHARE: Final = 0.99
MORE_PARTITIONS: Final = 16
"""A topic may have so many partitions beyond the last one that was seen."""


@dataclass(frozen=True)
class Keys:
    """The keys of a topic."""

    keyed: float
    """The share of records with a key."""
    distinct: int
    partitioner: str | None = None
    """None: no known one, or unknown."""
    partitions: int = 0
    """With which the partitioner places the keys where they are."""


def keys_of(records: Sequence[LogRecord]) -> Keys:
    """The keys of the records of one topic, which must be some."""
    placed = {record.key: record.partition for record in records if record.key is not None}
    keyed = sum(record.key is not None for record in records) / len(records)
    seen = 1 + max(record.partition for record in records)
    if len(placed) < LEAST_KEYS or seen == 1:
        return Keys(keyed, len(placed))
    best = max(
        (
            (_share(placed, hashed, count), -count, name)
            for name, of in PARTITIONERS.items()
            for hashed in ({key: of(key) for key in placed},)
            for count in range(seen, seen + MORE_PARTITIONS + 1)
        ),
    )
    share, count, name = best
    return (
        Keys(keyed, len(placed), name, -count) if share >= LEAST_SHARE else Keys(keyed, len(placed))
    )


def _share(placed: Mapping[bytes, int], hashed: Mapping[bytes, int], count: int) -> float:
    return sum(hashed[key] % count == at for key, at in placed.items()) / len(placed)


def meaning(seen: Sequence[Seen]) -> str | None:
    """What the keys of these records are: the id of the search, the visitor, or None."""
    keyed = [one for one in seen if one.key is not None]
    if not keyed:
        return None
    ids = sum(one.key == one.event.impression_id.encode() for one in keyed)
    if ids >= LEAST_SHARE * len(keyed):
        return "the id of the search"
    lists = [(one.key, e) for one in keyed if isinstance(e := one.event, Impression)]
    users = sum(e.user_id is not None and key == e.user_id.encode() for key, e in lists)
    return "the user" if lists and users >= LEAST_SHARE * len(lists) else None
