"""Events as columns: what consecutive records come to without being decoded in full. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from relevanced.metrics.lists import Booleans, Integers

from ..events.types import Event
from ..lane.columns.texts import Spans


@dataclass(frozen=True)
class ImpressionColumns:
    """Plain impressions, m of them."""

    index: Integers
    """Of each among the events, (m,), ascending."""
    ids: Spans
    hashes: Integers
    """Of the ids, (m,)."""
    times_ms: Integers
    items: Spans
    """Their lists as JSON text, as `encode_items` would write it."""
    lengths: Integers
    """Items in each list, (m,)."""
    attribute_ids: Integers
    user_ids: Sequence[str | None]
    queries: Sequence[str | None]
    """What was searched for, (m,); empty where queries are not kept."""

    def only(self, kept: Booleans) -> "ImpressionColumns":
        """Those of a mask, (m,)."""
        if kept.all():
            return self
        return ImpressionColumns(
            self.index[kept],
            self.ids.at(kept),
            self.hashes[kept],
            self.times_ms[kept],
            self.items.at(kept),
            self.lengths[kept],
            self.attribute_ids[kept],
            list(compress(self.user_ids, kept.tolist())),
            list(compress(self.queries, kept.tolist())),
        )


@dataclass(frozen=True)
class FeedbackColumns:
    """Plain feedback, f of it."""

    index: Integers
    """Of each among the events, (f,), ascending."""
    ids: Spans
    hashes: Integers
    """Of the ids, (f,)."""
    times_ms: Integers
    items: Spans
    ranks: Integers
    """From 1, as stated, (f,); NO_RANK where none is."""
    kinds: Sequence[str]

    def only(self, kept: Booleans) -> "FeedbackColumns":
        """That of a mask, (f,)."""
        if kept.all():
            return self
        return FeedbackColumns(
            self.index[kept],
            self.ids.at(kept),
            self.hashes[kept],
            self.times_ms[kept],
            self.items.at(kept),
            self.ranks[kept],
            list(compress(self.kinds, kept.tolist())),
        )


@dataclass(frozen=True)
class PlainColumns:
    """What n records come to without being decoded in full: e events."""

    impressions: ImpressionColumns
    feedback: FeedbackColumns
    others: dict[int, Event]
    """Index → event, of those that are not plain."""
    record_index: Integers
    """Of each event among the records, (e,), ascending. Some events are of records that are left,
    and count nowhere else."""
    is_left: Booleans
    """Which records, (n,), must be decoded in full."""
    skipped: Sequence[str]
    """The reasons for what the other records leave out."""
