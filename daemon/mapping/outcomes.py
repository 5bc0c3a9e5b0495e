"""What one element of a record comes to. Pure."""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from ..events.plain import Labels
from ..events.types import NOT_MAPPED, Feedback, Impression, PlainFeedback, Skipped


class MappedImpression(msgspec.Struct, gc=False):
    """A plain impression as a mapping reads it."""

    impression_id: str
    items: Raw | bytes
    """JSON that need not be a list of ids."""
    time_ms: int
    values: tuple[Any, ...]
    """Its attributes and experiments, as `labels` names them."""
    labels: Labels
    user_id: str | None = None
    query: str | None = None


Outcome: TypeAlias = MappedImpression | PlainFeedback | Impression | Feedback | Skipped

UNMAPPED: Final = Skipped(NOT_MAPPED)
NO_LIST: Final = Skipped("no_list")
NO_ITEM: Final = Skipped("no_item")
NO_SEARCH: Final = Skipped("no_query_id")
