"""The items that were shown most for judged queries and are not judged: the list to hand to raters.
Pure.

It says no more of who searched than lists of queries do: a pair of a query and an item is shown
from `queries.min_users` users on, and hashed queries stay hashes.
"""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

import msgspec
import numpy as np

from ...events.timestamps import timestamp_text
from ...exporter.query_pages import columns_of
from ...exporter.query_windows import QueryWindow
from ...lane.queries import MISSING
from ...plan import Plan
from ...queries.keys import without_segment
from ...queries.merging import Merged, merge
from .parameters import BadRequest, Parameter
from .query_lists import QueryTables

PATH: Final = "/api/v1/judged/missing"
MOST_PAIRS: Final = 10_000
PARAMETERS: Final = (
    Parameter("window", "Whole hours that have settled; `now`: the open hour.", default="24h"),
    Parameter("limit", f"At most so many rows, up to {MOST_PAIRS:,}.", default="1000"),
)


class UnjudgedItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item that was shown for a judged query and is not judged."""

    query: str
    """Its normalised text, or its hash."""
    docid: str
    """The id of the item."""
    rating: None
    """Always null, an empty field of CSV: for a rater to fill in."""
    impressions: int
    """Searches for the query with the item in the first places of the list."""
    missing_at_most: int
    """So many of them may be missing in `impressions`."""


class UnjudgedItems(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The items of a window that were shown for judged queries and are not judged."""

    from_: str = msgspec.field(name="from")
    """Event time at which its hours begin: those of them in which items were counted."""
    until: str
    """Event time at which they end."""
    hours: int
    """How many hours they are."""
    lost_hours: int
    """Hours of which Redis lost a part: they are not in the counts."""
    depth: int
    """The first so many places of each list are looked at."""
    min_users: int
    """A row was shown to so many users of one day at least."""
    listed: int
    """Pairs of a query and an item that can be listed; `rows` has the first of them."""
    rows: tuple[UnjudgedItem, ...]
    """By impressions, the most first."""
    rare: int
    """Impressions of all pairs of fewer users. One impression counts for each of its items."""
    other: int
    """Impressions of pairs that the tables do not list."""
    whole: int
    """Impressions of all pairs."""
    unlisted_at_most: int
    """The most impressions of any pair that the tables do not list."""


def check(plan: Plan) -> None:
    """Raise BadRequest where nothing is counted, with the setting to change."""
    if not plan.missing:
        rule = "set judgements.missing = true, and queries.text to plain or hashed"
        raise BadRequest(404, f"items without a judgement are not counted: {rule}")


def unjudged_items(tables: QueryTables, window: QueryWindow, limit: int) -> UnjudgedItems:
    """The items of a window. Raises Damaged."""
    plan = tables.plan
    assert plan.queries is not None
    pages = tables.pages(MISSING, [*window.hours])
    merged = merge(pages, columns_of(plan, MISSING), plan.queries.min_users)
    rows = _in_order(merged)
    return UnjudgedItems(
        from_=timestamp_text(window.from_ms),
        until=timestamp_text(window.until_ms),
        hours=len(window.hours),
        lost_hours=len(tables.lost.intersection(window.hours)),
        depth=plan.missing_depth,
        min_users=plan.queries.min_users,
        listed=len(rows),
        rows=tuple(_rows(merged, rows[:limit])),
        rare=int(merged.rare[0]),
        other=int(merged.other[0]),
        whole=int(merged.total[0]),
        unlisted_at_most=merged.bound,
    )


def _in_order(merged: Merged) -> list[int]:
    """The rows that are shown: those that may have the most impressions first."""
    at_most = merged.sums[:, 0] + merged.missing
    indices = np.flatnonzero(merged.is_shown).tolist()
    texts = {index: merged.keys[index].encode(errors="surrogatepass") for index in indices}
    return sorted(texts, key=lambda n: (-at_most[n], crc32(texts[n]), texts[n]))


def _rows(merged: Merged, indices: list[int]) -> Iterator[UnjudgedItem]:
    for index in indices:
        query, item = without_segment(merged.keys[index])
        impressions, missing = int(merged.sums[index, 0]), int(merged.missing[index])
        yield UnjudgedItem(query, item, None, impressions, missing)
