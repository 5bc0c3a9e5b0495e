"""Plain records of a format as columns. Pure."""

from collections.abc import Sequence
from itertools import compress
from typing import Any, Final

import numpy as np

from .types import (
    FeedbackFields,
    Impressions,
    Plain,
    PlainEvents,
    PlainFeedback,
    PlainImpression,
    PlainSearch,
)

_SHOWN: Final = frozenset((PlainImpression, PlainSearch))


def of_objects(found: Sequence[Plain | None]) -> PlainEvents:
    """Return what records come to that are one event each, or None: to be decoded in full."""
    kinds = list(map(type, found))
    is_shown = bytes(map(_SHOWN.__contains__, kinds))
    is_reaction = bytes([kind is PlainFeedback for kind in kinds])
    shown: list[Any] = list(compress(found, is_shown))
    reactions: list[Any] = list(compress(found, is_reaction))
    left: Sequence[int] = ()
    if len(shown) + len(reactions) < len(found):
        left = [n for n, one in enumerate(found) if one is None]
    return PlainEvents(
        len(found),
        [
            Impressions(
                np.flatnonzero(np.frombuffer(is_shown, np.bool_)),
                [one.impression_id for one in shown],
                [one.items for one in shown],
                [one.timestamp for one in shown],
                [one.user_id for one in shown],
                raw=shown,
                queries=_queries_of(shown),
            )
        ],
        [
            FeedbackFields(
                np.flatnonzero(np.frombuffer(is_reaction, np.bool_)),
                [one.impression_id for one in reactions],
                [one.timestamp for one in reactions],
                [one.kind for one in reactions],
                [str(one.item) for one in reactions],
                [one.rank for one in reactions],
            )
        ],
        left=left,
    )


def _queries_of(shown: Sequence[Any]) -> Sequence[str | None]:
    """What was searched for; empty where the type of the records has no query."""
    is_search = bool(shown) and type(shown[0]) is PlainSearch
    return [one.query for one in shown] if is_search else ()
