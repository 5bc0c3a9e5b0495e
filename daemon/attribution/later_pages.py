"""How a later page of results, or one more item, extends the list of its impression. Pure."""

from collections.abc import Sequence

from ..events.types import Impression
from ..lane.lane import Lane
from ..lane.open_impressions import encode_items


class PageMismatch(Exception):
    """The page leaves a gap after the list so far, or the page or the item contradicts it."""


def extended(items: Sequence[str | None], page: Impression) -> list[str | None]:
    """The list with what the page adds to its end; the same list where it adds nothing.

    An item that already stands further up keeps its first rank, and leaves a blank (None) on the
    page: feedback on it means the first rank, whether it comes before the page or after it. Raises
    PageMismatch.
    """
    before = page.first_rank - 1
    if before > len(items):
        raise PageMismatch
    overlap = len(items) - before
    earlier = frozenset(items[:before])
    repeated = [_or_blank(item, earlier) for item in page.items[:overlap]]
    if repeated != list(items[before : before + len(page.items)]):
        raise PageMismatch
    listed = frozenset(items)
    return [*items, *(_or_blank(item, listed) for item in page.items[overlap:])]


def placed(items: Sequence[str | None], shown: Impression) -> list[str | None]:
    """The list with an item of a list that is logged item by item; the same list where the item
    already stands at its rank, and where that rank does not count.

    An item never moves and is never replaced: the first to arrive wins. Ranks of which nothing is
    known yet are blanks (None), which the items that stand there fill when they arrive. Raises
    PageMismatch.
    """
    if not shown.items:
        return list(items)
    (item,), rank0 = shown.items, shown.first_rank - 1
    longer = [*items, *[None] * (rank0 + 1 - len(items))]
    if longer[rank0] == item:
        return longer
    if longer[rank0] is not None or item in items:
        raise PageMismatch
    longer[rank0] = item
    return longer


def _or_blank(item: str, listed: frozenset[str | None]) -> str | None:
    return None if item in listed else item


def note_relisted(
    lane: Lane, slot: int, items: Sequence[str | None], watermark_ms: int | None
) -> None:
    """Replace the list of an open impression, by a record that met this watermark."""
    now = encode_items(items)
    if lane.judged is not None:
        lane.judged.shown.change(slot, watermark_ms, lane.open.text_of(slot), now)
    lane.open.paged_items[slot] = now
    lane.changes.relisted.add(slot)
