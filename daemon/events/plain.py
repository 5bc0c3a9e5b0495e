"""What records come to where that is plain, as columns of Python values. Pure.

Decoders make these a slice of records at a time; `attribution.plain_columns` makes arrays of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Raw

from relevanced.metrics.lists import Integers

Index: TypeAlias = Sequence[int] | Integers


class Labels(Protocol):
    """The attributes and experiments of a mapping, by name. One object for each of its tables."""

    def texts_of(self, values: tuple[Any, ...]) -> tuple[dict[str, str], dict[str, str]] | None:
        """Return the attributes and the experiments of these values as texts; None where one of
        them must be left out, which only the careful reader notes."""


class Impressions(msgspec.Struct, gc=False):
    """Plain impressions, m of them: whole first pages without judgements."""

    index: Index
    """Of each among the events."""
    ids: Sequence[str]
    items: Sequence[Raw | bytes]
    """JSON that need not be a list of ids."""
    times: Sequence[int | str]
    """In milliseconds, or a text that need not be a time."""
    user_ids: Sequence[str | None]
    values: Sequence[tuple[Any, ...]] = ()
    """Attributes and experiments, as `labels` names them."""
    labels: Labels | None = None
    lengths: Sequence[int] | None = None
    """Ids in each list, where all are as `encode_items` writes them."""
    raw: Sequence[Any] = ()
    """Without labels: the `PlainImpression` of each, which has them as JSON."""
    queries: Sequence[str | None] = ()
    """What was searched for, (m,); empty where it is not needed, or nothing is known of it."""


class Feedback(msgspec.Struct, gc=False):
    """Plain feedback, f of it: reactions of some kind to an item."""

    index: Index
    """Of each among the events."""
    ids: Sequence[str]
    times: Sequence[int | str]
    """As those of impressions."""
    kinds: Sequence[str]
    items: Sequence[str]
    ranks: Sequence[int | None]


class PlainEvents(msgspec.Struct):
    """What n records come to, e events in the order of the records, without decoding all of them
    in full."""

    count: int
    """Events, e."""
    impressions: Sequence[Impressions] = ()
    feedback: Sequence[Feedback] = ()
    others: Mapping[int, Any] = {}
    """Index → an `Impression` or a `Feedback` that is not plain."""
    record_index: Index | None = None
    """Of each event among the records, (e,), ascending. None: record n has event n, or none."""
    left: Sequence[int] = ()
    """The records that must be decoded in full: those of their events count nowhere else."""
    skipped: Sequence[tuple[int, str]] = ()
    """What is left out of the records: index of the record, and the reason."""


def nothing_of(count: int) -> PlainEvents:
    """Return that so many records must be decoded in full."""
    return PlainEvents(0, record_index=(), left=range(count))
